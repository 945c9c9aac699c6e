//! Helm reads the packed chart, accepts its values and refuses wrong ones.

use anyhow::{Result, ensure};
use testbed::Program;

use super::programs::isolated;
use crate::chart::package_name;
use crate::plan::Plan;
use crate::source::output;
use crate::target::Built;

/// Lints and renders the package.
pub fn lint(plan: &Plan, _built: &Built) -> Result<()> {
    let home = tempfile::tempdir()?;
    let programs = testbed::build(&[Program::Helm])?;
    let package = plan.dist.join(package_name(&plan.version));
    let helm = |arguments: &[&str]| {
        let mut command = isolated(programs.path(Program::Helm)?, home.path());
        output(command.args(arguments).arg(&package))
    };
    helm(&["lint", "--strict"])?;
    let rendered = helm(&["template", "--kube-version", "1.31.0"])?;
    let image = format!("image: \"cilium-ipam:{}\"", plan.version);
    ensure!(rendered.contains(&image), "no `{image}`");
    for wrong in ["replica=2", "replicas=two", "writePaths.nodes=true"] {
        let refused = helm(&["template", "--kube-version", "1.31.0", "--set", wrong]);
        ensure!(refused.is_err(), "helm accepts `{wrong}`");
    }
    Ok(())
}
