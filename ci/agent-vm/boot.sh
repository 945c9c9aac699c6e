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

exec "${qemu[@]}" -smp 2 -m 3072 -kernel "$cache/vmlinuz" -initrd "$cache/initrd.cpio" \
  "${router[@]}" -device virtio-serial-pci "${disks[@]}" "${ports[@]}" < /dev/null
