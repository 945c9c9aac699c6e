#!/usr/bin/env bash
# prep.sh CACHE: fetches what the guest needs from Debian and unpacks it into CACHE/tools and CACHE/guest.
# Nothing is installed and root is not needed: apt works on a state of its own inside CACHE. Does nothing when it was done before.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

# Run on this machine: the emulator, and the makers of images.
host_packages=(qemu-system-x86 seabios e2fsprogs kmod)
# Run in the guest. The kernel is the meta-package: apt knows which version is current, an exact one would vanish.
# `cloud` has ext4 built in and every module that the agent asks for.
guest_packages=(linux-image-cloud-amd64 busybox-static bash clang llvm bpftool iptables ipset iproute2 kmod jq curl)

stamp=$(cat "${BASH_SOURCE[0]}" "$here/tools.sh" | sha256sum)
[ "$stamp" != "$(cat "$cache/prep.stamp" 2>/dev/null)" ] || exit 0

apt=$cache/apt
# An empty status makes apt fetch the whole closure, libc included: the guest must not depend on what is installed here.
apt_options=(-q -y -o Dir::Cache="$apt" -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o APT::Sandbox::User=root
  -o APT::Install-Recommends=false)

# unpack SET PACKAGE..: the packages and all they depend on, into CACHE/SET
unpack() {
  local root=$cache/$1 debs=$apt/$1 link deb
  rm -rf "$root" "$debs"
  mkdir -p "$debs/partial" "$root"/usr/{bin,sbin,lib,lib64}
  nice apt-get "${apt_options[@]}" -o Dir::Cache::archives="$debs" install --download-only "${@:2}"
  for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/$link"; done
  for deb in "$debs"/*.deb; do
    # Some packages still ship /lib and /bin as folders: without the option, tar would replace the links by them.
    dpkg-deb --fsys-tarfile "$deb" | nice tar -x -C "$root" --no-same-owner --keep-directory-symlink \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./dev/*'
  done
  rm -rf "$debs"
}

rm -rf "$apt"
mkdir -p "$apt/lists/partial"
: > "$apt/status"
nice apt-get "${apt_options[@]}" update
unpack tools "${host_packages[@]}"
unpack guest "${guest_packages[@]}"
rm -rf "$apt"
echo "$stamp" > "$cache/prep.stamp"
