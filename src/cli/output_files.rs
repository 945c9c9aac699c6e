//! Files that a command writes: none may take the place of a file that the command reads, or of
//! another output.

use std::path::{Path, PathBuf};

use super::Common;
use super::failure::Failure;
use ipam_config::source::is_yaml;

/// The files that a run reads.
pub(super) struct Inputs<'i> {
    files: Vec<(&'static str, PathBuf)>,
    /// The directory of pools, or its only file.
    directory: Option<&'i Path>,
}

impl<'i> Inputs<'i> {
    /// Those that the flags of every command name.
    pub(super) fn of(common: &Common) -> Inputs<'i> {
        let flags = [
            ("--cluster-file", &common.cluster_file),
            ("--clouds-file", &common.clouds_file),
            ("--neutron-file", &common.neutron_file),
        ];
        let named = flags
            .into_iter()
            .filter_map(|(flag, file)| Some((flag, file.clone()?)));
        let kubeconfigs = kubeconfigs(common).into_iter();
        Inputs {
            files: named
                .chain(kubeconfigs.map(|file| ("the kubeconfig", file)))
                .collect(),
            directory: None,
        }
    }

    pub(super) fn with_directory(self, directory: &'i Path) -> Inputs<'i> {
        Inputs {
            directory: Some(directory),
            ..self
        }
    }

    pub(super) fn with_plan_file(mut self, file: Option<&Path>) -> Inputs<'i> {
        self.files
            .extend(file.map(|file| ("the plan", file.to_owned())));
        self
    }

    /// Refuses outputs that would replace an input or another output. Each has the name of its flag.
    pub(super) fn check(&self, outputs: &[(&'static str, Option<&Path>)]) -> Result<(), Failure> {
        let mut taken = self.files.clone();
        for (flag, output) in outputs {
            let Some(output) = output else { continue };
            let refused = |why: String| {
                let file = output.display();
                Err(Failure::Failed(format!(
                    "{flag} must not replace `{file}`: {why}; nothing was written: name another file"
                )))
            };
            if let Some((name, _)) = taken.iter().find(|(_, file)| is_same(output, file)) {
                return refused(format!("it is the file of {name}"));
            }
            if let Some(directory) = self.directory.filter(|one| is_read_from(output, one)) {
                return refused(format!("files are read from `{}`", directory.display()));
            }
            taken.push((flag, output.to_path_buf()));
        }
        Ok(())
    }
}

/// The kubeconfig files that a client reads.
fn kubeconfigs(common: &Common) -> Vec<PathBuf> {
    if let Some(file) = &common.kubeconfig {
        return vec![file.clone()];
    }
    match std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty()) {
        Some(files) => std::env::split_paths(&files).collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .into_iter()
            .collect(),
    }
}

/// Whether two names lead to one file, or are one link.
fn is_same(one: &Path, other: &Path) -> bool {
    let places = [place(one), target(one)];
    [place(other), target(other)]
        .into_iter()
        .flatten()
        .any(|other| places.iter().flatten().any(|one| *one == other))
}

/// Whether a name is that of a file that is read from this directory, also through a link.
fn is_read_from(file: &Path, directory: &Path) -> bool {
    let Some(root) = target(directory) else {
        return false;
    };
    let is_read = |path: &PathBuf| path.starts_with(&root) && (root.is_file() || is_yaml(path));
    [place(file), target(file)].iter().flatten().any(is_read)
}

/// Where a name lies. A link stays one.
fn place(file: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(file).ok()?;
    Some(target(absolute.parent()?)?.join(absolute.file_name()?))
}

/// Where a name leads to.
fn target(file: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(file).ok()
}
