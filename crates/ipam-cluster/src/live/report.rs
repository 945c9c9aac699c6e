//! Reports each request to an observer. It must never see headers or bodies: they have credentials.

use std::time::Duration;

use super::LiveCluster;

/// A request, after its answer or failure. Each attempt of a retried request is reported.
#[derive(Debug)]
pub struct SentRequest<'r> {
    pub method: &'r str,
    /// Without the query.
    pub path: &'r str,
    /// The HTTP status, or why there is no answer.
    pub outcome: Result<u16, &'r str>,
    pub took: Duration,
}

/// Called with each request.
pub type OnRequest = fn(&SentRequest<'_>);

impl LiveCluster {
    /// The same cluster, which reports each request.
    #[must_use]
    pub fn reporting(self, on_request: OnRequest) -> LiveCluster {
        LiveCluster {
            on_request: Some(on_request),
            ..self
        }
    }

    pub(super) fn report(&self, request: &SentRequest<'_>) {
        if let Some(on_request) = self.on_request {
            on_request(request);
        }
    }
}
