//! What a node's own agent or kubelet says of its addresses: it neither decides a block nor empties
//! a pool.

use serde_json::{Value, json};
use testbed::{CiliumInstallation, Client, ControlPlane, Options, wait_until};

use super::chart::Installed;
use super::operator;
use super::running::{AT_MOST, Running};
use super::server::{Server, kubernetes, node as server_node};
use super::support::{Folder, KUBERNETES, cluster, node, pin, pool};

const RACK_A: &str =
    "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: a}}}";

fn folder(items: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, items)),
        ("pools/a.yaml", &pool("a", RACK_A)),
    ])
}

fn plan(folder: &Folder) -> Value {
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "-o",
            "json",
            "--fail-on",
            "never",
        ])
        .expect(0)
        .json()
}

fn cilium_node(name: &str, cidr: &str) -> Value {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name}, "spec": {"ipam": {"podCIDRs": [cidr]}}})
}

fn with_addresses(name: &str, addresses: impl Iterator<Item = String>) -> String {
    let addresses: Vec<Value> = addresses
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    let mut node: Value = serde_json::from_str(&node(name, "b", "")).unwrap();
    node["status"] = json!({"addresses": addresses});
    node.to_string()
}

fn finding<'p>(plan: &'p Value, rule: &str) -> Option<&'p Value> {
    plan["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["rule"] == rule)
}

#[test]
fn one_machine_with_an_address_in_every_block_does_not_fill_the_pool() {
    let hostile = with_addresses("m", (0..256).map(|third| format!("10.20.{third}.1")));
    let folder = folder(&[hostile, node("n", "a", "")]);
    let plan = plan(&folder);
    assert_eq!(
        plan["changes"][0]["after"],
        json!(["10.20.8.0/24"]),
        "{plan:#}"
    );
    let found = finding(&plan, "one-node-fills-pool").unwrap();
    assert_eq!(
        (found["severity"].as_str(), found["subject"].as_str()),
        (Some("error"), Some("Node/m"))
    );
    let message = "Node/m claims 256 blocks of pool `a` by the addresses of its machine (Node/m status.addresses: 10.20.0.1, 10.20.1.1, \
        10.20.2.1 and 253 more); 8 of them are kept free";
    assert_eq!(found["message"], message);
    folder.run(&["plan", "--cluster", "cluster.json"]).expect(2);
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
}

#[test]
fn the_few_addresses_of_an_honest_machine_stay_free() {
    let honest = with_addresses(
        "m",
        [
            "10.20.0.5".to_owned(),
            "10.20.2.5".to_owned(),
            "192.168.7.1".to_owned(),
        ]
        .into_iter(),
    );
    let plan = plan(&folder(&[honest, node("n1", "a", ""), node("n2", "a", "")]));
    let given = |index: usize| plan["changes"][index]["after"][0].clone();
    assert_eq!(
        (given(0), given(1)),
        (json!("10.20.1.0/24"), json!("10.20.3.0/24"))
    );
    assert!(finding(&plan, "one-node-fills-pool").is_none(), "{plan:#}");
}

#[test]
fn a_wide_block_that_no_agent_reads_does_not_fill_the_pool() {
    // The Node has a block of its own, so its agent reads that one.
    let holder = node(
        "m",
        "a",
        r#""podCIDR":"10.20.200.0/24","podCIDRs":["10.20.200.0/24"]"#,
    );
    let mut shown = cilium_node("m", "10.20.0.0/16");
    shown["metadata"]["managedFields"] = json!([{"manager": "evil-agent", "operation": "Update", "time": "2026-02-01T10:00:00Z",
        "fieldsV1": {"f:spec": {"f:ipam": {"f:podCIDRs": {}}}}}]);
    let folder = folder(&[holder, shown.to_string(), node("n", "a", "")]);
    let plan = plan(&folder);
    assert_eq!(
        plan["changes"][0]["after"],
        json!(["10.20.32.0/24"]),
        "an eighth of the pool is kept: {plan:#}"
    );
    let source = "CiliumNode/m spec.ipam.podCIDRs: 10.20.0.0/16, written by evil-agent at 2026-02-01T10:00:00Z";
    let message = finding(&plan, "one-node-fills-pool").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains(&format!(
            "by fields that no agent reads ({source}); 32 of them"
        )),
        "{message}"
    );
    let words = [
        "doctor",
        "--cluster",
        "cluster.json",
        "-o",
        "json",
        "--fail-on",
        "never",
    ];
    let examined = folder.run(&words).expect(0).json();
    let found = finding(&examined, "one-node-fills-pool").unwrap();
    assert_eq!(found["evidence"], json!([source]), "{found:#}");
}

