//! A cluster that is kept in a file: what is read from it, what is written to it, and what blocks.

use serde_json::Value;

use super::support::{Folder, KUBERNETES, cluster, holds, node, pin, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder(version: &str, settings: &str, items: &[String], pools: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster(version, settings, items)),
        ("pools/a.yaml", &pools.join("---\n")),
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

/// The first blocked reason.
fn blocked(folder: &Folder) -> String {
    plan(folder)["blocked"][0]["reason"]
        .as_str()
        .unwrap_or("nothing is blocked")
        .to_owned()
}

#[test]
fn what_is_not_written_stays_byte_for_byte() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n1", "a", &holds("10.20.7.0/24")), node("n2", "a", "")],
        &[pool("a", POOL)],
    );
    let before = folder.read("cluster.json");
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    let after = folder.read("cluster.json");
    let lines: Vec<&str> = before
        .lines()
        .filter(|line| !line.contains("\"n2\""))
        .collect();
    assert!(lines.iter().all(|line| after.contains(line)), "{after}");
    let list: Value = serde_json::from_str(&after).unwrap();
    let n2 = &list["items"][5];
    assert_eq!(
        n2["spec"],
        serde_json::json!({"podCIDR": "10.20.0.0/24", "podCIDRs": ["10.20.0.0/24"]})
    );
    assert_eq!(n2["metadata"]["resourceVersion"], "9");
}

#[test]
fn blocks_with_their_reasons() {
    let kubernetes = |more: &str| format!("{KUBERNETES}{more}");
    let annotation = "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {writePath: node-annotation}\n";
    let with_policy = [pool("a", POOL), annotation.to_owned()];
    let bare = [node("n", "a", "")];
    let controller = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kcm","namespace":"kube-system","labels":{"component":"kube-controller-manager"}},"spec":{"containers":[{"name":"kcm","command":["kube-controller-manager","--allocate-node-cidrs=true"]}]}}"#;
    let cases = [
        (
            folder(
                "1.19.3",
                r#""ipam":"cluster-pool""#,
                &bare,
                &[pool("a", POOL)],
            ),
            "cannot be told",
        ),
        (
            folder("1.19.3", "", &bare, &[pool("a", POOL)]),
            "cannot be told",
        ),
        (
            folder("1.19.3", r#""ipam":"eni""#, &bare, &[pool("a", POOL)]),
            "another allocator",
        ),
        (
            folder("1.19.3", r#""ipam":"novel""#, &bare, &[pool("a", POOL)]),
            "unknown ipam `novel`",
        ),
        (
            folder("1.19.3", KUBERNETES, &bare, &with_policy),
            "annotate-k8s-node is not \"true\"",
        ),
        (
            folder("digest-only", KUBERNETES, &bare, &with_policy),
            "version is not known",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", ""), controller.into()],
                &[pool("a", POOL)],
            ),
            "--allocate-node-cidrs=true",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", r#""podCIDRs":["ten"]"#)],
                &[pool("a", POOL)],
            ),
            "cannot be read",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &bare,
                &[pool(
                    "a",
                    "{cidrs: [10.20.0.0/16], blockSize: 24, disabled: true}",
                )],
            ),
            "a is disabled",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &bare,
                &[pool(
                    "a",
                    "{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
                )],
            ),
            "no pool matches",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", &holds("10.20.1.0/24"))],
                &[pool("a", POOL), pin("n", "10.20.2.0/24")],
            ),
            "never moves by itself",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", ""), node("m", "a", &holds("10.20.2.0/24"))],
                &[pool("a", POOL), pin("n", "10.20.2.0/24")],
            ),
            "held by node m",
        ),
        (
            folder(
                "1.19.3",
                KUBERNETES,
                &[node("n", "a", &holds("10.20.2.0/24"))],
                &[pool(
                    "a",
                    "{cidrs: [10.20.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}",
                )],
            ),
            "write-once",
        ),
        (
            folder(
                "1.19.3",
                &kubernetes(r#","annotate-k8s-node":"no""#),
                &bare,
                &with_policy,
            ),
            "annotate-k8s-node is not \"true\"",
        ),
    ];
    for (folder, expected) in cases {
        let reason = blocked(&folder);
        assert!(reason.contains(expected), "{reason} / {expected}");
        folder
            .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
            .expect(0);
    }
}

