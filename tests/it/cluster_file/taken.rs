//! Which addresses count as taken, and which field a node's block is read from.

use super::{POOL, blocked, cilium_node, folder, plan};
use crate::support::{KUBERNETES, holds, node, pin, pool};

/// kube-controller-manager fills Node.spec whatever the IPAM mode, and in `cluster-pool` no agent
/// reads it.
#[test]
fn what_a_controller_writes_into_nodes_is_no_drift_in_cluster_pool() {
    let cilium_node = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"n"},"spec":{"ipam":{"podCIDRs":["10.20.0.0/24"]}}}"#;
    let items = [
        node("n", "a", &holds("10.244.7.0/24")),
        cilium_node.to_owned(),
    ];
    let pinned = pin("n", "10.20.0.0/24");
    for documents in [&[pool("a", POOL)][..], &[pool("a", POOL), pinned]] {
        let folder = folder("1.19.3", r#""ipam":"cluster-pool""#, &items, documents);
        let words = [
            "plan",
            "--cluster",
            "cluster.json",
            "-o",
            "json",
            "--fail-on",
            "drift,misplaced,blocked,changes",
        ];
        let plan = folder.run(&words).expect(0).json();
        assert_eq!(
            (&plan["drift"], &plan["summary"]["unchanged"]),
            (&serde_json::json!([]), &serde_json::json!(1)),
            "{plan:#}"
        );
    }
    let kubernetes = folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]);
    assert_eq!(
        plan(&kubernetes)["drift"][0]["field"],
        "CiliumNode.spec.ipam.podCIDRs"
    );
}

#[test]
fn a_cilium_node_that_makes_no_sense_is_named_with_a_hint_of_its_own() {
    let faulty =
        r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"m"},"spec":"x"}"#;
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[faulty.to_owned()],
        &[pool("a", POOL)],
    );
    let said = folder
        .run(&["plan", "--cluster", "cluster.json"])
        .expect(8)
        .stderr;
    assert!(
        said.contains("ciliumnodes.cilium.io `m` cannot be read") && !said.contains("struct"),
        "{said}"
    );
    assert!(
        said.contains("hint: fix or remove the object") && !said.contains("claims"),
        "{said}"
    );
}

#[test]
fn taken_addresses_are_never_handed_out() {
    let cilium_node = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"gone"},"spec":{"ipam":{"podCIDRs":["10.20.0.0/24"]}}}"#;
    let balancers = r#"{"apiVersion":"cilium.io/v2alpha1","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb"},"spec":{"cidrs":[{"cidr":"10.20.1.128/25"}],"blocks":[{"start":"10.20.2.9","stop":"10.20.2.10"},{"start":"10.20.3.1"}]}}"#;
    let services = r#"{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.20.4.0/24"]}}"#;
    let annotated = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"m","uid":"u","resourceVersion":"1","annotations":{"io.cilium.network.ipv4-pod-cidr":"10.20.5.0/24"}},"spec":{},"status":{"addresses":[{"type":"InternalIP","address":"10.20.6.1"}]}}"#;
    let items = [cilium_node, balancers, services, annotated].map(str::to_owned);
    let policy =
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {excluded: [10.20.8.0/24]}\n"
            .to_owned();
    let pools = [
        pool(
            "a",
            "{cidrs: [10.20.0.0/16], blockSize: 24, reserved: [10.20.7.0/24]}",
        ),
        policy,
        pin("absent", "10.20.9.0/24"),
    ];
    let folder = folder(
        "1.11.9",
        KUBERNETES,
        &[items.to_vec(), vec![node("n", "a", "")]].concat(),
        &pools,
    );
    let plan = plan(&folder);
    assert_eq!(plan["changes"][0]["name"], "n");
    assert_eq!(plan["changes"][0]["after"][0], "10.20.10.0/24");
}

/// The address in the pool and that of the machine have their own rules.
#[test]
fn addresses_of_other_load_balancers_keep_their_blocks_from_nodes() {
    let ingress = ["10.20.0.9", "10.20.1.9", "10.20.2.9"].map(|ip| serde_json::json!({"ip": ip}));
    let service = serde_json::json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/lb", "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": ingress}}});
    let balancers = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb"},"spec":{"blocks":[{"cidr":"10.20.1.0/28"}]}}"#;
    let machine = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"m","uid":"u","resourceVersion":"1"},"spec":{"podCIDR":"10.20.9.0/24","podCIDRs":["10.20.9.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"10.20.2.9"}]}}"#;
    let items = [
        service.to_string(),
        balancers.to_owned(),
        machine.to_owned(),
        node("n", "a", ""),
    ];
    let folder = folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]);
    let plan = plan(&folder);
    assert_eq!(plan["changes"][0]["after"][0], "10.20.3.0/24", "{plan:#}");
    let findings = plan["findings"].as_array().unwrap();
    let overlap = findings
        .iter()
        .find(|one| one["rule"] == "pool-over-other-addresses");
    let message = overlap.unwrap()["message"].as_str().unwrap();
    assert!(
        message.contains("an address of Service `shop/web`, and 2 more"),
        "{message}"
    );
}

#[test]
fn a_block_that_only_the_wrong_field_shows_is_written_where_it_is_read() {
    let annotated = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"1","annotations":{"network.cilium.io/ipv4-pod-cidr":"10.20.5.0/24"}},"spec":{}}"#;
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[annotated.into()],
        &[pool("a", POOL)],
    );
    let plan = plan(&folder);
    let mut summary = plan["summary"].clone();
    for other in ["load_balancing", "pod_pools"] {
        assert!(summary.as_object_mut().unwrap().remove(other).is_some());
    }
    assert_eq!(
        summary,
        serde_json::json!({"assign": 0, "release": 0, "update": 1, "delete": 0, "moved": 0, "ports": 0, "blocked": 0, "unchanged": 0, "irreversible": 1, "needs_approval": 0,
            "nodes": 1, "misplaced": 0, "drifted": 0, "fell_over": 0, "errors": 0, "warnings": 0})
    );
    assert_eq!(plan["changes"][0]["after"][0], "10.20.5.0/24");
}

