//! The tool as a plugin of kubectl: `kubectl cilium-ipam`.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use testbed::Program;

use super::programs::isolated;
use crate::bundle::stem;
use crate::manifests::KREW;
use crate::plan::Plan;
use crate::source::output;
use crate::target::{Built, TOOL};

/// kubectl finds the program of the archive by the name that the packages give it.
pub fn kubectl(plan: &Plan, built: &Built) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let archive = plan
        .dist
        .join(format!("{}.tar.gz", stem(&TOOL, &plan.version, built)));
    let archive = std::fs::File::open(archive)?;
    tar::Archive::new(flate2::read::GzDecoder::new(archive)).unpack(folder.path())?;
    let program = folder
        .path()
        .join(stem(&TOOL, &plan.version, built))
        .join("cilium-ipam");
    let plugins = folder.path().join("plugins");
    std::fs::create_dir(&plugins)?;
    std::os::unix::fs::symlink(program, plugins.join("kubectl-cilium_ipam"))?;
    runs(plan, folder.path(), &plugins)
}

/// Krew installs the archive by the manifest, and checks its sum. It does not use the URL in the
/// manifest: the archive is not published yet. The trial does not uninstall: Krew requires a clone
/// of its index for that.
pub fn krew(plan: &Plan, built: &Built) -> Result<()> {
    let home = tempfile::tempdir()?;
    let programs = testbed::build(&[Program::Krew])?;
    let archive = format!("{}.tar.gz", stem(&TOOL, &plan.version, built));
    let mut krew = isolated(programs.path(Program::Krew)?, home.path());
    krew.env("KREW_ROOT", home.path().join("krew"))
        .env("KREW_NO_UPGRADE_CHECK", "1")
        .arg("install")
        .arg(format!("--manifest={}", plan.dist.join(KREW).display()))
        .arg(format!("--archive={}", plan.dist.join(archive).display()));
    output(&mut krew)?;
    runs(plan, home.path(), &home.path().join("krew/bin"))
}

fn runs(plan: &Plan, home: &Path, plugins: &Path) -> Result<()> {
    let programs = testbed::build(&[Program::Kubectl])?;
    let mut path = OsString::from(plugins);
    path.push(":");
    path.push(std::env::var_os("PATH").context("PATH is not set")?);
    let kubectl = |arguments: &[&str]| {
        let mut command = isolated(programs.path(Program::Kubectl)?, home);
        output(command.env("PATH", &path).args(arguments))
    };
    let told = kubectl(&["cilium-ipam", "version"])?;
    let expected = format!("cilium-ipam {}", plan.version);
    ensure!(told.starts_with(&expected), "{told}");
    let listed = kubectl(&["plugin", "list"])?;
    ensure!(listed.contains("kubectl-cilium_ipam"), "{listed}");
    Ok(())
}