#[test]
fn a_wide_block_that_is_in_use_is_never_cut() {
    let holder = node(
        "m",
        "a",
        r#""podCIDR":"10.20.0.0/17","podCIDRs":["10.20.0.0/17"]"#,
    );
    let plan = plan(&folder(&[holder, node("n", "a", "")]));
    assert_eq!(
        plan["changes"][0]["after"],
        json!(["10.20.128.0/24"]),
        "{plan:#}"
    );
    assert_eq!(
        finding(&plan, "one-node-fills-pool").unwrap()["severity"],
        "warning"
    );
}

fn dual(name: &str, rack: &str, cidrs: &[&str]) -> String {
    let first = cidrs
        .first()
        .map(|cidr| format!(r#""podCIDR":"{cidr}","podCIDRs":{}"#, json!(cidrs)));
    node(name, rack, &first.unwrap_or_default())
}

/// `n2 + 10.20.1.0/24`, `n2 ? held-twice`: what becomes of each node.
fn fates(plan: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = plan["changes"].as_array().unwrap().iter().map(|change| {
        let waits = if text(&change["reason"]).contains("needs the approval") {
            " if approved"
        } else {
            ""
        };
        let after: Vec<String> = change["after"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect();
        format!("{} + {}{waits}", text(&change["name"]), after.join(" "))
    });
    let blocked = plan["blocked"].as_array().unwrap().iter();
    let blocked =
        blocked.map(|blocked| format!("{} ? {}", text(&blocked["name"]), text(&blocked["code"])));
    let mut fates: Vec<String> = changes.chain(blocked).collect();
    fates.sort();
    fates
}

#[test]
fn what_a_field_shows_is_held_against_all_that_others_show() {
    let narrow = "{cidrs: [10.20.0.0/24, 10.20.2.0/24], blockSize: 24}";
    let wide = "{cidrs: [10.20.0.0/16], blockSize: 24}";
    let shows = |name: &str, cidr: &str| cilium_node(name, cidr).to_string();
    let cases: [(&str, &str, Vec<String>, &[&str]); 5] = [
        (
            "a block in use that reaches beyond the pool",
            "{cidrs: [10.20.0.0/16], blockSize: 24}",
            vec![
                dual("n1", "a", &["10.16.0.0/12"]),
                node("n2", "a", ""),
                shows("n2", "10.17.0.0/24"),
            ],
            &["n2 ? held-twice"],
        ),
        (
            "one that lies between two ranges of the pool",
            narrow,
            vec![
                dual("n1", "a", &["10.20.0.0/22"]),
                node("n2", "a", ""),
                shows("n2", "10.20.1.0/24"),
            ],
            &["n2 ? held-twice"],
        ),
        (
            "one that nobody reads, beyond what it keeps",
            wide,
            vec![
                node("n1", "a", ""),
                shows("n1", "10.20.0.0/17"),
                node("n2", "a", ""),
                shows("n2", "10.20.64.0/24"),
            ],
            &["n1 ? held-twice", "n2 ? held-twice"],
        ),
        (
            "a wide one, and a block that the same plan gives in it",
            wide,
            vec![
                node("n1", "a", ""),
                shows("n1", "10.20.0.0/16"),
                node("n2", "a", ""),
            ],
            &["n1 ? given-to-another", "n2 + 10.20.32.0/24"],
        ),
        (
            "a wide one alone",
            wide,
            vec![node("n1", "a", ""), shows("n1", "10.20.0.0/19")],
            &["n1 + 10.20.0.0/19 if approved"],
        ),
    ];
    for (what, spec, items, expected) in cases {
        let folder = folder(&items);
        folder.write("pools/a.yaml", pool("a", spec));
        let plan = plan(&folder);
        assert_eq!(fates(&plan), expected, "{what}: {plan:#}");
    }
}

#[test]
fn in_cluster_pool_a_cilium_node_without_a_node_keeps_its_block() {
    let settings = r#""ipam":"cluster-pool","cluster-pool-ipv4-cidr":"10.20.0.0/16","cluster-pool-ipv4-mask-size":"24""#;
    let operator = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cilium-operator", "namespace": "kube-system",
        "labels": {"io.cilium/app": "operator"}}, "spec": {"replicas": 1, "template": {"spec": {"containers":
        [{"name": "cilium-operator", "args": ["--ipam=kubernetes"]}]}}}, "status": {}});
    let items = [
        operator.to_string(),
        cilium_node("old", "10.20.0.0/17").to_string(),
        node("n1", "a", ""),
    ];
    let folder = folder(&[]);
    folder.write("cluster.json", cluster("1.19.3", settings, &items));
    assert_eq!(fates(&plan(&folder)), ["n1 + 10.20.128.0/24"]);
}

