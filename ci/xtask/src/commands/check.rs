//! `check`: everything that can be said about the sources without running them.

use anyhow::{Result, bail};

use crate::cargo;

/// Features of the package, each of which must build without those above it.
const LAYERS: [&str; 4] = ["runtime", "live", "neutron", "nic"];
/// What the pure rooms must not reach: a runtime, a client, a terminal.
const IMPURE: [&str; 9] = [
    "anstream",
    "clap",
    "futures-util",
    "hyper",
    "indicatif",
    "k8s-openapi",
    "kube",
    "rustls",
    "tokio",
];
/// What the CNI plugins, which are started for each Pod, must not reach.
const HEAVY: [&str; 6] = [
    "clap",
    "hyper",
    "k8s-openapi",
    "kube",
    "prometheus-client",
    "tokio",
];

/// Runs it.
pub fn run() -> Result<()> {
    cargo::run("fmt --all --check")?;
    pure_rooms()?;
    cargo::run("clippy --workspace --all-targets --all-features -- --deny warnings")?;
    dependencies()?;
    let words = "doc --workspace --no-deps --all-features --document-private-items";
    cargo::run_with(words, &[], Some(("RUSTDOCFLAGS", "--deny warnings")))
}

/// They build alone, and so does each layer above them; none of their dependencies can do what they
/// must not.
fn pure_rooms() -> Result<()> {
    reaches_none("the pure rooms", "", &IMPURE)?;
    reaches_none("the CNI plugin of addresses", " --features neutron", &HEAVY)?;
    reaches_none("the CNI plugin of NICs", " --features nic", &HEAVY)?;
    cargo::run("clippy --package cilium-ipam --lib --no-default-features -- --deny warnings")?;
    LAYERS.iter().try_for_each(|layer| {
        cargo::run(&format!(
            "check --package cilium-ipam --lib --no-default-features --features {layer}"
        ))
    })
}

fn reaches_none(who: &str, features: &str, forbidden: &[&'static str]) -> Result<()> {
    let tree = format!(
        "tree --package cilium-ipam --no-default-features{features} --edges normal --prefix none --format {{p}}"
    );
    let reached = reached(&cargo::output(&tree)?, forbidden);
    if !reached.is_empty() {
        bail!(
            "{who} must not depend on {}: `cargo {tree} --invert NAME` says how",
            reached.join(", ")
        );
    }
    Ok(())
}

fn reached(tree: &str, forbidden: &[&'static str]) -> Vec<&'static str> {
    let names: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    forbidden
        .iter()
        .copied()
        .filter(|name| names.contains(name))
        .collect()
}

fn dependencies() -> Result<()> {
    deny_is_there()?;
    cargo::run("deny --workspace --all-features check bans licenses sources")
}

/// Says how to get cargo-deny where it is missing.
pub fn deny_is_there() -> Result<()> {
    if cargo::output("deny --version").is_err() {
        bail!(
            "cargo-deny is missing\nhelp: `cargo install cargo-deny --locked`, or `.ci/run`, which installs it"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_among_the_dependencies_is_found() {
        assert_eq!(
            reached(
                "cilium-ipam v0.1.0 (/here)\nserde v1.0.0\ntokio v1.2.3\n",
                &IMPURE
            ),
            ["tokio"]
        );
        assert!(reached("tokio-util v0.7.0\n", &IMPURE).is_empty());
    }
}
