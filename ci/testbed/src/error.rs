//! Everything that can go wrong in the testbed, in one enum: a failed test should name
//! the program, the log and the request at fault.

use std::path::PathBuf;
use std::time::Duration;

/// What a function of the testbed returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of the testbed, or an answer of the API server that is not a success.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no Go toolchain to build the programs with.
    #[error(
        "cannot run `go`: {0}\nhelp: install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a folder with kube-apiserver, etcd and kubectl"
    )]
    NoGo(#[source] std::io::Error),
    /// A `go` command failed.
    #[error("`go {command}` failed:\n{told}")]
    Go {
        /// Its arguments.
        command: String,
        /// What it said.
        told: String,
    },
    /// This machine lacks something that a test needs. The test is skipped, not failed.
    #[error("{what} cannot be had here: {why}")]
    Missing {
        /// One word for it.
        what: &'static str,
        /// What says so.
        why: String,
    },
    /// A program was asked for which [`build`](crate::build) was not told about.
    #[error("{0} was not built: name it in the call of `build`")]
    NotBuilt(String),
    /// A server ended before it was ready.
    #[error("{program} ended before it was ready; the end of its log:\n{log}")]
    Ended {
        /// Which one.
        program: String,
        /// The end of its log.
        log: String,
    },
    /// A program that should answer and end failed.
    #[error("{program} failed:\n{stderr}")]
    Failed {
        /// Which one.
        program: String,
        /// What it said.
        stderr: String,
    },
    /// Something did not come about in time.
    #[error("waited {waited:?} for {what}{detail}")]
    Timeout {
        /// For what.
        what: String,
        /// For how long.
        waited: Duration,
        /// The end of a log, or nothing.
        detail: String,
    },
    /// The API server answered with an error.
    #[error("{method} {path}: {status} {message}")]
    Status {
        /// The request's method.
        method: String,
        /// The request's path.
        path: String,
        /// The HTTP status.
        status: u16,
        /// The `message` of the Status object.
        message: String,
    },
    /// A request did not reach the API server.
    #[error("{method} {path}: {source}")]
    Request {
        /// The request's method.
        method: String,
        /// The request's path.
        path: String,
        /// Why.
        #[source]
        source: Box<ureq::Error>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// An answer does not look as agreed.
    #[error("cannot read {what}: {why}")]
    Unreadable {
        /// What was read.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A user that is not among [`Options::users`](crate::Options::users).
    #[error("the control plane has no user `{0}`")]
    NoUser(String),
}

impl Error {
    /// The HTTP status, when the API server answered with an error.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// This machine cannot have it.
    #[must_use]
    pub fn missing(what: &'static str, why: impl Into<String>) -> Self {
        Self::Missing {
            what,
            why: why.into(),
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    pub(crate) fn unreadable(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Unreadable {
            what: what.into(),
            why: why.to_string(),
        }
    }
}
