//! Healthy clusters for the tests of `doctor`, and helpers for its reports.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::ControlPlane;

use super::support::{Folder, pool};

/// Rules of the findings, without those that are expected of every cluster of the kind.
pub fn rules(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect()
}

/// Messages and consequences of the findings of a rule.
pub fn told(report: &Value, rule: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == rule);
    let of_entry = |finding: &Value| {
        let all = |first: &str, further: &str| -> Vec<String> {
            let further = finding[further].as_array().into_iter().flatten();
            std::iter::once(&finding[first])
                .chain(further)
                .map(text)
                .collect()
        };
        let consequences = all("consequence", "further_consequences");
        all("message", "further_messages")
            .into_iter()
            .zip(consequences)
            .collect::<Vec<_>>()
    };
    findings.flat_map(of_entry).collect()
}

/// The severity of each finding of a rule.
pub fn severities(report: &Value, rule: &str) -> Vec<String> {
    let findings = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == rule);
    let of_entry = |finding: &Value| {
        let count = usize::try_from(finding["count"].as_u64().unwrap()).unwrap();
        vec![finding["severity"].as_str().unwrap().to_owned(); count]
    };
    findings.flat_map(of_entry).collect()
}

/// The healthy cluster that gets a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// 1.19.3 in ipam kubernetes, with the BGP control plane.
    Kubernetes,
    /// 1.15.19 in ipam kubernetes, with the speaker of MetalLB.
    MetalLb,
    /// 1.19.3 in cluster-pool.
    ClusterPool,
    /// 1.19.3 in multi-pool, with the pool `default`.
    MultiPool,
}

fn workload(kind: &str, name: &str, labels: Value, container: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
}

pub fn healthy(base: Base) -> Vec<Value> {
    let (version, ipam) = match base {
        Base::Kubernetes => ("1.19.3", "kubernetes"),
        Base::MetalLb => ("1.15.19", "kubernetes"),
        Base::ClusterPool => ("1.19.3", "cluster-pool"),
        Base::MultiPool => ("1.19.3", "multi-pool"),
    };
    let mut config = json!({"ipam": ipam, "enable-ipv4": "true", "enable-ipv6": "false", "routing-mode": "native",
        "ipv4-native-routing-cidr": "10.0.0.0/8"});
    match base {
        Base::Kubernetes => config["enable-bgp-control-plane"] = "true".into(),
        Base::MetalLb => config["bgp-announce-pod-cidr"] = "true".into(),
        Base::ClusterPool => {
            config["cluster-pool-ipv4-cidr"] = "10.20.0.0/21".into();
            config["cluster-pool-ipv4-mask-size"] = "24".into();
        }
        Base::MultiPool => config["auto-direct-node-routes"] = "false".into(),
    }
    let agent =
        json!({"name": "cilium-agent", "image": format!("quay.io/cilium/cilium:v{version}")});
    let operator = json!({"name": "cilium-operator", "image": format!("quay.io/cilium/operator-generic:v{version}")});
    let manager = json!({"name": "kube-controller-manager", "image": "kube-controller-manager:v1.36.3",
        "command": ["kube-controller-manager", "--allocate-node-cidrs=false"]});
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config", "namespace": "kube-system"}, "data": config}),
        workload(
            "DaemonSet",
            "cilium",
            json!({"k8s-app": "cilium"}),
            agent.clone(),
        ),
        workload(
            "Deployment",
            "cilium-operator",
            json!({"io.cilium/app": "operator"}),
            operator,
        ),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kube-controller-manager-n1", "namespace": "kube-system",
            "labels": {"component": "kube-controller-manager"}}, "spec": {"containers": [manager]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]}}),
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "outside"},
            "spec": {"blocks": [{"cidr": "10.30.0.0/24"}]}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": [{"ip": "10.30.0.1"}]}}}),
    ];
    for index in 1..=3 {
        let (name, block) = (format!("n{index}"), format!("10.20.{index}.0/24"));
        let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("192.0.2.{index}")}]}});
        if !matches!(base, Base::ClusterPool | Base::MultiPool) {
            node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
        }
        objects.push(node);
        let ipam = match base {
            Base::MultiPool => json!({"pools": {
                "requested": [{"pool": "default", "needed": {"ipv4-addrs": 16}}],
                "allocated": [{"pool": "default", "cidrs": [block]}]}}),
            _ => json!({"podCIDRs": [block]}),
        };
        objects.push(
            json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name},
            "spec": {"ipam": ipam}}),
        );
        objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("cilium-{name}"), "namespace": "kube-system",
            "labels": {"k8s-app": "cilium"}}, "spec": {"nodeName": name, "containers": [agent]}, "status": {"startTime": "2099-01-01T00:00:00Z"}}));
    }
    match base {
        Base::Kubernetes => objects.extend(announcing()),
        Base::MultiPool => objects.push(pod_pool("default", &["10.20.0.0/21"], 24)),
        Base::MetalLb | Base::ClusterPool => {}
    }
    objects
}

