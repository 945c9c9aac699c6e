//! `check`: everything that can be said about the sources without running them.

use anyhow::{Result, bail};

use crate::cargo;

/// Features of the package, each of which must build without those above it.
const LAYERS: [&str; 2] = ["runtime", "live"];
/// What the pure rooms must not reach: a runtime, a client, a terminal.
const IMPURE: [&str; 9] =
    ["anstream", "clap", "futures-util", "hyper", "indicatif", "k8s-openapi", "kube", "rustls", "tokio"];

/// Check formatting, lints, dependencies, documentation and the pure rooms.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Ask for known vulnerabilities, too. Their list comes from a Git host that not every machine reaches.
    #[arg(long)]
    advisories: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    cargo::run("fmt --all --check")?;
    pure_rooms()?;
    cargo::run("clippy --workspace --all-targets --all-features -- --deny warnings")?;
    dependencies(arguments)?;
    let words = "doc --workspace --no-deps --all-features --document-private-items";
    cargo::run_with(words, &[], Some(("RUSTDOCFLAGS", "--deny warnings")))
}

/// They build alone, and so does each layer above them; none of their dependencies can do what they must not.
fn pure_rooms() -> Result<()> {
    let tree = "tree --package cilium-ipam --no-default-features --edges normal --prefix none --format {p}";
    let reached = impure(&cargo::output(tree)?);
    if !reached.is_empty() {
        bail!("the pure rooms depend on {}: `cargo {tree} --invert NAME` says how", reached.join(", "));
    }
    cargo::run("clippy --package cilium-ipam --lib --no-default-features -- --deny warnings")?;
    LAYERS.iter().try_for_each(|layer| {
        cargo::run(&format!("check --package cilium-ipam --lib --no-default-features --features {layer}"))
    })
}

fn impure(tree: &str) -> Vec<&'static str> {
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    IMPURE.into_iter().filter(|name| names.contains(name)).collect()
}

fn dependencies(arguments: &Arguments) -> Result<()> {
    if cargo::output("deny --version").is_err() {
        bail!("cargo-deny is missing\nhelp: `cargo install cargo-deny --locked`, or `.ci/run`, which installs it");
    }
    let checks = if arguments.advisories { "advisories bans licenses sources" } else { "bans licenses sources" };
    cargo::run(&format!("deny --workspace --all-features check {checks}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_among_the_dependencies_is_found() {
        assert_eq!(impure("cilium-ipam v0.1.0 (/here)\nserde v1.0.0\ntokio v1.2.3\n"), ["tokio"]);
        assert!(impure("tokio-util v0.7.0\n").is_empty());
    }
}
