//! Finds Policies that one Git revision has and other files do not, wherever they lie in the
//! repository.

use std::collections::BTreeSet;
use std::path::Path;

use super::Location;
use super::collected::is_yaml;
use super::git::{Git, GitFault};
use super::repository::InRepository;
use super::revision_faults::RevisionFaults;
use ipam_core::model::Finding;

/// The API group of our objects, in a line that is no comment.
const OURS: &str = r"^[^#]*cilium-ipam\.io/v1alpha1";
const POLICY: &str = r#"^[^#]*kind["']?:[[:space:]]*["']?IPAMPolicy(["',}[:space:]]|$)"#;
const POOL: &str =
    r#"^[^#]*kind["']?:[[:space:]]*["']?(Cilium(LoadBalancer|Pod))?IPPool(["',}[:space:]]|$)"#;

/// Policies of the revision `base` beside or above pools, in folders where `head` has none or no pools
/// any more. The paths are those from the top of the repository.
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
    let find = |revision: Option<&str>| {
        let commit = revision.map(|revision| git.commit(revision)).transpose()?;
        policies(&git, commit.as_deref())
    };
    let before = find(Some(revision)).map_err(|fault| faults.unreadable(&fault))?;
    let after = find(head.revision.as_deref()).map_err(|fault| faults.unreadable(&fault))?;
    let after: BTreeSet<&str> = after.iter().map(|file| folder(file)).collect();
    let is_gone = |file: &String| !after.contains(folder(file));
    Ok(before.into_iter().filter(is_gone).collect())
}

/// The folder of a file, with a slash at its end. That of the top is empty.
fn folder(file: &str) -> &str {
    file.rfind('/').map_or("", |slash| &file[..=slash])
}

/// The Policies with pools in their folder or below it; without a commit, those of the work tree.
fn policies(git: &Git, commit: Option<&str>) -> Result<BTreeSet<String>, GitFault> {
    let mut policies = files_with(git, commit, &[OURS, POLICY])?;
    let pools = files_with(git, commit, &[POOL])?;
    policies.retain(|policy| pools.iter().any(|pool| pool.starts_with(folder(policy))));
    Ok(policies)
}

/// The files that have a line for each of these patterns. Attributes of files do not count: the work
/// tree may call each file binary.
fn files_with(
    git: &Git,
    commit: Option<&str>,
    patterns: &[&str],
) -> Result<BTreeSet<String>, GitFault> {
    let mut arguments = vec!["grep", "-l", "-z", "-a", "-E", "--full-name", "--all-match"];
    arguments.extend(patterns.iter().flat_map(|pattern| ["-e", pattern]));
    arguments.push(commit.unwrap_or("--untracked"));
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
    // Others are never read as objects, such as a page with an example.
    let paths = names.map(path).filter(|path| is_yaml(Path::new(path)));
    Ok(paths.collect())
}
