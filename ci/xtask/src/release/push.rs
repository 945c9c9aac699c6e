//! Pushes the image and the chart to a registry, with crane.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use testbed::Program;

use super::source::run;
use super::{chart, image};

/// Pushes both below this prefix: `PREFIX/cilium-ipam` and `PREFIX/charts/cilium-ipam`. Without
/// TLS, if the registry is on this machine. Logins are those of `docker login` or `crane auth
/// login`.
pub fn push(dist: &Path, version: &str, prefix: &str) -> Result<()> {
    let programs = testbed::build(&[Program::Crane])?;
    let crane = programs.path(Program::Crane)?;
    let both = [
        (
            image::file_name(version),
            format!("{prefix}/cilium-ipam:{version}"),
        ),
        (
            chart::layout_name(version),
            format!("{prefix}/charts/cilium-ipam:{version}"),
        ),
    ];
    for (file, reference) in both {
        let folder = tempfile::tempdir()?;
        let path = dist.join(file);
        let archive =
            File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        tar::Archive::new(archive).unpack(folder.path())?;
        run(Command::new(crane)
            .arg("push")
            .arg(folder.path())
            .arg(&reference))?;
    }
    Ok(())
}
