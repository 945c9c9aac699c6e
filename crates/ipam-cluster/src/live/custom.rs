//! Lists and watches our own custom resources, lists the objects of other programs, and reads
//! single objects, Pods and records. It must never know what they mean.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::LiveCluster;
use super::follow::Watch;
use super::list::{Listing, Objects, escaped};
use super::write::{collection, object_name};
use crate::{
    ClusterError, Following, MIGRATION_LABEL, ObjectEvent, PodsOf, Seen, Target, Workloads,
};
use ipam_cilium::observed::OWN_NAMESPACE;
use ipam_desired::CustomKind;

/// All objects of one custom kind of `cilium-ipam`.
#[derive(Clone, Debug)]
pub struct CustomList {
    /// Whether the kind could be read.
    pub seen: Seen,
    /// resourceVersion of the list.
    pub version: u64,
    /// The objects as JSON.
    pub objects: Vec<Value>,
}

/// Whether a custom kind of `cilium-ipam` is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defined {
    /// The kind is defined, and its definition stays.
    Yes,
    /// The definition is gone or terminating: then all objects of the kind go, too.
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

/// Limit of the attempts to read a list, because lists expire.
const ATTEMPTS: usize = 3;

/// A kind of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKind {
    /// Plural name of the kind with its group, as `kubectl` accepts it.
    pub resource: &'static str,
    pub kind: &'static str,
    /// Groups with versions, as in `apiVersion`. On 404, the next one is tried.
    pub versions: &'static [&'static str],
}

impl ForeignKind {
    /// Path of the collection in an API version.
    fn path(&self, version: &str) -> String {
        let root = match version.contains('/') {
            true => "apis",
            false => "api",
        };
        let plural = self.resource.split('.').next().unwrap_or_default();
        format!("/{root}/{version}/{plural}")
    }
}

/// All objects of a kind.
#[derive(Clone, Debug)]
pub struct ForeignList {
    /// Whether the kind could be read.
    pub seen: Seen,
    /// A List with the kind and `apiVersion` of its items, which need none themselves.
    pub list: Value,
}

impl LiveCluster {
    /// Lists a kind of another program.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or the answer is malformed.
    pub async fn list_foreign(&self, kind: &ForeignKind) -> Result<ForeignList, ClusterError> {
        for _ in 1..ATTEMPTS {
            match self.foreign(kind).await {
                Err(ClusterError::Expired { .. }) => {}
                outcome => return outcome,
            }
        }
        self.foreign(kind).await
    }

    async fn foreign(&self, kind: &ForeignKind) -> Result<ForeignList, ClusterError> {
        let mut items = Objects::of(kind.resource);
        let mut seen = Seen::NotServed;
        for version in kind.versions {
            let path = kind.path(version);
            let listing = Listing::whole((kind.resource, kind.kind), &path, "");
            seen = self.pages(listing, &mut items).await?;
            if seen != Seen::NotServed {
                break;
            }
        }
        let list = json!({
            "apiVersion": items.api_version,
            "kind": format!("{}List", kind.kind),
            "items": items.objects,
        });
        Ok(ForeignList { seen, list })
    }
}

impl LiveCluster {
    async fn whole_list(
        &self,
        names: (&'static str, &str),
        path: &str,
        parameters: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let (resource, _) = names;
        let mut objects = Objects::of(resource);
        let listing = Listing::whole(names, path, parameters);
        let seen = self.pages(listing, &mut objects).await?;
        match seen {
            Seen::All => Ok(objects.objects),
            Seen::NotServed => Err(ClusterError::Indispensable {
                resource,
                message: "the server does not serve it".to_owned(),
            }),
            Seen::Hidden(message) => Err(ClusterError::Indispensable { resource, message }),
        }
    }
}

impl Workloads for LiveCluster {
    async fn object(&self, target: &Target) -> Result<Option<Value>, ClusterError> {
        let resource = "objects of a migration";
        let uri = format!("{}/{}", collection(target), object_name(target));
        let answer = self.get(uri).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if !status.is_success() => Err(ClusterError::Refused {
                resource,
                message: answer.message(),
            }),
            _ => serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|error| ClusterError::Malformed {
                    resource,
                    message: error.to_string(),
                }),
        }
    }

    async fn pods(&self, of: &PodsOf) -> Result<Vec<Value>, ClusterError> {
        let parameters = match of {
            PodsOf::All => String::new(),
            PodsOf::Node(node) => {
                let selector = format!("spec.nodeName={node}");
                format!("&fieldSelector={}", escaped(&selector))
            }
        };
        self.whole_list(("pods", "Pod"), "/api/v1/pods", &parameters)
            .await
    }

    async fn budgets(&self) -> Result<Vec<Value>, ClusterError> {
        let names = ("poddisruptionbudgets.policy", "PodDisruptionBudget");
        let path = "/apis/policy/v1/poddisruptionbudgets";
        self.whole_list(names, path, "").await
    }

    async fn migration_records(&self) -> Result<Vec<Value>, ClusterError> {
        let path = format!("/api/v1/namespaces/{OWN_NAMESPACE}/configmaps");
        let parameters = format!("&labelSelector={}", escaped(MIGRATION_LABEL));
        self.whole_list(("configmaps", "ConfigMap"), &path, &parameters)
            .await
    }
}
