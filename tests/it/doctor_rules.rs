//! For each rule of `doctor`, a healthy cluster with one fault, in a file and on the real server.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{ControlPlane, Options, Program, User, build, install_crds};

use super::doctor_cluster::{
    Base, POOLS, create, delete, healthy, object, on_file, rules, severities, told, with_pool,
};
use super::support::{Folder, pool};

/// A healthy cluster, the fault in it, and the rules that report it.
struct Case {
    base: Base,
    rules: &'static [&'static str],
    breaks: fn(&mut Vec<Value>),
}

const CASES: &[Case] = &[
    Case {
        base: Base::MetalLb,
        rules: &[
            "bgp-announces-foreign-block",
            "block-changes-at-restart",
            "duplicate-block",
        ],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.20.2.0/24"]);
            object(objects, "Node", "n3")["spec"] =
                json!({"podCIDR": "10.20.1.0/24", "podCIDRs": ["10.20.1.0/24"]});
            object(objects, "CiliumNode", "n3")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.20.1.0/24"]);
        },
    },
    Case {
        base: Base::MetalLb,
        rules: &[
            "announces-empty-block",
            "block-changes-at-restart",
            "pods-not-announced",
        ],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.20.6.0/24"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-changes-at-restart"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.20.6.0/24"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["duplicate-block", "block-misplaced"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] =
                json!({"podCIDR": "10.20.2.0/25", "podCIDRs": ["10.20.2.0/25"]});
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.20.2.0/25"]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-overridden"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.20.6.0/24"]);
            objects.push(json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": {"name": "n1", "namespace": "kube-system"},
            "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}}, "defaults": {"ipv4-range": "10.20.6.0/24"}}}));
            object(objects, "Node", "n1")["metadata"]["labels"] =
                json!({"kubernetes.io/hostname": "n1"});
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["block-outside-pools", "operator-will-refuse"],
        breaks: |objects| {
            object(objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] =
                json!(["10.99.0.0/24"]);
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["node-spec-not-used"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] =
                json!({"podCIDR": "10.20.6.0/24", "podCIDRs": ["10.20.6.0/24"]});
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
        rules: &["annotation-overridden-by-spec"],
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
            node["metadata"]["annotations"] =
                json!({"network.cilium.io/ipv4-pod-cidr": "10.20.1.0/24"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["annotation-shadowed"],
        breaks: |objects| {
            object(objects, "ConfigMap", "cilium-config")["data"]["annotate-k8s-node"] =
                "true".into();
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
        rules: &["outside-cluster-cidr", "pool-outside-cluster-cidr"],
        breaks: |objects| {
            object(objects, "Pod", "kube-controller-manager-n1")["spec"]["containers"][0]["command"] =
                json!([
                    "kube-controller-manager",
                    "--allocate-node-cidrs=true",
                    "--cluster-cidr=10.20.0.0/23"
                ]);
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &[
            "outside-native-routing-cidr",
            "pool-outside-native-routing-cidr",
        ],
        breaks: |objects| {
            object(objects, "ConfigMap", "cilium-config")["data"]["ipv4-native-routing-cidr"] =
                "10.20.0.0/23".into();
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
            object(objects, "Pod", "cilium-n2")["status"]["startTime"] =
                "2020-01-01T00:00:00Z".into();
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
            object(objects, "Deployment", "cilium-operator")["spec"]["template"]["spec"]["containers"]
                [0]["args"] = json!(["--ipam=kubernetes"]);
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
            objects
                .iter_mut()
                .filter(|object| object["kind"] == "Node")
                .for_each(|node| node["spec"] = json!({}));
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["block-outside-pools"],
        breaks: |objects| {
            for kind in ["Node", "CiliumNode"] {
                let object = object(objects, kind, "n1");
                match kind {
                    "Node" => {
                        object["spec"] =
                            json!({"podCIDR": "10.21.1.0/24", "podCIDRs": ["10.21.1.0/24"]})
                    }
                    _ => object["spec"]["ipam"]["podCIDRs"] = json!(["10.21.1.0/24"]),
                }
            }
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["addresses-lost-at-restart"],
        breaks: |objects| {
            object(objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["disabled"] =
                true.into();
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["address-not-announced", "bgp-advertisement-unused"],
        breaks: |objects| {
            object(objects, "CiliumBGPAdvertisement", "racks")["metadata"]["labels"] =
                json!({"for": "rakcs"});
        },
    },
    Case {
        base: Base::Kubernetes,
        rules: &["node-without-block"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] = json!({});
            objects.retain(|object| {
                object["kind"] != "CiliumNode" || object["metadata"]["name"] != "n1"
            });
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["outside-cluster-cidr"],
        breaks: |objects| {
            object(objects, "Node", "n1")["spec"] =
                json!({"podCIDR": "10.20.1.0/24", "podCIDRs": ["10.20.1.0/24"]});
            object(objects, "Pod", "kube-controller-manager-n1")["spec"]["containers"][0]["command"] =
                json!([
                    "kube-controller-manager",
                    "--allocate-node-cidrs",
                    "--cluster-cidr",
                    "10.99.0.0/16"
                ]);
        },
    },
    Case {
        base: Base::ClusterPool,
        rules: &["block-changes-at-restart", "node-without-block"],
        breaks: |objects| {
            // An argument outweighs the settings.
            let agent = object(objects, "DaemonSet", "cilium");
            agent["spec"]["template"]["spec"]["containers"][0]["args"] =
                json!(["--ipam", "kubernetes"]);
            object(objects, "Node", "n1")["spec"] =
                json!({"podCIDR": "10.20.6.0/24", "podCIDRs": ["10.20.6.0/24"]});
            objects.retain(|object| {
                object["kind"] != "CiliumNode" || object["metadata"]["name"] != "n2"
            });
        },
    },
];

fn expected(case: &Case) -> BTreeSet<String> {
    case.rules.iter().map(|rule| (*rule).to_owned()).collect()
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

#[test]
fn each_rule_on_the_real_server() {
    let programs = build(&[Program::KubeApiserver, Program::Etcd]).unwrap();
    let options = Options {
        service_cluster_ip_range: "10.96.0.0/16".into(),
        ..Options::default()
    };
    let plane = ControlPlane::start(&programs, options).unwrap();
    let folder = Folder::new(&[]);
    folder.write("pools/a.yaml", pool("a", POOLS));
    let kubeconfig = plane.kubeconfig().to_str().unwrap();
    let report = || {
        folder
            .run(&[
                "doctor",
                "-o",
                "json",
                "--fail-on",
                "never",
                "--kubeconfig",
                kubeconfig,
            ])
            .expect(0)
            .json()
    };
    for base in [Base::MetalLb, Base::Kubernetes, Base::ClusterPool] {
        install_crds(
            &plane,
            if base == Base::MetalLb {
                "1.15.19"
            } else {
                "1.19.3"
            },
        )
        .unwrap();
        let healthy = healthy(base);
        healthy.iter().for_each(|object| create(&plane, object));
        assert_eq!(report()["findings"], json!([]), "{base:?}");
        for case in CASES.iter().filter(|case| case.base == base) {
            let mut broken = healthy.clone();
            (case.breaks)(&mut broken);
            let changed: Vec<&Value> = healthy
                .iter()
                .filter(|object| !broken.contains(object))
                .collect();
            let made: Vec<&Value> = broken
                .iter()
                .filter(|object| !healthy.contains(object))
                .collect();
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

#[test]
fn pools_that_are_nearly_full_or_scattered() {
    let full = with_pool(
        &healthy(Base::Kubernetes),
        "{cidrs: [10.20.0.0/22], blockSize: 24, reserved: [10.20.0.0/24]}",
    );
    assert_eq!(rules(&full), ["pool-nearly-exhausted".to_owned()].into());
    assert_eq!(
        told(&full, "pool-nearly-exhausted")[0].0,
        "pool `a` has no free IPv4 block"
    );
    let every_other: Vec<String> = (0..64)
        .step_by(2)
        .map(|third| format!("10.20.{third}.0/24"))
        .collect();
    let spec = format!(
        "{{cidrs: [10.20.0.0/18], blockSize: 24, reserved: [{}]}}",
        every_other.join(", ")
    );
    let scattered = with_pool(&healthy(Base::Kubernetes), &spec);
    // Nodes hold blocks that the pool reserves now.
    assert_eq!(
        rules(&scattered),
        ["block-misplaced".to_owned(), "pool-fragmented".to_owned()].into()
    );
    assert!(
        told(&scattered, "pool-fragmented")[0]
            .0
            .ends_with("at most 1 of them are adjacent"),
        "{scattered:#}"
    );
}

#[test]
fn what_is_no_cilium_or_two_or_says_little() {
    let healthy = healthy(Base::Kubernetes);
    let without = |kind: &str| -> Vec<Value> {
        healthy
            .iter()
            .filter(|object| object["kind"] != kind)
            .cloned()
            .collect()
    };
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
    let mut cached = healthy.clone();
    let daemon_set = object(&mut cached, "DaemonSet", "cilium");
    daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] =
        "mirror/cilium@sha256:00".into();
    assert_eq!(
        about(&with_pool(&cached, POOLS), "version"),
        (json!("unknown"), json!("unknown"))
    );
    object(&mut cached, "DaemonSet", "cilium")["metadata"]["labels"]["helm.sh/chart"] =
        "cilium-1.19.3".into();
    assert_eq!(
        about(&with_pool(&cached, POOLS), "version"),
        (json!("1.19.3"), json!("likely"))
    );
    // Objects in another namespace change nothing.
    let mut two = healthy.clone();
    let mut other = object(&mut two, "ConfigMap", "cilium-config").clone();
    other["metadata"]["namespace"] = "cilium".into();
    let mut daemon_set = object(&mut two, "DaemonSet", "cilium").clone();
    daemon_set["metadata"]["namespace"] = "cilium".into();
    two.extend([other, daemon_set]);
    let two = rules(&with_pool(&two, POOLS));
    assert!(two.contains("objects-like-cilium") && !two.contains("multiple-cilium-installations"));
    let nothing = with_pool(&[], POOLS);
    assert!(
        rules(&nothing).contains("no-nodes") && rules(&nothing).contains("no-cilium"),
        "{nothing:#}"
    );
}

#[test]
fn what_is_hidden_is_said_and_not_judged() {
    let user = User::named("auditor");
    let programs = build(&[Program::KubeApiserver, Program::Etcd]).unwrap();
    let options = Options {
        service_cluster_ip_range: "10.96.0.0/16".into(),
        users: vec![user],
        ..Options::default()
    };
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
    plane
        .create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
        .unwrap();
    plane
        .create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &binding,
        )
        .unwrap();
    let folder = Folder::new(&[]);
    let kubeconfig = plane.kubeconfig_for("auditor").unwrap();
    let words = [
        "doctor",
        "-o",
        "json",
        "--fail-on",
        "warning",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let report = folder.run(&words).expect(2).json();
    assert_eq!(rules(&report), ["unreadable-kind".to_owned()].into());
    let hidden: BTreeSet<String> = told(&report, "unreadable-kind")
        .into_iter()
        .map(|(message, _)| message.split(' ').next().unwrap().to_owned())
        .collect();
    assert!(
        hidden.contains("ciliumbgpadvertisements.cilium.io") && hidden.contains("deployments.apps"),
        "{hidden:?}"
    );
}

#[test]
fn two_nodes_that_will_take_the_same_block() {
    let mut objects = healthy(Base::Kubernetes);
    for name in ["n1", "n2"] {
        object(&mut objects, "Node", name)["spec"] =
            json!({"podCIDR": "10.20.6.0/24", "podCIDRs": ["10.20.6.0/24"]});
    }
    let report = on_file(&objects);
    assert_eq!(
        severities(&report, "block-changes-at-restart"),
        ["error", "error"]
    );
    assert!(
        told(&report, "block-changes-at-restart")[0]
            .1
            .ends_with("held twice: node `n2` takes it too"),
        "{report:#}"
    );
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
    assert_eq!(severities(&report, "duplicate-block"), ["error"]);
    let unknown = report["cluster"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["certainty"] == "unknown")
        .count();
    assert_eq!(unknown, 5, "{:#}", report["cluster"]);
}
