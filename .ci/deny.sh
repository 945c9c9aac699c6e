# Puts cargo-deny into PATH. Installs it into .cache if the machine lacks this version. Source it in the repository's root.
deny_version=0.20.2

if [ "$(cargo deny --version 2>/dev/null || true)" != "cargo-deny $deny_version" ]; then
    deny="$PWD/.cache/tools/cargo-deny-$deny_version"
    [ -x "$deny/bin/cargo-deny" ] || cargo install cargo-deny --version "$deny_version" --locked --root "$deny"
    export PATH="$deny/bin:$PATH"
fi