#[test]
fn a_pin_is_not_put_into_what_another_node_shows() {
    let folder = folder(&[
        node("n1", "a", ""),
        cilium_node("n1", "10.20.0.0/16").to_string(),
        node("n2", "a", ""),
    ]);
    folder.write("pools/pin.yaml", pin("n2", "10.20.200.0/24"));
    let plan = plan(&folder);
    assert!(
        fates(&plan).contains(&"n2 ? pin-held-by".to_owned()),
        "{plan:#}"
    );
}

#[test]
fn only_what_the_files_would_give_is_taken_over_unattended() {
    let annotated = |cidr: &str| {
        let mut shown: Value = serde_json::from_str(&node("n1", "a", "")).unwrap();
        shown["metadata"]["annotations"] = json!({"network.cilium.io/ipv4-pod-cidr": cidr});
        shown.to_string()
    };
    let shown = |cidrs: &[&str]| {
        let mut shown = cilium_node("n1", "");
        shown["spec"]["ipam"]["podCIDRs"] = json!(cidrs);
        shown.to_string()
    };
    let dual_stack = r#""ipam":"kubernetes","enable-ipv6":"true""#;
    let annotations = r#""ipam":"kubernetes","enable-ipv6":"true","annotate-k8s-node":"true""#;
    let both = "{cidrs: [10.20.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
    let cases: [(&str, &str, &str, Vec<String>, &str); 5] = [
        (
            "IPv6 of nobody beside a pool of IPv4",
            dual_stack,
            RACK_A,
            vec![node("n1", "a", ""), shown(&["fd09::/64"])],
            "fd09::/64",
        ),
        (
            "an annotation that its agent reads",
            annotations,
            both,
            vec![annotated("8.8.8.0/24")],
            "8.8.8.0/24",
        ),
        (
            "a block pinned to a node that is not there",
            KUBERNETES,
            RACK_A,
            vec![node("n1", "a", ""), shown(&["10.20.7.0/24"])],
            "10.20.7.0/24",
        ),
        (
            "a block of a disabled pool",
            KUBERNETES,
            "{cidrs: [10.20.0.0/16], blockSize: 24, disabled: true}",
            vec![node("n1", "a", ""), shown(&["10.20.9.0/24"])],
            "10.20.9.0/24",
        ),
        (
            "a block of its pool",
            KUBERNETES,
            RACK_A,
            vec![node("n1", "a", ""), shown(&["10.20.9.0/24"])],
            "",
        ),
    ];
    for (what, settings, spec, items, approval) in cases {
        let folder = Folder::new(&[
            ("cluster.json", &cluster("1.19.3", settings, &items)),
            ("pools/a.yaml", &pool("a", spec)),
            ("pools/pin.yaml", &pin("n9", "10.20.7.0/24")),
        ]);
        if spec.contains("disabled") {
            std::fs::remove_file(folder.join("pools/pin.yaml")).unwrap();
        }
        let plan = plan(&folder);
        let reason = plan["changes"][0]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match approval {
            "" => assert!(
                !reason.contains("approval") && !reason.is_empty(),
                "{what}: {plan:#}"
            ),
            cidr => assert!(
                reason.contains(&format!("approval of a person: {cidr}")),
                "{what}: {plan:#}"
            ),
        }
    }
}

