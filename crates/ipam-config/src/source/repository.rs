//! Finds the repository of a directory. Files of a work tree never choose it: they may come from an
//! attacker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::collected::shown;
use super::git::{Form, Git, GitFault};

/// A directory in a repository. It may be missing in the work tree.
pub(super) struct InRepository {
    pub(super) git: Git,
    /// The path from the top of the repository, without outer slashes; empty for the top.
    pub(super) path: String,
}

impl InRepository {
    /// Finds the nearest parent with a `.git`. Otherwise the directory must be a bare repository
    /// with a name that ends in `.git`.
    pub(super) fn of(directory: &Path, revision: &str) -> Result<InRepository, GitFault> {
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let folder = absolute
            .ancestors()
            .find(|ancestor| ancestor.is_dir())
            .unwrap_or(Path::new("/"));
        let rest = absolute.strip_prefix(folder).unwrap_or(Path::new(""));
        let real =
            std::fs::canonicalize(folder).map_err(|error| GitFault::Refused(error.to_string()))?;
        let ceilings = ceilings();
        let mut tops = work_trees(&real, &ceilings);
        let git = match tops.next() {
            Some(top) => Git {
                top: top.to_owned(),
                form: Form::WorkTree,
            },
            None => Git {
                top: bare(&real)?.to_owned(),
                form: Form::Bare,
            },
        };
        if let Some(link) = link(folder, &git.top, revision, &ceilings)? {
            return Err(GitFault::Link(link));
        }
        git.require_top()?;
        refuse_shadow(&git.top, tops, revision)?;
        // In a worktree or a submodule, `.git` is a file.
        let below = real
            .strip_prefix(&git.top)
            .unwrap_or(Path::new(""))
            .join(rest);
        if below.iter().any(|part| part == ".git") {
            return Err(GitFault::InsideGit);
        }
        let path = below.to_string_lossy().trim_end_matches('/').to_owned();
        Ok(InRepository { git, path })
    }
}

/// A directory on disk as its clone has it. Paths are from the top of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InClone {
    /// Path of the directory, with all links resolved.
    pub path: String,
    /// The links on the way to it. Another target of one of them is another directory.
    pub links: Vec<String>,
}

impl InClone {
    /// Finds the directory in the nearest work tree. Needs no git.
    ///
    /// # Errors
    /// Fails if the directory is not there, is in no clone, or has a name that is not UTF-8.
    pub fn of(directory: &Path) -> Result<InClone, String> {
        let name = shown(directory);
        let unreadable = |error: std::io::Error| format!("`{name}` cannot be read: {error}");
        let real = std::fs::canonicalize(directory).map_err(unreadable)?;
        let Some(top) = work_trees(&real, &ceilings()).next() else {
            return Err(format!(
                "`{name}` is not in a clone of the repository: no folder above it has a `.git`; clone the commit with git, and run there"
            ));
        };
        let absolute = std::path::absolute(directory).map_err(unreadable)?;
        let links = links_to(&absolute).map_err(unreadable)?;
        let links = links.iter().filter_map(|link| link.strip_prefix(top).ok());
        let utf8 = |path: &Path| match path.to_str() {
            Some(path) => Ok(path.to_owned()),
            None => Err(format!("the path of `{name}` is not UTF-8")),
        };
        Ok(InClone {
            path: utf8(real.strip_prefix(top).unwrap_or(&real))?,
            links: links.map(utf8).collect::<Result<_, _>>()?,
        })
    }
}

/// Limit of the links on the way to a directory, as in Linux.
const MOST_LINKS: usize = 40;

/// The symbolic links on the way to an absolute path, each where it lies. A link may lead to others.
fn links_to(absolute: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut links = Vec::new();
    let mut here = PathBuf::new();
    let mut left: Vec<OsString> = names_backwards(absolute);
    while let Some(name) = left.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        let place = here.join(&name);
        if !place.is_symlink() {
            here = place;
            continue;
        }
        if links.len() == MOST_LINKS {
            return Err(std::io::Error::other("too many symbolic links"));
        }
        left.extend(names_backwards(&place.read_link()?));
        links.push(place);
    }
    Ok(links)
}

