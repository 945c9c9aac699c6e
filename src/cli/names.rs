//! Names of objects and the directory of the files in one list of arguments, as kubectl mixes names
//! and kinds. It never reads a cluster.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::files::Revision;
use ipam_config::source::Location;
use ipam_core::similar_names::most_similar;

/// The arguments of `show KIND`.
#[derive(Debug)]
pub(super) struct Names<'a> {
    kind: &'static str,
    directories: Vec<&'a str>,
    pub(super) names: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Sorts the arguments. One with a `/` that is not `KIND/NAME`, or that exists on disk, is a
    /// directory.
    pub(super) fn new(kind: &'static str, arguments: &'a [String]) -> Names<'a> {
        let (mut directories, mut names) = (Vec::new(), Vec::new());
        for argument in arguments.iter().map(String::as_str) {
            let of_kind = argument
                .strip_prefix(kind)
                .and_then(|rest| rest.strip_prefix('/'))
                .filter(|name| !name.is_empty());
            match of_kind {
                Some(name) => names.push(name),
                None if argument.contains('/') || Path::new(argument).exists() => {
                    directories.push(argument);
                }
                None => names.push(argument),
            }
        }
        Names {
            kind,
            directories,
            names,
        }
    }

    /// # Errors
    /// Fails if there are two directories.
    pub(super) fn location(&self, revision: &Revision) -> Result<Location, Failure> {
        match self.directories[..] {
            [] => Ok(revision.of(&PathBuf::from("pools"))),
            [directory] => Ok(revision.of(Path::new(directory))),
            [one, other, ..] => Err(Failure::Failed(format!(
                "`{one}` and `{other}` are two directories; name one"
            ))),
        }
    }

    /// The failure for an unknown name, with the known name that is most similar.
    pub(super) fn unknown<'k>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Failure {
        let kind = self.kind;
        let advice = match most_similar(name, known) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("`cilium-ipam show {kind}s` lists all"),
        };
        Failure::Failed(format!(
            "there is no {kind} `{name}`, and no such directory; {advice}"
        ))
    }
}
