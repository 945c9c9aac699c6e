//! `doctor`: the incident that it is there for, and for each rule a healthy cluster in which one thing is broken, on a file and on
//! the real server.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{ControlPlane, Options, Program, User, build, install_crds};

use super::support::{Folder, pool, repository};

/// Rules of the findings, without those that are expected of every cluster of the kind.
fn rules(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect()
}

fn incident(arguments: &[&str]) -> Value {
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let folder = Folder::new(&[]);
    let words =
        [&["doctor", "-o", "json", "--fail-on", "never", "--cluster", file.to_str().unwrap()], arguments].concat();
    folder.run(&words).expect(0).json()
}

/// Messages and consequences of the findings of a rule.
fn told(report: &Value, rule: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["rule"] == rule);
    findings.map(|finding| (text(&finding["message"]), text(&finding["consequence"]))).collect()
}

/// Who announces whose block.
const INCIDENT: [(&str, &str, &str); 4] = [
    ("master1", "10.5.112.0/24", "node01"),
    ("master2", "10.5.114.0/24", "master3"),
    ("master3", "10.5.113.0/24", "master1"),
    ("node01", "10.5.115.0/24", "master2"),
];

#[test]
fn the_incident_names_whose_pods_are_lost_with_which_node() {
    let report = incident(&[]);
    let told = told(&report, "announces-block-of-another");
    assert_eq!(told.len(), 4);
    for ((announcer, block, victim), (message, consequence)) in INCIDENT.iter().zip(&told) {
        assert_eq!(
            *message,
            format!("node `{announcer}` announces {block}, in which the Pods of node `{victim}` live")
        );
        let lost = format!("when `{announcer}` goes down, the Pods of node `{victim}` are lost");
        assert!(consequence.contains(&lost), "{consequence}");
    }
    assert_eq!(report["summary"], json!({"error": 4, "warning": 0, "info": 0}));
    let folder = Folder::new(&[]);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let human = folder.run(&["doctor", "--cluster", file.to_str().unwrap()]).expect(2);
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let picture =
        readme.split("```text\n").find(|block| block.starts_with("error[announces-block-of-another]")).unwrap();
    assert!(human.stdout.contains(picture.split("```").next().unwrap()), "{}", human.stdout);
    insta::assert_snapshot!(human.stdout);
    let sarif = folder.run(&["doctor", "--cluster", file.to_str().unwrap(), "-o", "sarif"]).expect(2).json();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), 4);
    let junit = folder.run(&["doctor", "--cluster", file.to_str().unwrap(), "-o", "junit"]).expect(2).stdout;
    assert!(junit.contains("failures=\"4\""), "{junit}");
}

#[test]
fn the_same_table_under_other_ciliums() {
    // From 1.12 on the speaker takes the CiliumNode's block in cluster-pool: what differs is harmless.
    let later = incident(&["--cilium-version", "1.12.19"]);
    assert_eq!(rules(&later), ["node-spec-not-used".to_owned()].into());
    assert_eq!(later["summary"], json!({"error": 0, "warning": 0, "info": 1}));
    // In ipam kubernetes it takes the Node's, and the agents go back to it when they start again.
    let kubernetes = incident(&["--ipam", "kubernetes"]);
    assert_eq!(
        rules(&kubernetes),
        ["announces-block-of-another", "block-changes-at-restart"].map(str::to_owned).into()
    );
    // 1.19 has no such speaker: nothing is announced, and the restart is what is left.
    let newest = incident(&["--ipam", "kubernetes", "--cilium-version", "1.19.3"]);
    assert_eq!(rules(&newest), ["block-changes-at-restart".to_owned()].into());
    for ((node, block, victim), (message, consequence)) in
        INCIDENT.iter().zip(told(&newest, "block-changes-at-restart"))
    {
        assert!(
            message.starts_with(&format!("the Pods of node `{node}` live in ")) && message.contains(block),
            "{message}"
        );
        assert!(
            consequence.ends_with(&format!("{block} is then held twice: the Pods of node `{victim}` live there")),
            "{consequence}"
        );
    }
}

