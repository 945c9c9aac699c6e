//! The table in `docs/trusted-objects.md`: each row names a test, each kind has a row, and objects of
//! a tenant elsewhere change nothing.

use std::collections::BTreeSet;
use std::process::Command;

use ipam_cilium::observed::ObservedKind;
use serde_json::{Value, json};

use super::support::{
    Folder, KUBERNETES, TextAssertions, args, cilium_node, cluster, holds, node, pool, ran,
    repository,
};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

/// The cells of each row.
fn rows() -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(repository().join("docs/trusted-objects.md")).unwrap();
    let table = page.split("<!-- trusted objects -->").nth(1).unwrap();
    let table = table.split("<!-- end -->").next().unwrap();
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    lines.map(cells).collect()
}

#[test]
fn each_row_names_a_test() {
    let rows = rows();
    assert!(rows.len() >= 20, "{}", rows.len());
    let tests = Command::new(std::env::current_exe().unwrap())
        .args(args("--list --format terse"))
        .output();
    let tests = ran(tests.unwrap()).expect(0).stdout;
    let tests = tests.lines().filter_map(|line| line.strip_suffix(": test"));
    let tests: Vec<&str> = tests.collect();
    for row in &rows {
        let [_, _, _, _, name] = &row[..] else {
            panic!("{row:?}")
        };
        let name = name.trim_matches('`');
        let module = format!("{name}::");
        let is_named = |test: &&str| *test == name || test.starts_with(&module);
        assert!(tests.iter().any(is_named), "{row:?}");
    }
}

/// The row of a kind.
fn row_of(kind: ObservedKind) -> &'static str {
    use ObservedKind as K;
    match kind {
        K::Claims => "ConfigMap `cilium-ipam-claims`",
        K::Departed(_) => "ConfigMaps `cilium-ipam-quarantine-0` to `-3`",
        K::Migration => "ConfigMap `cilium-ipam-migration`",
        K::CiliumDaemonSet => "DaemonSet `k8s-app: cilium`",
        K::CiliumConfig => "ConfigMap `cilium-config`",
        K::Definition(_) | K::MoreDefinitions => "CustomResourceDefinition",
        K::ControllerPod => "Pods of control planes",
        K::ControllerDaemonSet => "DaemonSets of control planes",
        K::ServiceCidr => "ServiceCIDR",
        K::LoadBalancerPool => "CiliumLoadBalancerIPPool",
        K::PodIpPool => "CiliumPodIPPool",
        K::Service => "Service",
        K::CiliumOperator => "Deployment `io.cilium/app: operator`",
        K::CiliumAgentPod => "Pods `k8s-app: cilium`",
        K::CiliumNodeConfig => "CiliumNodeConfig",
        K::BgpPeeringPolicy
        | K::BgpClusterConfig
        | K::BgpPeerConfig
        | K::BgpAdvertisement
        | K::L2AnnouncementPolicy => "BGP and L2 objects of Cilium",
        K::SpeakerConfig => "ConfigMap `bgp-config`",
        K::KubeadmConfig => "ConfigMap `kubeadm-config`",
        K::RouterDaemonSet => "DaemonSets that route `spec.podCIDRs`",
        K::CiliumNode => "CiliumNode",
        K::Node => "Node: labels",
    }
}

#[test]
fn requests_go_where_the_table_says() {
    let rows = rows();
    let kinds = ObservedKind::OF_PLANS
        .into_iter()
        .chain(ObservedKind::OF_EXAMINATIONS);
    for kind in kinds {
        let row = rows.iter().find(|row| row[0] == row_of(kind));
        let place = row.unwrap_or_else(|| panic!("{kind:?} has no row"))[1].as_str();
        // Routers are looked for in all namespaces unless that of Cilium is named.
        let namespace = match kind {
            ObservedKind::RouterDaemonSet => "",
            _ => "of-cilium",
        };
        for path in kind.query(namespace).paths {
            let seen = match path.split("/namespaces/").nth(1) {
                Some(rest) if rest.starts_with("of-cilium/") => "Cilium's namespace",
                Some(rest) if rest.starts_with("kube-system/") => "`kube-system`",
                Some(rest) => panic!("{kind:?}: {rest}"),
                None if matches!(kind, ObservedKind::Service | ObservedKind::RouterDaemonSet) => {
                    "all namespaces"
                }
                None => "cluster",
            };
            assert_eq!(seen, place, "{kind:?}: {path}");
        }
    }
    let places: BTreeSet<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    assert!(places.contains("all namespaces"));
}

