#!/usr/bin/env bash
# boot-small.sh CACHE RUN UUID: boots a guest of CACHE/small with what lies in RUN/initramfs.cpio, and becomes QEMU, so that the caller's child
# is QEMU.
#   RUN/orders.sock  the guest's second serial port; the guest starts once somebody has connected
#   UUID             what the guest's firmware calls the machine
# The console goes to stdout. The guest reaches this machine's loopback as 10.0.2.2, and nothing else.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
run=$2 uuid=$3

exec "${qemu[@]}" -smp 1 -m 1024 -uuid "$uuid" -kernel "$cache"/small/boot/vmlinuz-* -initrd "$run/initramfs.cpio" \
  -chardev "socket,id=orders,path=$run/orders.sock,server=on,wait=on" -serial chardev:orders < /dev/null
