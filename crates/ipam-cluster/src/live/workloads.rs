//! Reads single objects, Pods and records from the API server.

use http::StatusCode;
use serde_json::Value;

use super::LiveCluster;
use super::list::{Listing, Objects, escaped};
use super::paths::{collection, object_name};
use crate::workloads::{MIGRATION_LABEL, PodsOf, Workloads};
use crate::{ClusterError, Seen, Target};
use ipam_cilium::observed::OWN_NAMESPACE;

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
