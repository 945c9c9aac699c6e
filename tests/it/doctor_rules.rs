//! For each rule of `doctor`, a healthy cluster with one fault, in a file and on the real server. The
//! cases are in `doctor`; this file knows none of them by its name.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};
use testbed::{ControlPlane, Options, Program, User, build, install_crds};

use super::cases;
use super::doctor_cluster::{
    Base, Changes, Cluster, create, delete, healthy, object, read, rules, severities, told,
    with_pool,
};
use super::support::{Folder, pool};

const POOL: &str = "{cidrs: [10.20.0.0/21], blockSize: 24}";

/// A healthy cluster, a fault in it, and the rules that report the fault. An incident that users
/// of Cilium reported has the number of its issue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    of: String,
    base: Base,
    /// What makes the healthy cluster like the reported one. It gives no finding.
    #[serde(default)]
    near: Changes,
    breaks: Changes,
    /// The rule of each finding, sorted.
    rules: Vec<String>,
    /// Lines about the report, as in the file `expect` of `cases`.
    #[serde(default)]
    expect: Vec<String>,
}

impl Case {
    fn broken(&self) -> Cluster {
        Cluster::new(self.base, &[&self.near, &self.breaks])
    }

    /// What is not as expected.
    fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let near = Cluster::new(self.base, &[&self.near]).examined().1.json();
        if near["findings"] != json!([]) {
            failures.push(format!("before the fault: {:#}", near["findings"]));
        }
        let (folder, ran) = self.broken().examined();
        let report = ran.json();
        failures.extend(self.other_rules(&report));
        let lines = self.expect.iter();
        let broken = lines.filter(|line| !cases::holds(line, &folder, &ran, ""));
        failures.extend(broken.map(|line| format!("{line}: {:#}", report["findings"])));
        failures
    }

    /// How the rules of a report differ.
    fn other_rules(&self, report: &Value) -> Option<String> {
        let findings = report["findings"].as_array().unwrap().iter();
        let mut found: Vec<&str> = findings
            .map(|finding| finding["rule"].as_str().unwrap())
            .collect();
        found.sort_unstable();
        let (expected, findings) = (&self.rules, &report["findings"]);
        (found != *expected).then(|| format!("{found:?}, not {expected:?}: {findings:#}"))
    }
}

fn check(file: &str) {
    let cases: Vec<Case> = read(file);
    let of_case = |case: &Case| {
        let failures = case.failures().into_iter();
        let named = failures.map(|failure| format!("{file}, {}: {failure}", case.of));
        named.collect::<Vec<_>>()
    };
    let failures: Vec<String> = cases.iter().flat_map(of_case).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_rule_finds_what_is_broken_and_nothing_else() {
    check("rules.yaml");
}

#[test]
fn incidents_of_multi_pool() {
    check("multi-pool.yaml");
}

#[test]
fn incidents_of_announcements() {
    check("announcements.yaml");
}

#[test]
fn incidents_of_load_balancer_addresses() {
    check("addresses.yaml");
}

#[test]
fn incidents_of_pods() {
    check("pods.yaml");
}

#[test]
fn causes_and_fixes_of_findings() {
    check("fixes.yaml");
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
    folder.write("pools/a.yaml", pool("a", POOL));
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
    let cases: Vec<Case> = read("rules.yaml");
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
        for case in cases.iter().filter(|case| case.base == base) {
            let broken = case.broken().objects;
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
            let expected: BTreeSet<String> = case.rules.iter().cloned().collect();
            assert_eq!(rules(&report), expected, "{}: {report:#}", case.of);
            made.iter().for_each(|object| delete(&plane, object));
            changed.iter().for_each(|object| create(&plane, object));
        }
        healthy.iter().for_each(|object| delete(&plane, object));
    }
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
    let none = with_pool(&without("ConfigMap"), POOL);
    assert!(rules(&none).contains("no-cilium"), "{none:#}");
    assert_eq!(about(&none, "ipam"), (json!("unknown"), json!("unknown")));
    // A digest tells no version; the chart's label does.
    let mut cached = healthy.clone();
    let daemon_set = object(&mut cached, "DaemonSet", "cilium");
    daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] =
        "mirror/cilium@sha256:00".into();
    assert_eq!(
        about(&with_pool(&cached, POOL), "version"),
        (json!("unknown"), json!("unknown"))
    );
    object(&mut cached, "DaemonSet", "cilium")["metadata"]["labels"]["helm.sh/chart"] =
        "cilium-1.19.3".into();
    assert_eq!(
        about(&with_pool(&cached, POOL), "version"),
        (json!("1.19.3"), json!("likely"))
    );
    // Objects in another namespace change nothing.
    let mut two = healthy.clone();
    let mut other = object(&mut two, "ConfigMap", "cilium-config").clone();
    other["metadata"]["namespace"] = "cilium".into();
    let mut daemon_set = object(&mut two, "DaemonSet", "cilium").clone();
    daemon_set["metadata"]["namespace"] = "cilium".into();
    two.extend([other, daemon_set]);
    let two = rules(&with_pool(&two, POOL));
    assert!(two.contains("objects-like-cilium") && !two.contains("multiple-cilium-installations"));
    let nothing = with_pool(&[], POOL);
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
    let report = with_pool(&objects, POOL);
    assert_eq!(severities(&report, "duplicate-block"), ["error"]);
    let unknown = report["cluster"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["certainty"] == "unknown")
        .count();
    assert_eq!(unknown, 5, "{:#}", report["cluster"]);
}