#[test]
fn an_item_that_may_be_one_that_is_read_is_never_overlooked() {
    let cilium_node = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"m"},"spec":{"ipam":{"podCIDRs":["10.20.0.0/24"]}}}"#;
    let cases = [
        (
            cilium_node.replace(r#""kind":"CiliumNode""#, r#""kind":"CilumNode""#),
            "item 6 of its list (`m`) is a `CilumNode`; did you mean `CiliumNode`?",
        ),
        (
            cilium_node.replace(r#""apiVersion":"cilium.io/v2","#, ""),
            "item 6 of its list (`m`) has no `apiVersion`",
        ),
        (
            cilium_node.replace(r#""cilium.io/v2""#, "null"),
            "item 6 of its list (`m`) has no `apiVersion`",
        ),
        (
            cilium_node.replace(r#""CiliumNode""#, r#""""#),
            "item 6 of its list (`m`) has no `kind`",
        ),
        (
            cilium_node.replace("cilium.io/v2", "v1"),
            "item 6 of its list (`m`) is a CiliumNode with apiVersion `v1`; expected `cilium.io/v2`",
        ),
        (
            node("m", "a", &holds("10.20.0.0/24")).replace(r#""Node""#, r#""node""#),
            "is a `node`; did you mean `Node`?",
        ),
        (
            cilium_node.replace(r#""CiliumNode""#, r#""ciliumnodes""#),
            "is a `ciliumnodes`; did you mean `CiliumNode`?",
        ),
        (
            cilium_node.replace(r#""CiliumNode""#, r#""cilium-node""#),
            "is a `cilium-node`; did you mean `CiliumNode`?",
        ),
        (
            node("m", "a", &holds("10.20.0.0/24")).replace(r#""Node""#, r#""NODES""#),
            "is a `NODES`; did you mean `Node`?",
        ),
        (
            format!(r#"{{"apiVersion":"v1","kind":"List","items":[{cilium_node}]}}"#),
            "item 6 of its list is a `List`",
        ),
        (
            "7".to_owned(),
            "item 6 of its list is not a Kubernetes object: invalid type: integer `7`, expected a mapping",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Node","metadata":"x"}"#.to_owned(),
            "item 6 of its list is not a Kubernetes object: invalid type: string \"x\", expected a mapping",
        ),
    ];
    for (item, message) in cases {
        let folder = folder(
            "1.19.3",
            KUBERNETES,
            &[node("n", "a", ""), item.clone()],
            &[pool("a", POOL)],
        );
        let before = folder.read("cluster.json");
        for verb in [
            &["plan"][..],
            &["apply", "--auto-approve"],
            &["snapshot"],
            &["show", "nodes"],
        ] {
            let ran = folder
                .run(&[verb, &["--cluster", "cluster.json"]].concat())
                .expect(8);
            assert!(ran.stderr.contains(message), "{item}: {}", ran.stderr);
            assert!(
                !ran.stderr.contains("expected struct")
                    && ran.stderr.contains("hint: fix the file"),
                "{}",
                ran.stderr
            );
        }
        assert_eq!(folder.read("cluster.json"), before);
    }
}

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
fn other_kinds_of_a_list_are_ignored() {
    let items = [
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":"x"}}"#,
        r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"x"}}"#,
        r#"{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"s","namespace":"x"}}"#,
        r#"{"apiVersion":"longhorn.io/v1beta2","kind":"Node","metadata":{"name":"n","namespace":"x"}}"#,
        r#"{"apiVersion":"cilium.io/v2","kind":"CiliumIdentity","metadata":{"name":"7"}}"#,
    ];
    let items = [vec![node("n", "a", "")], items.map(str::to_owned).into()].concat();
    let folder = folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]);
    assert_eq!(plan(&folder)["changes"][0]["after"][0], "10.20.0.0/24");
}

#[test]
fn without_cilium_everything_waits() {
    let list = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
        node("n", "a", "")
    );
    let folder = Folder::new(&[("cluster.json", &list), ("pools/a.yaml", &pool("a", POOL))]);
    assert!(blocked(&folder).contains("no cilium-config"));
}

#[test]
fn taken_addresses_are_never_handed_out() {
    let cilium_node = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"gone"},"spec":{"ipam":{"podCIDRs":["10.20.0.0/24"]}}}"#;
    let balancers = r#"{"apiVersion":"cilium.io/v2alpha1","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb"},"spec":{"cidrs":[{"cidr":"10.20.1.128/25"}],"blocks":[{"start":"10.20.2.9","stop":"10.20.2.10"},{"start":"10.20.3.1"}]}}"#;
    let services = r#"{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.20.4.0/24"]}}"#;
    let annotated = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"m","uid":"u","resourceVersion":"1","annotations":{"io.cilium.network.ipv4-pod-cidr":"10.20.5.0/24"}},"spec":{},"status":{"addresses":[{"type":"InternalIP","address":"10.20.6.1"}]}}"#;
    let items = [cilium_node, balancers, services, annotated].map(str::to_owned);
    let policy =
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {excluded: [10.20.8.0/24]}\n"
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
        serde_json::json!({"assign": 0, "release": 0, "update": 1, "delete": 0, "moved": 0, "ports": 0, "blocked": 0, "unchanged": 0, "irreversible": 1,
            "nodes": 1, "misplaced": 0, "drifted": 0, "errors": 0, "warnings": 0})
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
    assert_eq!(finding["rule"], "block-held-twice");
}

