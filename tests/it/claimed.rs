//! Claims that a killed apply left behind.

use super::support::{Folder, KUBERNETES, cluster, node, pin, pool};

const POOL: &str = "{cidrs: [10.20.0.0/30], blockSize: 31}";

fn folder(claims: &str, more: &[(&str, String)]) -> Folder {
    let text = claims.replace('"', "\\\"");
    let map = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-ipam-claims","namespace":"kube-system","uid":"c","resourceVersion":"5"}},"data":{{"claims.json":"{text}"}}}}"#
    );
    let items = [map, node("n1", "a", ""), node("n2", "a", "")];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &items)),
        ("pools/a.yaml", &pool("a", POOL)),
    ]);
    more.iter()
        .for_each(|(name, content)| folder.write(name, content));
    folder
}

fn claim(block: &str, node: &str, uid: &str, version: &str) -> String {
    format!(
        r#"{{"format_version":"1.0","claims":[{{"block":"{block}","node":"{node}","uid":"{uid}","resource_version":"{version}"}}]}}"#
    )
}

/// The block of each node in the plan, and the blocked nodes.
fn planned(folder: &Folder) -> Vec<(String, String)> {
    let plan = folder
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
        .json();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let changes = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (text(&c["name"]), text(&c["after"][0])));
    let blocked = plan["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (text(&b["name"]), text(&b["reason"])));
    changes.chain(blocked).collect()
}

fn pair(name: &str, block: &str) -> (String, String) {
    (name.to_owned(), block.to_owned())
}

#[test]
fn one_whose_write_may_land_keeps_its_block_for_its_node() {
    let folder = folder(&claim("10.20.0.0/31", "n2", "uid-n2", "7"), &[]);
    assert_eq!(
        planned(&folder),
        [pair("n1", "10.20.0.2/31"), pair("n2", "10.20.0.0/31")]
    );
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    let after = folder.read("cluster.json");
    assert!(
        after.contains(r#"{\"format_version\":\"1.0\",\"claims\":[],\"quarantined\":[]}"#),
        "{after}"
    );
}

#[test]
fn one_that_missed_is_dropped() {
    let folder = folder(&claim("10.20.0.0/31", "n2", "uid-n2", "6"), &[]);
    assert_eq!(
        planned(&folder),
        [pair("n1", "10.20.0.0/31"), pair("n2", "10.20.0.2/31")]
    );
}

#[test]
fn one_of_a_node_that_is_gone_rests_and_its_successor_may_have_it() {
    let of_gone = folder(&claim("10.20.0.0/31", "gone", "uid-gone", "7"), &[]);
    assert_eq!(planned(&of_gone)[0], pair("n1", "10.20.0.2/31"));
    assert!(
        planned(&of_gone)[1]
            .1
            .contains("a is full (claimed or quarantined blocks: 1)"),
        "{:?}",
        planned(&of_gone)
    );
    let of_predecessor = folder(&claim("10.20.0.0/31", "n2", "uid-older", "7"), &[]);
    assert_eq!(
        planned(&of_predecessor),
        [pair("n1", "10.20.0.2/31"), pair("n2", "10.20.0.0/31")]
    );
}

/// The way out of the first blocked node.
fn way_out(folder: &Folder) -> String {
    let words = ["plan", "--cluster", "cluster.json", "-o", "json"];
    let plan = folder.run(&[&words[..], &["--fail-on", "never"]].concat());
    let plan = plan.expect(0).json();
    let blocked = plan["blocked"].as_array().unwrap();
    blocked[0].to_string()
}

/// The apply ends the claim, so a node gets the block in the next plan.
#[test]
fn one_that_an_apply_ends_is_told_to_a_node_that_waits_for_its_block() {
    let claims = claim("10.20.0.0/31", "n2", "uid-n2", "7");
    let folder = folder(&claims, &[("pools/pin.yaml", pin("n2", "10.20.0.2/31"))]);
    let planned_first = planned(&folder);
    assert_eq!(planned_first[0], pair("n2", "10.20.0.2/31"));
    let told = way_out(&folder);
    let expected = "plan again when the claims end: an apply ends those of a killed one";
    assert!(told.contains(expected), "{told}");
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    assert_eq!(planned(&folder), [pair("n1", "10.20.0.0/31")]);
}

/// No apply ends a quarantine.
#[test]
fn a_quarantined_block_is_not_told_as_one_that_an_apply_ends() {
    let quarantined = r#"{"format_version":"1.0","quarantined":[{"block":"10.20.0.0/31","node":"gone","free_at":"2999-01-01T00:00:00Z"}]}"#;
    let told = way_out(&folder(quarantined, &[]));
    let expected = "or plan again when the quarantine ends\"";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn rest_ends() {
    let quarantined = |time: &str| {
        format!(
            r#"{{"format_version":"1.0","quarantined":[{{"block":"10.20.0.0/31","node":"gone","free_at":"{time}"}}]}}"#
        )
    };
    assert_eq!(
        planned(&folder(&quarantined("2020-01-01T00:00:00Z"), &[]))[0],
        pair("n1", "10.20.0.0/31")
    );
    assert_eq!(
        planned(&folder(&quarantined("2999-01-01T00:00:00Z"), &[]))[0],
        pair("n1", "10.20.0.2/31")
    );
}

#[test]
fn a_pin_waits_for_a_claim_of_another_node() {
    let claims = claim("10.20.0.0/31", "n2", "uid-n2", "7");
    let folder = folder(&claims, &[("pools/pin.yaml", pin("n1", "10.20.0.0/31"))]);
    let planned = planned(&folder);
    // The pin keeps the block from n2, the claim from n1: n2 takes the other one, after which the
    // claim is over.
    assert_eq!(planned[0], pair("n2", "10.20.0.2/31"));
    assert!(
        planned[1].1.contains("10.20.0.0/31 is claimed for node n2"),
        "{planned:?}"
    );
}

#[test]
fn what_is_not_understood_stops_everything() {
    for text in [
        "",
        "{}",
        r#"{"format_version":"2.0"}"#,
        &claim("10.20.0.1/31", "n2", "u", "7"),
    ] {
        let folder = folder(text, &[]);
        let ran = folder.run(&["plan", "--cluster", "cluster.json"]).expect(8);
        assert!(
            ran.stderr
                .contains("configmaps `cilium-ipam-claims` cannot be read"),
            "{text}: {}",
            ran.stderr
        );
    }
}

const DUAL_STACK: &str =
    "{cidrs: [10.20.0.0/24, \"fd00:20::/48\"], blockSize: {ipv4: 26, ipv6: 64}}";
const OPEN: &str = r#""ipam":"kubernetes","annotate-k8s-node":"true","enable-ipv6":"true""#;

/// A dual-stack pool, these items, and claims.
fn dual_stack(settings: &str, claims: &str, items: &[String]) -> Folder {
    let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-ipam-claims",
        "namespace": "kube-system", "uid": "c", "resourceVersion": "5"}, "data": {"claims.json": claims}});
    let items = [&[map.to_string()], items].concat();
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", settings, &items)),
        ("pools/a.yaml", &pool("a", DUAL_STACK)),
    ])
}