/// Which healthy cluster is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// 1.19.3 in ipam kubernetes, with the BGP control plane.
    Kubernetes,
    /// 1.15.19 in ipam kubernetes, with the speaker of MetalLB.
    MetalLb,
    /// 1.19.3 in cluster-pool.
    ClusterPool,
}

fn workload(kind: &str, name: &str, labels: Value, container: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
}

fn healthy(base: Base) -> Vec<Value> {
    let (version, ipam) = match base {
        Base::Kubernetes => ("1.19.3", "kubernetes"),
        Base::MetalLb => ("1.15.19", "kubernetes"),
        Base::ClusterPool => ("1.19.3", "cluster-pool"),
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
    }
    let agent = json!({"name": "cilium-agent", "image": format!("quay.io/cilium/cilium:v{version}")});
    let operator = json!({"name": "cilium-operator", "image": format!("quay.io/cilium/operator-generic:v{version}")});
    let manager = json!({"name": "kube-controller-manager", "image": "kube-controller-manager:v1.36.3",
        "command": ["kube-controller-manager", "--allocate-node-cidrs=false"]});
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-config", "namespace": "kube-system"}, "data": config}),
        workload("DaemonSet", "cilium", json!({"k8s-app": "cilium"}), agent.clone()),
        workload("Deployment", "cilium-operator", json!({"io.cilium/app": "operator"}), operator),
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
        if base != Base::ClusterPool {
            node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
        }
        objects.push(node);
        objects.push(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name},
            "spec": {"ipam": {"podCIDRs": [block]}}}));
        objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("cilium-{name}"), "namespace": "kube-system",
            "labels": {"k8s-app": "cilium"}}, "spec": {"nodeName": name, "containers": [agent]}, "status": {"startTime": "2099-01-01T00:00:00Z"}}));
    }
    if base == Base::Kubernetes {
        objects.extend(announcing());
    }
    objects
}

/// Pod CIDRs and the Services of `app: web`, by `CiliumBGPClusterConfig`.
fn announcing() -> [Value; 3] {
    let object = |kind: &str, labels: Value, spec: Value| json!({"apiVersion": "cilium.io/v2", "kind": kind, "metadata": {"name": "racks", "labels": labels}, "spec": spec});
    let peer =
        json!({"name": "tor", "peerASN": 65000, "peerAddress": "192.0.2.254", "peerConfigRef": {"name": "racks"}});
    let instance = json!({"name": "one", "localASN": 65001, "peers": [peer]});
    let chosen = json!({"matchLabels": {"for": "racks"}});
    let family = json!({"afi": "ipv4", "safi": "unicast", "advertisements": chosen});
    let web = json!({"advertisementType": "Service", "selector": {"matchLabels": {"app": "web"}}, "service": {"addresses": ["LoadBalancerIP"]}});
    [
        object("CiliumBGPClusterConfig", json!({}), json!({"bgpInstances": [instance]})),
        object("CiliumBGPPeerConfig", json!({}), json!({"families": [family]})),
        object(
            "CiliumBGPAdvertisement",
            json!({"for": "racks"}),
            json!({"advertisements": [{"advertisementType": "PodCIDR"}, web]}),
        ),
    ]
}

fn object<'o>(objects: &'o mut [Value], kind: &str, name: &str) -> &'o mut Value {
    let is_it = |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter_mut().find(is_it).unwrap()
}

/// A healthy cluster, what is broken in it, and the rules that say so.
struct Case {
    base: Base,
    rules: &'static [&'static str],
    breaks: fn(&mut Vec<Value>),
}

