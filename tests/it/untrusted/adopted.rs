//! Which blocks that a node shows are adopted, and which need a person's approval.

use serde_json::{Value, json};
use testbed::wait_until;

use super::{FOREIGN, RACK_A, cilium_node, fates, folder, in_rack_a, server};
use crate::operator;
use crate::running::Running;
use crate::server::Server;
use crate::support::{Folder, KUBERNETES, TextAssertions, cluster, node, pin, pool};

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
            "IPv6 of no pool beside a pool of IPv4",
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
        let plan = folder.plan();
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
                reason.contains(&format!("manual approval: {cidr}")),
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
        fates(&folder.plan()),
        ["n1 + 10.30.4.0/24 fd00:a::/64 if approved"]
    );
}

#[test]
fn changes_that_need_approval_come_first_and_are_counted() {
    let mut shown = cilium_node("n9", "10.20.128.0/17");
    shown["metadata"]["managedFields"] = json!([{"manager": "evil-agent", "operation": "Update", "time": "2026-02-01T10:00:00Z",
        "fieldsV1": {"f:spec": {"f:ipam": {"f:podCIDRs": {}}}}}]);
    let folder = folder(&[node("n1", "a", ""), node("n9", "a", ""), shown.to_string()]);
    let plan = folder.plan();
    assert_eq!(plan["changes"][0]["name"], "n9", "{plan:#}");
    let unapproved = json!([{
        "block": "10.20.128.0/17",
        "source": "CiliumNode.spec.ipam.podCIDRs",
        "writer": {"manager": "evil-agent", "time": "2026-02-01T10:00:00Z"},
        "code": "other-block-size",
        "reason": "the pool gives /24 blocks",
    }]);
    assert_eq!(plan["changes"][0]["needs_approval"], unapproved);
    assert!(plan["changes"][1].get("needs_approval").is_none());
    assert_eq!(plan["summary"]["needs_approval"], 1);
}

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
        let reason = folder.plan()["changes"][0]["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        let told = format!(
            "needs manual approval: {cidr}, which only CiliumNode.spec.ipam.podCIDRs shows (written by evil-agent at 2026-02-01T10:00:00Z): {why}"
        );
        assert!(reason.contains(&told), "{reason}\n{told}");
        // The same through a snapshot.
        folder.expect("snapshot --cluster cluster.json --out snapshot.json", 0);
        let plan = folder.json("plan --cluster snapshot.json -o json --fail-on never");
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
    let reason = own.plan()["changes"][0]["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    reason.assert_lacks("approval");
}

fn show(server: &Server, name: &str, cidr: &str) {
    server
        .plane
        .create("/apis/cilium.io/v2/ciliumnodes", &cilium_node(name, cidr))
        .unwrap();
}

/// The changes that wait for approval, once these nodes are among them.
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
    wait_until("n3 has a block", testbed::PATIENCE, || has_block("n3")).unwrap();
    wait_until("n4 has a block", testbed::PATIENCE, || has_block("n4")).unwrap();
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
    let plan = server.expect("plan", 2).stdout;
    plan.assert_has("needs manual approval: 8.8.8.0/24");
    server.expect("apply --auto-approve", 0);
    assert_eq!(server.pod_cidrs()["n1"], ["8.8.8.0/24"]);
}
