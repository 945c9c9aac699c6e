#!/usr/bin/env bash
# boot-node.sh CACHE NAME RUN PEER MAC: boots a guest with the agent's disk CACHE/agent-NAME.img that stays up and takes orders, and becomes QEMU,
# so that the caller's child is QEMU.
#   RUN/input/       for the guest: kubeconfig, node, address (of its second NIC), compiler (clang.sh's port on this machine)
#   RUN/orders.sock  takes orders, as node-init.sh says; the guest starts once a client has connected
#   RUN/agent.log    the agent's own log
#   PEER             the RUN of the other guest: the second NICs of both are on one wire, and MAC is this guest's
# The console goes to stdout. The guest reaches this machine's loopback as 10.0.2.2, the other guest, and nothing else.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
name=$2 run=$3 peer=$4 mac=$5

tar -C "$run/input" -cf "$run/input.tar" .
disk() { disks+=(-drive "file=$2,format=raw,if=none,id=$1,readonly=on" -device "virtio-blk-pci,drive=$1"); }
disks=()
disk root "$cache/root.img"
disk agent "$cache/agent-$name.img"
disk input "$run/input.tar"

exec "${qemu[@]}" -smp 2 -m 2560 -kernel "$cache/vmlinuz" -initrd "$cache/initrd.cpio" "${disks[@]}" -device virtio-serial-pci \
  -netdev "dgram,id=wire,local.type=unix,local.path=$run/wire,remote.type=unix,remote.path=$peer/wire" \
  -device "virtio-net-pci,netdev=wire,mac=$mac,romfile=" \
  -chardev "file,id=log,path=$run/agent.log" -device virtserialport,chardev=log,name=log \
  -chardev "socket,id=orders,path=$run/orders.sock,server=on,wait=on" -device virtserialport,chardev=orders,name=orders < /dev/null
