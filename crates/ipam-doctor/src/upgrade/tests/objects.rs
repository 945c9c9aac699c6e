//! Objects of a cluster, as short as possible.

use serde_json::{Value, json};

pub(super) fn config(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config", "namespace": "kube-system"}, "data": data})
}

pub(super) fn kubernetes() -> Value {
    config(&json!({"ipam": "kubernetes", "enable-ipv4": "true", "enable-ipv6": "false"}))
}

/// A pool for Services of this color.
pub(super) fn pool(name: &str, color: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["serviceSelector"] = json!({"matchLabels": {"color": color}});
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

/// A pool with one CIDR, whose first and last addresses mean the same to every release.
pub(super) fn plain_pool(name: &str, color: &str, cidr: &str) -> Value {
    pool(
        name,
        color,
        &json!({"blocks": [{"cidr": cidr}], "allowFirstLastIPs": "Yes"}),
    )
}

/// A Service with these addresses.
pub(super) fn service(name: &str, color: &str, addresses: &[&str]) -> Value {
    let ingress: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"color": color}, "annotations": {}},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": ingress}}})
}

pub(super) fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = value.into();
    object
}

/// A Node with a block in spec, if it has one.
pub(super) fn node(name: &str, block: Option<&str>) -> Value {
    let spec = block.map_or(
        json!({}),
        |block| json!({"podCIDR": block, "podCIDRs": [block]}),
    );
    json!({"apiVersion": "v1", "kind": "Node", "spec": spec,
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {"rack": name}, "annotations": {}}})
}

pub(super) fn cilium_node(name: &str, blocks: &[&str]) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"ipam": {"podCIDRs": blocks}}})
}

/// BGP objects that announce pod CIDRs of every node, and every Service.
pub(super) fn cluster_config() -> Vec<Value> {
    let object = |kind: &str, labels: Value, spec: Value| json!({"apiVersion": "cilium.io/v2alpha1", "kind": kind, "metadata": {"name": "racks", "labels": labels}, "spec": spec});
    let peer = json!({"name": "tor", "peerASN": 65000, "peerAddress": "192.0.2.254", "peerConfigRef": {"name": "racks"}});
    let chosen = json!({"matchLabels": {"for": "racks"}});
    let family = json!({"afi": "ipv4", "safi": "unicast", "advertisements": chosen});
    let services = json!({"advertisementType": "Service", "selector": {}, "service": {"addresses": ["LoadBalancerIP"]}});
    vec![
        object(
            "CiliumBGPClusterConfig",
            json!({}),
            json!({"bgpInstances": [{"name": "one", "localASN": 65001, "peers": [peer]}]}),
        ),
        object(
            "CiliumBGPPeerConfig",
            json!({}),
            json!({"families": [family]}),
        ),
        object(
            "CiliumBGPAdvertisement",
            json!({"for": "racks"}),
            json!({"advertisements": [{"advertisementType": "PodCIDR"}, services]}),
        ),
    ]
}

pub(super) fn l2_policy() -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumL2AnnouncementPolicy", "metadata": {"name": "all"}, "spec": {"loadBalancerIPs": true}})
}
