//! On a real kube-apiserver: plan, apply, and what the server itself says of it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use testbed::{
    AnnotateK8sNode, BorrowedControlPlane, CiliumInstallation, CiliumVersion, Operator, Options,
    Program, Programs, User, build, install_cilium, parse_node,
};

use super::support::{Folder, Ran, TextAssertions, args, pool};

/// A control plane with Cilium's traces on it, and a folder to work in.
pub struct Server {
    pub plane: BorrowedControlPlane,
    pub programs: Programs,
    pub folder: Folder,
}

impl Server {
    /// Starts it with the traces of Cilium 1.19.3 in ipam kubernetes.
    pub fn usual() -> Server {
        Server::start(
            &kubernetes("1.19.3", None),
            Some("1.19.3"),
            Options::default(),
            &[],
        )
    }

    /// Starts it; `installation` tells which Cilium seems to run, `crds` whose schemas are served.
    pub fn start(
        installation: &CiliumInstallation,
        crds: Option<&str>,
        options: Options,
        more: &[Program],
    ) -> Server {
        let usual = [
            Program::KubeApiserver,
            Program::Etcd,
            Program::Kubectl,
            Program::ParseNodeOracle,
        ];
        let programs = build(&[&usual, more].concat()).unwrap();
        let options = Options {
            crds: crds.map(str::to_owned),
            ..options
        };
        let plane = BorrowedControlPlane::new(&programs, options).unwrap();
        install_cilium(&plane, installation).unwrap();
        Server {
            plane,
            programs,
            folder: Folder::new(&[]),
        }
    }

    /// Creates Nodes, each with a name, labels and what more its object has.
    pub fn nodes(&self, nodes: impl IntoIterator<Item = Value>) {
        let nodes: Vec<Value> = nodes.into_iter().collect();
        self.plane.create_many("/api/v1/nodes", &nodes, 16).unwrap();
    }

    /// Runs the program as this kubeconfig's user.
    pub fn run_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Ran {
        self.folder
            .run(&[arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat())
    }

    /// Runs the program as the administrator.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_as(self.plane.kubeconfig(), arguments)
    }

    /// Runs a command line without quotes. Fails if the exit code is another one.
    #[track_caller]
    pub fn expect(&self, line: &str, code: i32) -> Ran {
        self.run(&args(line)).expect(code)
    }

    /// What a command that succeeds prints, as JSON.
    #[track_caller]
    pub fn json(&self, line: &str) -> Value {
        self.expect(line, 0).json()
    }

    /// `spec.podCIDRs` of every Node, as the server has it now.
    pub fn pod_cidrs(&self) -> BTreeMap<String, Vec<String>> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let cidrs = |node: &Value| {
            node["spec"]["podCIDRs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect()
        };
        let nodes = self.plane.list("/api/v1/nodes").unwrap();
        nodes
            .iter()
            .map(|node| (text(&node["metadata"]["name"]), cidrs(node)))
            .collect()
    }

    /// What Cilium's own ParseNode reads from each Node.
    pub fn read_by_cilium(&self, annotate: AnnotateK8sNode) -> BTreeMap<String, Vec<String>> {
        let nodes = self.plane.list("/api/v1/nodes").unwrap();
        let read = parse_node(&self.programs, &nodes, annotate).unwrap();
        read.into_iter()
            .map(|(name, cidrs)| (name, cidrs.ipv4.into_iter().chain(cidrs.ipv6).collect()))
            .collect()
    }
}