fn plan_of(settings: &str, items: &[Value], nodes: &[String]) -> Value {
    let folder = Folder::new(&[("pools/a.yaml", &pool("a", POOL))]);
    let items = items.iter().map(Value::to_string);
    let all: Vec<String> = items.chain(nodes.iter().cloned()).collect();
    let settings = format!("{KUBERNETES}{settings}");
    folder.write("cluster.json", cluster("1.19.3", &settings, &all));
    folder.plan()
}

/// Fails if a plan depends on an object of a tenant, or does not depend on the same object at home.
#[track_caller]
fn only_at_home(home: &str, settings: &str, object: impl Fn(&str) -> Value) {
    let nodes = [node("n1", "a", "")];
    let decided = |items: &[Value]| {
        let plan = plan_of(settings, items, &nodes);
        [plan["changes"].clone(), plan["blocked"].clone()]
    };
    let alone = decided(&[]);
    assert_eq!(decided(&[object("team-a")]), alone);
    assert_ne!(
        decided(&[object(home)]),
        alone,
        "the object has no effect at home"
    );
}

fn config_map(name: &str, namespace: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7"},
        "data": data})
}

#[test]
fn claims_elsewhere() {
    let claims = json!({"format_version": "1.0", "quarantined": [{"block": "10.20.0.0/24",
        "since": "2099-01-01T00:00:00Z", "node": "n9"}], "claims": []});
    let data = json!({"claims.json": claims.to_string()});
    let nodes = [node("n1", "a", "")];
    let of = |namespace: &str| {
        let claims = config_map("cilium-ipam-claims", namespace, data.clone());
        plan_of("", &[claims], &nodes)["changes"][0]["after"].clone()
    };
    assert_eq!(of("team-a"), json!(["10.20.0.0/24"]));
}

#[test]
fn quarantines_elsewhere() {
    let now = jiff::Timestamp::now().as_second();
    let text = format!("cilium-ipam-quarantine 1 dropped 0\n10.20.0.0/24 n9 {now}\n");
    only_at_home("kube-system", "", |namespace| {
        config_map(
            "cilium-ipam-quarantine-0",
            namespace,
            json!({"blocks.txt": text}),
        )
    });
}

#[test]
fn records_elsewhere() {
    let record = json!({"id": "m", "state": "running", "wave": 0,
        "schedule": {"waves": [{"nodes": ["n1"]}]}});
    let is_told = |namespace: &str| {
        let data = json!({"record.json": record.to_string()});
        let record = config_map("cilium-ipam-migration", namespace, data);
        let plan = plan_of("", &[record], &[node("n1", "a", "")]);
        plan["findings"]
            .to_string()
            .contains("migration m is unfinished")
    };
    assert!(is_told("kube-system") && !is_told("team-a"));
}

#[test]
fn node_configs_elsewhere() {
    only_at_home("kube-system", "", |namespace| {
        json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig",
            "metadata": {"name": "c", "namespace": namespace, "uid": "u", "resourceVersion": "7"},
            "spec": {"nodeSelector": {}, "defaults": {"ipv4-range": "10.20.9.0/24"}}})
    });
}

