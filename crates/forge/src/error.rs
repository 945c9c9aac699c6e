//! Why a comment could not be posted. Each text names the place and the way out.

use std::time::Duration;

/// Why a comment could not be posted.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// Settings of the environment or the command line.
    #[error("{0}")]
    Misconfigured(String),
    /// No answer, or the server is busy: a later attempt may succeed.
    #[error("{place}: {why}")]
    Unavailable {
        /// The request.
        place: String,
        /// Why.
        why: String,
        /// What the server asked for.
        retry_after: Option<Duration>,
    },
    /// The token is unknown, expired, or may not do it.
    #[error("{place}: status {status}{words}: {way_out}")]
    Denied {
        /// The request.
        place: String,
        /// 401, 403 or 404.
        status: u16,
        /// The words of the server, or nothing.
        words: String,
        /// What may be missing.
        way_out: String,
    },
    /// Any other status.
    #[error("{place}: status {status}{words}")]
    Refused {
        /// The request.
        place: String,
        /// The status.
        status: u16,
        /// The words of the server, or nothing.
        words: String,
    },
    /// An answer in another form than documented.
    #[error("{place}: unexpected answer: {why}")]
    Unexpected {
        /// The request.
        place: String,
        /// What is missing.
        why: String,
    },
    /// The server sends the request, and with it the token, elsewhere.
    #[error(
        "{place}: the server redirects to {to}, and the token is not sent there; set --api-url to the final address"
    )]
    Redirected {
        /// The request.
        place: String,
        /// The host.
        to: String,
    },
}
