//! Follows a kind by a Kubernetes watch. It must never know what the events mean.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use http::StatusCode;
use kube::core::{Status, WatchEvent};

use super::connection::SentRequest;
use super::events::{Events, events};
use super::list::parameters;
use super::request::is_ahead_of_the_server;
use super::write::{PatchedObject, collection};
use super::{LiveCluster, sentences};
use crate::{ClusterError, Follow, Following, ObjectEvent, Stored, Target};
use ipam_cilium::observed::{CLAIMS_NAME, ObservedKind};

/// How long the server keeps a watch open, in seconds. It sends a bookmark shortly before the end.
/// A lost connection shows only after this time, so it is short.
const OPEN: u64 = 55;

/// A connection without a byte for longer than the server keeps it open was lost on the way.
const SILENCE: Duration = Duration::from_secs(OPEN + 15);

/// How long the server may take to begin a watch.
const BEGINNING: Duration = Duration::from_secs(30);

impl Follow for LiveCluster {
    async fn stored_claims(&self) -> Result<Stored, ClusterError> {
        // etcd answers a GET without a resourceVersion (apiserver `pkg/storage/cacher/cacher.go`
        // @ 1.36); memory may answer a list.
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
                    .map_err(|_| malformed("its resourceVersion is not a number".to_owned()))
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
        let watch = Watch {
            paths: &query.paths,
            parameters: &parameters(&query),
            from,
            viewed: Some(kind),
        };
        self.follow_paths(watch, on_event).await
    }
}

/// A watch to open.
#[derive(Clone, Copy)]
pub(super) struct Watch<'w> {
    pub(super) paths: &'w [String],
    /// To be appended to another parameter.
    pub(super) parameters: &'w str,
    /// The resourceVersion that the first event comes after.
    pub(super) from: u64,
    /// The kind whose views read the objects. Without it, whole objects are reported.
    pub(super) viewed: Option<ObservedKind>,
}

impl LiveCluster {
    /// Follows the first of the paths that the server serves.
    pub(super) async fn follow_paths(
        &self,
        watch: Watch<'_>,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        let Watch {
            paths,
            parameters,
            from,
            viewed,
        } = watch;
        for path in paths {
            let options = format!(
                "watch=true&allowWatchBookmarks=true&timeoutSeconds={OPEN}&resourceVersion={from}"
            );
            let uri = format!("{path}?{options}{parameters}");
            match self.report_events(&uri, viewed, on_event).await {
                Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => {}
                Err(kube::Error::Api(status)) if must_be_listed_again(&status) => {
                    return Ok(Following::Lost(status.message.clone()));
                }
                Err(kube::Error::Api(status))
                    if status.code == StatusCode::UNAUTHORIZED.as_u16() =>
                {
                    // If the new credentials are wrong too, the next attempt reports it.
                    let _ = self.reconnect().await;
                    let error = kube::Error::Api(status);
                    let why = sentences::of_request(&self.server, &error);
                    return Err(ClusterError::Unreachable(why));
                }
                Err(error) => {
                    let why = sentences::of_request(&self.server, &error);
                    return Err(ClusterError::Unreachable(why));
                }
                Ok(following) => return Ok(following),
            }
        }
        Ok(Following::Lost("the server no longer serves it".to_owned()))
    }

    async fn report_events(
        &self,
        uri: &str,
        viewed: Option<ObservedKind>,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, kube::Error> {
        let client = self.current_client();
        let began = Instant::now();
        let begun = tokio::time::timeout(BEGINNING, events(&client, uri, viewed)).await;
        let failure = match &begun {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(sentences::of_request(&self.server, error)),
            Err(_) => Some(format!("no answer within {} s", BEGINNING.as_secs())),
        };
        self.report(&SentRequest {
            method: "WATCH",
            path: uri.split('?').next().unwrap_or(uri),
            outcome: failure.as_deref().map_or(Ok(200), Err),
            took: began.elapsed(),
        });
        match begun {
            Ok(events) => report_each(events?, on_event).await,
            Err(_) => Ok(Following::Silent),
        }
    }
}

/// Reports events until the watch ends.
async fn report_each(
    mut events: Events,
    on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
) -> Result<Following, kube::Error> {
    loop {
        let Ok(event) = tokio::time::timeout(SILENCE, events.try_next()).await else {
            return Ok(Following::Silent);
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

fn must_be_listed_again(status: &Status) -> bool {
    let is_one_of = |codes: &[StatusCode]| codes.iter().any(|code| code.as_u16() == status.code);
    is_one_of(&[StatusCode::GONE, StatusCode::FORBIDDEN])
        || is_ahead_of_the_server(status.code, &status.message)
}