#[test]
fn files_that_are_no_cluster() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", ""), node("n", "a", "")],
        &[pool("a", POOL)],
    );
    let plan = |file: &str| folder.run(&["plan", "--cluster", file]).expect(8).stderr;
    assert!(plan("cluster.json").contains("is there twice"));
    assert!(plan("missing.json").contains("missing.json"));
    folder.write("node.json", node("n", "a", ""));
    assert!(plan("node.json").contains("not a List"));
    folder.write("text.yaml", "just text\n");
    assert!(plan("text.yaml").contains("not a List"));
    folder.write("half.json", "{\"kind\": \"List\", \"items\": [");
    assert!(plan("half.json").contains("not a List"));
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", "")],
        &[pool("a", POOL)],
    );
    let before = folder.read("cluster.json");
    let ran = folder
        .run(&["apply", "--cluster", "cluster.json"])
        .expect(1);
    assert!(ran.stderr.contains("--auto-approve"), "{}", ran.stderr);
    assert_eq!(folder.read("cluster.json"), before);
}

#[test]
fn a_snapshot_of_a_file_plans_the_same() {
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="}}"#;
    let folder = folder(
        "1.19.3",
        &format!(r#"{KUBERNETES},"password":"hunter2""#),
        &[secret.into(), node("n", "a", "")],
        &[pool("a", POOL)],
    );
    folder
        .run(&[
            "snapshot",
            "--cluster",
            "cluster.json",
            "--out",
            "snapshot.json",
        ])
        .expect(0);
    assert!(
        !folder.read("snapshot.json").contains("hunter2")
            && !folder.read("snapshot.json").contains("aHVudGVyMg")
    );
    let of_snapshot = folder
        .run(&["plan", "--cluster", "snapshot.json", "-o", "json"])
        .expect(0);
    assert_eq!(
        of_snapshot.stdout,
        folder
            .run(&["plan", "--cluster", "cluster.json", "-o", "json"])
            .expect(0)
            .stdout
    );
}

/// A Node with annotations.
fn annotated(name: &str, annotations: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","uid":"u","resourceVersion":"1","annotations":{{{annotations}}}}},"spec":{{}}}}"#
    )
}

