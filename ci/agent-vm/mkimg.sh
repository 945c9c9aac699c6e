#!/usr/bin/env bash
# mkimg.sh CACHE NAME AGENT BPF [PROGRAM..]: makes the guest's disks from what prep.sh fetched; each only when it is missing or stale.
#   NAME   names the agent's disk, CACHE/agent-NAME.img        AGENT  the cilium-agent binary
#   BPF    the bpf folder of the same Cilium release: the agent compiles its programs from it in the guest
#   PROGRAM  a further program of that release: it lies in /agent under its file name, without the release
# Two disks, because the first is big and rarely changes: CACHE/root.img is Debian, CACHE/agent-NAME.img is ours.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
name=$2 agent=$3 bpf=$4
busybox=$guest/usr/bin/busybox

# make_disk FOLDER IMAGE: a read-only disk; no journal, and little more room than the files take
make_disk() {
  local size
  size=$(($(du -sm "$1" | cut -f1) * 5 / 4 + 32))
  rm -f "$2"
  nice "${loader[@]}" "$tools/usr/sbin/mke2fs" -q -t ext4 -O ^has_journal -m 0 -d "$1" "$2" "${size}M"
}

# What Debian's maintainer scripts would have done; the packages were only unpacked.
finish_guest() {
  local applet command folder
  for applet in $("$busybox" --list); do
    # -L too: an absolute link of the guest's points nowhere, or elsewhere, on this machine.
    for folder in bin sbin; do
      if [ -e "$guest/usr/$folder/$applet" ] || [ -L "$guest/usr/$folder/$applet" ]; then continue 2; fi
    done
    ln -s busybox "$guest/usr/bin/$applet"
  done
  for command in iptables ip6tables; do
    for applet in "" -save -restore; do ln -sf xtables-legacy-multi "$guest/usr/sbin/$command$applet"; done
  done
  mkdir -p "$guest"/{proc,sys,dev,run,tmp,var,root,etc,agent}
  echo 'root:x:0:0:root:/root:/bin/bash' > "$guest/etc/passwd"
  echo 'root:x:0:' > "$guest/etc/group"
  echo '127.0.0.1 localhost' > "$guest/etc/hosts"
  nice "${loader[@]}" --argv0 depmod "$tools/usr/bin/kmod" -b "$guest" "$kernel"
}

# modules_for MODULE: its file and those it needs, the needed ones first (modules.dep lists them nearest first)
modules_for() {
  awk -F'[: ]+' -v m="/$1.ko" 'index($1, m) { for (i = NF; i > 0; i--) if ($i) print $i }' "$guest/usr/lib/modules/$kernel/modules.dep"
}

# The kernel has ext4 built in but not the virtio disk: the initrd loads that and hands over.
make_initrd() {
  local stage=$cache/initrd file
  rm -rf "$stage"
  mkdir -p "$stage"/{modules,proc,dev,root}
  cp "$busybox" "$stage/busybox"
  install -m 755 "$here/initrd-init.sh" "$stage/init"
  for file in $(modules_for virtio_pci) $(modules_for virtio_blk); do
    grep -qsx "${file##*/}" "$stage/order" && continue
    cp "$guest/usr/lib/modules/$kernel/$file" "$stage/modules/"
    echo "${file##*/}" >> "$stage/order"
  done
  (cd "$stage" && find . | "$busybox" cpio -o -H newc) > "$cache/initrd.cpio"
  rm -rf "$stage"
}

stamp=$(digest "$cache/guest.stamp" "${BASH_SOURCE[0]}" "$here/initrd-init.sh")
if [ "$stamp" != "$(cat "$cache/root.stamp" 2>/dev/null)" ]; then
  kernel=$(ls "$guest/usr/lib/modules")
  finish_guest
  make_initrd
  cp "$guest/boot/vmlinuz-$kernel" "$cache/vmlinuz"
  make_disk "$guest" "$cache/root.img"
  echo "$stamp" > "$cache/root.stamp"
fi

more=("${@:5}")
stamp=$(digest "$agent" "${more[@]}" "$here"/{guest-init,node-init,node,clang}.sh "${BASH_SOURCE[0]}")
if [ "$stamp" != "$(cat "$cache/agent-$name.stamp" 2>/dev/null)" ]; then
  stage=$cache/agent-$name
  rm -rf "$stage"
  mkdir -p "$stage/lib"
  install -m 755 "$agent" "$stage/cilium-agent"
  install -m 755 "$here/guest-init.sh" "$stage/init"
  for script in node-init node; do install -m 755 "$here/$script.sh" "$stage/$script"; done
  install -D -m 755 "$here/clang.sh" "$stage/before/clang"
  for program in "${more[@]}"; do
    file=${program##*/}
    install -m 755 "$program" "$stage/${file%-[0-9]*}"
  done
  cp -r --no-preserve=mode "$bpf" "$stage/lib/bpf"
  make_disk "$stage" "$cache/agent-$name.img"
  rm -rf "$stage"
  echo "$stamp" > "$cache/agent-$name.stamp"
fi
