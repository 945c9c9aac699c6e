//! Two small clusters and one directory that inputs are planned with.

use std::sync::LazyLock;

use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::{Loaded, check_documents};

/// IPv4 only, and a closed gate.
const SINGLE_STACK: &[(ObservedKind, &str)] = &[
    (
        ObservedKind::CiliumConfig,
        r#"{"metadata":{"name":"cilium-config","namespace":"kube-system"},"data":{"ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"false"}}"#,
    ),
    (ObservedKind::CiliumDaemonSet, DAEMON_SET),
    (ObservedKind::ControllerPod, CONTROLLER_MANAGER),
    (ObservedKind::ServiceCidr, SERVICES),
    (ObservedKind::LoadBalancerPool, LOAD_BALANCERS),
    (ObservedKind::Service, WEB),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"cp","uid":"uid-cp","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"zone":"a"}},"status":{"addresses":[{"address":"10.20.1.10"}]}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n1","uid":"uid-n1","resourceVersion":"7","creationTimestamp":"2026-01-02T00:00:00Z","labels":{"rack":"a","zone":"a"}}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n2","uid":"uid-n2","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"rack":"a","zone":"b"}},"spec":{"podCIDR":"10.20.9.0/24","podCIDRs":["10.20.9.0/24"]}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n3","uid":"uid-n3","resourceVersion":"7","labels":{"rack":"b","zone":"b"}}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"worker-7","uid":"uid-worker-7","resourceVersion":"7","labels":{"rack":"a"}}}"#,
    ),
];

/// Both families, an open gate, running agents, claims, and an unreadable Node.
const DUAL_STACK: &[(ObservedKind, &str)] = &[
    (
        ObservedKind::Claims,
        r#"{"metadata":{"name":"cilium-ipam-claims","namespace":"kube-system","uid":"uid-claims","resourceVersion":"9"},"data":{"claims.json":"{\"format_version\":\"1.0\",\"claims\":[{\"block\":\"10.20.3.0/24\",\"node\":\"n2\",\"uid\":\"uid-n2\",\"resource_version\":\"7\"}],\"quarantined\":[{\"block\":\"10.20.4.0/24\",\"node\":\"gone\",\"free_at\":\"2026-06-01T00:00:00Z\"}]}"}}"#,
    ),
    (
        ObservedKind::CiliumConfig,
        r#"{"metadata":{"name":"cilium-config","namespace":"kube-system"},"data":{"ipam":"kubernetes","annotate-k8s-node":"true","enable-ipv4":"true","enable-ipv6":"true"}}"#,
    ),
    (ObservedKind::CiliumDaemonSet, DAEMON_SET),
    (ObservedKind::ControllerPod, CONTROLLER_MANAGER),
    (ObservedKind::ServiceCidr, SERVICES),
    (ObservedKind::LoadBalancerPool, LOAD_BALANCERS),
    (ObservedKind::Service, WEB),
    (
        ObservedKind::CiliumNode,
        r#"{"metadata":{"name":"n1"},"spec":{"ipam":{"podCIDRs":["10.20.0.0/24"]}}}"#,
    ),
    (
        ObservedKind::CiliumNode,
        r#"{"metadata":{"name":"n4"},"spec":{"ipam":{"podCIDRs":["10.20.6.0/24"]}}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n1","uid":"uid-n1","resourceVersion":"7","labels":{"rack":"a","zone":"a"}},"spec":{"podCIDR":"10.20.0.0/24","podCIDRs":["10.20.0.0/24"]}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n2","uid":"uid-n2","resourceVersion":"7","labels":{"rack":"a","zone":"b"}}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n3","uid":"uid-n3","resourceVersion":"7","labels":{"rack":"b"},"annotations":{"cilium-ipam.io/protected":"true","network.cilium.io/ipv6-pod-cidr":"fd00:20:0:5::/64","io.cilium.network.ipv6-pod-cidr":"fd00:20:0:5::/64"},"managedFields":[{"manager":"kubectl","time":"2026-01-03T00:00:00Z","fieldsV1":{"f:metadata":{"f:annotations":{"f:network.cilium.io/ipv6-pod-cidr":{}}}}}]},"spec":{"podCIDR":"10.20.5.0/24","podCIDRs":["10.20.5.0/24"]}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n4","uid":"uid-n4","resourceVersion":"7","labels":{"rack":"a"}}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"n5","uid":"uid-n5","resourceVersion":"7","labels":{"rack":"a"}},"spec":{"podCIDRs":["rack-a"]}}"#,
    ),
    (
        ObservedKind::Node,
        r#"{"metadata":{"name":"worker-7","uid":"uid-worker-7","resourceVersion":"7","labels":{"rack":"a"}}}"#,
    ),
];