/// A node whose agent takes this block from its annotation.
fn annotated(name: &str, block: &str) -> String {
    let annotation =
        format!(r#""annotations":{{"network.cilium.io/ipv4-pod-cidr":"{block}"}},"labels""#);
    node(name, "a", "").replacen("\"labels\"", &annotation, 1)
}

fn cilium_node(name: &str, blocks: &str) -> String {
    format!(
        r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}","uid":"cilium-{name}","resourceVersion":"7"}},"spec":{{"ipam":{{"podCIDRs":[{blocks}]}}}}}}"#
    )
}

/// An apply does not try blocked changes, and applies the rest.
fn applied(folder: &Folder) -> serde_json::Value {
    let words = [
        "apply",
        "--cluster",
        "cluster.json",
        "--auto-approve",
        "--waive",
        "disruptive-percent",
        "-o",
        "json",
    ];
    folder.run(&words).expect(0).json()
}

#[test]
fn a_held_block_that_rests_after_another_node_is_not_copied_into_spec() {
    let quarantined = r#"{"format_version":"1.0","quarantined":[{"block":"10.20.0.64/26","node":"n4","free_at":"2999-01-01T00:00:00Z"}]}"#;
    let folder = dual_stack(
        OPEN,
        quarantined,
        &[annotated("n5", "10.20.0.64/26"), node("n6", "a", "")],
    );
    let blocked = "10.20.0.64/26 is claimed for node n4 by an unfinished apply, or quarantined after that node";
    assert_eq!(
        planned(&folder),
        [pair("n6", "10.20.0.0/26"), pair("n5", blocked)]
    );
    assert_eq!(applied(&folder)["not_applied"], serde_json::json!([]));
}

#[test]
fn a_held_block_that_two_nodes_show_is_not_copied_into_spec() {
    let items = [
        annotated("n5", "10.20.0.64/26"),
        node("n6", "a", ""),
        cilium_node("n6", "\"10.20.0.64/26\""),
    ];
    let folder = dual_stack(OPEN, r#"{"format_version":"1.0"}"#, &items);
    let shows = |other: &str| format!("it shows 10.20.0.64/26, which node {other} shows too");
    assert_eq!(
        planned(&folder),
        [pair("n5", &shows("n6")), pair("n6", &shows("n5"))]
    );
}

#[test]
fn what_its_cilium_node_shows_already_keeps_no_node_from_its_other_family() {
    let quarantined = r#"{"format_version":"1.0","quarantined":[{"block":"10.20.0.64/26","node":"n4","free_at":"2999-01-01T00:00:00Z"}]}"#;
    let operator = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"cilium-operator","namespace":"kube-system","labels":{"io.cilium/app":"operator"}},"spec":{"template":{"spec":{"containers":[{"name":"cilium-operator","args":["--ipam=kubernetes"]}]}}}}"#;
    let shown = "\"10.20.0.64/26\"";
    let items = [
        operator.to_owned(),
        node("n5", "a", ""),
        cilium_node("n5", shown),
    ];
    let items = [&items[..], &[node("n6", "a", ""), cilium_node("n6", shown)]].concat();
    let folder = dual_stack(
        r#""ipam":"cluster-pool","enable-ipv6":"true""#,
        quarantined,
        &items,
    );
    let done = applied(&folder);
    assert_eq!(
        (
            done["applied"].as_array().unwrap().len(),
            &done["not_applied"]
        ),
        (2, &serde_json::json!([]))
    );
}

