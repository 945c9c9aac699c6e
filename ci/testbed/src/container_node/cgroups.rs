//! The control group of a node's containers: one name in each hierarchy of the machine. Dropping it
//! removes what the container runtime left there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "cilium-ipam-";

#[derive(Debug)]
pub(super) struct Cgroups {
    name: String,
}

impl Cgroups {
    /// Named as this process and the run's folder.
    pub(super) fn new(run: &Path) -> Result<Self> {
        sweep();
        let run = run.file_name().unwrap_or_default().to_string_lossy();
        let cgroups = Self {
            name: format!("/{PREFIX}{}-{run}", std::process::id()),
        };
        let hierarchies = hierarchies();
        if hierarchies.is_empty() {
            let why = format!("containers need control groups in {ROOT}");
            return Err(Error::missing("containers", why));
        }
        for hierarchy in hierarchies {
            let path = cgroups.within(&hierarchy);
            let refused = |why| Error::missing("containers", format!("{}: {why}", path.display()));
            fs::create_dir(&path).map_err(refused)?;
        }
        Ok(cgroups)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn within(&self, hierarchy: &Path) -> PathBuf {
        hierarchy.join(self.name.trim_start_matches('/'))
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for hierarchy in hierarchies() {
            remove(&self.within(&hierarchy));
        }
    }
}

/// The only one of version 2, or one for each controller.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.procs").exists() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.join("cgroup.procs").exists() && !path.is_symlink())
        .collect()
}

/// Removes the groups of runs that were killed: their processes are gone.
fn sweep() {
    for hierarchy in hierarchies() {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of = name
                .strip_prefix(PREFIX)
                .and_then(|of| of.split('-').next());
            if of.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                remove(&entry.path());
            }
        }
    }
}

/// Children first. Files in it are the kernel's, and go with it.
fn remove(group: &Path) {
    for child in fs::read_dir(group).into_iter().flatten().flatten() {
        if child.path().is_dir() {
            remove(&child.path());
        }
    }
    let _ = fs::remove_dir(group);
}