/// The parts of a path, the last one first. Joining the root of an absolute one starts anew.
fn names_backwards(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

/// The directories of `GIT_CEILING_DIRECTORIES`: Git does not search them or their parents.
fn ceilings() -> Vec<PathBuf> {
    let named: OsString = std::env::var_os("GIT_CEILING_DIRECTORIES").unwrap_or_default();
    std::env::split_paths(&named)
        .map(|path| std::fs::canonicalize(&path).unwrap_or(path))
        .collect()
}

/// The tops of the work trees that contain a folder, the nearest first.
fn work_trees<'p>(folder: &'p Path, ceilings: &[PathBuf]) -> impl Iterator<Item = &'p Path> {
    let ancestors = folder.ancestors();
    let searched = ancestors
        .take_while(move |ancestor| *ancestor == folder || !ceilings.iter().any(|c| c == ancestor));
    searched.filter(|ancestor| ancestor.join(".git").symlink_metadata().is_ok())
}

/// Checks that the folder is a bare repository with a name that ends in `.git`.
fn bare(folder: &Path) -> Result<&Path, GitFault> {
    let is_bare = |folder: &Path| folder.join("HEAD").is_file() && folder.join("objects").is_dir();
    let Some(top) = folder.ancestors().find(|ancestor| is_bare(ancestor)) else {
        return Err(GitFault::Refused("not a git repository".to_owned()));
    };
    if top != folder {
        return Err(GitFault::InsideGit);
    }
    let is_named = top
        .file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(".git"));
    if is_named {
        Ok(top)
    } else {
        Err(GitFault::BareName(top.to_owned()))
    }
}

/// Refuses a repository inside the tracked files of another one: a submodule, or a `.git` from an
/// archive. The files could be those of either.
fn refuse_shadow<'p>(
    inner: &Path,
    outers: impl Iterator<Item = &'p Path>,
    revision: &str,
) -> Result<(), GitFault> {
    for outer in outers {
        if is_tracked(inner, outer, revision)? {
            return Err(GitFault::Shadowed {
                inner: inner.to_owned(),
                outer: outer.to_owned(),
            });
        }
    }
    Ok(())
}

fn is_tracked(path: &Path, top: &Path, revision: &str) -> Result<bool, GitFault> {
    let below = path.strip_prefix(top).unwrap_or(path);
    Git {
        top: top.to_owned(),
        form: Form::WorkTree,
    }
    .tracks(below, revision)
}

/// The first symbolic link in the path that belongs to a work tree. Its target in the commit may
/// differ.
fn link(
    folder: &Path,
    top: &Path,
    revision: &str,
    ceilings: &[PathBuf],
) -> Result<Option<PathBuf>, GitFault> {
    for link in folder.ancestors().filter(|ancestor| ancestor.is_symlink()) {
        let (Some(parent), Some(name)) = (link.parent(), link.file_name()) else {
            continue;
        };
        let Ok(parent) = std::fs::canonicalize(parent) else {
            continue;
        };
        let place = parent.join(name);
        if place.starts_with(top) {
            return Ok(Some(link.to_owned()));
        }
        for outer in work_trees(&parent, ceilings) {
            if is_tracked(&place, outer, revision)? {
                return Ok(Some(link.to_owned()));
            }
        }
    }
    Ok(None)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_named_with_the_links_that_lead_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("clone/net/prod")).unwrap();
        let outside = InClone::of(&at("clone/net")).unwrap_err();
        assert!(
            outside.contains("no folder above it has a `.git`"),
            "{outside}"
        );
        std::fs::create_dir(at("clone/.git")).unwrap();
        symlink("net", at("clone/current")).unwrap();
        symlink(at("clone/current/prod"), at("clone/pools")).unwrap();
        symlink("clone", at("elsewhere")).unwrap();
        for (name, links) in [
            ("clone/net/prod", &[][..]),
            ("clone/net/../current/prod", &["current"]),
            ("elsewhere/pools", &["pools", "current"]),
        ] {
            let found = InClone::of(&at(name)).unwrap();
            assert_eq!(found.path, "net/prod", "{name}");
            assert_eq!(found.links, links, "{name}");
        }
    }
}
