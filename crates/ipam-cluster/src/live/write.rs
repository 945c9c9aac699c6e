//! A guarded write as an HTTP request to the URL path of its object, and the answer as an outcome.

use std::borrow::Cow;

use http::{Method, Request, StatusCode, header};
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::LiveCluster;
use super::request::Answer;
use crate::{Operation, Target, Write, WriteError, Written};
use ipam_cilium::observed::{CLAIMS_NAME, FIELD_MANAGER, OWN_NAMESPACE, ObjectVersion};

#[derive(Deserialize)]
pub(super) struct PatchedObject {
    pub(super) metadata: PatchedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PatchedMetadata {
    #[serde(default)]
    uid: String,
    pub(super) resource_version: String,
}

struct WriteRequest<'w> {
    method: Method,
    /// Path with the query, if there is one, but without the parameter `fieldManager`.
    path: String,
    content_type: &'static str,
    body: Cow<'w, Value>,
}

impl<'w> WriteRequest<'w> {
    fn of(write: &'w Write) -> WriteRequest<'w> {
        let collection = collection(&write.target);
        let object = || format!("{collection}/{}", object_name(&write.target));
        let (method, path, content_type, body) = match &write.operation {
            Operation::Patch(patch) => (
                Method::PATCH,
                object(),
                "application/merge-patch+json",
                Cow::Borrowed(patch),
            ),
            Operation::Apply(applied) => (
                Method::PATCH,
                format!("{}?force=true", object()),
                "application/apply-patch+yaml",
                Cow::Borrowed(applied),
            ),
            Operation::Create(created) => (
                Method::POST,
                collection.into_owned(),
                "application/json",
                Cow::Borrowed(created),
            ),
            Operation::Delete(version) => (
                Method::DELETE,
                object(),
                "application/json",
                Cow::Owned(delete_options(version)),
            ),
        };
        WriteRequest {
            method,
            path,
            content_type,
            body,
        }
    }

    fn build(&self) -> Result<Request<Body>, http::Error> {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        // The server refuses a write with a field that it would drop.
        let strict = match self.method {
            Method::DELETE => "",
            _ => "&fieldValidation=Strict",
        };
        let uri = format!(
            "{}{separator}fieldManager={FIELD_MANAGER}{strict}",
            self.path
        );
        Request::builder()
            .method(self.method.clone())
            .uri(uri)
            .header(header::CONTENT_TYPE, self.content_type)
            // The answer holds only metadata: a Node is large, and nothing else of it is read.
            .header(
                header::ACCEPT,
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            )
            .body(Body::from(self.body.to_string().into_bytes()))
    }
}

fn delete_options(version: &ObjectVersion) -> Value {
    let ObjectVersion {
        uid,
        resource_version,
    } = version;
    let mut preconditions = json!({});
    for (key, value) in [("uid", uid), ("resourceVersion", resource_version)] {
        if !value.is_empty() {
            preconditions[key] = json!(value);
        }
    }
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
}

impl LiveCluster {
    pub(super) async fn send_write(&self, write: &Write) -> Result<Written, WriteError> {
        let request = WriteRequest::of(write);
        if let Target::Eviction(..) = write.target {
            return self.evict(&request).await;
        }
        let answer = self
            .send_patiently(|| request.build())
            .await
            .map_err(WriteError::Unknown)?;
        outcome(&request.method, &answer)
    }

    /// A budget answers 429 for as long as it allows no disruption, so only the caller knows how
    /// long to try.
    async fn evict(&self, request: &WriteRequest<'_>) -> Result<Written, WriteError> {
        let answer = self
            .send_once(|| request.build())
            .await
            .map_err(WriteError::Unknown)?;
        match answer.status {
            status if status.is_success() => Ok(Written {
                version: ObjectVersion::default(),
            }),
            StatusCode::NOT_FOUND => Err(WriteError::Superseded(answer.message())),
            // If more than one budget covers the Pod, the server always answers 500.
            StatusCode::TOO_MANY_REQUESTS | StatusCode::INTERNAL_SERVER_ERROR => {
                Err(WriteError::Refused(answer.message_and_causes()))
            }
            _ => outcome(&request.method, &answer),
        }
    }
}

fn outcome(method: &Method, answer: &Answer) -> Result<Written, WriteError> {
    match answer.status {
        // The answer to a deletion is the object as it was, or a Status.
        status if status.is_success() && *method == Method::DELETE => Ok(Written {
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
        // When an object is created, its namespace or its kind is what is missing.
        StatusCode::NOT_FOUND if *method == Method::POST => {
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

/// The path of a collection.
pub(super) fn collection(target: &Target) -> Cow<'static, str> {
    match target {
        Target::Node(_) => "/api/v1/nodes".into(),
        Target::Pod(namespace, _) => format!("/api/v1/namespaces/{namespace}/pods").into(),
        Target::Eviction(namespace, pod) => {
            format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction").into()
        }
        Target::NodeConfig(api, namespace, _) => format!(
            "/apis/{}/namespaces/{namespace}/ciliumnodeconfigs",
            api.as_str()
        )
        .into(),
        Target::PodPool(api, _) => format!("/apis/{}/ciliumpodippools", api.as_str()).into(),
        Target::CiliumNode(_) => "/apis/cilium.io/v2/ciliumnodes".into(),
        Target::AddressPool(api, _) => {
            format!("/apis/{}/ciliumloadbalancerippools", api.as_str()).into()
        }
        Target::Service(service) => {
            format!("/api/v1/namespaces/{}/services", service.namespace()).into()
        }
        Target::Claims | Target::Departed(_) | Target::MigrationRecord(_) => {
            format!("/api/v1/namespaces/{OWN_NAMESPACE}/configmaps").into()
        }
        Target::Custom(kind, _) | Target::Status(kind, _) => kind.path().into(),
        Target::Event { namespace } => format!("/api/v1/namespaces/{namespace}/events").into(),
        Target::Lease(_) => {
            format!("/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases").into()
        }
    }
}

/// The part of an object's path that follows the path of its collection.
pub(super) fn object_name(target: &Target) -> Cow<'_, str> {
    let name = match target {
        Target::Status(_, name) => return format!("{name}/status").into(),
        Target::Node(name) | Target::CiliumNode(name) => name.as_str(),
        Target::Pod(_, name) | Target::MigrationRecord(name) => name,
        Target::AddressPool(_, name) => name.as_str(),
        Target::NodeConfig(_, _, name) | Target::PodPool(_, name) | Target::Custom(_, name) => name,
        Target::Service(service) => service.name(),
        Target::Claims => CLAIMS_NAME,
        Target::Departed(part) => part.as_str(),
        Target::Lease(name) => name.as_str(),
        Target::Event { .. } | Target::Eviction(..) => "",
    };
    name.into()
}