#[test]
fn drift_has_an_author() {
    let drifted = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"1","annotations":{"network.cilium.io/ipv4-pod-cidr":"10.20.9.0/24"},"managedFields":[{"manager":"kubectl-annotate","operation":"Update","time":"2026-02-01T10:00:00Z","fieldsV1":{"f:metadata":{"f:annotations":{"f:network.cilium.io/ipv4-pod-cidr":{}}}}}]},"spec":{"podCIDR":"10.20.5.0/24","podCIDRs":["10.20.5.0/24"]}}"#;
    let folder = folder("1.19.3", KUBERNETES, &[drifted.into()], &[pool("a", POOL)]);
    let drift = &plan(&folder)["drift"][0];
    assert_eq!(
        (drift["expected"].as_str(), drift["seen"].as_str()),
        (Some("10.20.5.0/24"), Some("10.20.9.0/24"))
    );
    assert_eq!(
        (drift["manager"].as_str(), drift["time"].as_str()),
        (Some("kubectl-annotate"), Some("2026-02-01T10:00:00Z"))
    );
}

#[test]
fn blocks_held_twice_are_said() {
    let items = [
        node("n", "a", &holds("10.20.1.0/24")),
        node("m", "a", &holds("10.20.0.0/23")),
    ];
    let finding = &plan(&folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]))["findings"][0];
    assert_eq!(finding["rule"], "duplicate-block");
}

/// A Node with annotations.
fn annotated(name: &str, annotations: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","uid":"u","resourceVersion":"1","annotations":{{{annotations}}}}},"spec":{{}}}}"#
    )
}

#[test]
fn an_unread_block_that_others_have_is_never_written() {
    let key = |cidr: &str| format!(r#""network.cilium.io/ipv4-pod-cidr":"{cidr}""#);
    let both = [
        annotated("n1", &key("10.20.1.0/24")),
        annotated("n2", &key("10.20.1.0/24")),
    ];
    let twice = folder("1.19.3", KUBERNETES, &both, &[pool("a", POOL)]);
    assert_eq!(plan(&twice)["changes"], serde_json::json!([]));
    assert!(blocked(&twice).contains("which node n2 shows too"));
    let part = [
        node("n1", "a", &holds("10.20.1.0/24")),
        annotated("n2", &key("10.20.1.128/25")),
    ];
    assert!(
        blocked(&folder("1.19.3", KUBERNETES, &part, &[pool("a", POOL)]))
            .contains("which node n1 shows too")
    );
    let service = [annotated("n1", &key("10.96.3.0/24"))];
    assert!(
        blocked(&folder("1.19.3", KUBERNETES, &service, &[pool("a", POOL)]))
            .contains("something else uses")
    );
}

#[test]
fn what_the_running_agent_uses_wins_over_what_nobody_reads() {
    let stale = annotated("n", r#""network.cilium.io/ipv4-pod-cidr":"10.20.1.0/24""#);
    let items = [stale, cilium_node("n", r#""10.20.5.0/24""#)];
    let of_new = plan(&folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]));
    assert_eq!(of_new["changes"][0]["after"][0], "10.20.5.0/24");
    let keys = r#""network.cilium.io/ipv4-pod-cidr":"10.20.1.0/24","io.cilium.network.ipv4-pod-cidr":"10.20.2.0/24""#;
    let items = [annotated("n", keys), cilium_node("n", r#""10.20.2.0/24""#)];
    let of_old = plan(&folder("1.11.9", KUBERNETES, &items, &[pool("a", POOL)]));
    assert_eq!(
        (&of_old["changes"], &of_old["blocked"]),
        (&serde_json::json!([]), &serde_json::json!([])),
        "{of_old:#}"
    );
}

#[test]
fn every_block_that_any_field_shows_is_taken() {
    let wrong_family = r#""network.cilium.io/ipv4-pod-cidr":"fd00::/64","network.cilium.io/ipv6-pod-cidr":"fd00:0:0:1::/64""#;
    let settings = format!(r#"{KUBERNETES},"annotate-k8s-node":"true""#);
    let items = [annotated("n1", wrong_family), node("n2", "a", "")];
    let six = folder(
        "1.19.3",
        &settings,
        &items,
        &[pool("a", "{cidrs: [\"fd00::/48\"], blockSize: {ipv6: 64}}")],
    );
    let six = plan(&six);
    assert_eq!(six["changes"][0]["after"][0], "fd00:0:0:2::/64");
    assert!(
        six["blocked"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("holds the IPv6 block")
    );

    let mapped = annotated(
        "n1",
        r#""network.cilium.io/ipv4-pod-cidr":"::ffff:10.20.0.0/120""#,
    );
    let three = node(
        "n2",
        "a",
        r#""podCIDR":"10.20.1.0/24","podCIDRs":["10.20.1.0/24","10.20.2.0/24","fd00::/64"]"#,
    );
    let impossible = node("N_3", "a", &holds("10.20.3.0/24"));
    let items = [mapped, three, impossible, node("n4", "a", "")];
    let plan = plan(&folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]));
    let of_n4 = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["name"] == "n4")
        .unwrap();
    assert_eq!(of_n4["after"][0], "10.20.4.0/24");
}
