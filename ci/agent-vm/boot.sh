#!/usr/bin/env bash
# boot.sh CACHE NAME RUN: boots one guest with the agent of CACHE/agent-NAME.img and becomes QEMU, so that the caller's child is QEMU.
#   RUN/input/    for the guest: kubeconfig, node, limit (seconds), flags (one per line)
#   RUN/input/router  where it is there, the guest gets a second NIC on tap0, with the address that stands in it
#   RUN/report    what guest-init.sh found out, a key and a value per line        RUN/agent.log  the agent's own log
# The console goes to stdout. The guest powers itself off; it reaches this machine's loopback as 10.0.2.2, and nothing else.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
name=$2 run=$3

tar -C "$run/input" -cf "$run/input.tar" .
export QEMU_MODULE_DIR=$libraries/qemu
disk() { disks+=(-drive "file=$2,format=raw,if=none,id=$1,readonly=on" -device "virtio-blk-pci,drive=$1"); }
port() { ports+=(-chardev "file,id=$1,path=$2" -device "virtserialport,chardev=$1,name=$1"); }
disks=() ports=() router=()
disk root "$cache/root.img"
disk agent "$cache/agent-$name.img"
disk input "$run/input.tar"
port report "$run/report"
port log "$run/agent.log"
[ ! -e "$run/input/router" ] ||
  router=(-netdev tap,id=router,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=router,romfile=)

exec nice -n 5 "${loader[@]}" "$tools/usr/bin/qemu-system-x86_64" \
  -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios" \
  -machine q35 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 3072 -display none -serial stdio -nodefaults -no-reboot \
  -kernel "$cache/vmlinuz" -initrd "$cache/initrd.cpio" \
  -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off random.trust_cpu=on" \
  -netdev user,id=net,ipv6=off -device virtio-net-pci,netdev=net,romfile= "${router[@]}" \
  -device virtio-rng-pci -device virtio-serial-pci "${disks[@]}" "${ports[@]}" < /dev/null
