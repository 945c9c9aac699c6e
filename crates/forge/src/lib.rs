//! One comment of ours on a pull request of GitHub, GitLab, Gitea or Forgejo, and one issue: found
//! again, and kept up to date; and what the forge knows of a commit. Must never know plans.

#![forbid(unsafe_code)]

mod branch;
mod ci_environment;
mod client;
mod issue;
mod post;
mod routes;

pub use branch::{FilesInBranch, Merged, default_branch, files_in_branch, merged_with};
pub use ci_environment::{ApiUrl, CiEnvironment, ForgeError, PlainHttp};
pub use client::{Client, Token};
pub use issue::{Issue, IssueKept, IssueWanted, Marker, keep_issue};
pub use post::{Comment, How, Outcome, Posted, Renewal, find, post};
pub use routes::{Kind, Place, PullRequest, Repository};
