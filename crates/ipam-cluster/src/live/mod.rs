//! A Kubernetes API server as the cluster. The only folder that knows the client.
//!
//! Decides nothing: sends what it is given, waits for a server that is busy, and says what came of
//! it.

mod connection;
mod custom;
mod follow;
mod pace;
mod place;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use self::connection::client;
use self::follow::is_ahead_of_the_server;
use self::pace::RealPace;
use self::place::{collection, object_name};
use super::{
    Cluster, ClusterError, LeaseName, Listener, LockRecord, LockSeen, Moment, Operation, Seen,
    Target, Write, WriteError, Written,
};
use ipam_cilium::observed::{FIELD_MANAGER, ObjectVersion, ObservedKind, Query};
use retry::{Backoff, retry_after};

/// Objects in one page: client-go's default for chunked lists.
const PAGE: usize = 500;

/// Pauses between attempts of one request. The last figure is the longest that the server's own
/// wish is kept to: a proxy that names a year must not end an apply.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10))
    .obeying(Duration::from_secs(60));

/// Longest time that one answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

pub use self::connection::Connection;
pub use self::custom::Defined;
pub use self::pace::Pace;

/// A live cluster.
#[derive(Clone)]
pub struct LiveCluster {
    connection: Arc<Connection>,
    client: Arc<RwLock<Client>>,
    has_answered: Arc<AtomicBool>,
    pace: Arc<dyn Pace>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
}

/// The `Status` that the server sends with an error.
#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct PatchedObject {
    metadata: PatchedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PatchedMetadata {
    #[serde(default)]
    uid: String,
    resource_version: String,
}

struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Answer {
    fn message(&self) -> String {
        let status: Status = serde_json::from_slice(&self.body).unwrap_or_default();
        if status.message.is_empty() {
            format!("HTTP status {}", self.status)
        } else {
            status.message
        }
    }
}

impl LiveCluster {
    /// Prepares the connection; nothing is sent yet.
    ///
    /// # Errors
    /// No usable kubeconfig or account.
    pub async fn connect(connection: Connection) -> Result<LiveCluster, ClusterError> {
        let client = client(&connection)
            .await
            .map_err(ClusterError::Credentials)?;
        Ok(LiveCluster {
            connection: Arc::new(connection),
            client: Arc::new(RwLock::new(client)),
            has_answered: Arc::default(),
            pace: Arc::new(RealPace::new()),
        })
    }

    /// The same, where time passes in another way between attempts.
    #[must_use]
    pub fn paced(self, pace: Arc<dyn Pace>) -> LiveCluster {
        LiveCluster { pace, ..self }
    }

    /// Reads the credentials again: a token that has expired may have been replaced.
    async fn reconnect(&self) -> Result<(), String> {
        let client = client(&self.connection).await?;
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        Ok(())
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        let answer = tokio::time::timeout(TIMEOUT, self.answer(request)).await;
        answer.unwrap_or_else(|_| Err(format!("no whole answer within {} s", TIMEOUT.as_secs())))
    }

    fn current_client(&self) -> Client {
        self.client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Answer, String> {
        let response = self
            .current_client()
            .send(request)
            .await
            .map_err(|error| chain(&error))?;
        let status = response.status();
        let asked = response.headers().get(header::RETRY_AFTER);
        let retry_after = asked.and_then(|value| retry_after(value.as_bytes(), SystemTime::now()));
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| chain(&error))?;
        Ok(Answer {
            status,
            retry_after,
            body: body.to_bytes().into(),
        })
    }

    async fn get(&self, uri: String) -> Result<Answer, ClusterError> {
        let request = || {
            Request::get(&uri)
                .header(header::ACCEPT, "application/json")
                .body(Body::empty())
        };
        self.send_patiently(request)
            .await
            .map_err(ClusterError::Unreachable)
    }