fn cilium_node(name: &str, cidrs: &str) -> String {
    format!(
        r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}"}},"spec":{{"ipam":{{"podCIDRs":[{cidrs}]}}}}}}"#
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

#[test]
fn families_that_cilium_does_not_use_or_cannot_do_without() {
    let dual = "{cidrs: [10.20.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
    let off = format!(r#"{KUBERNETES},"enable-ipv4":"true","enable-ipv6":"false""#);
    let on = format!(r#"{KUBERNETES},"enable-ipv4":"true","enable-ipv6":"true""#);
    let bare = [node("n", "a", "")];
    let of_off = plan(&folder("1.19.3", &off, &bare, &[pool("a", dual)]));
    assert_eq!(
        of_off["changes"][0]["after"],
        serde_json::json!(["10.20.0.0/24"])
    );
    let six_pinned = pin("n", "10.20.3.0/24")
        .replace("\"10.20.3.0/24\"", "\"10.20.3.0/24\", \"fd00:0:0:5::/64\"");
    assert!(
        blocked(&folder(
            "1.19.3",
            &off,
            &bare,
            &[pool("a", dual), six_pinned]
        ))
        .contains("IPv6 switched off")
    );
    let stale = [
        node("n", "a", &holds("10.20.1.0/24")),
        cilium_node("n", r#""10.20.1.0/24","fd00::/64""#),
    ];
    assert_eq!(
        plan(&folder("1.19.3", &off, &stale, &[pool("a", dual)]))["summary"]["unchanged"],
        1
    );

    assert!(blocked(&folder("1.19.3", &on, &bare, &[pool("a", POOL)])).contains("a gives no IPv6"));
    let both = [
        pool(
            "a",
            "{cidrs: [10.20.0.0/24, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}",
        ),
        pool("z", "{cidrs: [10.21.0.0/16], blockSize: 24}"),
    ];
    let two = [node("n1", "a", ""), node("n2", "a", "")];
    let of_on = plan(&folder("1.19.3", &on, &two, &both));
    assert_eq!(of_on["summary"]["assign"], 1);
    assert_eq!(
        of_on["blocked"][0]["reason"],
        "no pool can serve it: a is full, z gives no IPv6"
    );
}

#[test]
fn whose_settings_hold_does_not_depend_on_the_order() {
    let config = |namespace: &str, ipam: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-config","namespace":"{namespace}"}},"data":{{"ipam":"{ipam}"}}}}"#
        )
    };
    let (first, second) = (config("a", "cluster-pool"), config("b", "kubernetes"));
    for items in [
        [first.clone(), second.clone(), node("n", "a", "")],
        [second, first, node("n", "a", "")],
    ] {
        let list = format!(
            r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
            items.join(",")
        );
        let folder = Folder::new(&[("cluster.json", &list), ("pools/a.yaml", &pool("a", POOL))]);
        assert!(blocked(&folder).contains("no cilium-config"));
        assert!(
            plan(&folder)["findings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|finding| finding["rule"] == "two-ciliums")
        );
    }
}

#[test]
fn null_is_what_go_writes_for_nothing() {
    let nulls = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"1","labels":null,"annotations":null,"managedFields":null},"spec":null,"status":{"addresses":null}}"#;
    let empty = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"n"},"spec":{"ipam":null}}"#;
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[nulls.into(), empty.into()],
        &[pool("a", POOL)],
    );
    assert_eq!(plan(&folder)["summary"]["assign"], 1);
    let faulty = node("odd", "a", r#""podCIDRs":"10.20.0.0/24""#);
    folder.write("faulty.json", cluster("1.19.3", KUBERNETES, &[faulty]));
    assert!(
        folder
            .run(&["plan", "--cluster", "faulty.json"])
            .expect(8)
            .stderr
            .contains("nodes `odd` cannot be read")
    );
}

