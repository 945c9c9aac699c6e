//! Cilium is what runs in one namespace: objects that a tenant creates change nothing.

use serde_json::{Value, json};
use testbed::Options;

use super::operator::{install_definitions, operator_of, pool as custom_pool, until};
use super::running::{Running, http_get};
use super::server::{Server, kubernetes, node as live_node};
use super::support::{Folder, KUBERNETES, Ran, cluster, node, pool};

const GROUP: &str = super::operator::GROUP;
const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";
const LB_POOL: &str = "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: blue}\nspec: {blocks: [{cidr: 20.0.10.0/24}]}\n";

/// A DaemonSet with the label of Cilium's agents.
fn daemon_set(namespace: &str, version: &str) -> Value {
    let labels = json!({"k8s-app": "cilium"});
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "cilium", "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "nodeSelector": {"never": "scheduled"},
                "containers": [{"name": "cilium-agent",
                    "image": format!("quay.io/cilium/cilium:v{version}")}]}}}})
}

fn scheduled(mut daemon_set: Value, number: u32) -> Value {
    daemon_set["status"] = json!({"currentNumberScheduled": number});
    daemon_set
}

fn config(namespace: &str, ipam: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cilium-config", "namespace": namespace},
        "data": {"ipam": ipam, "enable-ipv4": "true", "enable-ipv6": "false"}})
}

fn operator(namespace: &str, version: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cilium-operator", "namespace": namespace,
            "labels": {"io.cilium/app": "operator"}},
        "spec": {"template": {"spec": {"containers": [{"name": "cilium-operator",
            "image": format!("quay.io/cilium/operator-generic:v{version}"),
            "args": ["--ipam=cluster-pool"]}]}}}})
}

fn files(items: &[Value]) -> Folder {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let text = format!("{}---\n{LB_POOL}", pool("a", POOL));
    Folder::new(&[("cluster.json", &list.to_string()), ("pools/a.yaml", &text)])
}

fn plan(folder: &Folder, more: &[&str]) -> Value {
    let usual = [
        "plan",
        "--cluster-file",
        "cluster.json",
        "-o",
        "json",
        "--fail-on",
        "never",
    ];
    folder.run(&[&usual, more].concat()).expect(0).json()
}

fn rules(plan: &Value) -> Vec<&str> {
    let findings = plan["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect()
}

fn new_node() -> Value {
    serde_json::from_str(&node("n1", "a", "")).unwrap()
}

#[test]
fn objects_of_a_tenant_change_nothing_but_a_finding() {
    let cilium = [
        config("kube-system", "kubernetes"),
        daemon_set("kube-system", "1.19.3"),
        new_node(),
    ];
    let alone = plan(&files(&cilium), &[]);
    assert_eq!(alone["summary"]["assign"], 1, "{alone:#}");
    let tenants = [
        scheduled(daemon_set("team-a", "1.12.19"), 3),
        config("team-a", "cluster-pool"),
        operator("team-a", "1.12.19"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "team-a",
            "labels": {"k8s-app": "cilium"}}, "spec": {"nodeName": "n1", "containers":
            [{"name": "cilium-agent", "image": "cilium:v1.12.19"}]}}),
    ];
    for (number, tenant) in tenants.iter().enumerate() {
        let mut items = vec![tenant.clone()];
        items.extend(cilium.clone());
        let folder = files(&items);
        let seen = plan(&folder, &[]);
        // Plans do not read Pods of agents.
        if number < 3 {
            assert!(rules(&seen).contains(&"objects-like-cilium"), "{seen:#}");
        }
        for part in ["changes", "blocked", "refusals", "misplaced", "drift"] {
            assert_eq!(seen[part], alone[part], "{part} {number}");
        }
        let doctor = [
            "doctor",
            "pools",
            "--cluster-file",
            "cluster.json",
            "-o",
            "json",
            "--fail-on",
            "never",
        ];
        let report = folder.run(&doctor).expect(0).json();
        assert!(
            report.to_string().contains("objects-like-cilium"),
            "{report:#}"
        );
        assert!(!report.to_string().contains("two-cilium"), "{report:#}");
        let version = &report["cluster"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["about"] == "version")
            .unwrap()["value"];
        assert_eq!(version, "1.19.3");
    }
}

#[test]
fn cilium_elsewhere_is_the_only_one_that_runs_or_the_one_that_is_named() {
    let elsewhere = |more: Vec<Value>| {
        let mut items = vec![
            config("cilium", "kubernetes"),
            scheduled(daemon_set("cilium", "1.19.3"), 3),
            new_node(),
        ];
        items.extend(more);
        files(&items)
    };
    assert_eq!(plan(&elsewhere(vec![]), &[])["summary"]["assign"], 1);
    // A DaemonSet that runs nowhere does not count.
    let idle = vec![
        config("team-a", "cluster-pool"),
        scheduled(daemon_set("team-a", "1.12.19"), 0),
    ];
    let seen = plan(&elsewhere(idle), &[]);
    assert_eq!(seen["summary"]["assign"], 1, "{seen:#}");
    assert!(rules(&seen).contains(&"objects-like-cilium"));
    // One that runs makes it unknown, unless the user names the namespace.
    let running = vec![
        config("team-a", "cluster-pool"),
        scheduled(daemon_set("team-a", "1.12.19"), 3),
    ];
    let folder = elsewhere(running);
    let unknown = plan(&folder, &[]);
    assert!(
        rules(&unknown).contains(&"multiple-cilium-installations"),
        "{unknown:#}"
    );
    assert_eq!(unknown["summary"]["blocked"], 2, "{unknown:#}");
    let named = plan(&folder, &["--cilium-namespace", "cilium"]);
    assert_eq!(named["summary"]["assign"], 1, "{named:#}");
    assert!(rules(&named).contains(&"objects-like-cilium"));
    let wrong: Ran = folder.run(&["plan", "--cilium-namespace", "a/b"]);
    assert!(
        wrong.stderr.contains("expected the name of a namespace"),
        "{}",
        wrong.stderr
    );
}

