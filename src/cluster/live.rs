//! A Kubernetes API server as the cluster. The only file that knows the client.

use std::path::PathBuf;
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Cluster, ClusterError, Listener, Seen, Write, WriteError, Written};
use crate::observed::ObservedKind;

/// Objects in one page: client-go's default for chunked lists.
const PAGE: usize = 500;

/// How often a busy server is asked again.
const RETRIES: u32 = 5;

/// Longest pause between two attempts, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Longest time that one answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Which cluster, as with `kubectl`.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// A kubeconfig file; otherwise `$KUBECONFIG`, the usual place, or the Pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of that file; otherwise its current one.
    pub context: Option<String>,
}

/// A live cluster.
#[derive(Clone)]
pub struct LiveCluster {
    client: Client,
}

#[derive(Deserialize)]
struct Page<'a> {
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
        if status.message.is_empty() { format!("HTTP status {}", self.status) } else { status.message }
    }
}

impl LiveCluster {
    /// Prepares the connection; nothing is sent yet.
    ///
    /// # Errors
    /// No usable kubeconfig or account.
    pub async fn connect(connection: &Connection) -> Result<LiveCluster, ClusterError> {
        let fault = |error: &dyn std::fmt::Display| ClusterError::Credentials(error.to_string());
        let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &connection.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path).map_err(|error| fault(&error))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| fault(&error))?
            }
            None if connection.context.is_some() => {
                Config::from_kubeconfig(&options).await.map_err(|error| fault(&error))?
            }
            None => Config::infer().await.map_err(|error| fault(&error))?,
        };
        // The client's own retries are long, silent, and repeat writes whose fate is unknown.
        config.default_retry = false;
        config.read_timeout = Some(TIMEOUT);
        config.write_timeout = Some(TIMEOUT);
        let client = Client::try_from(config).map_err(|error| fault(&error))?;
        Ok(LiveCluster { client })
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        let response = self.client.send(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        let seconds = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        let body = response.into_body().collect().await.map_err(|error| chain(&error))?;
        Ok(Answer { status, retry_after, body: body.to_bytes().into() })
    }

    async fn get(&self, uri: String) -> Result<Answer, ClusterError> {
        let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        let request = || Request::get(&uri).header(header::ACCEPT, "application/json").body(Body::empty());
        self.send_patiently(request, &busy).await.map_err(ClusterError::Unreachable)
    }

    /// Sends a request again, a few times, while the answer is one of `busy`, after the time that the server asks for.
    async fn send_patiently(
        &self,
        request: impl Fn() -> Result<Request<Body>, http::Error>,
        busy: &[StatusCode],
    ) -> Result<Answer, String> {
        for attempt in 0..RETRIES {
            let answer = self.send(request().map_err(|error| error.to_string())?).await?;
            if !busy.contains(&answer.status) {
                return Ok(answer);
            }
            let own = Duration::from_millis(200 << attempt);
            tokio::time::sleep(answer.retry_after.unwrap_or(own).min(LONGEST_PAUSE)).await;
        }
        self.send(request().map_err(|error| error.to_string())?).await
    }

    /// Reads one collection page by page; the next page is on its way while this one is decoded.
    async fn pages(
        &self,
        kind: ObservedKind,
        path: &str,
        parameters: &str,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let resource = kind.resource();
        let mut answer = self.get(format!("{path}?limit={PAGE}{parameters}")).await?;
        let mut token = String::new();
        loop {
            match answer.status {
                // Later on it would mean that half of the list is missing.
                StatusCode::NOT_FOUND if token.is_empty() => return Ok(Seen::NotServed),
                StatusCode::FORBIDDEN => return Ok(Seen::Hidden(answer.message())),
                StatusCode::GONE => return Err(ClusterError::Expired { resource }),
                status if !status.is_success() => {
                    return Err(ClusterError::Refused { resource, message: answer.message() });
                }
                _ => {}
            }
            let malformed = |message: String| ClusterError::Malformed { resource, message };
            let page: Page<'_> = serde_json::from_slice(&answer.body).map_err(|error| malformed(error.to_string()))?;
            let expected = format!("{}List", kind.api_version_and_kind().1);
            let Some(items) = page.items.filter(|_| page.kind == expected) else {
                return Err(malformed(format!("it is a `{}`, not a `{expected}`", page.kind.escape_debug())));
            };
            if !page.metadata.next.is_empty() && page.metadata.next == token {
                return Err(malformed("it continues with the page that it just sent".to_owned()));
            }
            if token.is_empty() {
                listener.begun();
            }
            token.clone_from(&page.metadata.next);
            let next = (!page.metadata.next.is_empty()).then(|| {
                let (cluster, uri) = (
                    self.clone(),
                    format!("{path}?limit={PAGE}&continue={}{parameters}", escaped(&page.metadata.next)),
                );
                tokio::spawn(async move { cluster.get(uri).await })
            });
            // Decoding must not keep the next page from coming in.
            tokio::task::block_in_place(|| items.iter().try_for_each(|object| listener.object(object.get())))?;
            let Some(next) = next else { return Ok(Seen::All) };
            answer = next.await.map_err(|error| malformed(error.to_string()))??;
        }
    }
}

impl Cluster for LiveCluster {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        listener: &mut dyn Listener,
    ) -> Result<Seen, ClusterError> {
        let query = kind.query(namespace);
        let parameters: String =
            query.parameters.iter().map(|(key, value)| format!("&{key}={}", escaped(value))).collect();
        for path in &query.paths {
            match self.pages(kind, path, &parameters, listener).await? {
                Seen::NotServed => {}
                seen => return Ok(seen),
            }
        }
        Ok(Seen::NotServed)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        // Only the metadata comes back: a Node is large and nothing else of it is looked at.
        let request = || {
            Request::patch(format!("/api/v1/nodes/{}?fieldManager=cilium-ipam", write.node))
                .header(header::CONTENT_TYPE, "application/merge-patch+json")
                .header(header::ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
                .body(Body::from(write.patch.to_string().into_bytes()))
        };
        // A server that says 429 has not begun; after any other failure the fate of the write is unknown.
        let answer =
            self.send_patiently(request, &[StatusCode::TOO_MANY_REQUESTS]).await.map_err(WriteError::Unknown)?;
        match answer.status {
            status if status.is_success() => {
                let object: PatchedObject =
                    serde_json::from_slice(&answer.body).map_err(|error| WriteError::Unknown(error.to_string()))?;
                Ok(Written { resource_version: object.metadata.resource_version })
            }
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => Err(WriteError::Superseded(answer.message())),
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Err(WriteError::Forbidden(answer.message())),
            status if status.is_server_error() => Err(WriteError::Unknown(answer.message())),
            _ => Err(WriteError::Refused(answer.message())),
        }
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        Ok(())
    }
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

/// Percent-encodes a query value.
fn escaped(value: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
