//! The parts of Pods that a drain needs. It must never decide what to evict.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;

use crate::observed::ReadError;
use ipam_core::model::Labels;
use ipam_core::net::Address;

/// Marks a Pod that kubelet made from a file: the server has only its mirror
/// (`pkg/kubelet/types/pod_update.go` @ 1.36).
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Label of Cilium's agents.
const AGENT_LABEL: (&str, &str) = ("k8s-app", "cilium");

/// Default of `terminationGracePeriodSeconds`, in seconds.
const DEFAULT_GRACE: i64 = 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The Node to which the Pod is bound, if any.
    pub node: Option<String>,
    pub labels: Labels,
    pub keeper: Keeper,
    pub life: Life,
    pub network: PodNetwork,
    pub local_data: LocalData,
    pub host_data: HostData,
    pub readiness: Readiness,
    pub grace: SignedDuration,
}

/// What replaces the Pod after its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// A DaemonSet, which puts it on the same node again at once.
    DaemonSet,
    /// Another controller replaces the Pod; its kind.
    Controller(String),
    /// The node's kubelet, from a file.
    Kubelet,
    /// Nothing replaces the Pod: it is lost.
    None,
}

/// Where a Pod stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Active,
    /// The Pod has a deletion timestamp.
    Ending,
    /// The Pod succeeded or failed.
    Finished,
}

/// Addresses of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// The Pod uses the addresses of its node.
    Host,
    /// The Pod's own addresses; empty until the Pod has some.
    Own(Vec<IpAddr>),
}

/// Whether a Pod has data that is lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalData {
    /// The Pod has an `emptyDir`.
    EmptyDir,
    None,
}

/// Whether a Pod uses files of its node, which stay there when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostData {
    /// The Pod has a `hostPath`.
    HostPath,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady,
}

impl Pod {
    /// Reads a Pod.
    ///
    /// # Errors
    /// Fails if the value is not a Pod.
    pub fn read(value: &Value) -> Result<Pod, ReadError> {
        let view = PodView::deserialize(value)
            .map_err(|error| ReadError::of("pods", &value.to_string(), &error))?;
        Ok(view.into())
    }

    /// The Pod as `NAMESPACE/NAME`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the Pod is an agent of Cilium: a Pod of a DaemonSet, which replaces it.
    pub fn is_agent(&self) -> bool {
        let (key, value) = AGENT_LABEL;
        let is_labelled = self.labels.get(key).is_some_and(|text| text == value);
        is_labelled && self.keeper == Keeper::DaemonSet
    }
}