fn server() -> Server {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options::default(),
        &[],
    );
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}});
    server
        .plane
        .create("/api/v1/namespaces", &namespace)
        .unwrap();
    server
}

/// What a user with the ClusterRole `edit` in one namespace can create.
fn attack(server: &Server) {
    let path = "/apis/apps/v1/namespaces/team-a/daemonsets";
    server
        .plane
        .create(path, &daemon_set("team-a", "1.12.19"))
        .unwrap();
    let path = "/api/v1/namespaces/team-a/configmaps";
    server
        .plane
        .create(path, &config("team-a", "cluster-pool"))
        .unwrap();
}

fn in_rack(name: &str) -> Value {
    live_node(name, json!({"rack": "a"}))
}

#[test]
fn a_daemon_set_of_a_tenant_stops_no_watch() {
    let server = server();
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.folder.write("pools/lb.yaml", LB_POOL);
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    server.nodes([in_rack("n1")]);
    assert_eq!(watching.written("n1"), json!(["10.20.0.0/24"]));
    let pools = "/apis/cilium.io/v2/ciliumloadbalancerippools/blue";
    until("the pool is written", || server.plane.get(pools).is_ok());
    let before = server.plane.get(pools).unwrap()["spec"].clone();
    attack(&server);
    let seen = watching.until("seen", json!({}));
    let seen = match seen["warnings"].as_array().unwrap().is_empty() {
        true => watching.until("seen", json!({})),
        false => seen,
    };
    assert_eq!(seen["warnings"][0]["rule"], "objects-like-cilium", "{seen}");
    server.nodes([in_rack("n2")]);
    assert_eq!(watching.written("n2"), json!(["10.20.1.0/24"]));
    assert_eq!(server.plane.get(pools).unwrap()["spec"], before);
    watching.end();
    // A process that starts after the attack sees the same.
    let again = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    server.nodes([in_rack("n3")]);
    assert_eq!(again.written("n3"), json!(["10.20.2.0/24"]));
    assert_eq!(server.plane.get(pools).unwrap()["spec"], before);
    again.end();
}

#[test]
fn a_daemon_set_of_a_tenant_stops_no_operator() {
    let server = server();
    install_definitions(&server);
    attack(&server);
    let path = format!("{GROUP}/ippools");
    server
        .plane
        .create(&path, &custom_pool("a", "10.20.0.0/16", "a"))
        .unwrap();
    let operator = operator_of(&server);
    let address = operator.address();
    server.nodes([in_rack("n1")]);
    assert_eq!(operator.written("n1"), json!(["10.20.0.0/24"]));
    until("it is ready", || http_get(&address, "/readyz").0 == 200);
    operator.end();
}

#[test]
fn a_named_namespace_is_the_only_one_that_is_read() {
    let server = server();
    attack(&server);
    server.folder.write("pools/a.yaml", pool("a", POOL));
    server.nodes([in_rack("n1")]);
    let ran = server.run(&[
        "doctor",
        "pools",
        "--verbose",
        "--cilium-namespace",
        "kube-system",
        "--fail-on",
        "never",
    ]);
    let requests: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("GET "))
        .collect();
    for kind in ["daemonsets", "deployments", "ciliumnodeconfigs", "pods"] {
        let of_kind = || {
            requests
                .iter()
                .filter(|line| line.contains(&format!("/{kind}")))
        };
        assert!(of_kind().count() > 0, "{kind}: {requests:#?}");
        assert!(
            of_kind().all(|line| line.contains("/namespaces/kube-system/")),
            "{requests:#?}"
        );
    }
    assert!(
        !ran.stdout.contains("objects-like-cilium"),
        "{}",
        ran.stdout
    );
    let ran = server.run(&["doctor", "pools", "--fail-on", "never"]);
    assert!(ran.stdout.contains("objects-like-cilium"), "{}", ran.stdout);
}

#[test]
fn settings_in_kube_system_win_over_running_agents_elsewhere() {
    let folder = Folder::new(&[("pools/a.yaml", &pool("a", POOL))]);
    let tenant = [
        config("team-a", "cluster-pool"),
        scheduled(daemon_set("team-a", "1.12.19"), 9),
    ];
    let mut items: Vec<String> = tenant.iter().map(Value::to_string).collect();
    items.push(node("n1", "a", ""));
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &items));
    assert_eq!(plan(&folder, &[])["summary"]["assign"], 1);
}