const CASES: &[Case] = &[
    Case {
        base: Base::MetalLb,
        rules: &["announces-block-of-another", "block-changes-at-restart", "block-held-twice"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.2.0/24"]);
            object(objects, "Node", "n3")["spec"] = json!({"podCIDR": "10.20.1.0/24", "podCIDRs": ["10.20.1.0/24"]});
            object(objects, "CiliumNode", "n3")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.1.0/24"]);
        },
    },
    Case {
        base: Base::MetalLb,
        rules: &["announces-empty-block", "block-changes-at-restart", "pods-not-announced"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.6.0/24"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-changes-at-restart"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.6.0/24"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-held-twice"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] = json!({"podCIDR": "10.20.2.0/25", "podCIDRs": ["10.20.2.0/25"]});
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.2.0/25"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-overridden"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.6.0/24"]);
            objects.push(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": {"name": "n1", "namespace": "kube-system"},
            "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}}, "defaults": {"ipv4-range": "10.20.6.0/24"}}}));
            object(objects, "Node", "n1")["metadata"]["labels"] = json!({"kubernetes.io/hostname": "n1"});
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["node-spec-not-used"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] = json!({"podCIDR": "10.20.6.0/24", "podCIDRs": ["10.20.6.0/24"]});
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["annotation-not-used"],
        breaks: |objects| {
            object(objects, "Node", "n1")["metadata"]["annotations"] =
                json!({"network.cilium.io/ipv4-pod-cidr": "10.20.6.0/24"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["annotation-outweighed"],
        breaks: |objects| {
            object(objects, "Node", "n1")["metadata"]["annotations"] =
                json!({"network.cilium.io/ipv4-pod-cidr": "10.20.6.0/24"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["annotation-not-read"],
        breaks: |objects| {
            let node = object(objects, "Node", "n1");
            node["spec"] = json!({});
            node["metadata"]["annotations"] = json!({"network.cilium.io/ipv4-pod-cidr": "10.20.1.0/24"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["annotation-hidden"],
        breaks: |objects| {
            object(objects, "ConfigMap", "cilium-config")["data"]["annotate-k8s-node"] = "true".into();
            let node = object(objects, "Node", "n1");
            node["spec"] = json!({});
            node["metadata"]["annotations"] = json!({"network.cilium.io/ipv4-pod-cidr": "10.20.1.0/24", "io.cilium.network.ipv4-pod-cidr": "10.20.6.0/24"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["unreadable-block"],
        breaks: |objects| {
            object(objects, "Node", "n1")["metadata"]["annotations"] =
                json!({"network.cilium.io/ipv4-pod-cidr": "no CIDR"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["orphan-cilium-node"],
        breaks: |objects| {
            objects.push(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "gone"},
            "spec": {"ipam": {"podCIDRs": ["10.20.7.0/24"]}}}));
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["operator-error"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["status"] = json!({"ipam": {"operator-status": {"error": "allocator not configured for the requested CIDR 10.5.7.0/24"}}});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["outside-cluster-cidr"],
        breaks: |objects| {
            object(objects, "Pod", "kube-controller-manager-n1")["spec"]["containers"][0]["command"] =
                json!(["kube-controller-manager", "--allocate-node-cidrs=true", "--cluster-cidr=10.20.0.0/23"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["outside-native-routing-cidr", "pool-outside-native-routing-cidr"],
        breaks: |objects| {
            object(objects, "ConfigMap", "cilium-config")["data"]["ipv4-native-routing-cidr"] = "10.20.0.0/23".into();
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-over-other-addresses", "pool-over-other-addresses"],
        breaks: |objects| {
            object(objects, "Node", "n1")["status"]["addresses"][0]["address"] = "10.20.2.7".into();
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["address-not-announced"],
        breaks: |objects| {
            object(objects, "Service", "web")["metadata"]["labels"] = json!({"app": "shop"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["settings-newer-than-agents"],
        breaks: |objects| {
            object(objects, "Pod", "cilium-n2")["status"]["startTime"] = "2020-01-01T00:00:00Z".into();
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["agents-of-two-versions"],
        breaks: |objects| {
            object(objects, "Pod", "cilium-n2")["spec"]["containers"][0]["image"] =
                "quay.io/cilium/cilium:v1.18.2".into();
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["operator-of-another-mode"],
        breaks: |objects| {
            object(objects, "Deployment", "cilium-operator")["spec"]["template"]["spec"]["containers"][0]["args"] =
                json!(["--ipam=kubernetes"]);
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["cluster-pool-nearly-exhausted"],
        breaks: |objects| {
            object(objects, "ConfigMap", "cilium-config")["data"]["cluster-pool-ipv4-cidr"] =
                "10.20.1.0/24 10.20.2.0/23".into();
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["mode-not-judged"],
        breaks: |objects| {
            object(objects, "ConfigMap", "cilium-config")["data"]["ipam"] = "eni".into();
            objects.retain(|object| object["kind"] != "CiliumNode" && object["kind"] != "Service");
            objects.iter_mut().filter(|object| object["kind"] == "Node").for_each(|node| node["spec"] = json!({}));
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-outside-pools"],
        breaks: |objects| {
            for kind in ["Node", "CiliumNode"] {
                let object = object(objects, kind, "n1");
                match kind {
                    "Node" => object["spec"] = json!({"podCIDR": "10.21.1.0/24", "podCIDRs": ["10.21.1.0/24"]}),
                    _ => object["spec"]["ipam"]["podCIDRs"] = json!(["10.21.1.0/24"]),
                }
            }
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["addresses-lost-at-restart"],
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["disabled"] = true.into();
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["address-not-announced", "advertisement-of-nobody"],
        breaks: |objects| {
            object(objects, "CiliumBGPAdvertisement", "racks")["metadata"]["labels"] = json!({"for": "rakcs"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["node-without-block"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] = json!({});
            objects.retain(|object| object["kind"] != "CiliumNode" || object["metadata"]["name"] != "n1");
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["outside-cluster-cidr"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] = json!({"podCIDR": "10.20.1.0/24", "podCIDRs": ["10.20.1.0/24"]});
            object(objects, "Pod", "kube-controller-manager-n1")["spec"]["containers"][0]["command"] =
                json!(["kube-controller-manager", "--allocate-node-cidrs", "--cluster-cidr", "10.99.0.0/16"]);
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["block-changes-at-restart", "node-without-block"],
        breaks: |objects| {
            // An argument outweighs the settings.
            let agent = object(objects, "DaemonSet", "cilium");
            agent["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["--ipam", "kubernetes"]);
            object(objects, "Node", "n1")["spec"] = json!({"podCIDR": "10.20.6.0/24", "podCIDRs": ["10.20.6.0/24"]});
            objects.retain(|object| object["kind"] != "CiliumNode" || object["metadata"]["name"] != "n2");
        },
    },
];

const POOLS: &str = "{cidrs: [10.20.0.0/21], blockSize: 24}";

fn expected(case: &Case) -> BTreeSet<String> {
    case.rules.iter().map(|rule| (*rule).to_owned()).collect()
}

fn on_file(objects: &[Value]) -> Value {
    let folder = Folder::new(&[]);
    folder.write("pools/a.yaml", pool("a", POOLS));
    folder.write("cluster.json", json!({"apiVersion": "v1", "kind": "List", "items": with_times(objects)}).to_string());
    folder.run(&["doctor", "-o", "json", "--fail-on", "never", "--cluster", "cluster.json"]).expect(0).json()
}

/// As the server would note when the settings were written.
fn with_times(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    object(&mut objects, "ConfigMap", "cilium-config")["metadata"]["managedFields"] =
        json!([{"manager": "helm", "time": "2026-01-01T00:00:00Z"}]);
    objects
}

#[test]
fn each_rule_finds_what_is_broken_and_nothing_else() {
    for base in [Base::Kubernetes, Base::MetalLb, Base::ClusterPool] {
        assert_eq!(on_file(&healthy(base))["findings"], json!([]), "{base:?}");
    }
    for case in CASES {
        let mut objects = healthy(case.base);
        (case.breaks)(&mut objects);
        let report = on_file(&objects);
        assert_eq!(rules(&report), expected(case), "{report:#}");
    }
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

fn create(plane: &ControlPlane, object: &Value) {
    if object["kind"] == "ServiceCIDR" {
        // The server has its own, of the same range.
        return;
    }
    plane.create(&collection(object), object).unwrap();
    if let Some(status) = object.get("status") {
        let path = format!("{}/{}/status", collection(object), object["metadata"]["name"].as_str().unwrap());
        plane.patch(&path, &json!({"status": status})).unwrap();
    }
}

fn delete(plane: &ControlPlane, object: &Value) {
    if object["kind"] != "ServiceCIDR" {
        let path =
            format!("{}/{}?gracePeriodSeconds=0", collection(object), object["metadata"]["name"].as_str().unwrap());
        plane.delete(&path).unwrap();
    }
}

#[test]
fn each_rule_on_the_real_server() {
    let programs = build(&[Program::KubeApiserver, Program::Etcd]).unwrap();
    let options = Options { service_cluster_ip_range: "10.96.0.0/16".into(), ..Options::default() };
    let plane = ControlPlane::start(&programs, options).unwrap();
    let folder = Folder::new(&[]);
    folder.write("pools/a.yaml", pool("a", POOLS));
    let kubeconfig = plane.kubeconfig().to_str().unwrap();
    let report =
        || folder.run(&["doctor", "-o", "json", "--fail-on", "never", "--kubeconfig", kubeconfig]).expect(0).json();
    for base in [Base::MetalLb, Base::Kubernetes, Base::ClusterPool] {
        install_crds(&plane, if base == Base::MetalLb { "1.15.19" } else { "1.19.3" }).unwrap();
        let healthy = healthy(base);
        healthy.iter().for_each(|object| create(&plane, object));
        assert_eq!(report()["findings"], json!([]), "{base:?}");
        for case in CASES.iter().filter(|case| case.base == base) {
            let mut broken = healthy.clone();
            (case.breaks)(&mut broken);
            let changed: Vec<&Value> = healthy.iter().filter(|object| !broken.contains(object)).collect();
            let made: Vec<&Value> = broken.iter().filter(|object| !healthy.contains(object)).collect();
            changed.iter().for_each(|object| delete(&plane, object));
            made.iter().for_each(|object| create(&plane, object));
            let report = report();
            assert_eq!(rules(&report), expected(case), "{report:#}");
            made.iter().for_each(|object| delete(&plane, object));
            changed.iter().for_each(|object| create(&plane, object));
        }
        healthy.iter().for_each(|object| delete(&plane, object));
    }
}

/// Rules that `doctor --rib` adds, for routes that real routers exchanged.
fn by_rib(routes: &[(&str, &str)], arguments: &[&str]) -> Value {
    let json = testbed::exchange(routes).unwrap();
    let folder = Folder::new(&[]);
    folder.write("rib.json", json);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let words =
        ["doctor", "-o", "json", "--fail-on", "never", "--rib", "rib.json", "--cluster", file.to_str().unwrap()];
    folder.run(&[&words, arguments].concat()).expect(0).json()
}

#[test]
fn what_real_routers_hold_in_the_incident() {
    let addresses =
        [("master1", "192.0.2.11"), ("master2", "192.0.2.12"), ("master3", "192.0.2.13"), ("node01", "192.0.2.21")];
    let address = |name: &str| addresses.iter().find(|(node, _)| *node == name).unwrap().1;
    let announced: Vec<(&str, &str)> = INCIDENT.iter().map(|(node, block, _)| (*block, address(node))).collect();
    let report = by_rib(&announced, &[]);
    let wrong = told(&report, "route-from-wrong-node");
    let told: BTreeSet<&str> = wrong.iter().map(|(message, _)| message.as_str()).collect();
    let expected: Vec<String> = INCIDENT
        .iter()
        .map(|(announcer, block, victim)| {
            format!("routers hold {block} from node `{announcer}`, but the Pods of node `{victim}` live there")
        })
        .collect();
    assert_eq!(told, expected.iter().map(String::as_str).collect());
    assert_eq!(rules(&report), ["announces-block-of-another", "route-from-wrong-node"].map(str::to_owned).into());
}

#[test]
fn what_real_routers_hold_besides() {
    // As it should be, but that one is missing, one is left over, and one is a part of another.
    let mut routes: Vec<(&str, &str)> =
        vec![("10.5.113.0/24", "192.0.2.11"), ("10.5.115.0/24", "192.0.2.12"), ("10.5.114.0/24", "192.0.2.13")];
    routes.extend([("10.5.118.0/24", "192.0.2.99"), ("10.5.113.128/25", "192.0.2.12")]);
    let report = by_rib(&routes, &["--cilium-version", "1.12.19"]);
    let expected = ["node-spec-not-used", "route-missing", "route-stale", "route-too-specific"];
    assert_eq!(rules(&report), expected.map(str::to_owned).into());
    assert!(told(&report, "route-missing")[0].0.contains("10.5.112.0/24, in which the Pods of node `node01` live"));
    assert!(told(&report, "route-too-specific")[0].1.contains("do not reach `master1`"));
}

#[test]
fn a_file_of_another_product_is_no_rib() {
    let folder = Folder::new(&[("rib.json", r#"{"routing-instances": []}"#), ("rib.txt", "BGP table version is 3")]);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    for (name, told) in
        [("rib.json", "neither what FRR prints"), ("rib.txt", "rib.txt is no JSON"), ("none", "cannot be read")]
    {
        let ran = folder.run(&["doctor", "--rib", name, "--cluster", file.to_str().unwrap()]).expect(1);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
}

/// The report on a cluster file with this pool.
fn with_pool(objects: &[Value], spec: &str) -> Value {
    let folder = Folder::new(&[]);
    folder.write("pools/a.yaml", pool("a", spec));
    folder.write("cluster.json", json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
    folder.run(&["doctor", "-o", "json", "--fail-on", "never", "--cluster", "cluster.json"]).expect(0).json()
}

#[test]
fn pools_that_are_nearly_full_or_scattered() {
    let full =
        with_pool(&healthy(Base::Kubernetes), "{cidrs: [10.20.0.0/22], blockSize: 24, reserved: [10.20.0.0/24]}");
    assert_eq!(rules(&full), ["pool-nearly-exhausted".to_owned()].into());
    assert_eq!(told(&full, "pool-nearly-exhausted")[0].0, "pool `a` has no free IPv4 block");
    let every_other: Vec<String> = (0..64).step_by(2).map(|third| format!("10.20.{third}.0/24")).collect();
    let spec = format!("{{cidrs: [10.20.0.0/18], blockSize: 24, reserved: [{}]}}", every_other.join(", "));
    let scattered = with_pool(&healthy(Base::Kubernetes), &spec);
    assert_eq!(rules(&scattered), ["pool-fragmented".to_owned()].into());
    assert!(told(&scattered, "pool-fragmented")[0].0.ends_with("at most 1 of them in a row"), "{scattered:#}");
}

#[test]
fn what_is_no_cilium_or_two_or_says_little() {
    let healthy = healthy(Base::Kubernetes);
    let without =
        |kind: &str| -> Vec<Value> { healthy.iter().filter(|object| object["kind"] != kind).cloned().collect() };
    let about = |report: &Value, about: &str| {
        let all = report["cluster"].as_array().unwrap();
        all.iter()
            .find(|one| one["about"] == about)
            .map(|one| (one["value"].clone(), one["certainty"].clone()))
            .unwrap()
    };
    let none = with_pool(&without("ConfigMap"), POOLS);
    assert!(rules(&none).contains("no-cilium"), "{none:#}");
    assert_eq!(about(&none, "ipam"), (json!("unknown"), json!("unknown")));
    // A digest tells no version; the chart's label does.
    let mut mirrored = healthy.clone();
    let daemon_set = object(&mut mirrored, "DaemonSet", "cilium");
    daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror/cilium@sha256:00".into();
    assert_eq!(about(&with_pool(&mirrored, POOLS), "version"), (json!("unknown"), json!("unknown")));
    object(&mut mirrored, "DaemonSet", "cilium")["metadata"]["labels"]["helm.sh/chart"] = "cilium-1.19.3".into();
    assert_eq!(about(&with_pool(&mirrored, POOLS), "version"), (json!("1.19.3"), json!("likely")));
    // Half upgraded: two namespaces, two settings.
    let mut two = healthy.clone();
    let mut other = object(&mut two, "ConfigMap", "cilium-config").clone();
    other["metadata"]["namespace"] = "cilium".into();
    let mut daemon_set = object(&mut two, "DaemonSet", "cilium").clone();
    daemon_set["metadata"]["namespace"] = "cilium".into();
    two.extend([other, daemon_set]);
    assert!(rules(&with_pool(&two, POOLS)).contains("two-ciliums"));
    let nothing = with_pool(&[], POOLS);
    assert!(rules(&nothing).contains("no-nodes") && rules(&nothing).contains("no-cilium"), "{nothing:#}");
}

#[test]
fn what_is_hidden_is_said_and_not_judged() {
    let user = User::named("auditor");
    let programs = build(&[Program::KubeApiserver, Program::Etcd]).unwrap();
    let options = Options { service_cluster_ip_range: "10.96.0.0/16".into(), users: vec![user], ..Options::default() };
    let plane = ControlPlane::start(&programs, options).unwrap();
    install_crds(&plane, "1.19.3").unwrap();
    let mut objects = healthy(Base::Kubernetes);
    object(&mut objects, "Service", "web")["metadata"]["labels"] = json!({"app": "shop"});
    objects.iter().for_each(|object| create(&plane, object));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "auditor"}, "rules": [
        {"apiGroups": [""], "resources": ["nodes", "services", "configmaps"], "verbs": ["list"]},
        {"apiGroups": ["cilium.io"], "resources": ["ciliumnodes", "ciliumloadbalancerippools"], "verbs": ["list"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["servicecidrs"], "verbs": ["list"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "auditor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "auditor"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "auditor"}]});
    plane.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).unwrap();
    plane.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
    let folder = Folder::new(&[]);
    let kubeconfig = plane.kubeconfig_for("auditor").unwrap();
    let words = ["doctor", "-o", "json", "--fail-on", "warning", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let report = folder.run(&words).expect(2).json();
    assert_eq!(rules(&report), ["blind-spot".to_owned()].into());
    let hidden: BTreeSet<String> = told(&report, "blind-spot")
        .into_iter()
        .map(|(message, _)| message.split(' ').next().unwrap().to_owned())
        .collect();
    assert!(hidden.contains("ciliumbgpadvertisements.cilium.io") && hidden.contains("deployments.apps"), "{hidden:?}");
}

/// The severity of the findings of a rule.
fn severities(report: &Value, rule: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["rule"] == rule);
    findings.map(|finding| finding["severity"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_nodes_that_will_take_the_same_block() {
    let mut objects = healthy(Base::Kubernetes);
    for name in ["n1", "n2"] {
        object(&mut objects, "Node", name)["spec"] = json!({"podCIDR": "10.20.6.0/24", "podCIDRs": ["10.20.6.0/24"]});
    }
    let report = on_file(&objects);
    assert_eq!(severities(&report, "block-changes-at-restart"), ["error", "error"]);
    assert!(
        told(&report, "block-changes-at-restart")[0].1.ends_with("held twice: node `n2` takes it too"),
        "{report:#}"
    );
}

#[test]
fn the_incident_of_an_unknown_version_is_not_called_harmless() {
    let file = std::fs::read_to_string(repository().join("examples/wrong-block/cluster.yaml")).unwrap();
    let folder = Folder::new(&[("cluster.yaml", &file.replace("cilium/cilium:v1.11.9", "mirror/cilium@sha256:00"))]);
    let report = folder.run(&["doctor", "-o", "json", "--cluster", "cluster.yaml"]).expect(2).json();
    assert_eq!(rules(&report), ["announced-block-not-known".to_owned()].into());
    let settled =
        folder.run(&["doctor", "-o", "json", "--cluster", "cluster.yaml", "--cilium-version", "1.11.9"]).expect(2);
    assert!(rules(&settled.json()).contains("announces-block-of-another"));
}

#[test]
fn without_settings_blocks_that_two_nodes_show_are_still_found() {
    let mut objects = healthy(Base::Kubernetes);
    objects.retain(|object| ["Node", "CiliumNode"].contains(&object["kind"].as_str().unwrap()));
    for kind in ["Node", "CiliumNode"] {
        let spec = &mut object(&mut objects, kind, "n1")["spec"];
        *spec = if kind == "Node" {
            json!({"podCIDR": "10.20.2.0/24", "podCIDRs": ["10.20.2.0/24"]})
        } else {
            json!({"ipam": {"podCIDRs": ["10.20.2.0/24"]}})
        };
    }
    let report = with_pool(&objects, POOLS);
    assert_eq!(severities(&report, "block-held-twice"), ["error"]);
    let unknown = report["cluster"].as_array().unwrap().iter().filter(|one| one["certainty"] == "unknown").count();
    assert_eq!(unknown, 5, "{:#}", report["cluster"]);
}

/// A report with RIB files of this text.
fn with_ribs(objects: &[Value], ribs: &[&str]) -> Value {
    let folder = Folder::new(&[]);
    folder.write("cluster.json", json!({"apiVersion": "v1", "kind": "List", "items": with_times(objects)}).to_string());
    let mut words = vec![
        "doctor".to_owned(),
        "-o".into(),
        "json".into(),
        "--fail-on".into(),
        "never".into(),
        "--cluster".into(),
        "cluster.json".into(),
    ];
    for (index, text) in ribs.iter().enumerate() {
        folder.write(&format!("rib{index}.json"), text);
        words.extend(["--rib".to_owned(), format!("rib{index}.json")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    folder.run(&words).expect(0).json()
}

fn frr(routes: &[(&str, &str)]) -> String {
    let path = |hop: &str| json!([{"valid": true, "bestpath": true, "nexthops": [{"ip": hop}]}]);
    let routes: serde_json::Map<String, Value> =
        routes.iter().map(|(prefix, hop)| ((*prefix).to_owned(), path(hop))).collect();
    json!({"vrfId": 0, "routes": routes}).to_string()
}

#[test]
fn routes_of_several_routers_count_together() {
    let objects = healthy(Base::Kubernetes);
    let default = ("0.0.0.0/0", "192.0.2.254");
    let first = frr(&[default, ("10.20.1.0/24", "192.0.2.1"), ("10.20.2.0/24", "192.0.2.2")]);
    let second = frr(&[("10.20.3.0/24", "192.0.2.3"), ("10.30.0.0/28", "192.0.2.3")]);
    let empty = r#"{"vrfId": 0, "routes": {}}"#;
    assert_eq!(with_ribs(&objects, &[&first, &second, empty])["findings"], json!([]));
    let aggregate = with_ribs(&objects, &[&first, &frr(&[("10.20.0.0/16", "192.0.2.254")])]);
    assert_eq!(severities(&aggregate, "route-missing"), ["info"]);
    assert_eq!(severities(&with_ribs(&objects, &[empty]), "route-missing"), ["error", "error", "error"]);
    // Of a hop that is no node it is not known whose it is.
    let spine = with_ribs(&objects, &[&first, &second, &frr(&[("10.20.1.128/25", "172.31.0.1")])]);
    assert_eq!(severities(&spine, "route-too-specific"), ["warning"]);
}

#[test]
fn files_with_errors_do_not_hide_the_cluster() {
    let folder = Folder::new(&[("pools/a.yaml", "kind: IPPool\n")]);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let words = ["doctor", "-o", "json", "--cluster", file.to_str().unwrap()];
    let report = folder.run(&words).expect(2).json();
    assert!(rules(&report).contains("announces-block-of-another") && rules(&report).len() > 1, "{report:#}");
    let alone = folder.run(&[&words[..], &["--no-pools"]].concat()).expect(2).json();
    assert_eq!(rules(&alone), ["announces-block-of-another".to_owned()].into());
}
