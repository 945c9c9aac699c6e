//! The kinds that are read, with their names in the API and their queries.

use super::served::{CiliumKind, SCHEMA_LABEL};
use ipam_core::claims::DepartedPart;

/// A kind of Kubernetes that is read from the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObservedKind {
    /// Our own ConfigMap of claims. Read before every kind that shows blocks.
    Claims,
    /// Our own ConfigMap with the record of the last migration.
    Migration,
    /// Our own ConfigMaps with the blocks of deleted nodes. Read after the kinds that show blocks: a
    /// block that disappears before is recorded by then, or still shown.
    Departed(DepartedPart),
    /// DaemonSet of the agent: version, and the namespace of the settings.
    CiliumDaemonSet,
    /// ConfigMap `cilium-config`.
    CiliumConfig,
    /// CustomResourceDefinition of a kind that is written: its versions and fields. Its label tells
    /// the version of Cilium's schemas.
    Definition(CiliumKind),
    /// CustomResourceDefinitions of all Cilium's kinds, without their fields.
    MoreDefinitions,
    /// Pods in `kube-system` that no DaemonSet made: kube-controller-manager and
    /// cloud-controller-manager may be among them.
    ControllerPod,
    /// DaemonSets in `kube-system`, and Deployments of a cluster file: cloud-controller-manager may be
    /// among them.
    ControllerDaemonSet,
    /// ServiceCIDRs, Kubernetes 1.33 and later by default.
    ServiceCidr,
    /// `CiliumLoadBalancerIPPool`s.
    LoadBalancerPool,
    /// `CiliumPodIPPool`s.
    PodIpPool,
    /// Services, of which only those of type LoadBalancer matter.
    Service,
    /// Deployment of Cilium's operator: its version and arguments.
    CiliumOperator,
    /// Pods of the agent: which version runs on which node, and since when.
    CiliumAgentPod,
    /// `CiliumNodeConfig`s: settings of some nodes.
    CiliumNodeConfig,
    /// `CiliumBGPPeeringPolicy`s: BGP up to Cilium 1.18.
    BgpPeeringPolicy,
    /// `CiliumBGPClusterConfig`s: BGP from Cilium 1.16 on.
    BgpClusterConfig,
    /// `CiliumBGPPeerConfig`s.
    BgpPeerConfig,
    /// `CiliumBGPAdvertisement`s.
    BgpAdvertisement,
    /// `CiliumL2AnnouncementPolicy`s.
    L2AnnouncementPolicy,
    /// ConfigMap `bgp-config`: peers of the MetalLB speakers, up to Cilium 1.16.
    SpeakerConfig,
    /// ConfigMap `kubeadm-config`: the flags with which kubeadm starts kube-controller-manager.
    KubeadmConfig,
    /// DaemonSets of all namespaces: programs that route `spec.podCIDRs` of Nodes may be among them.
    RouterDaemonSet,
    /// CiliumNodes; read before Nodes.
    CiliumNode,
    /// Nodes.
    Node,
}

/// HTTP request of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Paths of the collection, the preferred API version first. On 404, the next one is tried.
    pub paths: Vec<String>,
    /// `labelSelector` and `fieldSelector` parameters.
    pub parameters: Vec<(&'static str, &'static str)>,
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(super) const CONFIG_NAME: &str = "cilium-config";
pub(super) const SPEAKER_CONFIG_NAME: &str = "bgp-config";
pub(super) const KUBEADM_CONFIG_NAME: &str = "kubeadm-config";

/// Namespace of the claims and the lock. It is fixed, so that all applies use the same one, and it
/// exists in every cluster.
pub const OWN_NAMESPACE: &str = "kube-system";
/// ConfigMap of the claims.
pub const CLAIMS_NAME: &str = "cilium-ipam-claims";
/// Key of the claims in the ConfigMap.
pub const CLAIMS_KEY: &str = "claims.json";

/// Key of the blocks in each ConfigMap of blocks of deleted nodes.
pub const DEPARTED_KEY: &str = "blocks.txt";

