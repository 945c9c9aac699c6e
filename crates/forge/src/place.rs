//! A pull request of a repository, as a person or the CI names it.

use std::fmt;
use std::str::FromStr;

use crate::ForgeError;

/// `owner/name`, or for GitLab also the number of a project or a longer path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository(String);

impl FromStr for Repository {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Repository, ForgeError> {
        let is_part = |part: &str| {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !part.is_empty() && part != "." && part != ".." && part.bytes().all(good)
        };
        let is_number = text.parse::<u64>().is_ok();
        match is_number || text.contains('/') && text.split('/').all(is_part) {
            true => Ok(Repository(text.to_owned())),
            false => Err(ForgeError::Misconfigured(format!(
                "`{}` is not a repository, such as `owner/name`",
                text.escape_debug()
            ))),
        }
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Repository {
    /// As one segment of a path.
    pub(crate) fn segment(&self) -> String {
        self.0.replace('/', "%2F")
    }
}

/// How a pull request is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequest {
    /// Its number.
    Number(u64),
    /// The open one of this branch at this commit. GitHub's `workflow_run` has no number for pull
    /// requests from forks.
    OfBranch {
        /// Owner of the fork.
        owner: String,
        /// The branch in the fork.
        branch: String,
        /// The last commit of the branch.
        commit: String,
    },
}

/// Where a comment goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The repository that the change goes to.
    pub repository: Repository,
    /// The pull request.
    pub pull_request: PullRequest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_cannot_leave_its_path() {
        for good in ["owner/name", "group/sub.group/na_me-1", "42"] {
            assert_eq!(good.parse::<Repository>().unwrap().to_string(), good);
        }
        for bad in [
            "", "name", "a/", "/a", "a//b", "a/../b", "a/b?x", "a/b c", "a/é",
        ] {
            assert!(bad.parse::<Repository>().is_err(), "{bad}");
        }
    }
}