const DAEMON_SET: &str = r#"{"metadata":{"name":"cilium","namespace":"kube-system","labels":{"k8s-app":"cilium"}},"spec":{"template":{"spec":{"containers":[{"name":"cilium-agent","image":"quay.io/cilium/cilium:v1.19.3"}]}}}}"#;
const CONTROLLER_MANAGER: &str = r#"{"metadata":{"name":"kube-controller-manager-cp","namespace":"kube-system"},"spec":{"containers":[{"command":["kube-controller-manager","--allocate-node-cidrs=false"]}]}}"#;
const SERVICES: &str =
    r#"{"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.96.0.0/16","fd00:96::/112"]}}"#;
const LOAD_BALANCERS: &str = r#"{"metadata":{"name":"lb","uid":"uid-lb","resourceVersion":"7"},"spec":{"blocks":[{"cidr":"10.20.2.128/25"},{"start":"fd00:20:0:2::1","stop":"fd00:20:0:2::9"}]}}"#;
const WEB: &str = r#"{"metadata":{"name":"web","namespace":"default","uid":"uid-web","resourceVersion":"7"},"spec":{"type":"LoadBalancer","ipFamilies":["IPv4"],"ports":[{"port":80}]},"status":{"loadBalancer":{"ingress":[{"ip":"10.20.2.200"}]}}}"#;

const HEAD: &str = "apiVersion: cilium-ipam.io/v1alpha1\nkind: ";

/// Pools of both families, one that is full soon, a pin, and a Policy.
fn files() -> Vec<SourceFile> {
    let pools = format!(
        "{HEAD}IPPool\nmetadata: {{name: rack-a}}\nspec:\n  cidrs: [10.20.0.0/16, \"fd00:20::/48\"]\n  \
         blockSize: {{ipv4: 24, ipv6: 64}}\n  reserved: [10.20.10.0/24]\n  nodeSelector: {{matchLabels: {{rack: a}}}}\n\
         ---\n{HEAD}IPPool\nmetadata: {{name: rack-b}}\nspec:\n  cidrs: [10.21.0.0/29, \"fd00:21::/63\"]\n  \
         blockSize: {{ipv4: 30, ipv6: 64}}\n  nodeSelector: {{matchLabels: {{rack: b}}}}\n\
         ---\n{HEAD}IPPool\nmetadata: {{name: fallback}}\nspec: {{cidrs: [10.22.0.0/24], blockSize: 26, priority: -1}}\n\
         ---\n{HEAD}NodeAssignment\nmetadata: {{name: worker-7}}\nspec: {{podCIDRs: [10.20.30.0/24]}}\n"
    );
    let balancers = format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: blue, labels: {{a: b}}}}\nspec:\n  \
         blocks: [{{cidr: 10.99.0.0/28}}, {{start: 10.99.1.4, stop: 10.99.1.9}}]\n  \
         serviceSelector: {{matchExpressions: [{{key: color, operator: In, values: [blue, cyan]}}]}}\n\
         ---\napiVersion: cilium.io/v2alpha1\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: lb}}\nspec:\n  \
         cidrs: [{{cidr: 10.20.2.128/26}}]\n\
         ---\n{HEAD}ServiceAssignment\nmetadata: {{name: w}}\nspec: {{service: default/web, ips: [10.20.2.131]}}\n"
    );
    let policy = format!(
        "{HEAD}IPAMPolicy\nmetadata: {{name: p}}\nspec: {{excluded: [10.20.7.0/24], quarantine: 1h, protected: {{nodes: [n1]}}}}\n"
    );
    vec![
        SourceFile {
            path: "pools/pools.yaml".into(),
            text: pools.into(),
        },
        SourceFile {
            path: "pools/policy.yaml".into(),
            text: policy.into(),
        },
        SourceFile {
            path: "pools/balancers.yaml".into(),
            text: balancers.into(),
        },
    ]
}

fn observed(objects: &[(ObservedKind, &str)]) -> Observed {
    let mut reader = Reader::default();
    for (kind, json) in objects {
        reader.object(*kind, json).expect("the world is readable");
    }
    reader.finish("2026-02-01T00:00:00Z".parse().expect("a time"))
}

/// The clusters.
pub(crate) fn clusters() -> &'static [Observed; 2] {
    static CLUSTERS: LazyLock<[Observed; 2]> =
        LazyLock::new(|| [observed(SINGLE_STACK), observed(DUAL_STACK)]);
    &CLUSTERS
}

/// The directory.
pub(crate) fn directory() -> &'static Loaded {
    static DIRECTORY: LazyLock<Loaded> = LazyLock::new(|| {
        let loaded = check_documents(Documents { files: files() }, Vec::new());
        assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        loaded
    });
    &DIRECTORY
}