/// ConfigMap with the record of the last migration.
pub const MIGRATION_NAME: &str = "cilium-ipam-migration";
/// Key of the record in the ConfigMap.
pub const MIGRATION_KEY: &str = "record.json";

/// Leaves out the Pods of DaemonSets, and kube-proxy as a static Pod: there is one on every node.
const NOT_ON_EVERY_NODE: &str =
    "!controller-revision-hash,component!=kube-proxy,k8s-app!=kube-proxy";

/// Key of the commit for which the claims were written last. For people; no program reads it.
pub const CLAIMS_REVISION_KEY: &str = "revision";

impl ObservedKind {
    /// The kinds that a plan needs, in the order of reading.
    ///
    /// Claims come first: if a claim ends meanwhile, its object is seen. Nodes come after
    /// CiliumNodes: a block that moves from one to the other meanwhile is seen twice rather than
    /// never.
    pub const OF_PLANS: [ObservedKind; 22] = [
        ObservedKind::Claims,
        ObservedKind::Migration,
        ObservedKind::CiliumDaemonSet,
        ObservedKind::CiliumConfig,
        ObservedKind::Definition(CiliumKind::Node),
        ObservedKind::Definition(CiliumKind::LoadBalancerPool),
        ObservedKind::Definition(CiliumKind::PodIpPool),
        ObservedKind::Definition(CiliumKind::NodeConfig),
        ObservedKind::CiliumOperator,
        ObservedKind::CiliumNodeConfig,
        ObservedKind::ControllerPod,
        ObservedKind::ControllerDaemonSet,
        ObservedKind::ServiceCidr,
        ObservedKind::LoadBalancerPool,
        ObservedKind::PodIpPool,
        ObservedKind::Service,
        ObservedKind::CiliumNode,
        ObservedKind::Node,
        ObservedKind::Departed(DepartedPart::First),
        ObservedKind::Departed(DepartedPart::Second),
        ObservedKind::Departed(DepartedPart::Third),
        ObservedKind::Departed(DepartedPart::Fourth),
    ];

    /// Further kinds that an examination needs.
    pub const OF_EXAMINATIONS: [ObservedKind; 10] = [
        ObservedKind::CiliumAgentPod,
        ObservedKind::BgpPeeringPolicy,
        ObservedKind::BgpClusterConfig,
        ObservedKind::BgpPeerConfig,
        ObservedKind::BgpAdvertisement,
        ObservedKind::L2AnnouncementPolicy,
        ObservedKind::SpeakerConfig,
        ObservedKind::KubeadmConfig,
        ObservedKind::RouterDaemonSet,
        ObservedKind::MoreDefinitions,
    ];

    /// Whether an unreadable object makes the kind a blind spot instead of an error.
    pub fn can_be_missed(self) -> bool {
        let is_setting = matches!(
            self,
            ObservedKind::CiliumOperator
                | ObservedKind::CiliumNodeConfig
                | ObservedKind::PodIpPool
                | ObservedKind::Migration
                | ObservedKind::Departed(_)
                | ObservedKind::Definition(
                    CiliumKind::LoadBalancerPool | CiliumKind::PodIpPool | CiliumKind::NodeConfig
                )
        );
        is_setting || ObservedKind::OF_EXAMINATIONS.contains(&self)
    }

    pub fn shows_pod_cidrs(self) -> bool {
        matches!(self, ObservedKind::Node | ObservedKind::CiliumNode)
    }

