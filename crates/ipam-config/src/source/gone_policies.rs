//! Finds Policies that one Git revision has and other files do not, wherever they lie in the
//! repository.

use std::collections::BTreeSet;

use super::Location;
use super::git::{Git, GitFault};
use super::repository::InRepository;
use super::revision_faults::RevisionFaults;
use ipam_core::model::Finding;

/// Lines of a Policy of ours. Others have a kind of this name too.
const LINES: [&str; 2] = [
    r"cilium-ipam\.io/v1alpha1",
    r#"kind["']?:[[:space:]]*["']?Policy(["',}[:space:]]|$)"#,
];

/// Files with a Policy that the revision `base` has, and that `head` does not have at the same
/// place. The paths are those from the top of the repository.
///
/// # Errors
/// Fails if the repository or a revision cannot be read.
pub fn gone_policies(base: &Location, head: &Location) -> Result<Vec<String>, Box<Finding>> {
    let revision = base.revision.as_deref().unwrap_or("HEAD");
    let faults = RevisionFaults {
        directory: &base.directory,
        revision,
    };
    let InRepository { git, .. } = InRepository::of(&base.directory, revision)
        .map_err(|fault| faults.no_repository(&fault))?;
    let find = |revision: Option<&str>| policies(&git, revision);
    let before = find(Some(revision)).map_err(|fault| faults.unreadable(&fault))?;
    let after = find(head.revision.as_deref()).map_err(|fault| faults.unreadable(&fault))?;
    Ok(before.difference(&after).cloned().collect())
}

/// The files with a Policy; without a revision, those of the work tree.
fn policies(git: &Git, revision: Option<&str>) -> Result<BTreeSet<String>, GitFault> {
    let mut arguments = vec!["grep", "-l", "-z", "-I", "-E", "--full-name", "--all-match"];
    arguments.extend(LINES.iter().flat_map(|line| ["-e", line]));
    let commit = revision.map(|revision| git.commit(revision)).transpose()?;
    arguments.push(commit.as_deref().unwrap_or("--untracked"));
    arguments.push("--");
    let answer = match git.run(&arguments, &[]) {
        // There is no such line.
        Err(GitFault::Refused(message)) if message.is_empty() => Vec::new(),
        answer => answer?,
    };
    let start = commit.map(|commit| format!("{commit}:"));
    let names = String::from_utf8_lossy(&answer);
    let names = names.split('\0').filter(|name| !name.is_empty());
    let path = |name: &str| {
        let start = start.as_deref().unwrap_or_default();
        name.strip_prefix(start).unwrap_or(name).to_owned()
    };
    Ok(names.map(path).collect())
}