#[test]
fn a_large_yaml_file_is_read() {
    let mut list = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for index in 0..12_000 {
        list.push_str(&format!("- {{apiVersion: v1, kind: Node, metadata: {{name: n{index}, uid: u{index}, resourceVersion: \"1\", labels: {{a: b, c: d, e: f, g: h, i: j}}}}}}\n"));
    }
    let folder = Folder::new(&[("cluster.yaml", &list), ("pools/a.yaml", &pool("a", POOL))]);
    let ran = folder
        .run(&["plan", "--cluster", "cluster.yaml", "--fail-on", "never"])
        .expect(0);
    let headline =
        "No changes. 0 of 12,000 nodes as the files say, 0 moved; 12,000 blocked, 1 error.";
    assert!(
        ran.stdout.starts_with(headline) && ran.stdout.trim_end().ends_with(headline),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_file_that_cannot_be_saved_has_nothing_applied() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", "")],
        &[pool("a", POOL)],
    );
    folder.write("locked/cluster.json", folder.read("cluster.json"));
    let allow = |mode| {
        std::fs::set_permissions(folder.join("locked"), std::fs::Permissions::from_mode(mode))
            .unwrap()
    };
    allow(0o555);
    let unwritable = std::fs::write(folder.join("locked/probe"), "").is_err();
    let ran = folder.run(&[
        "apply",
        "--cluster",
        "locked/cluster.json",
        "--auto-approve",
        "-o",
        "json",
    ]);
    allow(0o755);
    // The administrator may write anywhere; there is nothing to see then.
    if unwritable {
        let report = ran.expect(8).json();
        assert_eq!(report["applied"], serde_json::json!([]));
        assert!(
            report["not_applied"][0]["why"]
                .as_str()
                .unwrap()
                .contains("not saved")
        );
    }
}

#[test]
fn a_faulty_command_line_is_a_failure_of_its_own() {
    let folder = Folder::new(&[]);
    let _ = folder.run(&["plan", "--bogus"]).expect(1);
    let _ = folder.run(&["--help"]).expect(0);
}

#[test]
fn faults_that_a_fuzzer_found() {
    let listed = r#"{"apiVersion":"v1","kind":"Node","metadata":[],"spec":{}}"#;
    let of_list = folder("1.19.3", KUBERNETES, &[listed.into()], &[pool("a", POOL)]);
    of_list
        .run(&["plan", "--cluster", "cluster.json"])
        .expect(8);
    let last = node("n", "a", "").replace(
        r#""resourceVersion":"7""#,
        r#""resourceVersion":"18446744073709551615""#,
    );
    let at_the_end = folder("1.19.3", KUBERNETES, &[last], &[pool("a", POOL)]);
    let ran = at_the_end
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(1);
    assert!(
        ran.stderr.contains("no resourceVersion is left"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_node_that_has_all_that_its_pool_gives_wants_nothing_of_another() {
    let settings = r#""ipam":"kubernetes","annotate-k8s-node":"true""#;
    let full = r#"{cidrs: [10.20.0.0/24, "fd00:20::/48"], blockSize: {ipv4: 24, ipv6: 64}, reserved: [10.20.0.0/24], priority: 1}"#;
    let pools = [
        pool("a", full),
        pool("fallback", "{cidrs: [10.22.0.0/16], blockSize: 24}"),
    ];
    let folder = folder("1.19.3", settings, &[node("n", "a", "")], &pools);
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    assert!(folder.read("cluster.json").contains("10.22.0.0/24"));
    folder
        .run(&["plan", "--cluster", "cluster.json", "--detailed-exitcode"])
        .expect(0);
}
