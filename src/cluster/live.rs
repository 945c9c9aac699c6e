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

use super::{Cluster, ClusterError, Seen, Sink, Write, WriteError, Written};
use crate::observed::ObservedKind;

/// Objects in one page: client-go's default for chunked lists.
const PAGE: usize = 500;

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
        config.read_timeout = Some(TIMEOUT);
        config.write_timeout = Some(TIMEOUT);
        let client = Client::try_from(config).map_err(|error| fault(&error))?;
        Ok(LiveCluster { client })
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        let response = self.client.send(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| chain(&error))?;
        Ok(Answer { status, body: body.to_bytes().into() })
    }

    async fn get(&self, uri: String) -> Result<Answer, ClusterError> {
        let request = Request::get(uri).header(header::ACCEPT, "application/json").body(Body::empty());
        let request = request.map_err(|error| ClusterError::Unreachable(error.to_string()))?;
        self.send(request).await.map_err(ClusterError::Unreachable)
    }

    /// Reads one collection page by page; the next page is on its way while this one is decoded.
    async fn pages(
        &self,
        kind: ObservedKind,
        path: &str,
        parameters: &str,
        sink: Sink<'_>,
    ) -> Result<Seen, ClusterError> {
        let resource = kind.resource();
        let mut answer = self.get(format!("{path}?limit={PAGE}{parameters}")).await?;
        loop {
            match answer.status {
                StatusCode::NOT_FOUND => return Ok(Seen::NotServed),
                StatusCode::FORBIDDEN => return Ok(Seen::Hidden(answer.message())),
                StatusCode::GONE => return Err(ClusterError::Expired { resource }),
                status if !status.is_success() => {
                    return Err(ClusterError::Refused { resource, message: answer.message() });
                }
                _ => {}
            }
            let malformed = |message: String| ClusterError::Malformed { resource, message };
            let page: Page<'_> = serde_json::from_slice(&answer.body).map_err(|error| malformed(error.to_string()))?;
            let next = (!page.metadata.next.is_empty()).then(|| {
                let (cluster, uri) = (
                    self.clone(),
                    format!("{path}?limit={PAGE}&continue={}{parameters}", escaped(&page.metadata.next)),
                );
                tokio::spawn(async move { cluster.get(uri).await })
            });
            for object in page.items.unwrap_or_default() {
                sink(object.get())?;
            }
            let Some(next) = next else { return Ok(Seen::All) };
            answer = next.await.map_err(|error| malformed(error.to_string()))??;
        }
    }
}

impl Cluster for LiveCluster {
    async fn list(&self, kind: ObservedKind, namespace: &str, sink: Sink<'_>) -> Result<Seen, ClusterError> {
        let query = kind.query(namespace);
        let parameters: String =
            query.parameters.iter().map(|(key, value)| format!("&{key}={}", escaped(value))).collect();
        for path in &query.paths {
            match self.pages(kind, path, &parameters, sink).await? {
                Seen::NotServed => {}
                seen => return Ok(seen),
            }
        }
        Ok(Seen::NotServed)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        // Only the metadata comes back: a Node is large and nothing else of it is looked at.
        let request = Request::patch(format!("/api/v1/nodes/{}?fieldManager=cilium-ipam", write.node))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .header(header::ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .body(Body::from(write.patch.to_string().into_bytes()));
        let request = request.map_err(|error| WriteError::Refused(error.to_string()))?;
        let answer = self.send(request).await.map_err(WriteError::Unknown)?;
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
