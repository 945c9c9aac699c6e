//! Lists and watches our own custom resources. It must never know what they mean.

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::LiveCluster;
use super::follow::Watch;
use super::list::{Listing, Objects};
use crate::{ClusterError, Following, ObjectEvent, Seen};
use ipam_desired::CustomKind;

/// All objects of one of our kinds.
#[derive(Clone, Debug)]
pub struct CustomList {
    /// Whether the kind could be read.
    pub seen: Seen,
    /// The resourceVersion of the list.
    pub version: u64,
    /// The objects as JSON.
    pub objects: Vec<Value>,
}

/// Whether one of our kinds is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defined {
    /// It is, and its definition stays.
    Yes,
    /// Its definition is gone, or terminating: then all its objects go too.
    No,
}

#[derive(Deserialize)]
struct DefinitionView {
    metadata: DefinitionMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionMetadata {
    deletion_timestamp: Option<String>,
}

impl LiveCluster {
    /// Whether the CustomResourceDefinition of a kind exists and stays.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or hides the definition.
    pub async fn defined(&self, kind: CustomKind) -> Result<Defined, ClusterError> {
        let resource = "customresourcedefinitions.apiextensions.k8s.io";
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}",
            kind.resource()
        );
        let answer = self.get(path).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(Defined::No),
            status if !status.is_success() => Err(ClusterError::Refused {
                resource,
                message: answer.message(),
            }),
            _ => {
                let malformed = |error: serde_json::Error| ClusterError::Malformed {
                    resource,
                    message: error.to_string(),
                };
                let view: DefinitionView =
                    serde_json::from_slice(&answer.body).map_err(malformed)?;
                Ok(if view.metadata.deletion_timestamp.is_none() {
                    Defined::Yes
                } else {
                    Defined::No
                })
            }
        }
    }

    /// Lists one of our kinds.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or the answer is malformed.
    pub async fn list_custom(&self, kind: CustomKind) -> Result<CustomList, ClusterError> {
        let mut list = Objects::of(kind.resource());
        let path = kind.path();
        let listing = Listing::whole((kind.resource(), kind.as_str()), &path, "");
        let seen = self.pages(listing, &mut list).await?;
        Ok(CustomList {
            seen,
            version: list.version,
            objects: list.objects,
        })
    }

    /// Follows one of our kinds after the resourceVersion `from`.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or the answer is malformed.
    pub async fn follow_custom(
        &self,
        kind: CustomKind,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        let watch = Watch {
            paths: &[kind.path()],
            parameters: "",
            from,
            viewed: None,
        };
        self.follow_paths(watch, on_event).await
    }
}
