#!/usr/bin/env bash
# prep.sh CACHE [SET]: fetches what a guest needs from Debian and unpacks it into CACHE/tools and CACHE/SET: `guest`, the agent's, unless it is
# said, or `small`, a kernel with its modules and a shell.
# Nothing is installed and root is not needed: apt works on a state of its own inside CACHE. Does nothing when it was done before.
# Exits with 75 where Debian cannot be reached, or has no guest for the machine.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

# Run on this machine: the emulator, and the makers of images.
host_packages=(qemu-system-x86 seabios e2fsprogs kmod)
# Run in the guest. The kernel is the meta-package: apt knows which version is current, an exact one would vanish.
# `cloud` has ext4 built in and every module that the agent asks for.
small_packages=(linux-image-cloud-amd64 busybox-static)
guest_packages=("${small_packages[@]}" bash clang llvm bpftool iptables ipset iproute2 iputils-ping kmod jq curl)
set=${2:-guest}

stamp=$(digest "${BASH_SOURCE[0]}" "$here/tools.sh")
is_there() { [ "$stamp" = "$(cat "$cache/$1.stamp" 2>/dev/null)" ]; }
! { is_there tools && is_there "$set"; } || exit 0

apt=$cache/apt
# An empty status makes apt fetch the whole closure, libc included: the guest must not depend on what is installed here.
apt_options=(-q -y -o Dir::Cache="$apt" -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o APT::Sandbox::User=root
  -o APT::Install-Recommends=false)

# unpack SET PACKAGE..: the packages and all they depend on, into CACHE/SET, unless they are there
unpack() {
  local root=$cache/$1 debs=$apt/$1 link deb
  ! is_there "$1" || return 0
  rm -rf "$root" "$debs"
  mkdir -p "$debs/partial" "$root"/usr/{bin,sbin,lib,lib64}
  nice apt-get "${apt_options[@]}" -o Dir::Cache::archives="$debs" install --download-only "${@:2}" || exit 75
  for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/$link"; done
  for deb in "$debs"/*.deb; do
    # Some packages still ship /lib and /bin as folders: without the option, tar would replace the links by them.
    dpkg-deb --fsys-tarfile "$deb" | nice tar -x -C "$root" --no-same-owner --keep-directory-symlink \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./dev/*'
  done
  rm -rf "$debs"
  echo "$stamp" > "$cache/$1.stamp"
}

rm -rf "$apt"
mkdir -p "$apt/lists/partial"
: > "$apt/status"
nice apt-get "${apt_options[@]}" -o APT::Update::Error-Mode=any update || exit 75
unpack tools "${host_packages[@]}"
case $set in
  guest) unpack guest "${guest_packages[@]}" ;;
  small)
    unpack small "${small_packages[@]}"
    # For modules.dep: in which order modules are loaded.
    nice "${loader[@]}" --argv0 depmod "$tools/usr/bin/kmod" -b "$cache/small" "$(ls "$cache/small/usr/lib/modules")" ||
      { rm "$cache/small.stamp" && exit 1; }
    ;;
esac
rm -rf "$apt"
