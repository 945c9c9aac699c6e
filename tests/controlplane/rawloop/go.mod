module example.com/cilium-ipam/rawloop

go 1.26