    /// Sends a request, and again while the server is busy, fails or does not answer, for as long
    /// as there is patience. Every write is guarded, so one that went through without an answer is
    /// refused the second time, and nothing is done twice.
    async fn send_patiently(
        &self,
        request: impl Fn() -> Result<Request<Body>, http::Error>,
    ) -> Result<Answer, String> {
        let began = self.pace.elapsed();
        let mut retry = BACKOFF.retry(self.pace.rng());
        let mut reconnected = false;
        loop {
            let outcome = self
                .send(request().map_err(|error| error.to_string())?)
                .await;
            let asked = match &outcome {
                Ok(answer) if answer.status == StatusCode::UNAUTHORIZED && !reconnected => {
                    reconnected = true;
                    match self.reconnect().await {
                        Ok(()) => continue,
                        Err(_) => return outcome,
                    }
                }
                Ok(answer) if !is_passing(answer.status) => {
                    self.has_answered.store(true, Ordering::Relaxed);
                    return outcome;
                }
                Ok(answer) => answer.retry_after,
                // One that never answered is more likely the wrong one than one that is down.
                Err(_) if !self.has_answered.load(Ordering::Relaxed) => return outcome,
                Err(_) => None,
            };
            let spent = self.pace.elapsed().saturating_sub(began);
            let left = self.connection.patience.saturating_sub(spent);
            let Some(pause) = retry.pause_within(left, asked) else {
                return outcome;
            };
            self.pace.rest(pause).await;
        }
    }