#[test]
fn speakers_elsewhere() {
    let nodes = [node("n1", "a", &holds("10.20.1.0/24"))];
    let doctor = |namespace: &str| {
        let peers = json!({"config.yaml": "peers: [{peer-address: 192.0.2.1, node-selectors: [{match-labels: {rack: z}}]}]"});
        let config = config_map("bgp-config", namespace, peers);
        let folder = Folder::new(&[]);
        let settings = format!(r#"{KUBERNETES},"bgp-announce-pod-cidr":"true""#);
        let items = [config.to_string(), nodes[0].clone()];
        folder.write("cluster.json", cluster("1.12.19", &settings, &items));
        let line = "doctor --no-pools --cluster-file cluster.json -o json --fail-on never";
        folder.json(line)["findings"].to_string()
    };
    let elsewhere = doctor("team-a");
    assert_ne!(elsewhere, doctor("kube-system"));
    elsewhere.assert_lacks("without a peer");
}

#[test]
fn routers_of_tenants() {
    let unused = node("n1", "a", &holds("10.244.1.0/24"));
    let used = cilium_node("n1", &["10.20.1.0/24"]);
    let doctor = |spec: Value| {
        let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "kube-flannel-ds", "namespace": "team-a"},
            "spec": {"template": {"spec": spec}}});
        let items = [daemon_set.to_string(), used.clone(), unused.clone()];
        let folder = Folder::new(&[]);
        folder.write(
            "cluster.json",
            cluster("1.19.3", r#""ipam":"cluster-pool""#, &items),
        );
        let line = "doctor --no-pools --cluster-file cluster.json -o json --fail-on never";
        folder.json(line)["findings"].to_string()
    };
    let containers = json!([{"name": "c", "image": "docker.io/flannel/flannel:v0.26.1"}]);
    doctor(json!({"hostNetwork": true, "containers": containers})).assert_has("flannel runs");
    doctor(json!({"containers": containers})).assert_lacks("flannel runs");
}

#[test]
fn labels_of_kubelets_are_named() {
    let folder = Folder::new(&[(
        "pools/a.yaml",
        &pool(
            "a",
            "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}",
        ),
    )]);
    let ran = folder.expect("validate", 0);
    ran.all().assert_has("selector-uses-kubelet-labels");
}

#[test]
fn a_protected_node_only_refuses() {
    let mut protected: Value = serde_json::from_str(&node("n1", "a", "")).unwrap();
    protected["metadata"]["annotations"] = json!({"cilium-ipam.io/protected": "true"});
    let plan = plan_of("", &[protected], &[node("n2", "a", "")]);
    let after = |name: &str| {
        let mut changes = plan["changes"].as_array().unwrap().iter();
        changes
            .find(|change| change["name"] == name)
            .map(|change| change["after"].clone())
    };
    assert_eq!(after("n2"), Some(json!(["10.20.1.0/24"])), "{plan:#}");
}

#[test]
fn authors_are_only_shown() {
    let author = |manager: &str| {
        let mut of_node: Value =
            serde_json::from_str(&node("n1", "a", &holds("10.99.1.0/24"))).unwrap();
        of_node["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update",
            "time": "2026-01-02T03:04:05Z",
            "fieldsV1": {"f:spec": {"f:podCIDR": {}, "f:podCIDRs": {}}}}]);
        let plan = plan_of("", &[of_node], &[node("n2", "a", "")]);
        [
            plan["changes"].clone(),
            plan["blocked"].clone(),
            plan["refusals"].clone(),
        ]
    };
    assert_eq!(author("cilium-ipam"), author("kubectl-edit"));
}

#[test]
fn a_service_takes_no_address_of_another() {
    let lan = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": "lan"}, "spec": {"blocks": [{"cidr": "20.0.10.0/30"}]}});
    let service = |namespace: &str, ingress: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace,
                "annotations": {"lbipam.cilium.io/ips": "20.0.10.1"}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            "status": {"loadBalancer": {"ingress": ingress}}})
    };
    let folder = Folder::new(&[("pools/a.yaml", &pool("a", POOL))]);
    let items = [
        lan,
        service("shop", json!([{"ip": "20.0.10.1"}])),
        service("team-a", json!([])),
    ];
    let items: Vec<String> = items.iter().map(Value::to_string).collect();
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &items));
    let ran = folder.run(&args("explain 20.0.10.1 pools --cluster-file cluster.json"));
    ran.all().assert_has("shop/web");
}
