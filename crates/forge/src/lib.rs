//! One comment of ours on a pull request of GitHub, GitLab, Gitea or Forgejo, and one issue: found
//! again, and kept up to date; and what the forge knows of a commit. Must never know plans.
#![forbid(unsafe_code)]

mod address;
mod branch;
mod ci_environment;
mod client;
mod error;
mod issue;
mod kind;
mod marker;
mod merged;
mod patience;
mod place;
mod post;
mod routes;
mod token;

pub use address::{ApiUrl, PlainHttp};
pub use branch::{FilesInBranch, default_branch, files_in_branch};
pub use ci_environment::CiEnvironment;
pub use client::Client;
pub use error::ForgeError;
pub use issue::{Issue, IssueKept, IssueWanted, keep_issue};
pub use kind::Kind;
pub use marker::Marker;
pub use merged::{Merged, merged_with};
pub use place::{Place, PullRequest, Repository};
pub use post::{Comment, How, Outcome, Posted, Renewal, find, post};
pub use token::Token;
