//! One comment of ours on a pull request of GitHub, GitLab, Gitea or Forgejo: found again, and
//! updated in place. Must never know plans.
#![forbid(unsafe_code)]

mod address;
mod client;
mod error;
mod kind;
mod marker;
mod place;
mod post;
mod routes;
mod surroundings;
mod token;

pub use address::{ApiUrl, PlainHttp};
pub use client::Client;
pub use error::ForgeError;
pub use kind::Kind;
pub use marker::Marker;
pub use place::{Place, PullRequest, Repository};
pub use post::{Comment, How, Outcome, Posted, post};
pub use surroundings::Surroundings;
pub use token::Token;