#[derive(Deserialize)]
struct PodView {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
    labels: Option<Labels>,
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    host_network: Option<bool>,
    termination_grace_period_seconds: Option<i64>,
    volumes: Option<Vec<BTreeMap<String, Value>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct PodIp {
    ip: Option<String>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl From<PodView> for Pod {
    fn from(view: PodView) -> Pod {
        let PodView {
            metadata,
            spec,
            status,
        } = view;
        let keeper = keeper(&metadata);
        let volumes = spec.volumes.unwrap_or_default();
        let has = |kind: &str| volumes.iter().any(|volume| volume.contains_key(kind));
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        let seconds = spec.termination_grace_period_seconds;
        Pod {
            node: spec.node_name.filter(|node| !node.is_empty()),
            keeper,
            life: match (&metadata.deletion_timestamp, status.phase.as_deref()) {
                (Some(_), _) => Life::Ending,
                (None, Some("Succeeded" | "Failed")) => Life::Finished,
                (None, _) => Life::Active,
            },
            network: match spec.host_network {
                Some(true) => PodNetwork::Host,
                _ => PodNetwork::Own(addresses(status.pod_ips, status.pod_ip)),
            },
            local_data: match has("emptyDir") {
                true => LocalData::EmptyDir,
                false => LocalData::None,
            },
            host_data: match has("hostPath") {
                true => HostData::HostPath,
                false => HostData::None,
            },
            readiness: match status.conditions.unwrap_or_default().iter().any(ready) {
                true => Readiness::Ready,
                false => Readiness::NotReady,
            },
            grace: SignedDuration::from_secs(seconds.unwrap_or(DEFAULT_GRACE).max(0)),
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            labels: metadata.labels.unwrap_or_default(),
        }
    }
}

fn keeper(metadata: &Metadata) -> Keeper {
    let annotations = metadata.annotations.as_ref();
    if annotations.is_some_and(|annotations| annotations.contains_key(MIRROR_ANNOTATION)) {
        return Keeper::Kubelet;
    }
    let owners = metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    match controllers.next().map(|owner| owner.kind.as_str()) {
        Some("DaemonSet") => Keeper::DaemonSet,
        // Of a mirror without the annotation: the Node itself.
        Some("Node") => Keeper::Kubelet,
        Some(kind) => Keeper::Controller(kind.to_owned()),
        None => Keeper::None,
    }
}

fn addresses(listed: Option<Vec<PodIp>>, single: Option<String>) -> Vec<IpAddr> {
    let listed = listed.unwrap_or_default();
    let listed = listed.into_iter().filter_map(|one| one.ip);
    let read = |text: String| text.parse::<Address>().ok().map(IpAddr::from);
    let mut addresses: Vec<IpAddr> = listed.chain(single).filter_map(read).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(change: Value) -> Pod {
        let mut value = json!({"metadata": {"namespace": "shop", "name": "web-1", "uid": "u"}});
        let Value::Object(change) = change else {
            unreachable!()
        };
        for (key, part) in change {
            let Some(old) = value.get_mut(&key).and_then(Value::as_object_mut) else {
                value[key] = part;
                continue;
            };
            old.extend(part.as_object().unwrap().clone());
        }
        Pod::read(&value).unwrap()
    }

    #[test]
    fn keepers_are_told_apart() {
        let owned = |kind: &str| {
            let owner = json!([{"kind": kind, "controller": true, "name": "x", "uid": "y"}]);
            pod(json!({"metadata": {"ownerReferences": owner}})).keeper
        };
        assert_eq!(owned("DaemonSet"), Keeper::DaemonSet);
        assert_eq!(
            owned("ReplicaSet"),
            Keeper::Controller("ReplicaSet".to_owned())
        );
        assert_eq!(owned("Node"), Keeper::Kubelet);
        assert_eq!(pod(json!({})).keeper, Keeper::None);
        let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}}});
        assert_eq!(pod(mirror).keeper, Keeper::Kubelet);
    }

    #[test]
    fn a_finished_pod_whose_deletion_waits_is_ending() {
        let ending = json!({"metadata": {"deletionTimestamp": "2026-02-01T10:00:00Z"}});
        assert_eq!(pod(ending).life, Life::Ending);
        let finished = json!({
            "metadata": {"deletionTimestamp": "2026-02-01T10:00:00Z"},
            "status": {"phase": "Failed"},
        });
        assert_eq!(pod(finished).life, Life::Ending);
        let finished = json!({"status": {"phase": "Succeeded"}});
        assert_eq!(pod(finished).life, Life::Finished);
        assert_eq!(
            pod(json!({"status": {"phase": "Pending"}})).life,
            Life::Active
        );
    }

    #[test]
    fn addresses_of_the_host_are_not_those_of_the_pod() {
        let ips = json!({"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}]});
        let own = pod(json!({"status": ips}));
        let expected = ["10.0.0.7", "fd00::7"].map(|text| text.parse().unwrap());
        assert_eq!(own.network, PodNetwork::Own(expected.into()));
        let host = pod(json!({"spec": {"hostNetwork": true}, "status": ips}));
        assert_eq!(host.network, PodNetwork::Host);
    }

    #[test]
    fn local_data_and_grace_are_read() {
        let volumes = json!([{"name": "cache", "emptyDir": {}}, {"name": "c", "configMap": {}}]);
        let seen = pod(json!({"spec": {"volumes": volumes, "terminationGracePeriodSeconds": 5}}));
        assert_eq!(seen.local_data, LocalData::EmptyDir);
        assert_eq!(seen.grace, SignedDuration::from_secs(5));
        assert_eq!(seen.host_data, HostData::None);
        assert_eq!(pod(json!({})).grace, SignedDuration::from_secs(30));
        let volumes = json!([{"name": "logs", "hostPath": {"path": "/var/log"}}]);
        let seen = pod(json!({"spec": {"volumes": volumes}}));
        let both = (seen.local_data, seen.host_data);
        assert_eq!(both, (LocalData::None, HostData::HostPath));
    }
}