#[test]
fn an_agent_does_not_lead_its_node_to_a_pool_that_does_not_select_it() {
    let both = |range: &str, v6: &str, rack: &str| {
        format!(
            "{{cidrs: [{range}, \"{v6}\"], blockSize: {{ipv4: 24, ipv6: 64}}, nodeSelector: {{matchLabels: {{rack: {rack}}}}}}}"
        )
    };
    let items = [
        node("n1", "a", ""),
        cilium_node("n1", "10.30.4.0/24").to_string(),
    ];
    let folder = Folder::new(&[
        (
            "cluster.json",
            &cluster(
                "1.19.3",
                r#""ipam":"kubernetes","enable-ipv6":"true""#,
                &items,
            ),
        ),
        (
            "pools/a.yaml",
            &pool("a", &both("10.20.0.0/16", "fd00:a::/48", "a")),
        ),
        (
            "pools/b.yaml",
            &pool("b", &both("10.30.0.0/16", "fd00:b::/48", "b")),
        ),
    ]);
    assert_eq!(
        fates(&plan(&folder)),
        ["n1 + 10.30.4.0/24 fd00:a::/64 if approved"]
    );
}

#[test]
fn no_node_gets_a_block_with_an_address_of_its_own_machine() {
    let hostile = with_addresses("m", (0..256).map(|third| format!("10.20.{third}.1")));
    let folder = folder(&[hostile.replace(r#""rack":"b""#, r#""rack":"a""#)]);
    assert_eq!(fates(&plan(&folder)), ["m ? exhausted"]);
}

/// What an agent may write into a CiliumNode and no pool gives to `n1`.
const FOREIGN: [(&str, &str); 3] = [
    ("8.8.8.0/24", "in no pool"),
    ("10.20.128.0/17", "the pool gives /24 blocks"),
    ("10.30.4.0/24", "the pool does not select the node"),
];

#[test]
fn a_plan_says_which_blocks_a_person_must_approve() {
    for (cidr, why) in FOREIGN {
        let mut shown = cilium_node("n1", cidr);
        shown["metadata"]["managedFields"] = json!([{"manager": "evil-agent", "operation": "Update", "time": "2026-02-01T10:00:00Z",
            "fieldsV1": {"f:spec": {"f:ipam": {"f:podCIDRs": {}}}}}]);
        let folder = folder(&[node("n1", "a", ""), shown.to_string()]);
        folder.write(
            "pools/b.yaml",
            pool(
                "b",
                &RACK_A
                    .replace("rack: a", "rack: b")
                    .replace("10.20.", "10.30."),
            ),
        );
        let reason = plan(&folder)["changes"][0]["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        let told = format!(
            "needs the approval of a person: {cidr}, which only CiliumNode.spec.ipam.podCIDRs shows (written by evil-agent at 2026-02-01T10:00:00Z): {why}"
        );
        assert!(reason.contains(&told), "{reason}\n{told}");
        // The same through a snapshot.
        folder
            .run(&[
                "snapshot",
                "--cluster",
                "cluster.json",
                "--out",
                "snapshot.json",
            ])
            .expect(0);
        let plan = folder
            .run(&[
                "plan",
                "--cluster",
                "snapshot.json",
                "-o",
                "json",
                "--fail-on",
                "never",
            ])
            .expect(0)
            .json();
        assert!(
            plan["changes"][0]["reason"]
                .as_str()
                .unwrap()
                .contains(&told),
            "{plan:#}"
        );
    }
    let own = folder(&[
        node("n1", "a", ""),
        cilium_node("n1", "10.20.9.0/24").to_string(),
    ]);
    let reason = plan(&own)["changes"][0]["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!reason.contains("approval"), "{reason}");
}

fn server() -> Server {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        Options::default(),
        &[],
    );
    server.folder.write("pools/a.yaml", pool("a", RACK_A));
    server
}

fn show(server: &Server, name: &str, cidr: &str) {
    server
        .plane
        .create("/apis/cilium.io/v2/ciliumnodes", &cilium_node(name, cidr))
        .unwrap();
}

fn in_rack_a(name: &str) -> Value {
    server_node(name, json!({"rack": "a"}))
}

/// What waits for a person, when these nodes do.
fn waits(running: &Running, names: &[&str]) -> Value {
    loop {
        let seen = running.until("seen", json!({}));
        let waiting: Vec<&str> = seen["waiting"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        if waiting == names {
            return seen;
        }
    }
}

#[test]
fn watch_and_the_operator_adopt_no_block_that_no_pool_gives() {
    let server = server();
    // Before its Node joins, by an agent of another node.
    show(&server, "n1", "8.8.8.0/24");
    show(&server, "n2", "10.20.128.0/17");
    show(&server, "n3", "10.20.9.0/24");
    let watching = Running::start(server.folder.path(), server.plane.kubeconfig(), &["watch"]);
    server.nodes(["n1", "n2", "n3", "n4"].map(in_rack_a));
    let seen = waits(&watching, &["n1", "n2"]);
    assert!(
        seen["waiting"][0]["needs_approval"][0]
            .as_str()
            .unwrap()
            .starts_with("8.8.8.0/24, which only CiliumNode"),
        "{seen}"
    );
    let has_block = |name: &str| Ok((!server.pod_cidrs()[name].is_empty()).then_some(()));
    wait_until("n3 has a block", AT_MOST, || has_block("n3")).unwrap();
    wait_until("n4 has a block", AT_MOST, || has_block("n4")).unwrap();
    assert_eq!(
        server.pod_cidrs()["n3"],
        ["10.20.9.0/24"],
        "a block of its pool, of just that size"
    );
    assert_eq!(watching.end(), 0);
    assert_eq!(
        (&server.pod_cidrs()["n1"], &server.pod_cidrs()["n2"]),
        (&vec![], &vec![])
    );

    operator::install_definitions(&server);
    let spec = json!({"cidrs": ["10.20.0.0/16"], "blockSize": 24, "nodeSelector": {"matchLabels": {"rack": "a"}}});
    server
        .plane
        .create(
            &format!("{}/ippools", operator::GROUP),
            &operator::object("IPPool", "a", spec),
        )
        .unwrap();
    let operator = operator::operator_of(&server);
    waits(&operator, &["n1", "n2"]);
    drop(operator);
    assert_eq!(server.pod_cidrs()["n1"], Vec::<String>::new());

    // A person sees it in the plan and decides.
    let plan = server.run(&["plan"]).expect(2).stdout;
    assert!(
        plan.contains("needs the approval of a person: 8.8.8.0/24"),
        "{plan}"
    );
    server.run(&["apply", "--auto-approve"]).expect(0);
    assert_eq!(server.pod_cidrs()["n1"], ["8.8.8.0/24"]);
}

/// A client with the token of the agent's Pod on this node.
fn agent(plane: &ControlPlane, node: &str) -> Client {
    let (core, rbac) = (
        "/api/v1/namespaces/kube-system",
        "/apis/rbac.authorization.k8s.io/v1",
    );
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cilium"}});
    plane
        .create(&format!("{core}/serviceaccounts"), &account)
        .unwrap();
    let rules = json!([{"apiGroups": ["cilium.io"], "resources": ["ciliumnodes"], "verbs": ["create", "get", "update", "patch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "agent"}, "rules": rules});
    plane
        .create(&format!("{rbac}/clusterroles"), &role)
        .unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "agent"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "cilium"}]});
    plane
        .create(&format!("{rbac}/clusterrolebindings"), &binding)
        .unwrap();
    let container = json!({"name": "agent", "image": "agent"});
    let spec = json!({"nodeName": node, "serviceAccountName": "cilium", "containers": [container]});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cilium-1"}, "spec": spec});
    plane.create(&format!("{core}/pods"), &pod).unwrap();
    plane
        .client_for_pod("kube-system", "cilium", "cilium-1")
        .unwrap()
}

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// Why the server refuses that this CiliumNode is created; empty where it does not.
fn refusal(client: &Client, name: &str, cidr: &str) -> String {
    let created = client.create(
        &format!("{CILIUM_NODES}?dryRun=All"),
        &cilium_node(name, cidr),
    );
    created
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn the_server_refuses_an_agent_that_writes_what_its_node_did_not_get() {
    let installed = Installed::new(&kubernetes("1.19.3", None), "");
    let plane = &installed.server.plane;
    installed.server.nodes(["n1", "n2"].map(in_rack_a));
    plane
        .patch(
            "/api/v1/nodes/n1",
            &json!({"spec": {"podCIDR": "10.20.0.0/24", "podCIDRs": ["10.20.0.0/24"]}}),
        )
        .unwrap();
    let agent = agent(plane, "n1");
    // Without pod CIDRs, so that only one policy has something against it.
    let bare = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n2"}, "spec": {}});
    let others = || {
        let created = agent.create(&format!("{CILIUM_NODES}?dryRun=All"), &bare);
        created
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    operator::until("another node's is refused", || {
        others().contains("may not write the CiliumNode of another node")
    });
    operator::until("another block is refused", || {
        refusal(&agent, "n1", "10.30.4.0/24").contains("pod CIDRs that Node n1 does not show")
    });
    for (cidr, _) in FOREIGN {
        assert!(
            refusal(&agent, "n1", cidr).contains("pod CIDRs that Node n1 does not show"),
            "{cidr}"
        );
    }
    assert_eq!(refusal(&agent, "n1", "10.20.0.0/24"), "");
    // Others than agents are for the cluster's own rules.
    assert_eq!(refusal(plane.client(), "n2", "10.30.4.0/24"), "");
    agent
        .create(CILIUM_NODES, &cilium_node("n1", "10.20.0.0/24"))
        .unwrap();
    let own = format!("{CILIUM_NODES}/n1");
    agent
        .patch(&own, &json!({"metadata": {"labels": {"rack": "a"}}}))
        .unwrap();
    let moved = agent
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.20.0.0/16"]}}}),
        )
        .unwrap_err()
        .to_string();
    assert!(
        moved.contains("pod CIDRs that Node n1 does not show"),
        "{moved}"
    );
    // What it has stays writable, though its Node shows another block by now.
    plane
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.20.7.0/24"]}}}),
        )
        .unwrap();
    agent
        .patch(&own, &json!({"metadata": {"labels": {"rack": "b"}}}))
        .unwrap();
}

#[test]
fn in_cluster_pool_the_server_lets_no_agent_set_pod_cidrs() {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.99.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let config = config
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let cilium = CiliumInstallation {
        ipam: "cluster-pool".into(),
        config,
        ..CiliumInstallation::default()
    };
    let installed = Installed::new(
        &cilium,
        "--set writePaths.node=false --set writePaths.ciliumNode=true",
    );
    let plane = &installed.server.plane;
    installed.server.nodes(["n1"].map(in_rack_a));
    let agent = agent(plane, "n1");
    operator::until("a block is refused", || {
        refusal(&agent, "n1", "10.99.0.0/24").contains("may not set or change spec.ipam.podCIDRs")
    });
    let bare = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "n1"}, "spec": {}});
    agent.create(CILIUM_NODES, &bare).unwrap();
    let own = format!("{CILIUM_NODES}/n1");
    plane
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.99.0.0/24"]}}}),
        )
        .unwrap();
    agent
        .patch(&own, &json!({"metadata": {"labels": {"rack": "a"}}}))
        .unwrap();
    let moved = agent
        .patch(
            &own,
            &json!({"spec": {"ipam": {"podCIDRs": ["10.99.0.0/16"]}}}),
        )
        .unwrap_err()
        .to_string();
    assert!(
        moved.contains("may not set or change spec.ipam.podCIDRs"),
        "{moved}"
    );
}
