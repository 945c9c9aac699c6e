# Makes room for a run if the disk is nearly full: removes the builds of earlier changes, which cargo never does. Source it in the repository's root.
# A cold run writes about 12 GiB into target.
needed_gib=15
target=${CARGO_TARGET_DIR:-target}

is_short() {
    mkdir -p "$target"
    free_kib=$(df --output=avail -k "$target" | tail -n 1)
    free_gib=$((${free_kib:-999999999} / 1048576))
    [ "$free_gib" -lt "$needed_gib" ]
}

if is_short; then
    echo "$free_gib GiB of disk are free, and a run needs up to $needed_gib GiB: removing incremental builds from $target" >&2
    rm -rf "$target"/*/incremental "$target"/*/*/incremental
fi
if is_short; then
    echo "$free_gib GiB of disk are free, and a run needs up to $needed_gib GiB: removing all builds from $target" >&2
    cargo clean
fi
if is_short; then
    echo "warning: $free_gib GiB of disk are free, and a run needs up to $needed_gib GiB" >&2
fi