    /// Reads one collection page by page; the next page is on its way while this one is decoded.
    async fn pages(
        &self,
        (resource, kind): (&'static str, &str),
        path: &str,
        (parameters, moment): (&str, &str),
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let mut answer = self
            .get(format!("{path}?limit={PAGE}{parameters}{moment}"))
            .await?;
        let mut token = String::new();
        loop {
            match answer.status {
                // Later on it would mean that half of the list is missing.
                StatusCode::NOT_FOUND if token.is_empty() => return Ok(Seen::NotServed),
                StatusCode::FORBIDDEN => return Ok(Seen::Hidden(answer.message())),
                StatusCode::GONE => return Err(ClusterError::Expired { resource }),
                status if is_ahead_of_the_server(status.as_u16(), &answer.message()) => {
                    return Err(ClusterError::Expired { resource });
                }
                status if !status.is_success() => {
                    return Err(ClusterError::Refused {
                        resource,
                        message: answer.message(),
                    });
                }
                _ => {}
            }
            let malformed = |message: String| ClusterError::Malformed { resource, message };
            let page: Page<'_> = serde_json::from_slice(&answer.body)
                .map_err(|error| malformed(error.to_string()))?;
            let expected = format!("{kind}List");
            let Some(items) = page.items.filter(|_| page.kind == expected) else {
                return Err(malformed(format!(
                    "it is a `{}`, not a `{expected}`",
                    page.kind.escape_debug()
                )));
            };
            if !page.metadata.next.is_empty() && page.metadata.next == token {
                return Err(malformed(
                    "it continues with the page that it just sent".to_owned(),
                ));
            }
            if token.is_empty() {
                listener.begun(&page.metadata.resource_version)?;
                listener.served(&page.api_version);
            }
            token.clone_from(&page.metadata.next);
            let next = (!page.metadata.next.is_empty()).then(|| {
                let (cluster, uri) = (
                    self.clone(),
                    format!(
                        "{path}?limit={PAGE}&continue={}{parameters}",
                        escaped(&page.metadata.next)
                    ),
                );
                tokio::spawn(async move { cluster.get(uri).await })
            });
            // Decoding must not keep the next page from coming in.
            tokio::task::block_in_place(|| {
                items
                    .iter()
                    .try_for_each(|object| listener.object(object.get()))
            })?;
            let Some(next) = next else {
                return Ok(Seen::All);
            };
            answer = next.await.map_err(|error| malformed(error.to_string()))??;
        }
    }
}

impl Cluster for LiveCluster {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let query = kind.query(namespace);
        let parameters = parameters(&query);
        // Only of the first page: a continued list keeps its moment by itself.
        let moment = match moment {
            Moment::Latest => String::new(),
            Moment::Of(version) => format!(
                "&resourceVersion={}&resourceVersionMatch=Exact",
                escaped(version)
            ),
        };
        let names = (kind.resource(), kind.api_version_and_kind().1);
        for path in &query.paths {
            match self
                .pages(names, path, (&parameters, &moment), listener)
                .await?
            {
                Seen::NotServed => {}
                seen => return Ok(seen),
            }
        }
        Ok(Seen::NotServed)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        if let Target::Port(_) = write.target {
            return Err(WriteError::Refused(
                "ports are not the API server's".to_owned(),
            ));
        }
        let collection = collection(&write.target);
        let (method, path, kind, body) = match &write.operation {
            Operation::Patch(patch) => {
                let name = object_name(&write.target);
                (
                    Method::PATCH,
                    format!("{collection}/{name}"),
                    "application/merge-patch+json",
                    Cow::Borrowed(patch),
                )
            }
            Operation::Apply(object) => {
                let name = object_name(&write.target);
                let path = format!("{collection}/{name}?force=true");
                (
                    Method::PATCH,
                    path,
                    "application/apply-patch+yaml",
                    Cow::Borrowed(object),
                )
            }
            Operation::Create(object) => (
                Method::POST,
                collection.into_owned(),
                "application/json",
                Cow::Borrowed(object),
            ),
            Operation::Delete(version) => {
                let ObjectVersion {
                    uid,
                    resource_version,
                } = version;
                let preconditions = json!({"uid": uid, "resourceVersion": resource_version});
                let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
                let name = object_name(&write.target);
                (
                    Method::DELETE,
                    format!("{collection}/{name}"),
                    "application/json",
                    Cow::Owned(options),
                )
            }
        };
        // Only the metadata comes back: a Node is large and nothing else of it is looked at.
        let request = || {
            Request::builder()
                .method(method.clone())
                .uri(format!(
                    "{path}{}fieldManager={FIELD_MANAGER}",
                    if path.contains('?') { '&' } else { '?' }
                ))
                .header(header::CONTENT_TYPE, kind)
                .header(
                    header::ACCEPT,
                    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                )
                .body(Body::from(body.to_string().into_bytes()))
        };
        let answer = self
            .send_patiently(request)
            .await
            .map_err(WriteError::Unknown)?;
        match answer.status {
            // What comes back is the object as it was, or a Status.
            status if status.is_success() && method == Method::DELETE => Ok(Written {
                version: ObjectVersion::default(),
            }),
            status if status.is_success() => {
                let object: PatchedObject = serde_json::from_slice(&answer.body)
                    .map_err(|error| WriteError::Unknown(error.to_string()))?;
                let PatchedMetadata {
                    uid,
                    resource_version,
                } = object.metadata;
                Ok(Written {
                    version: ObjectVersion {
                        uid,
                        resource_version,
                    },
                })
            }
            // Of an object that is created, what is not found is its namespace or its kind.
            StatusCode::NOT_FOUND if method == Method::POST => {
                Err(WriteError::Refused(answer.message()))
            }
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
                Err(WriteError::Superseded(answer.message()))
            }
            StatusCode::TOO_MANY_REQUESTS => Err(WriteError::Busy(answer.message())),
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                Err(WriteError::Forbidden(answer.message()))
            }
            status if status.is_server_error() => Err(WriteError::Unknown(answer.message())),
            _ => Err(WriteError::Refused(answer.message())),
        }
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        let resource = "leases.coordination.k8s.io";
        let answer = self
            .get(format!(
                "{}/{}",
                collection(&Target::Lease(name)),
                name.as_str()
            ))
            .await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(LockSeen::Absent),
            StatusCode::FORBIDDEN => Ok(LockSeen::Hidden(answer.message())),
            status if !status.is_success() => Err(ClusterError::Refused {
                resource,
                message: answer.message(),
            }),
            _ => {
                let malformed = |error: serde_json::Error| ClusterError::Malformed {
                    resource,
                    message: error.to_string(),
                };
                Ok(LockSeen::Record(Box::new(
                    LockRecord::read(&answer.body).map_err(malformed)?,
                )))
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        Ok(())
    }
}

/// Whether the same request may fare better later.
fn is_passing(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// An error with its causes: the outer one of the client alone says too little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// What a kind is selected by, to be put behind another parameter.
fn parameters(query: &Query) -> String {
    query
        .parameters
        .iter()
        .map(|(key, value)| format!("&{key}={}", escaped(value)))
        .collect()
}

/// Percent-encodes a query value.
fn escaped(value: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value
        .bytes()
        .map(|byte| {
            if keep(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
