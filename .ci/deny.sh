# Puts cargo-deny into PATH, installed into .cache where the machine has none of this version. To be sourced in the repository's root.
deny_version=0.20.2

if [ "$(cargo deny --version 2>/dev/null || true)" != "cargo-deny $deny_version" ]; then
    deny="$PWD/.cache/tools/cargo-deny-$deny_version"
    [ -x "$deny/bin/cargo-deny" ] || cargo install cargo-deny --version "$deny_version" --locked --root "$deny"
    export PATH="$deny/bin:$PATH"
fi
