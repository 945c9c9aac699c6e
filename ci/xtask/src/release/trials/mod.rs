//! Tries out the files of a release as their users do: with the package managers, kubectl, Helm, a
//! registry, CycloneDX's validator and minisign. It changes none of the files.

mod chart;
mod clean_root;
mod packages;
mod plugin;
mod programs;
mod registry;
mod sbom;
mod signature;

use std::time::Instant;

use anyhow::{Context, Result};
use xtask::line::Line;

use super::plan::Plan;
use super::target::Built;

type Trial = fn(&Plan, &Built) -> Result<()>;

/// Programs that this machine runs.
const TRIALS: [(&str, Trial); 9] = [
    ("clean-root", clean_root::tutorial),
    ("deb", packages::debian),
    ("rpm", packages::rpm),
    ("kubectl-plugin", plugin::kubectl),
    ("krew", plugin::krew),
    ("sbom", sbom::validate),
    ("chart", chart::lint),
    ("registry", registry::push_and_pull),
    ("signature", signature::sign_and_verify),
];

/// Runs all trials with the files for this machine. Reports a trial as skipped if Debian, which has
/// its programs, cannot be reached.
///
/// # Errors
/// Fails with the first trial that fails, and if no file is for this machine.
pub fn run(plan: &Plan, all: &[Built]) -> Result<()> {
    let built = all.iter().find(|built| built.target.is_native());
    let built = built.context("the release has no programs for this machine to try")?;
    for (name, trial) in TRIALS {
        let start = Instant::now();
        match trial(plan, built) {
            Ok(()) => Line::new("trial")
                .with("name", name)
                .measured("seconds", start.elapsed().as_secs_f64())
                .print(),
            Err(error) => match error.downcast_ref() {
                Some(missing @ testbed::Error::Missing { .. }) => {
                    println!("skipped: trial {name}: {missing}");
                }
                _ => return Err(error.context(format!("the trial `{name}` failed"))),
            },
        }
    }
    Ok(())
}