/// A Node with labels.
pub fn node(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

/// A Cilium of this version in ipam `kubernetes`.
pub fn kubernetes(version: &str, annotate_k8s_node: Option<AnnotateK8sNode>) -> CiliumInstallation {
    CiliumInstallation {
        version: version.into(),
        ipam: "kubernetes".into(),
        annotate_k8s_node,
        ..Default::default()
    }
}

fn rack(name: &str, range: &str, rack: &str) -> String {
    pool(
        name,
        &format!(
            "{{cidrs: [{range}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: {rack}}}}}}}"
        ),
    )
}

#[test]
fn two_thousand_nodes_in_three_racks() {
    let server = Server::usual();
    let racks = ["a", "b", "c"];
    server.nodes((0..2000).map(|index| {
        node(
            &format!("worker-{index}"),
            json!({"rack": racks[index % 3]}),
        )
    }));
    let pools = [
        rack("rack-a", "10.16.0.0/14", "a"),
        rack("rack-b", "10.20.0.0/14", "b"),
        rack("rack-c", "10.24.0.0/14", "c"),
    ];
    server.folder.write("pools/racks.yaml", pools.join("---\n"));

    server.expect("plan --out plan.json --detailed-exitcode", 2);
    server.expect("apply plan.json --trust-plan-file", 0);

    let held = server.pod_cidrs();
    assert_eq!(held.len(), 2000);
    let blocks: BTreeSet<&String> = held.values().flatten().collect();
    assert_eq!(
        blocks.len(),
        2000,
        "blocks of one size overlap only when they are equal"
    );
    for (name, cidrs) in &held {
        let index: usize = name.trim_start_matches("worker-").parse().unwrap();
        let second: u8 = cidrs[0].split('.').nth(1).unwrap().parse().unwrap();
        assert_eq!(cidrs.len(), 1);
        assert_eq!(
            usize::from(second - 16) / 4,
            index % 3,
            "{name} holds {cidrs:?}"
        );
        assert!(cidrs[0].ends_with(".0/24"));
    }
    assert_eq!(server.read_by_cilium(AnnotateK8sNode::Off), held);
    let again = server.expect("plan --detailed-exitcode", 0);
    assert!(
        again
            .stdout
            .starts_with("No changes. 2,000 nodes match the files, 0 moved."),
        "{}",
        again.stdout
    );
    racks_that_swap_are_told(&server, &pools);
}

/// The pools of racks a and b select each other's nodes from now on.
fn racks_that_swap_are_told(server: &Server, pools: &[String; 3]) {
    let [a, b, c] = pools;
    let swapped = [
        a.replace("{rack: a}", "{rack: b}"),
        b.replace("{rack: b}", "{rack: a}"),
        c.clone(),
    ];
    server
        .folder
        .write("pools/racks.yaml", swapped.join("---\n"));
    let swap = server.expect("plan --fail-on misplaced", 2);
    let headline =
        "1,334 nodes misplaced; no changes. 666 of 2,000 nodes match the files, 0 moved.";
    assert!(swap.stdout.starts_with(headline), "{}", swap.stdout);
    for pool in ["rack-a", "rack-b"] {
        let cause = format!("667 blocks of pool {pool}: the pool does not select the node");
        swap.stdout.assert_has(&cause);
    }
    assert!(
        swap.stdout.lines().count() + swap.stderr.lines().count() < 60,
        "{}",
        swap.all()
    );
    let full = server.expect("plan --show-all", 0).stdout;
    assert_eq!(full.matches(".0/24").count(), 1_334);
    let doctor = server.expect("doctor --fail-on warning", 2).stdout;
    assert!(
        doctor.contains("(667 in all)") && doctor.lines().count() < 60,
        "{doctor}"
    );
    assert_eq!(
        server.pod_cidrs().values().flatten().count(),
        2_000,
        "nothing was written"
    );
}

#[test]
fn dual_stack_with_ipv6_first() {
    let options = Options {
        service_cluster_ip_range: "fd00:96::/112,10.96.0.0/16".into(),
        apiserver_flags: vec!["--advertise-address=2001:db8::1".into()],
        ..Options::default()
    };
    let mut cilium = kubernetes("1.19.3", None);
    cilium.config.insert("enable-ipv6".into(), "true".into());
    let server = Server::start(&cilium, Some("1.19.3"), options, &[]);
    server.nodes((0..20).map(|index| node(&format!("n{index:02}"), json!({}))));
    server.folder.write(
        "pools/a.yaml",
        pool(
            "a",
            "{cidrs: [10.20.0.0/16, \"fd00:20::/48\"], blockSize: {ipv4: 24, ipv6: 64}}",
        ),
    );
    server.expect("apply --auto-approve", 0);
    let held = server.pod_cidrs();
    assert_eq!(held["n19"], ["fd00:20:0:13::/64", "10.20.19.0/24"]);
    let read = server.read_by_cilium(AnnotateK8sNode::Off);
    assert_eq!(read["n19"], ["10.20.19.0/24", "fd00:20:0:13::/64"]);
    server.expect("plan --detailed-exitcode", 0);
}

#[test]
fn the_real_operator_beside_it() {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        None,
        Options::default(),
        &[Program::CiliumOperator(CiliumVersion::V1_19)],
    );
    let _operator = Operator::start(
        &server.programs,
        &server.plane,
        CiliumVersion::V1_19,
        &["--ipam=kubernetes"],
    )
    .unwrap();
    server.nodes((0..3).map(|index| node(&format!("n{index}"), json!({}))));
    let cilium_node = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "elsewhere"},
        "spec": {"ipam": {"podCIDRs": ["10.20.0.0/24"]}}});
    server
        .plane
        .create("/apis/cilium.io/v2/ciliumnodes", &cilium_node)
        .unwrap();
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    server.expect("apply --auto-approve", 0);
    let held: BTreeSet<String> = server.pod_cidrs().into_values().flatten().collect();
    assert_eq!(
        held,
        ["10.20.1.0/24", "10.20.2.0/24", "10.20.3.0/24"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn a_snapshot_and_kubectls_own_list_plan_the_same_as_the_server() {
    let server = Server::usual();
    server.nodes((0..30).map(|index| node(&format!("n{index}"), json!({"rack": "a"}))));
    let held = json!({"spec": {"podCIDR": "10.20.3.0/24", "podCIDRs": ["10.20.3.0/24"]}});
    server.plane.patch("/api/v1/nodes/n7", &held).unwrap();
    server
        .folder
        .write("pools/a.yaml", rack("a", "10.20.0.0/16", "a"));

    let live = server.expect("plan -o json", 0).stdout;
    server.expect("snapshot --out snapshot.json", 0);
    let mut kubectl = server.plane.kubectl(&server.programs).unwrap();
    let kinds = "nodes,ciliumnodes,daemonsets.apps,configmaps,servicecidrs,ciliumloadbalancerippools,customresourcedefinitions";
    for (format, file) in [("json", "kubectl.json"), ("yaml", "kubectl.yaml")] {
        let listed = kubectl_output(
            &mut server.plane.kubectl(&server.programs).unwrap(),
            &["get", kinds, "-A", "-o", format],
        );
        server.folder.write(file, listed);
    }
    for file in ["snapshot.json", "kubectl.json", "kubectl.yaml"] {
        let plan = server
            .folder
            .run(&["plan", "--cluster", file, "-o", "json"])
            .expect(0);
        assert_eq!(plan.stdout, live, "{file}");
    }
    // What apply makes of the file is what kubectl accepts again.
    server
        .folder
        .expect("apply --cluster kubectl.json --auto-approve", 0);
    kubectl
        .args([
            "create",
            "--dry-run=client",
            "--validate=false",
            "-o",
            "name",
            "-f",
        ])
        .arg(server.folder.join("kubectl.json"));
    kubectl_output(&mut kubectl, &[]);
}

fn kubectl_output(kubectl: &mut std::process::Command, arguments: &[&str]) -> Vec<u8> {
    let output = kubectl.args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn what_a_user_may_not_see_or_do() {
    let users = ["nobody", "reader", "nodes-only"].map(User::named).into();
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options {
            users,
            ..Options::default()
        },
        &[],
    );
    server.nodes([node("n", json!({}))]);
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    grant(&server, "nodes-only", &[("", "nodes")]);
    let reads = [
        ("", "nodes"),
        ("", "configmaps"),
        ("", "pods"),
        ("apps", "daemonsets"),
        ("cilium.io", "ciliumnodes"),
        ("cilium.io", "ciliumloadbalancerippools"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ];
    grant(&server, "reader", &reads);
    let as_user = |user: &str, arguments: &[&str]| {
        server.run_as(&server.plane.kubeconfig_for(user).unwrap(), arguments)
    };

    let refused = as_user("nobody", &["plan"]).expect(8).stderr;
    refused.assert_has("ciliumnodes.cilium.io cannot be read");
    let refused = as_user("nodes-only", &["plan"]).expect(8).stderr;
    refused.assert_has("ciliumnodes.cilium.io cannot be read");
    let plan = as_user("reader", &["plan", "-o", "json"]).expect(0).json();
    assert_eq!(plan["findings"][0]["rule"], "unreadable-kind");
    assert_eq!(plan["summary"]["assign"], 1);
    let apply = as_user("reader", &["apply", "--auto-approve"]).expect(1);
    assert!(
        apply.stdout.contains("not applied Node/n") && apply.stderr.contains("no permission"),
        "{}",
        apply.stderr
    );
    apply.stderr.assert_has("no lock is taken");
    assert_eq!(server.pod_cidrs()["n"], Vec::<String>::new());
}

/// Lets a user read these resources, by group and name.
pub fn grant(server: &Server, user: &str, resources: &[(&str, &str)]) {
    let rules: Vec<Value> = resources
        .iter()
        .map(|(group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list"]}))
        .collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    server
        .plane
        .create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
        .unwrap();
    server
        .plane
        .create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &binding,
        )
        .unwrap();
}

#[test]
fn a_server_that_does_not_answer() {
    let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
    server.folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    let kubeconfig = std::fs::read_to_string(server.plane.kubeconfig()).unwrap();
    let Server { plane, folder, .. } = server;
    plane.end();
    folder.write("kubeconfig", kubeconfig);
    let ran = folder.expect("plan --kubeconfig kubeconfig", 8);
    ran.stderr.assert_has("does not answer: connection refused");
    let ran = folder.expect("plan --kubeconfig missing", 8);
    ran.stderr.assert_has("credentials cannot be used");
}
