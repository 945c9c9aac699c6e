//! Reports each request to an observer. It must never see headers, bodies or queries: they may have
//! credentials.

use std::sync::Arc;
use std::time::Duration;

use crate::NeutronError;

/// A request to Keystone or Neutron, after its answer or failure. Each attempt is reported.
#[derive(Debug)]
pub struct SentRequest<'r> {
    pub method: &'r str,
    /// Without the query.
    pub url: &'r str,
    /// The HTTP status, or why there is no answer.
    pub outcome: Result<u16, &'r str>,
    pub took: Duration,
}

/// Called with each request.
pub type OnRequest = Arc<dyn Fn(&SentRequest<'_>) + Send + Sync>;

/// The reason without the words that name the service.
pub(super) fn why(error: &NeutronError) -> String {
    match error {
        NeutronError::Unavailable(why)
        | NeutronError::Unreachable(why)
        | NeutronError::Misconfigured(why) => why.clone(),
        other => other.to_string(),
    }
}
