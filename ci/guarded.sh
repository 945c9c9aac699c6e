#!/usr/bin/env bash
# guarded.sh COMMAND…: runs COMMAND with /var/lib, /run and the home folder read-only, except for the folders of the
# toolchains, of the caches and of this repository. The folders contain traps: files as our own plugins, kubectl and
# OpenStack's client leave them. A test that reads or writes the machine's own folders fails. The mounts end with COMMAND.
# Exits with 75 if the machine does not allow it: it needs root, `unshare` and overlayfs.
set -Eeuo pipefail

if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || { echo "only root may mount" >&2; exit 75; }
    unshare --mount true || exit 75
    scratch=$(mktemp -d)
    trap 'rmdir "$scratch"' EXIT
    # Without `exec`, so that the trap removes the folder.
    code=0
    unshare --mount --propagation private "$0" --inside "$scratch" "$@" || code=$?
    exit "$code"
fi

here=$PWD
scratch=$2
shift 2
home=$(readlink -f "$HOME")
covered=(/var/lib /run "$home")
open=("$here" "${CARGO_HOME:-$home/.cargo}" "${RUSTUP_HOME:-$home/.rustup}" "${TMPDIR:-/tmp}"
    "${CARGO_TARGET_DIR:-$here}" "${CILIUM_IPAM_TESTBED_CACHE:-$here}")
if command -v go >/dev/null; then
    gopath=$(go env GOPATH)
    # There, go notes how far it has read the database of checksums. It downloads nothing without.
    checksums=${gopath%%:*}/pkg/sumdb
    mkdir -p "$checksums"
    open+=("$(go env GOCACHE)" "$(go env GOMODCACHE)" "$checksums")
fi

trap_at() { mkdir -p "$(dirname "$scratch/traps$1")" && printf '%s\n' "$2" > "$scratch/traps$1"; }

cover() {
    mkdir -p "$scratch/below$1" "$scratch/traps$1"
    mount --no-mtab --rbind "$1" "$scratch/below$1"
    # Without an upper layer it is read-only.
    mount --no-mtab -t overlay -o "lowerdir=$scratch/traps$1:$scratch/below$1" overlay "$1"
}

open_in() {
    local folder
    for folder in "${open[@]}"; do
        folder=$(readlink -f "$folder") || continue
        case $folder in
            "$1"/?*) [ ! -d "$scratch/below$folder" ] || mount --no-mtab --bind "$scratch/below$folder" "$folder" ;;
        esac
    done
}

trap 'exit 75' ERR
mount --no-mtab -t tmpfs tmpfs "$scratch"
# State of a manual run of the plugin: the name in its ports.
trap_at /var/lib/cni/cilium-ipam-neutron/node.json '"a-node-of-somebody-else"'
trap_at /var/lib/cni/cilium-ipam-neutron/pool/of-somebody-else/free/port 'not for tests'
trap_at /var/lib/cni/results/trap 'not for tests'
trap_at "$home/.kube/config" 'not: [for, tests'
trap_at "$home/.config/openstack/clouds.yaml" 'not: [for, tests'
for folder in "${covered[@]}"; do
    if [ "$folder" != / ] && [ -d "$folder" ]; then
        cover "$folder"
        open_in "$folder"
    fi
done
trap - ERR

cd "$here"
exec "$@"