pub fn pod_pool(name: &str, cidrs: &[&str], mask_size: u8) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool", "metadata": {"name": name},
        "spec": {"ipv4": {"cidrs": cidrs, "maskSize": mask_size}}})
}

/// Pod CIDRs and the Services of `app: web`, by `CiliumBGPClusterConfig`.
fn announcing() -> [Value; 3] {
    let object = |kind: &str, labels: Value, spec: Value| json!({"apiVersion": "cilium.io/v2", "kind": kind, "metadata": {"name": "racks", "labels": labels}, "spec": spec});
    let peer = json!({"name": "tor", "peerASN": 65000, "peerAddress": "192.0.2.254", "peerConfigRef": {"name": "racks"}});
    let instance = json!({"name": "one", "localASN": 65001, "peers": [peer]});
    let chosen = json!({"matchLabels": {"for": "racks"}});
    let family = json!({"afi": "ipv4", "safi": "unicast", "advertisements": chosen});
    let web = json!({"advertisementType": "Service", "selector": {"matchLabels": {"app": "web"}}, "service": {"addresses": ["LoadBalancerIP"]}});
    [
        object(
            "CiliumBGPClusterConfig",
            json!({}),
            json!({"bgpInstances": [instance]}),
        ),
        object(
            "CiliumBGPPeerConfig",
            json!({}),
            json!({"families": [family]}),
        ),
        object(
            "CiliumBGPAdvertisement",
            json!({"for": "racks"}),
            json!({"advertisements": [{"advertisementType": "PodCIDR"}, web]}),
        ),
    ]
}

pub fn object<'o>(objects: &'o mut [Value], kind: &str, name: &str) -> &'o mut Value {
    let is_it = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter_mut().find(is_it).unwrap()
}

pub const POOLS: &str = "{cidrs: [10.20.0.0/21], blockSize: 24}";

pub fn on_file(objects: &[Value]) -> Value {
    let folder = Folder::new(&[]);
    folder.write("pools/a.yaml", pool("a", POOLS));
    report(&folder, objects)
}

/// The report on the cluster alone.
pub fn without_pools(objects: &[Value]) -> Value {
    let folder = Folder::new(&[]);
    report(&folder, objects)
}

fn report(folder: &Folder, objects: &[Value]) -> Value {
    folder.write(
        "cluster.json",
        json!({"apiVersion": "v1", "kind": "List", "items": with_times(objects)}).to_string(),
    );
    folder.json("doctor -o json --fail-on never --cluster cluster.json")
}

/// As the server would note when the settings were written.
pub fn with_times(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    object(&mut objects, "ConfigMap", "cilium-config")["metadata"]["managedFields"] =
        json!([{"manager": "helm", "time": "2026-01-01T00:00:00Z"}]);
    objects
}

/// The report on a cluster file with this pool.
pub fn with_pool(objects: &[Value], spec: &str) -> Value {
    let folder = Folder::new(&[]);
    folder.write("pools/a.yaml", pool("a", spec));
    folder.write(
        "cluster.json",
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    );
    folder.json("doctor -o json --fail-on never --cluster cluster.json")
}

fn collection(object: &Value) -> String {
    let plural = match object["kind"].as_str().unwrap() {
        "CiliumLoadBalancerIPPool" => "ciliumloadbalancerippools".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    let root = match object["apiVersion"].as_str().unwrap() {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

pub fn create(plane: &ControlPlane, object: &Value) {
    if object["kind"] == "ServiceCIDR" {
        // The server has its own, of the same range.
        return;
    }
    plane.create(&collection(object), object).unwrap();
    if let Some(status) = object.get("status") {
        let path = format!(
            "{}/{}/status",
            collection(object),
            object["metadata"]["name"].as_str().unwrap()
        );
        plane.patch(&path, &json!({"status": status})).unwrap();
    }
}

pub fn delete(plane: &ControlPlane, object: &Value) {
    if object["kind"] != "ServiceCIDR" {
        let path = format!(
            "{}/{}?gracePeriodSeconds=0",
            collection(object),
            object["metadata"]["name"].as_str().unwrap()
        );
        plane.delete(&path).unwrap();
    }
}