#[test]
fn a_claim_for_another_object_of_the_same_node_is_waited_for() {
    let claims = claim("10.20.0.0/26", "n1", "cilium-n1", "7");
    let folder = dual_stack(OPEN, &claims, &[node("n1", "a", ""), cilium_node("n1", "")]);
    let [(name, reason)] = &planned(&folder)[..] else {
        panic!("{:?}", planned(&folder))
    };
    assert!(
        name == "n1" && reason.contains("10.20.0.0/26 is claimed for node n1"),
        "{reason}"
    );
    assert_eq!(applied(&folder)["not_applied"], serde_json::json!([]));
}

/// A cluster file refuses a ConfigMap over 1 MiB, as an API server does; the claims of 1,000 of
/// these nodes alone take as much.
#[test]
fn claims_are_split_by_their_bytes() {
    let items: Vec<String> = (0..1_500)
        .map(|number| node(&format!("n{number:0>199}"), "a", ""))
        .collect();
    let two = "{cidrs: [10.0.0.0/8, \"fd00:20::/48\"], blockSize: {ipv4: 26, ipv6: 64}}";
    let settings = r#""ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"true""#;
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", settings, &items)),
        ("pools/a.yaml", &pool("a", two)),
    ]);
    let ran = folder
        .run(&[
            "apply",
            "--cluster",
            "cluster.json",
            "--auto-approve",
            "-o",
            "json",
        ])
        .expect(0);
    assert_eq!(ran.json()["applied"].as_array().unwrap().len(), 1_500);
    folder
        .run(&["plan", "--cluster", "cluster.json", "--detailed-exitcode"])
        .expect(0);
}

#[test]
fn a_quarantine_without_room_for_a_claim_is_named() {
    let rest = |number: u32| {
        let [_, b, c, d] = (number * 16).to_be_bytes();
        format!(
            r#"{{"block":"11.{b}.{c}.{d}/28","node":"{number:0>200}","free_at":"2999-01-01T00:00:00Z"}}"#
        )
    };
    let entries: Vec<String> = (0..3_875).map(rest).collect();
    let record = |entries: &[String]| {
        format!(
            r#"{{"format_version":"1.0","quarantined":[{}]}}"#,
            entries.join(",")
        )
    };
    assert!(
        (1_044_480..1_048_576).contains(&record(&entries).len()),
        "{}",
        record(&entries).len()
    );
    let full = folder(&record(&entries), &[]);
    let before = full.read("cluster.json");
    let ran = full
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(1);
    let why = "have no room for more: 3875 blocks are quarantined, 0 are claimed";
    assert!(
        ran.stderr.contains(why) && ran.stderr.contains("shorten `quarantine`"),
        "{}",
        ran.stderr
    );
    assert_eq!(full.read("cluster.json"), before);
    let room = folder(&record(&entries[..3_700]), &[]);
    room.run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
}

/// The claims of a newer replica during a rolling upgrade.
#[test]
fn a_record_of_a_newer_version_is_respected_or_stops_everything() {
    let newer = r#"{"format_version":"1.9","writer":{"name":"x"},"claims":[{"block":"10.20.0.0/31","node":"n2","uid":"uid-n2","resource_version":"7","since":"2026-01-02T03:04:05Z"}],"quarantined":[]}"#;
    let addition = folder(newer, &[]);
    assert_eq!(
        planned(&addition),
        [pair("n1", "10.20.0.2/31"), pair("n2", "10.20.0.0/31")]
    );
    addition
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    let after = addition.read("cluster.json");
    assert!(
        after.contains(r#"{\"format_version\":\"1.0\",\"claims\":[],\"quarantined\":[]}"#),
        "{after}"
    );

    let other = folder(
        r#"{"format_version":"2.0","claims":[],"quarantined":[]}"#,
        &[],
    );
    let before = other.read("cluster.json");
    for verb in [&["plan"][..], &["apply", "--auto-approve"]] {
        let ran = other
            .run(&[verb, &["--cluster", "cluster.json"]].concat())
            .expect(8);
        assert!(
            ran.stderr.contains(
                "use the newer cilium-ipam that wrote it (documentation: how-to/upgrade)"
            ),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(other.read("cluster.json"), before);
}
