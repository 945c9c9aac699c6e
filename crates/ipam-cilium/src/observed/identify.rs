//! Identifies the items of a list of mixed kinds.
//!
//! Other kinds are ignored. An item that resembles a known kind is an error: the blocks of an
//! overlooked CiliumNode would be given to another node.
//!
//! Errors for objects that cannot be read, in words for users.

use super::balancers::METAL_LB_NAMESPACE;
use super::kind::{
    CLAIMS_NAME, CONFIG_NAME, KUBEADM_CONFIG_NAME, MIGRATION_NAME, OWN_NAMESPACE, ObservedKind,
    SPEAKER_CONFIG_NAME,
};
use super::served::{CiliumKind, is_of_cilium};
use crate::parser_words::in_plain_words;
use ipam_core::claims::DepartedPart;

/// Fields that identify an object.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// `apiVersion`.
    pub api_version: &'a str,
    /// `kind`.
    pub kind: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.namespace`, or empty.
    pub namespace: &'a str,
    /// The label `k8s-app`.
    pub app: Option<&'a str>,
    /// The label `io.cilium/app`.
    pub cilium_app: Option<&'a str>,
}

/// Why an item can be neither read nor ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MisnamedItem {
    /// A required field is absent.
    #[error("has no `{0}`")]
    Unnamed(&'static str),
    /// A kind that resembles a known one.
    #[error("is a `{kind}`; did you mean `{near}`?")]
    Misspelt {
        kind: String,
        /// The known kind.
        near: &'static str,
    },
    /// A known kind with the wrong API group.
    #[error("is a {kind} with apiVersion `{api_version}`; expected `{expected}`")]
    WrongGroup {
        kind: &'static str,
        /// As written, escaped.
        api_version: String,
        expected: &'static str,
    },
    /// A nested list.
    #[error("is a `{0}`; move its items into the list around it")]
    Nested(String),
}

/// All known kinds, with their `apiVersion`s.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let kinds = ObservedKind::OF_PLANS
        .into_iter()
        .chain(ObservedKind::OF_EXAMINATIONS);
    kinds.map(ObservedKind::api_version_and_kind)
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether the group belongs to another project: Knative has a Service, Longhorn a Node.
/// Kubernetes' own groups have no dot, or end in `.k8s.io`.
fn is_group_of_others(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io") && group != "cilium.io"
}

fn is_cilium_kind(kind: &str) -> bool {
    kind.starts_with("Cilium")
}

/// A kind without case, separators, group and plural.
fn plain(kind: &str) -> String {
    let name = kind.split('.').next().unwrap_or_default();
    let mut plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.make_ascii_lowercase();
    plain.truncate(plain.trim_end_matches('s').len());
    plain
}

/// The known kind that is probably meant. Short names may differ in one letter only: two letters
/// lead from Node to Role, and from Pod to Job.
fn near(kind: &str) -> Option<&'static str> {
    let kind = plain(kind);
    let is_near = |known: &&str| {
        let known = plain(known);
        let most = if known.len() <= 6 { 1 } else { 2 };
        known.len().abs_diff(kind.len()) <= most
            && strsim::damerau_levenshtein(&known, &kind) <= most
    };
    known().map(|(_, kind)| kind).find(is_near)
}

impl Head<'_> {
    /// Why an unknown object must not be ignored.
    fn misnamed(&self) -> Option<MisnamedItem> {
        let group = group_of(self.api_version);
        let is_of_others = |kind: &str| is_group_of_others(group) && !is_cilium_kind(kind);
        if let Some((expected, kind)) = known().find(|(_, kind)| *kind == self.kind) {
            let is_same = group == group_of(expected) || is_of_others(kind);
            let api_version = self.api_version.escape_debug().to_string();
            return (!is_same).then_some(MisnamedItem::WrongGroup {
                kind,
                api_version,
                expected,
            });
        }
        let escaped = || self.kind.escape_debug().to_string();
        if let Some(item) = plain(self.kind).strip_suffix("list") {
            let listed = known()
                .map(|(_, kind)| kind)
                .find(|kind| plain(kind) == item);
            if item.is_empty() || listed.is_some() {
                let is_of_others = is_of_others(listed.unwrap_or_default());
                return (!is_of_others).then(|| MisnamedItem::Nested(escaped()));
            }
        }
        let near = near(self.kind).filter(|near| !is_of_others(near))?;
        Some(MisnamedItem::Misspelt {
            kind: escaped(),
            near,
        })
    }
}

impl ObservedKind {
    /// The kind of an object; `None` if it can be ignored.
    ///
    /// # Errors
    /// Fails if the object resembles a known kind.
    pub fn of(head: &Head<'_>) -> Result<Option<ObservedKind>, MisnamedItem> {
        for (field, text) in [("apiVersion", head.api_version), ("kind", head.kind)] {
            if text.is_empty() {
                return Err(MisnamedItem::Unnamed(field));
            }
        }
        match ObservedKind::as_written(head) {
            Some(kind) => Ok(Some(kind)),
            None => head.misnamed().map_or(Ok(None), Err),
        }
    }

    fn as_written(head: &Head<'_>) -> Option<ObservedKind> {
        match (group_of(head.api_version), head.kind) {
            ("", "Node") => Some(ObservedKind::Node),
            ("cilium.io", "CiliumNode") => Some(ObservedKind::CiliumNode),
            ("cilium.io", "CiliumLoadBalancerIPPool") => Some(ObservedKind::LoadBalancerPool),
            ("cilium.io", "CiliumPodIPPool") => Some(ObservedKind::PodIpPool),
            ("", "Service") => Some(ObservedKind::Service),
            ("networking.k8s.io", "ServiceCIDR") => Some(ObservedKind::ServiceCidr),
            ("", "ConfigMap") if head.name == CONFIG_NAME => Some(ObservedKind::CiliumConfig),
            ("", "ConfigMap") if head.name == SPEAKER_CONFIG_NAME => {
                Some(ObservedKind::SpeakerConfig)
            }
            ("", "ConfigMap") if head.name == CLAIMS_NAME && head.namespace == OWN_NAMESPACE => {
                Some(ObservedKind::Claims)
            }
            ("", "ConfigMap")
                if head.namespace == OWN_NAMESPACE && head.name.parse::<DepartedPart>().is_ok() =>
            {
                head.name.parse().ok().map(ObservedKind::Departed)
            }
            ("", "ConfigMap") if head.name == MIGRATION_NAME && head.namespace == OWN_NAMESPACE => {
                Some(ObservedKind::Migration)
            }
            ("", "ConfigMap")
                if head.name == KUBEADM_CONFIG_NAME && head.namespace == OWN_NAMESPACE =>
            {
                Some(ObservedKind::KubeadmConfig)
            }
            ("apps", "DaemonSet") if head.app == Some("cilium") => {
                Some(ObservedKind::CiliumDaemonSet)
            }
            ("apps", "DaemonSet") if head.namespace == OWN_NAMESPACE => {
                Some(ObservedKind::ControllerDaemonSet)
            }
            ("apps", "DaemonSet") => Some(ObservedKind::RouterDaemonSet),
            ("", "Pod") if head.app == Some("cilium") => Some(ObservedKind::CiliumAgentPod),
            ("", "Pod") if head.namespace == OWN_NAMESPACE => Some(ObservedKind::ControllerPod),
            ("apps", "Deployment") if head.cilium_app == Some("operator") => {
                Some(ObservedKind::CiliumOperator)
            }
            // In a cluster, their Pods are read.
            ("apps", "Deployment") if head.namespace == OWN_NAMESPACE => {
                Some(ObservedKind::ControllerDaemonSet)
            }
            ("apps", "Deployment") if head.namespace == METAL_LB_NAMESPACE => {
                Some(ObservedKind::ControllerDaemonSet)
            }
            ("cilium.io", "CiliumNodeConfig") => Some(ObservedKind::CiliumNodeConfig),
            ("cilium.io", "CiliumBGPPeeringPolicy") => Some(ObservedKind::BgpPeeringPolicy),
            ("cilium.io", "CiliumBGPClusterConfig") => Some(ObservedKind::BgpClusterConfig),
            ("cilium.io", "CiliumBGPPeerConfig") => Some(ObservedKind::BgpPeerConfig),
            ("cilium.io", "CiliumBGPAdvertisement") => Some(ObservedKind::BgpAdvertisement),
            ("cilium.io", "CiliumL2AnnouncementPolicy") => Some(ObservedKind::L2AnnouncementPolicy),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                let more = is_of_cilium(head.name).then_some(ObservedKind::MoreDefinitions);
                CiliumKind::of_definition(head.name)
                    .map_or(more, |kind| Some(ObservedKind::Definition(kind)))
            }
            _ => None,
        }
    }
}

/// An object that its kind's view rejects.
#[derive(Debug, thiserror::Error)]
#[error("{resource} `{name}` cannot be read: {why}")]
pub struct ReadError {
    resource: &'static str,
    name: String,
    why: String,
}

impl ReadError {
    /// An error for an object of a known kind.
    pub fn new(kind: ObservedKind, json: &str, why: &dyn std::error::Error) -> ReadError {
        ReadError::of(kind.resource(), json, why)
    }

    /// An error for an object of any resource.
    pub fn of(resource: &'static str, json: &str, why: &dyn std::error::Error) -> ReadError {
        ReadError {
            resource,
            name: name_of(json),
            why: in_plain_words(&why.to_string()),
        }
    }

    /// An error for an object whose name is known, or that has none.
    pub(super) fn of_name(kind: ObservedKind, name: Option<&str>, why: &str) -> ReadError {
        ReadError {
            resource: kind.resource(),
            name: shown(name),
            why: in_plain_words(why),
        }
    }

    /// Whether the object is the ConfigMap of claims.
    pub fn is_of_claims(&self) -> bool {
        self.resource == ObservedKind::Claims.resource() && self.name == CLAIMS_NAME
    }
}

/// The name of an unreadable object, if it has one.
fn name_of(json: &str) -> String {
    let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let name = object
        .pointer("/metadata/name")
        .and_then(serde_json::Value::as_str);
    shown(name)
}

fn shown(name: Option<&str>) -> String {
    name.unwrap_or("without a name").escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(api_version: &str, kind: &str) -> Result<Option<ObservedKind>, MisnamedItem> {
        let head = Head {
            api_version,
            kind,
            name: "n",
            namespace: "",
            app: None,
            cilium_app: None,
        };
        ObservedKind::of(&head)
    }

    /// Cilium's CRDs (`pkg/k8s/apis/cilium.io/client/crds` @ 1.15.19 and 1.19.3), what Kubernetes
    /// has itself (`kubectl api-resources` @ 1.36), and kinds of others with the same names.
    const OTHERS: [(&str, &str); 9] = [
        (
            "cilium.io/v2",
            "CiliumBGPNodeConfig CiliumBGPNodeConfigOverride CiliumCIDRGroup CiliumClusterwideEnvoyConfig CiliumClusterwideNetworkPolicy CiliumEgressGatewayPolicy CiliumEndpoint CiliumEndpointSlice CiliumEnvoyConfig CiliumExternalWorkload CiliumGatewayClassConfig CiliumIdentity CiliumLocalRedirectPolicy CiliumNetworkPolicy",
        ),
        (
            "v1",
            "Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret ServiceAccount",
        ),
        (
            "apps/v1",
            "ControllerRevision Deployment ReplicaSet StatefulSet",
        ),
        ("batch/v1", "CronJob Job"),
        (
            "rbac.authorization.k8s.io/v1",
            "ClusterRole ClusterRoleBinding Role RoleBinding",
        ),
        (
            "networking.k8s.io/v1",
            "Ingress IngressClass IPAddress NetworkPolicy",
        ),
        (
            "storage.k8s.io/v1",
            "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass Lease PodDisruptionBudget HorizontalPodAutoscaler EndpointSlice CertificateSigningRequest PriorityClass RuntimeClass FlowSchema APIService MutatingWebhookConfiguration ValidatingAdmissionPolicy DeviceClass ResourceClaim ResourceSlice NodeMetrics PodMetrics PodSchedulingContext",
        ),
        (
            "serving.knative.dev/v1",
            "Service Configuration Revision Route ServiceList",
        ),
        ("longhorn.io/v1beta2", "Node Volume Deploymentt"),
    ];

    #[test]
    fn kinds_that_are_not_read_are_ignored() {
        for (api_version, kinds) in OTHERS {
            for kind in kinds.split(' ') {
                assert_eq!(of(api_version, kind), Ok(None), "{api_version} {kind}");
            }
        }
    }

    #[test]
    fn what_looks_like_a_kind_that_is_read_is_not_ignored() {
        use MisnamedItem::{Misspelt, Nested, Unnamed, WrongGroup};
        let misspelt = |kind: &str, near| {
            Err(Misspelt {
                kind: kind.to_owned(),
                near,
            })
        };
        for (api_version, kind, near) in [
            ("cilium.io/v2", "CilumNode", "CiliumNode"),
            ("cilium.io/v2", "Ciliumnode", "CiliumNode"),
            ("v1", "CiliumNodes", "CiliumNode"),
            ("cilium.example/v2", "CilimuNode", "CiliumNode"),
            ("v1", "node", "Node"),
            ("v1", "Nodes", "Node"),
            ("v1", "NODE", "Node"),
            ("v1", "nodes", "Node"),
            ("v1", "NODES", "Node"),
            ("v1", " Node", "Node"),
            ("v1", "node/", "Node"),
            ("cilium.io/v2", "ciliumnode", "CiliumNode"),
            ("cilium.io/v2", "ciliumnodes", "CiliumNode"),
            ("cilium.io/v2", "cilium-node", "CiliumNode"),
            ("cilium.io/v2", "cilium_nodes", "CiliumNode"),
            ("cilium.io/v2", "ciliumnodes.cilium.io", "CiliumNode"),
            ("cilium.io/v2", "cilum-nodes", "CiliumNode"),
            (
                "cilium.io/v2alpha1",
                "ciliumbgppeeringpolicies",
                "CiliumBGPPeeringPolicy",
            ),
            ("v1", "Sevice", "Service"),
            ("networking.k8s.io/v1", "ServiceCidr", "ServiceCIDR"),
            (
                "cilium.io/v2alpha1",
                "CiliumLoadBalancerIPPol",
                "CiliumLoadBalancerIPPool",
            ),
        ] {
            assert_eq!(
                of(api_version, kind),
                misspelt(kind, near),
                "{api_version} {kind}"
            );
        }
        for (api_version, kind, expected) in [
            ("v1", "CiliumNode", "cilium.io/v2"),
            ("cilium.io", "CiliumNode", "cilium.io/v2"),
            ("Cilium.io/v2", "CiliumNode", "cilium.io/v2"),
            ("example.com/v1", "CiliumPodIPPool", "cilium.io/v2alpha1"),
            ("cilium.io/v2", "Node", "v1"),
            ("apps/v1", "Service", "v1"),
            ("v1", "ServiceCIDR", "networking.k8s.io/v1"),
        ] {
            let wrong = WrongGroup {
                kind,
                api_version: api_version.to_owned(),
                expected,
            };
            assert_eq!(of(api_version, kind), Err(wrong));
        }
        for kind in [
            "List",
            "NodeList",
            "CiliumNodeList",
            "list",
            "ciliumnodelist",
            "cilium-node-list",
        ] {
            assert_eq!(of("v1", kind), Err(Nested(kind.to_owned())));
        }
        assert_eq!(of("", "CiliumNode"), Err(Unnamed("apiVersion")));
        assert_eq!(of("v1", ""), Err(Unnamed("kind")));
    }

    #[test]
    fn every_version_of_a_group_is_read() {
        for (api_version, kind) in
            known().filter(|(_, kind)| kind.starts_with("Cilium") || *kind == "Node")
        {
            let newer = api_version.replace("v2alpha1", "v9").replace("v1", "v9");
            assert!(matches!(of(&newer, kind), Ok(Some(_))), "{newer} {kind}");
        }
    }
}
