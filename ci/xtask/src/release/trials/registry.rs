//! Pushes image and chart to a real registry on loopback, and pulls both again.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Program, Registry};

use super::programs::isolated;
use crate::chart::package_name;
use crate::plan::Plan;
use crate::push;
use crate::source::output;
use crate::sums::of_file;
use crate::target::{Built, TOOL};

/// The pulled program runs, and the pulled chart has the same bytes.
pub fn push_and_pull(plan: &Plan, built: &Built) -> Result<()> {
    let registry = Registry::start()?;
    let prefix = format!("{}/team", registry.address());
    push::push(&plan.dist, &plan.version, &prefix)?;
    image(plan, built, &prefix)?;
    chart(plan, &prefix)
}

fn image(plan: &Plan, built: &Built, prefix: &str) -> Result<()> {
    let home = tempfile::tempdir()?;
    let programs = testbed::build(&[Program::Crane])?;
    let reference = format!("{prefix}/cilium-ipam:{}", plan.version);
    let crane = |arguments: &[&str]| {
        let mut command = isolated(programs.path(Program::Crane)?, home.path());
        output(command.args(arguments))
    };
    let platform = format!("linux/{}", built.target.go());
    crane(&["validate", "--remote", &reference])?;
    let index: Value = serde_json::from_str(&crane(&["manifest", &reference])?)?;
    let pushed: BTreeSet<&str> = index["manifests"]
        .as_array()
        .context("the index has no manifests")?
        .iter()
        .filter_map(|manifest| manifest["platform"]["architecture"].as_str())
        .collect();
    ensure!(pushed.contains(built.target.go()), "{pushed:?}");
    let config: Value =
        serde_json::from_str(&crane(&["config", "--platform", &platform, &reference])?)?;
    let config = &config["config"];
    ensure!(config["User"] == "65532:65532", "{config}");
    let version = &config["Labels"]["org.opencontainers.image.version"];
    ensure!(*version == *plan.version, "{config}");

    let archive = home.path().join("root.tar");
    let path = archive.to_str().context("a temporary folder's name")?;
    crane(&["export", "--platform", &platform, &reference, path])?;
    let root = home.path().join("root");
    tar::Archive::new(std::fs::File::open(&archive)?).unpack(&root)?;
    let pulled = root.join("cilium-ipam");
    ensure!(of_file(&pulled)? == of_file(&built.binary(&TOOL.programs[0]))?);
    let told = output(isolated(&pulled, home.path()).arg("version"))?;
    ensure!(told.contains(&plan.version), "{told}");
    Ok(())
}

/// Pulls the artefact with Helm; pushes and pulls the package with Helm, too.
fn chart(plan: &Plan, prefix: &str) -> Result<()> {
    let home = tempfile::tempdir()?;
    let programs = testbed::build(&[Program::Helm])?;
    let helm = |arguments: &[&str]| {
        let mut command = isolated(programs.path(Program::Helm)?, home.path());
        output(
            command
                .args(arguments)
                .arg("--plain-http")
                .current_dir(home.path()),
        )
    };
    let name = package_name(&plan.version);
    let package = plan.dist.join(&name);
    let path = package.to_str().context("the package's path")?;
    let ours = format!("oci://{prefix}/charts/cilium-ipam");
    let theirs = format!("oci://{prefix}/helm");
    helm(&["push", path, &theirs])?;
    for reference in [ours, format!("{theirs}/cilium-ipam")] {
        helm(&["pull", &reference, "--version", &plan.version])?;
        let pulled = home.path().join(&name);
        ensure!(
            of_file(&pulled)? == of_file(&package)?,
            "{reference} has another package"
        );
        std::fs::remove_file(pulled)?;
    }
    Ok(())
}
