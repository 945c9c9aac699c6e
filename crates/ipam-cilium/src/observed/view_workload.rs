//! Wire views of DaemonSets, Deployments and Pods.

use serde::Deserialize;

use super::view::{NamedMetadata, nullable};

#[derive(Deserialize)]
pub(super) struct WorkloadView<'a> {
    #[serde(borrow)]
    pub metadata: NamedMetadata<'a>,
    #[serde(default, deserialize_with = "nullable")]
    pub spec: WorkloadSpec,
    #[serde(default, deserialize_with = "nullable")]
    pub status: WorkloadStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadStatus {
    #[serde(default)]
    pub observed_generation: Option<u64>,
    #[serde(default)]
    pub replicas: Option<u32>,
    #[serde(default)]
    pub updated_replicas: Option<u32>,
    /// Of DaemonSets.
    #[serde(default)]
    pub current_number_scheduled: Option<u32>,
    /// Of Pods.
    #[serde(default)]
    pub phase: Option<String>,
}

impl WorkloadView<'_> {
    /// Whether no Pod of it runs: it has ended, or it is scaled to zero.
    pub(super) fn is_over(&self) -> bool {
        let phase = self.status.phase.as_deref();
        matches!(phase, Some("Failed" | "Succeeded")) || self.spec.replicas == Some(0)
    }

    /// Whether exactly the desired Pods run. Without a status, no Pod has run yet.
    pub(super) fn is_settled(&self) -> bool {
        let WorkloadStatus {
            observed_generation,
            replicas,
            updated_replicas,
            current_number_scheduled: _,
            phase: _,
        } = self.status;
        let (running, updated) = (replicas.unwrap_or(0), updated_replicas.unwrap_or(0));
        let is_seen = observed_generation.is_none_or(|seen| Some(seen) == self.metadata.generation);
        is_seen
            && running == updated
            && (replicas.is_none() || self.spec.replicas.is_none_or(|wanted| wanted >= running))
    }
}

#[derive(Default, Deserialize)]
pub(super) struct WorkloadSpec {
    #[serde(default)]
    pub replicas: Option<u32>,
    #[serde(default)]
    pub template: Option<PodTemplate>,
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
}

#[derive(Deserialize)]
pub(super) struct PodTemplate {
    #[serde(default, deserialize_with = "nullable")]
    pub spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    #[serde(default, deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
}

#[derive(Deserialize)]
pub(super) struct Container {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub image: String,
    #[serde(default, deserialize_with = "nullable")]
    pub command: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub args: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub env: Vec<Variable>,
}

/// An environment variable. Without a value, it comes from another object.
#[derive(Deserialize)]
pub(super) struct Variable {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub value: Option<String>,
}
