//! Follows a kind by a Kubernetes watch.

use std::time::Duration;

use futures_util::TryStreamExt;
use http::{Request, StatusCode};
use kube::core::{Status, WatchEvent};
use serde_json::Value;

use super::place::collection;
use super::{LiveCluster, PatchedObject, chain, parameters};
use crate::{ClusterError, Follow, Following, ObjectEvent, Stored, Target};
use ipam_cilium::observed::{CLAIMS_NAME, ObservedKind};

/// How long the server keeps a watch open, in seconds. Short, because who ends it last says how far
/// it was heard, and a connection that was lost on the way is not noticed sooner.
const OPEN: u64 = 55;

/// A connection that is silent for longer than the server keeps it open has been lost on the way.
const SILENCE: Duration = Duration::from_secs(OPEN + 15);

/// How long the server may take to begin.
const BEGINNING: Duration = Duration::from_secs(30);

impl Follow for LiveCluster {
    async fn stored_claims(&self) -> Result<Stored, ClusterError> {
        // A GET without a resourceVersion is answered by etcd (apiserver
        // `pkg/storage/cacher/cacher.go` @ 1.36), a list may be by memory.
        let answer = self
            .get(format!("{}/{CLAIMS_NAME}", collection(&Target::Claims)))
            .await?;
        let resource = ObservedKind::Claims.resource();
        match answer.status {
            StatusCode::NOT_FOUND => Ok(Stored::Absent),
            StatusCode::FORBIDDEN => Ok(Stored::Hidden),
            status if !status.is_success() => Err(ClusterError::Refused {
                resource,
                message: answer.message(),
            }),
            _ => {
                let malformed = |message: String| ClusterError::Malformed { resource, message };
                let object: PatchedObject = serde_json::from_slice(&answer.body)
                    .map_err(|error| malformed(error.to_string()))?;
                let version = object.metadata.resource_version;
                version
                    .parse()
                    .map(Stored::At)
                    .map_err(|_| malformed("its resourceVersion is no number".to_owned()))
            }
        }
    }

    async fn follow(
        &self,
        kind: ObservedKind,
        namespace: &str,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        let query = kind.query(namespace);
        self.follow_paths(&query.paths, &parameters(&query), from, on_event)
            .await
    }
}

impl LiveCluster {
    /// Follows the first of these collections that is served.
    pub(super) async fn follow_paths(
        &self,
        paths: &[String],
        parameters: &str,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        for path in paths {
            let options = format!(
                "watch=true&allowWatchBookmarks=true&timeoutSeconds={OPEN}&resourceVersion={from}"
            );
            match self
                .events(&format!("{path}?{options}{parameters}"), on_event)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => {}
                Err(kube::Error::Api(status)) if must_be_listed_again(&status) => {
                    return Ok(Following::Lost(status.message.clone()));
                }
                Err(kube::Error::Api(status))
                    if status.code == StatusCode::UNAUTHORIZED.as_u16() =>
                {
                    // What is wrong with them is said by the next attempt.
                    let _ = self.reconnect().await;
                    return Err(ClusterError::Unreachable(status.message.clone()));
                }
                Err(error) => return Err(ClusterError::Unreachable(chain(&error))),
                Ok(following) => return Ok(following),
            }
        }
        Ok(Following::Lost("the server serves it no more".to_owned()))
    }

    async fn events(
        &self,
        uri: &str,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, kube::Error> {
        let request = Request::get(uri)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        let client = self.current_client();
        let Ok(events) =
            tokio::time::timeout(BEGINNING, client.request_events::<Value>(request)).await
        else {
            return Ok(Following::Closed);
        };
        let mut events = std::pin::pin!(events?);
        loop {
            let Ok(event) = tokio::time::timeout(SILENCE, events.try_next()).await else {
                return Ok(Following::Closed);
            };
            match event? {
                None => return Ok(Following::Closed),
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    on_event(ObjectEvent::Changed(&object))
                }
                Some(WatchEvent::Deleted(object)) => on_event(ObjectEvent::Deleted(&object)),
                Some(WatchEvent::Bookmark(mark)) => {
                    on_event(ObjectEvent::Bookmark(&mark.metadata.resource_version))
                }
                Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status)),
            }
        }
    }
}

fn must_be_listed_again(status: &Status) -> bool {
    let is_one_of = |codes: &[StatusCode]| codes.iter().any(|code| code.as_u16() == status.code);
    is_one_of(&[StatusCode::GONE, StatusCode::FORBIDDEN])
        || is_ahead_of_the_server(status.code, &status.message)
}

/// Whether a request named a later moment than the server knows (apiserver `pkg/storage/errors.go`
/// @ 1.36): it went back in time.
pub(super) fn is_ahead_of_the_server(code: u16, message: &str) -> bool {
    code == StatusCode::GATEWAY_TIMEOUT.as_u16() && message.contains("Too large resource version")
}