    /// Plural name with group, as `kubectl` accepts it.
    pub fn resource(self) -> &'static str {
        self.names().0
    }

    /// The `apiVersion` and the `kind` of a single object. A list from the server may name another
    /// version.
    pub fn api_version_and_kind(self) -> (&'static str, &'static str) {
        let (_, api_version, kind) = self.names();
        (api_version, kind)
    }

    /// Resource, `apiVersion` and `kind`.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ObservedKind::Claims
            | ObservedKind::Migration
            | ObservedKind::Departed(_)
            | ObservedKind::CiliumConfig
            | ObservedKind::SpeakerConfig
            | ObservedKind::KubeadmConfig => ("configmaps", "v1", "ConfigMap"),
            ObservedKind::CiliumDaemonSet
            | ObservedKind::ControllerDaemonSet
            | ObservedKind::RouterDaemonSet => ("daemonsets.apps", "apps/v1", "DaemonSet"),
            ObservedKind::Definition(_) | ObservedKind::MoreDefinitions => (
                "customresourcedefinitions.apiextensions.k8s.io",
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
            ),
            ObservedKind::ControllerPod | ObservedKind::CiliumAgentPod => ("pods", "v1", "Pod"),
            ObservedKind::ServiceCidr => (
                "servicecidrs.networking.k8s.io",
                "networking.k8s.io/v1",
                "ServiceCIDR",
            ),
            ObservedKind::LoadBalancerPool => (
                "ciliumloadbalancerippools.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumLoadBalancerIPPool",
            ),
            ObservedKind::PodIpPool => (
                "ciliumpodippools.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumPodIPPool",
            ),
            ObservedKind::Service => ("services", "v1", "Service"),
            ObservedKind::CiliumOperator => ("deployments.apps", "apps/v1", "Deployment"),
            ObservedKind::CiliumNodeConfig => (
                "ciliumnodeconfigs.cilium.io",
                "cilium.io/v2",
                "CiliumNodeConfig",
            ),
            ObservedKind::BgpPeeringPolicy => (
                "ciliumbgppeeringpolicies.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumBGPPeeringPolicy",
            ),
            ObservedKind::BgpClusterConfig => (
                "ciliumbgpclusterconfigs.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumBGPClusterConfig",
            ),
            ObservedKind::BgpPeerConfig => (
                "ciliumbgppeerconfigs.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumBGPPeerConfig",
            ),
            ObservedKind::BgpAdvertisement => (
                "ciliumbgpadvertisements.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumBGPAdvertisement",
            ),
            ObservedKind::L2AnnouncementPolicy => (
                "ciliuml2announcementpolicies.cilium.io",
                "cilium.io/v2alpha1",
                "CiliumL2AnnouncementPolicy",
            ),
            ObservedKind::CiliumNode => ("ciliumnodes.cilium.io", "cilium.io/v2", "CiliumNode"),
            ObservedKind::Node => ("nodes", "v1", "Node"),
        }
    }

    /// The request for this kind. `namespace` is that of Cilium. Only of DaemonSets it may be empty:
    /// then the request is for all namespaces.
    pub fn query(self, namespace: &str) -> Query {
        Query {
            paths: self.paths(namespace),
            parameters: self.parameter().into_iter().collect(),
        }
    }

    /// The paths in the API. The first that the server serves counts.
    fn paths(self, namespace: &str) -> Vec<String> {
        const APPS: &str = "/apis/apps/v1";
        let core = |namespace: &str, plural: &str| {
            vec![format!("/api/v1/namespaces/{namespace}/{plural}")]
        };
        let cilium = |versions: &[&str], scope: &str| {
            let plural = self.resource().trim_end_matches(".cilium.io");
            let path = |version: &&str| format!("/apis/cilium.io/{version}/{scope}{plural}");
            versions.iter().map(path).collect()
        };
        match self {
            ObservedKind::CiliumDaemonSet | ObservedKind::RouterDaemonSet
                if namespace.is_empty() =>
            {
                vec![format!("{APPS}/daemonsets")]
            }
            ObservedKind::CiliumDaemonSet => {
                vec![format!("{APPS}/namespaces/{namespace}/daemonsets")]
            }
            ObservedKind::ControllerDaemonSet | ObservedKind::RouterDaemonSet => {
                vec![format!("{APPS}/namespaces/{OWN_NAMESPACE}/daemonsets")]
            }
            ObservedKind::CiliumOperator => {
                vec![format!("{APPS}/namespaces/{namespace}/deployments")]
            }
            ObservedKind::Claims
            | ObservedKind::Migration
            | ObservedKind::Departed(_)
            | ObservedKind::KubeadmConfig => core(OWN_NAMESPACE, "configmaps"),
            ObservedKind::CiliumConfig | ObservedKind::SpeakerConfig => {
                core(namespace, "configmaps")
            }
            ObservedKind::ControllerPod => core(OWN_NAMESPACE, "pods"),
            ObservedKind::CiliumAgentPod => core(namespace, "pods"),
            ObservedKind::Service => vec!["/api/v1/services".to_owned()],
            ObservedKind::Node => vec!["/api/v1/nodes".to_owned()],
            ObservedKind::Definition(_) | ObservedKind::MoreDefinitions => {
                vec![DEFINITIONS.to_owned()]
            }
            ObservedKind::ServiceCidr => ["v1", "v1beta1"]
                .map(|version| format!("/apis/networking.k8s.io/{version}/servicecidrs"))
                .into(),
            ObservedKind::CiliumNode => cilium(&["v2"], ""),
            // Cilium does not read other namespaces.
            ObservedKind::CiliumNodeConfig => {
                cilium(&["v2", "v2alpha1"], &format!("namespaces/{namespace}/"))
            }
            ObservedKind::LoadBalancerPool
            | ObservedKind::PodIpPool
            | ObservedKind::BgpPeeringPolicy
            | ObservedKind::BgpClusterConfig
            | ObservedKind::BgpPeerConfig
            | ObservedKind::BgpAdvertisement
            | ObservedKind::L2AnnouncementPolicy => cilium(&["v2", "v2alpha1"], ""),
        }
    }

    /// The selector of a request for some objects of a kind.
    fn parameter(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            ObservedKind::Claims => ("fieldSelector", "metadata.name=cilium-ipam-claims"),
            ObservedKind::Migration => ("fieldSelector", "metadata.name=cilium-ipam-migration"),
            ObservedKind::Departed(part) => ("fieldSelector", departed_selector(part)),
            ObservedKind::CiliumConfig => ("fieldSelector", "metadata.name=cilium-config"),
            ObservedKind::SpeakerConfig => ("fieldSelector", "metadata.name=bgp-config"),
            ObservedKind::KubeadmConfig => ("fieldSelector", "metadata.name=kubeadm-config"),
            ObservedKind::Definition(kind) => ("fieldSelector", kind.field_selector()),
            ObservedKind::MoreDefinitions => ("labelSelector", SCHEMA_LABEL),
            ObservedKind::ControllerPod => ("labelSelector", NOT_ON_EVERY_NODE),
            ObservedKind::CiliumDaemonSet | ObservedKind::CiliumAgentPod => {
                ("labelSelector", "k8s-app=cilium")
            }
            ObservedKind::CiliumOperator => ("labelSelector", "io.cilium/app=operator"),
            ObservedKind::ControllerDaemonSet
            | ObservedKind::RouterDaemonSet
            | ObservedKind::ServiceCidr
            | ObservedKind::LoadBalancerPool
            | ObservedKind::PodIpPool
            | ObservedKind::Service
            | ObservedKind::CiliumNodeConfig
            | ObservedKind::BgpPeeringPolicy
            | ObservedKind::BgpClusterConfig
            | ObservedKind::BgpPeerConfig
            | ObservedKind::BgpAdvertisement
            | ObservedKind::L2AnnouncementPolicy
            | ObservedKind::CiliumNode
            | ObservedKind::Node => return None,
        })
    }
}

fn departed_selector(part: DepartedPart) -> &'static str {
    match part {
        DepartedPart::First => "metadata.name=cilium-ipam-quarantine-0",
        DepartedPart::Second => "metadata.name=cilium-ipam-quarantine-1",
        DepartedPart::Third => "metadata.name=cilium-ipam-quarantine-2",
        DepartedPart::Fourth => "metadata.name=cilium-ipam-quarantine-3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_departed_blocks_is_selected_by_its_name() {
        for part in DepartedPart::ALL {
            let query = ObservedKind::Departed(part).query("");
            let selector = format!("metadata.name={part}");
            assert_eq!(query.parameters, [("fieldSelector", selector.as_str())]);
        }
    }
}
