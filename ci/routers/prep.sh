#!/usr/bin/env bash
# prep.sh CACHE: fetches FRR and what it needs from Debian and unpacks it into CACHE/root, to be entered with chroot.
# Nothing is installed: apt works on a state of its own inside CACHE. Does nothing when it was done before.
# Exits with 75 where Debian cannot be reached.
set -euo pipefail
cache=$1
packages=(frr libpam-modules iproute2 util-linux bash coreutils grep socat)

stamp=$(sha256sum < "${BASH_SOURCE[0]}")
[ "$stamp" != "$(cat "$cache/prep.stamp" 2>/dev/null)" ] || exit 0

apt=$cache/apt root=$cache/root
# An empty status makes apt fetch the whole closure, libc included: nothing of this machine is in it.
apt_options=(-q -y -o Dir::Cache="$apt" -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o APT::Sandbox::User=root
  -o APT::Install-Recommends=false)
rm -rf "$apt" "$root"
mkdir -p "$apt/lists/partial" "$apt/debs/partial" "$root"/usr/{bin,sbin,lib,lib64} "$root"/{dev,proc,tmp,run,var,etc}
: > "$apt/status"
nice apt-get "${apt_options[@]}" -o APT::Update::Error-Mode=any update || exit 75
nice apt-get "${apt_options[@]}" -o Dir::Cache::archives="$apt/debs" install --download-only "${packages[@]}" || exit 75
for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/$link"; done
for deb in "$apt/debs"/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | nice tar -x -C "$root" --no-same-owner --keep-directory-symlink \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./dev/*'
done
# FRR looks for its user and its group by name.
echo 'root:x:0:0::/:/bin/bash' > "$root/etc/passwd"
printf 'root:x:0:\nfrrvty:x:0:\n' > "$root/etc/group"
# Whoever is inside may ask the router everything.
for service in frr other; do
  printf 'auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n' > "$root/etc/pam.d/$service"
done
rm -rf "$apt"
echo "$stamp" > "$cache/prep.stamp"
