#!/usr/bin/env bash
# fetch-debian.sh CACHE PACKAGE: fetches a package from Debian and unpacks it into CACHE/root, without what it depends on.
# Nothing is installed: apt works on a state of its own inside CACHE. Exits with 75 where Debian cannot be reached.
set -euo pipefail
cache=$1 package=$2

apt=$cache/apt
rm -rf "$apt" "$cache/root"
mkdir -p "$apt/lists/partial" "$apt/debs"
: > "$apt/status"
options=(-q -y -o Dir::Cache="$apt" -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o APT::Sandbox::User=root)
nice apt-get "${options[@]}" -o APT::Update::Error-Mode=any update || exit 75
(cd "$apt/debs" && nice apt-get "${options[@]}" download "$package") || exit 75
dpkg-deb --extract "$apt/debs"/*.deb "$cache/root"
rm -rf "$apt"
