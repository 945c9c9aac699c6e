#!/usr/bin/env bash
# boot-small.sh CACHE RUN UUID [MAC..]: boots a guest of CACHE/small with what lies in RUN/initramfs.cpio, and becomes QEMU, so that the caller's child
# is QEMU.
#   RUN/orders.sock  the guest's second serial port; the guest starts once somebody has connected
#   UUID             what the guest's firmware calls the machine
#   MAC              of a further NIC; behind the first is nobody but 10.77.0.1
# The console goes to stdout. The guest reaches this machine's loopback as 10.0.2.2, and nothing else.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
run=$2 uuid=$3
shift 3

nics=()
for mac in "$@"; do
  number=$((${#nics[@]} / 4))
  net=10.$((77 + number)).0
  nics+=(-netdev "user,id=nic$number,ipv6=off,restrict=on,net=$net.0/24,host=$net.1"
    -device "virtio-net-pci,netdev=nic$number,mac=$mac,romfile=,addr=$(printf %x $((16 + number)))")
done

exec "${qemu[@]}" "${nics[@]}" -smp 1 -m 1024 -uuid "$uuid" -kernel "$cache"/small/boot/vmlinuz-* -initrd "$run/initramfs.cpio" \
  -chardev "socket,id=orders,path=$run/orders.sock,server=on,wait=on" -serial chardev:orders < /dev/null
