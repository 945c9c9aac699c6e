//! Installs each package into an empty root, runs what it brought, and removes it.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use super::programs::{isolated, rpm as rpm_program};
use crate::packages::Format;
use crate::plan::Plan;
use crate::source::output;
use crate::target::{BUNDLES, Built, Bundle, TOOL};

/// With dpkg.
pub fn debian(plan: &Plan, built: &Built) -> Result<()> {
    for bundle in &BUNDLES {
        let root = tempfile::tempdir()?;
        for folder in ["info", "updates"] {
            std::fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder))?;
        }
        std::fs::write(root.path().join("var/lib/dpkg/status"), "")?;
        let dpkg = |verb: &str, what: &Path| {
            let mut command = isolated(Path::new("dpkg"), root.path());
            command
                .arg(format!("--root={}", root.path().display()))
                .args(["--log=/dev/null", verb])
                .arg(what);
            output(&mut command)
        };
        let file = Format::Deb.file_name(bundle, &plan.version, built);
        dpkg("--install", &plan.dist.join(file))?;
        is_installed(root.path(), bundle, &plan.version)?;
        let listed = dpkg("--listfiles", Path::new(bundle.name))?;
        ensure!(listed.contains("/copyright"), "no licence in {listed}");
        dpkg("--purge", Path::new(bundle.name))?;
        is_removed(root.path(), bundle)?;
    }
    Ok(())
}

/// With rpm.
pub fn rpm(plan: &Plan, built: &Built) -> Result<()> {
    for bundle in &BUNDLES {
        let root = tempfile::tempdir()?;
        let rpm = |arguments: &[&str], what: &Path| {
            let mut command = rpm_program(root.path())?;
            command
                .arg("--root")
                .arg(root.path())
                .args(arguments)
                .arg(what);
            output(&mut command)
        };
        let file = plan
            .dist
            .join(Format::Rpm.file_name(bundle, &plan.version, built));
        // Debian's rpm warns that Debian has another package manager.
        rpm(&["--force-debian", "--install"], &file)?;
        is_installed(root.path(), bundle, &plan.version)?;
        let told = rpm(
            &["--query", "--queryformat", "%{NAME} %{VERSION} %{LICENSE}"],
            Path::new(bundle.name),
        )?;
        for expected in [bundle.name, &plan.version, "Apache-2.0"] {
            ensure!(told.contains(expected), "no {expected} in {told}");
        }
        rpm(&["--force-debian", "--erase"], Path::new(bundle.name))?;
        is_removed(root.path(), bundle)?;
    }
    Ok(())
}

fn is_installed(root: &Path, bundle: &Bundle, version: &str) -> Result<()> {
    for program in bundle.programs {
        let path = root
            .join(program.folder.trim_start_matches('/'))
            .join(program.name);
        ensure!(path.is_file(), "no {}", path.display());
    }
    if *bundle == TOOL {
        let mut tool = isolated(&root.join("usr/bin/cilium-ipam"), root);
        let told = output(tool.arg("--version"))?;
        ensure!(told.contains(version), "{told}");
        for path in [
            "usr/share/man/man1/cilium-ipam.1.gz",
            "usr/share/bash-completion/completions/cilium-ipam",
        ] {
            ensure!(root.join(path).is_file(), "no /{path}");
        }
        let link = std::fs::read_link(root.join("usr/bin/kubectl-cilium_ipam"))?;
        ensure!(
            link == Path::new("/usr/bin/cilium-ipam"),
            "{}",
            link.display()
        );
    }
    Ok(())
}

fn is_removed(root: &Path, bundle: &Bundle) -> Result<()> {
    for program in bundle.programs {
        let path = root
            .join(program.folder.trim_start_matches('/'))
            .join(program.name);
        if path.exists() {
            bail!("{} is still there", path.display());
        }
    }
    Ok(())
}
