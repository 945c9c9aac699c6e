//! The kinds that are read, and how each is asked for.

/// A kind of object that a plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObservedKind {
    /// Our own ConfigMap of claims; read before everything else that tells who has a block.
    Claims,
    /// DaemonSet of the agent: version, and the namespace of the settings.
    CiliumDaemonSet,
    /// ConfigMap `cilium-config`.
    CiliumConfig,
    /// CustomResourceDefinition of CiliumNode: its label tells the version of Cilium's schemas.
    CiliumNodeDefinition,
    /// Pods of kube-controller-manager, where they are visible.
    ControllerManagerPod,
    /// ServiceCIDRs, Kubernetes 1.31 and later.
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
    /// CiliumNodes; read before Nodes.
    CiliumNode,
    /// Nodes.
    Node,
}

/// How a kind is asked for over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Paths of the collection, the preferred API version first; the next one is asked on 404.
    pub paths: Vec<String>,
    /// `labelSelector` and `fieldSelector` parameters.
    pub parameters: Vec<(&'static str, &'static str)>,
}

pub(super) const CILIUM_NODE_DEFINITION: &str = "ciliumnodes.cilium.io";
pub(super) const CONFIG_NAME: &str = "cilium-config";

/// Where the claims and the lock lie. Fixed, because applies that look in different places do not
/// see each other, and this namespace exists in every cluster.
pub const OWN_NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap that keeps the claims.
pub const CLAIMS_NAME: &str = "cilium-ipam-claims";
/// Its key.
pub const CLAIMS_KEY: &str = "claims.json";

/// The key of it that names the commit of the files that they were made for last. For people;
/// nothing reads it.
pub const CLAIMS_REVISION_KEY: &str = "revision";

impl ObservedKind {
    /// What a plan needs, in the order in which it is read: the claims first, so that a claim which
    /// is gone is seen as the object that it became; a Node after its CiliumNode, so that a block
    /// which moves from the one to the other in between is seen twice rather than not at all.
    pub const OF_PLANS: [ObservedKind; 13] = [
        ObservedKind::Claims,
        ObservedKind::CiliumDaemonSet,
        ObservedKind::CiliumConfig,
        ObservedKind::CiliumNodeDefinition,
        ObservedKind::CiliumOperator,
        ObservedKind::CiliumNodeConfig,
        ObservedKind::ControllerManagerPod,
        ObservedKind::ServiceCidr,
        ObservedKind::LoadBalancerPool,
        ObservedKind::PodIpPool,
        ObservedKind::Service,
        ObservedKind::CiliumNode,
        ObservedKind::Node,
    ];

    /// What an examination needs besides.
    pub const OF_EXAMINATIONS: [ObservedKind; 6] = [
        ObservedKind::CiliumAgentPod,
        ObservedKind::BgpPeeringPolicy,
        ObservedKind::BgpClusterConfig,
        ObservedKind::BgpPeerConfig,
        ObservedKind::BgpAdvertisement,
        ObservedKind::L2AnnouncementPolicy,
    ];

    /// Whether an object of it that cannot be understood hides the kind, rather than ending the
    /// reading.
    pub fn can_be_missed(self) -> bool {
        let is_setting = matches!(
            self,
            ObservedKind::CiliumOperator | ObservedKind::CiliumNodeConfig | ObservedKind::PodIpPool
        );
        is_setting || ObservedKind::OF_EXAMINATIONS.contains(&self)
    }

    /// Whether it is a Node or a CiliumNode.
    pub fn shows_pod_cidrs(self) -> bool {
        matches!(self, ObservedKind::Node | ObservedKind::CiliumNode)
    }

    /// Plural name with group, as `kubectl` takes it.
    pub fn resource(self) -> &'static str {
        match self {
            ObservedKind::CiliumDaemonSet => "daemonsets.apps",
            ObservedKind::Claims | ObservedKind::CiliumConfig => "configmaps",
            ObservedKind::CiliumNodeDefinition => "customresourcedefinitions.apiextensions.k8s.io",
            ObservedKind::ControllerManagerPod => "pods",
            ObservedKind::ServiceCidr => "servicecidrs.networking.k8s.io",
            ObservedKind::LoadBalancerPool => "ciliumloadbalancerippools.cilium.io",
            ObservedKind::PodIpPool => "ciliumpodippools.cilium.io",
            ObservedKind::Service => "services",
            ObservedKind::CiliumOperator => "deployments.apps",
            ObservedKind::CiliumAgentPod => "pods",
            ObservedKind::CiliumNodeConfig => "ciliumnodeconfigs.cilium.io",
            ObservedKind::BgpPeeringPolicy => "ciliumbgppeeringpolicies.cilium.io",
            ObservedKind::BgpClusterConfig => "ciliumbgpclusterconfigs.cilium.io",
            ObservedKind::BgpPeerConfig => "ciliumbgppeerconfigs.cilium.io",
            ObservedKind::BgpAdvertisement => "ciliumbgpadvertisements.cilium.io",
            ObservedKind::L2AnnouncementPolicy => "ciliuml2announcementpolicies.cilium.io",
            ObservedKind::CiliumNode => "ciliumnodes.cilium.io",
            ObservedKind::Node => "nodes",
        }
    }

    /// `kind`, and the `apiVersion` that a single object gets when its list does not tell.
    pub fn api_version_and_kind(self) -> (&'static str, &'static str) {
        match self {
            ObservedKind::CiliumDaemonSet => ("apps/v1", "DaemonSet"),
            ObservedKind::Claims | ObservedKind::CiliumConfig => ("v1", "ConfigMap"),
            ObservedKind::CiliumNodeDefinition => {
                ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            }
            ObservedKind::ControllerManagerPod => ("v1", "Pod"),
            ObservedKind::ServiceCidr => ("networking.k8s.io/v1", "ServiceCIDR"),
            ObservedKind::LoadBalancerPool => ("cilium.io/v2alpha1", "CiliumLoadBalancerIPPool"),
            ObservedKind::PodIpPool => ("cilium.io/v2alpha1", "CiliumPodIPPool"),
            ObservedKind::Service => ("v1", "Service"),
            ObservedKind::CiliumOperator => ("apps/v1", "Deployment"),
            ObservedKind::CiliumAgentPod => ("v1", "Pod"),
            ObservedKind::CiliumNodeConfig => ("cilium.io/v2", "CiliumNodeConfig"),
            ObservedKind::BgpPeeringPolicy => ("cilium.io/v2alpha1", "CiliumBGPPeeringPolicy"),
            ObservedKind::BgpClusterConfig => ("cilium.io/v2alpha1", "CiliumBGPClusterConfig"),
            ObservedKind::BgpPeerConfig => ("cilium.io/v2alpha1", "CiliumBGPPeerConfig"),
            ObservedKind::BgpAdvertisement => ("cilium.io/v2alpha1", "CiliumBGPAdvertisement"),
            ObservedKind::L2AnnouncementPolicy => {
                ("cilium.io/v2alpha1", "CiliumL2AnnouncementPolicy")
            }
            ObservedKind::CiliumNode => ("cilium.io/v2", "CiliumNode"),
            ObservedKind::Node => ("v1", "Node"),
        }
    }

    /// How to ask for it; `namespace` is where Cilium's DaemonSet was found, and the settings lie
    /// beside it.
    pub fn query(self, namespace: &str) -> Query {
        let one = |path: &str| vec![path.to_owned()];
        let (paths, parameters) = match self {
            ObservedKind::CiliumDaemonSet => (
                one("/apis/apps/v1/daemonsets"),
                vec![("labelSelector", "k8s-app=cilium")],
            ),
            ObservedKind::Claims => (
                vec![format!("/api/v1/namespaces/{OWN_NAMESPACE}/configmaps")],
                vec![("fieldSelector", "metadata.name=cilium-ipam-claims")],
            ),
            ObservedKind::CiliumConfig => (
                vec![format!("/api/v1/namespaces/{namespace}/configmaps")],
                vec![("fieldSelector", "metadata.name=cilium-config")],
            ),
            ObservedKind::CiliumNodeDefinition => (
                one("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
                vec![("fieldSelector", "metadata.name=ciliumnodes.cilium.io")],
            ),
            ObservedKind::ControllerManagerPod => (
                one("/api/v1/namespaces/kube-system/pods"),
                vec![("labelSelector", "component=kube-controller-manager")],
            ),
            ObservedKind::ServiceCidr => (
                ["v1", "v1beta1"]
                    .map(|v| format!("/apis/networking.k8s.io/{v}/servicecidrs"))
                    .into(),
                Vec::new(),
            ),
            ObservedKind::LoadBalancerPool => (
                ["v2", "v2alpha1"]
                    .map(|v| format!("/apis/cilium.io/{v}/ciliumloadbalancerippools"))
                    .into(),
                Vec::new(),
            ),
            ObservedKind::PodIpPool => {
                (one("/apis/cilium.io/v2alpha1/ciliumpodippools"), Vec::new())
            }
            ObservedKind::Service => (one("/api/v1/services"), Vec::new()),
            ObservedKind::CiliumOperator => (
                vec![format!("/apis/apps/v1/namespaces/{namespace}/deployments")],
                vec![("labelSelector", "io.cilium/app=operator")],
            ),
            ObservedKind::CiliumAgentPod => (
                vec![format!("/api/v1/namespaces/{namespace}/pods")],
                vec![("labelSelector", "k8s-app=cilium")],
            ),
            // Those of other namespaces are not read by anybody.
            ObservedKind::CiliumNodeConfig => (
                ["v2", "v2alpha1"]
                    .map(|v| {
                        format!("/apis/cilium.io/{v}/namespaces/{namespace}/ciliumnodeconfigs")
                    })
                    .into(),
                Vec::new(),
            ),
            ObservedKind::BgpPeeringPolicy
            | ObservedKind::BgpClusterConfig
            | ObservedKind::BgpPeerConfig
            | ObservedKind::BgpAdvertisement
            | ObservedKind::L2AnnouncementPolicy => {
                let plural = self.resource().trim_end_matches(".cilium.io");
                (
                    ["v2", "v2alpha1"]
                        .map(|v| format!("/apis/cilium.io/{v}/{plural}"))
                        .into(),
                    Vec::new(),
                )
            }
            ObservedKind::CiliumNode => (one("/apis/cilium.io/v2/ciliumnodes"), Vec::new()),
            ObservedKind::Node => (one("/api/v1/nodes"), Vec::new()),
        };
        Query { paths, parameters }
    }
}
