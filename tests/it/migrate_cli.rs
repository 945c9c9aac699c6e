//! The command line of `migrate`: plans of cluster files, and refusals. A live cluster without
//! agents shows a migration that stops.

use std::collections::BTreeMap;

use ipam_core::model::NodeName;
use ipam_desired::Desired;
use ipam_migrate::migration::{
    ApprovedFiles, DrainRules, KubeletRestart, MigrationRecord, NodeRecord, Rules, ScheduleDocument,
};
use jiff::SignedDuration;
use serde_json::json;
use testbed::{CiliumInstallation, Options};

use super::server::Server;
use super::support::{
    Folder, KUBERNETES, Ran, TextAssertions, args, cluster, node, operator, policy, pool,
};

const CLUSTER_POOL: &str = r#""ipam":"cluster-pool","enable-ipv4":"true","cluster-pool-ipv4-cidr":"10.0.0.0/8","cluster-pool-ipv4-mask-size":"24""#;
pub const POLICY: &str = "{limits: {failureDomain: rack}, migration: {maxUnavailable: 2}}";

fn cilium_node(name: &str, block: &str) -> String {
    format!(
        r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}","uid":"c-{name}","resourceVersion":"8"}},"spec":{{"ipam":{{"podCIDRs":["{block}"]}}}}}}"#
    )
}

/// Nodes of the racks a, b and c with blocks of one flat range.
pub fn flat(nodes: usize) -> Vec<String> {
    let mut items = vec![operator("kubernetes")];
    for number in 1..=nodes {
        let rack = ["a", "b", "c"][number % 3];
        let name = format!("n{number:02}");
        let block = format!("10.{}.{}.0/24", 100 + number / 256, number % 256);
        items.extend([node(&name, rack, ""), cilium_node(&name, &block)]);
    }
    items
}

fn rack(name: &str, cidr: &str) -> String {
    let spec = format!(
        "{{cidrs: [{cidr}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: {name}}}}}}}"
    );
    pool(&format!("rack-{name}"), &spec)
}

/// A folder with three rack pools and a cluster file with these items.
pub fn racks(items: &[String]) -> Folder {
    Folder::new(&[
        ("pools/a.yaml", &rack("a", "10.20.0.0/16")),
        ("pools/b.yaml", &rack("b", "10.21.0.0/16")),
        ("pools/c.yaml", &rack("c", "10.22.0.0/16")),
        ("pools/policy.yaml", &policy(POLICY)),
        ("cluster.json", &cluster("1.19.3", CLUSTER_POOL, items)),
    ])
}

fn plan(folder: &Folder, further: &[&str]) -> Ran {
    let plan = ["migrate", "plan", "--cluster-file", "cluster.json"];
    folder.run(&[&plan, further].concat())
}

#[test]
fn a_flat_pool_moves_to_three_rack_pools() {
    let folder = racks(&flat(12));
    let shown = plan(&folder, &["--out", "schedule.json"]);
    let digest = plan(&folder, &["-o", "json"]).expect(0).json()["digest"].clone();
    let digest = digest.as_str().unwrap();
    let hidden = |text: String| {
        text.replace(digest, "DIGEST")
            .replace(&digest[..16], "DIGEST")
    };
    insta::assert_snapshot!("migrate_plan", hidden(shown.expect(0).all()));
    let saved = ScheduleDocument::read(&folder.read("schedule.json")).unwrap();
    assert_eq!(saved.digest, digest);
    assert_eq!(saved.waves.len(), 3);
    let page = plan(&folder, &["-o", "markdown"]).expect(0).stdout;
    insta::assert_snapshot!("migrate_plan_markdown", hidden(page));
}

#[test]
fn nodes_in_their_pools_stay() {
    let items = [
        operator("kubernetes"),
        node("n1", "a", ""),
        cilium_node("n1", "10.20.0.0/24"),
    ];
    let ran = plan(&racks(&items), &["--out", "schedule.json"]).expect(0);
    assert_eq!(ran.stdout, "Migration: no node has to move.\n");
    assert!(
        ran.stderr.starts_with("\nSaved. No node moves.\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn each_node_that_cannot_move_has_a_reason() {
    let control_plane = node("cp", "a", "").replace(
        r#""rack":"a""#,
        r#""rack":"a","node-role.kubernetes.io/control-plane":"""#,
    );
    let mut items = flat(6);
    items.extend([control_plane, cilium_node("cp", "10.100.90.0/24")]);
    let folder = racks(&items);
    // Rack c has one block for two nodes.
    folder.write("pools/c.yaml", rack("c", "10.22.0.0/24"));
    let protected = POLICY.replace("{limits:", "{protected: {nodes: [n01]}, limits:");
    folder.write("pools/policy.yaml", policy(&protected));
    let text = plan(&folder, &[]).expect(0).stdout;
    let (_, stays) = text.split_once("\nstay").unwrap();
    let (stays, _) = stays.split_once("\ndigest").unwrap();
    insta::assert_snapshot!("migrate_plan_stay", stays);
    let moved = plan(&folder, &["--node", "cp", "-o", "json"])
        .expect(0)
        .json();
    assert_eq!(moved["moves"].as_array().unwrap().len(), 1, "{moved}");
    assert_eq!(moved["moves"][0]["node"], "cp");
    assert_eq!(moved["request"]["nodes"], json!(["cp"]));
}

#[test]
fn one_cause_of_many_nodes_is_one_entry() {
    let folder = racks(&flat(600));
    let short = plan(&folder, &[]).expect(0).stdout;
    assert!(short.lines().count() < 70, "{short}");
    short.assert_has("  all 600 nodes\n");
    let full = plan(&folder, &["--show-all"]).expect(0).stdout;
    assert!(full.lines().count() > 600, "{full}");
    let page = plan(&folder, &["-o", "markdown"]).expect(0).stdout;
    assert!(page.len() < 65_535, "{}", page.len());
}

#[test]
fn waves_and_nodes_are_in_the_order_of_their_numbers() {
    let mut items = vec![operator("kubernetes")];
    for number in [1, 2, 10, 11] {
        let rack = if number < 10 { "2" } else { "10" };
        let name = format!("n{number}");
        let block = format!("10.100.{number}.0/24");
        items.extend([node(&name, rack, ""), cilium_node(&name, &block)]);
    }
    let folder = racks(&items);
    folder.write(
        "pools/all.yaml",
        pool("all", "{cidrs: [10.30.0.0/16], blockSize: 24}"),
    );
    let planned = plan(&folder, &["-o", "json"]).expect(0).json();
    let expected = json!([
        {"domain": "2", "nodes": ["n1", "n2"]},
        {"domain": "10", "nodes": ["n10", "n11"]},
    ]);
    assert_eq!(planned["waves"], expected);
    // The Pods of a cluster file are unknown, not none.
    assert_eq!(planned["moves"][0].get("pods"), None);
    assert_eq!(planned.get("remarks"), None);
}

#[test]
fn a_failure_domain_that_no_node_has_is_told() {
    let folder = racks(&flat(6));
    folder.write(
        "pools/policy.yaml",
        policy(&POLICY.replace("failureDomain: rack", "failureDomain: rak")),
    );
    let told = "no node has the label `rak` (`limits.failureDomain` of the Policy), so all nodes are one wave; did you mean `rack`?";
    for output in ["human", "json", "markdown"] {
        let text = plan(&folder, &["-o", output]).expect(0).stdout;
        let text = text.replace('\\', "");
        text.assert_has(told);
    }
    plan(&folder, &["--fail-on", "warning"]).expect(2);
}

#[test]
fn fail_on_means_the_same_as_for_a_plan() {
    let folder = racks(&flat(3));
    plan(&folder, &["--fail-on", "changes,blocked"]).expect(2);
    plan(&folder, &["--fail-on", "misplaced"]).expect(2);
    plan(&folder, &["--fail-on", "blocked,warning,error"]).expect(0);
    plan(&folder, &["--fail-on", "never"]).expect(0);
    let items = [node("n1", "a", ""), cilium_node("n1", "10.20.0.0/24")];
    let settled = racks(&[vec![operator("kubernetes")], items.to_vec()].concat());
    plan(&settled, &["--fail-on", "changes,misplaced,blocked"]).expect(0);
}

#[test]
fn only_the_selected_nodes_move() {
    let plain = node("cp", "a", "");
    let labels = r#""rack":"a","node-role.kubernetes.io/control-plane":"""#;
    let control_plane = plain.replace(r#""rack":"a""#, labels);
    let items = [
        flat(6),
        vec![control_plane, cilium_node("cp", "10.9.0.0/24")],
    ]
    .concat();
    let folder = racks(&items);
    let moved = |flags: &str| {
        let plan = plan(&folder, &[&["-o", "json"], &args(flags)[..]].concat()).expect(0);
        let moves = plan.json()["moves"].as_array().unwrap().clone();
        let names = moves
            .iter()
            .map(|one| one["node"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(moved("-l rack=a"), ["n03", "n06"], "no control plane");
    assert_eq!(
        moved("--target label:rack=a --target node/n01"),
        ["n03", "n06", "n01"]
    );
    assert_eq!(moved("--target node/cp"), moved("--node cp"));
    for (flags, told) in [
        ("-l rack=z", "no node has the labels `rack=z`"),
        (
            "-l node-role.kubernetes.io/control-plane",
            "name each with --node to move it",
        ),
        ("--target pool/rack-a", "a migration moves nodes"),
        ("-l rack=a --node n03", "cannot be used with"),
    ] {
        plan(&folder, &args(flags))
            .expect(1)
            .stderr
            .assert_has(told);
    }
}

#[test]
fn windows_are_in_the_time_zone_of_the_policy() {
    let folder = racks(&flat(3));
    let windows = "{schedule: '0 22 * * 6', duration: 4h, timeZone: Europe/Berlin}";
    let spec = format!("{{migration: {{windows: [{windows}]}}}}");
    folder.write("pools/policy.yaml", policy(&spec));
    let told = plan(&folder, &[]).expect(0).stderr;
    told.assert_has("a maintenance window ");
    told.assert_has(" (Europe/Berlin)");
}

#[test]
fn a_mode_change_keeps_all_blocks() {
    let labelled = |item: String| {
        let Some((_, rest)) = item.split_once(r#""kind":"Node","metadata":{"name":""#) else {
            return item;
        };
        let name = rest.split('"').next().unwrap();
        let hostname = format!(r#""labels":{{"kubernetes.io/hostname":"{name}","#);
        item.replace(r#""labels":{"#, &hostname)
    };
    let items: Vec<String> = flat(3).into_iter().map(labelled).collect();
    let folder = racks(&items);
    folder.write(
        "pools/flat.yaml",
        pool("flat", "{cidrs: [10.100.0.0/16], blockSize: 24}"),
    );
    let text = plan(&folder, &["--to-ipam", "kubernetes"]).expect(0).stdout;
    insta::assert_snapshot!("migrate_plan_mode", text);
}

#[test]
fn no_node_of_a_multi_pool_cluster_moves_or_changes_its_mode() {
    let folder = racks(&flat(3));
    let settings = r#""ipam":"multi-pool","enable-ipv4":"true""#;
    folder.write("cluster.json", cluster("1.20.2", settings, &flat(3)));
    let stays = |more: &[&str]| {
        let document = plan(&folder, &[&["-o", "json"], more].concat())
            .expect(0)
            .json();
        assert_eq!(document["moves"], json!([]), "{document}");
        let left = &document["left_out"][0];
        format!("{}; {}", left["why"], left["help"])
    };
    let to_kubernetes = stays(&["--to-ipam", "kubernetes"]);
    to_kubernetes.assert_has("Cilium has no conversion from `multi-pool`");
    let moved = stays(&[]);
    moved.assert_has("in `multi-pool`, change the pools or the node labels");
}

#[test]
fn a_cluster_file_is_only_planned() {
    let folder = racks(&flat(3));
    for command in ["apply", "status", "resume", "undo"] {
        let ran = folder.run(&["migrate", command, "--cluster-file", "cluster.json"]);
        let expected = "error: cluster.json is a file, which has no Pods, kubelets or agents: a migration needs the live cluster; only `migrate plan` takes a file\n";
        assert_eq!((ran.code, &*ran.stderr), (1, expected), "{command}");
    }
}

#[test]
fn bad_flags_and_files_are_refused() {
    let folder = racks(&flat(3));
    plan(&folder, &["--out", "schedule.json"]).expect(0);
    let edited = folder
        .read("schedule.json")
        .replace("10.20.0.0/24", "10.20.9.0/24");
    assert_ne!(edited, folder.read("schedule.json"));
    folder.write("edited.json", edited);
    let newer = folder.read("schedule.json").replace(r#""1.1""#, r#""2.0""#);
    folder.write("newer.json", newer);
    folder.write("cut.json", &folder.read("schedule.json")[..100]);
    let cluster = ["--cluster-file", "cluster.json"];
    let of_cluster = [&["plan", "-o", "json"][..], &cluster].concat();
    folder.write("plan.json", folder.run(&of_cluster).expect(0).stdout);
    let cases: [(&[&str], i32, &str); 18] = [
        (
            &args("migrate apply schedule.json --expect-digest 0123456789abcdef0123456789abcdef"),
            4,
            "--expect-digest asks for 0123456789abcdef0123456789abcdef",
        ),
        (
            &["migrate", "apply", "schedule.json", "--directory", "other"],
            4,
            "the plan was made from `pools`, and --directory asks for `other`",
        ),
        (
            &["migrate", "resume", "--no-check", "--check", "true"],
            1,
            "cannot be used with",
        ),
        (
            &["migrate", "apply", "edited.json"],
            1,
            "its digest does not match its content: it was edited",
        ),
        (
            &["migrate", "apply", "newer.json"],
            1,
            "it has format version 2.0",
        ),
        (
            &["migrate", "apply", "cut.json"],
            1,
            "it is not a schedule of",
        ),
        (
            &["migrate", "apply", "plan.json"],
            1,
            "it is not the schedule of a migration",
        ),
        (&["migrate", "apply", "none.json"], 1, "No such file"),
        (
            &args("migrate apply schedule.json --trust-plan-file --node n01"),
            4,
            "ask for something else than the saved schedule",
        ),
        (
            &["apply", "schedule.json"],
            1,
            "it is the schedule of a migration, for `cilium-ipam migrate apply FILE`",
        ),
        (
            &args("migrate plan --node n1 --cluster-file cluster.json"),
            1,
            "there is no node `n1`; `cilium-ipam show nodes` lists all",
        ),
        (
            &["migrate", "plan", "--node", "UPPER"],
            1,
            "invalid value 'UPPER'",
        ),
        (
            &["migrate", "plan", "--to-ipam", "eni"],
            1,
            "[possible values: kubernetes, cluster-pool]",
        ),
        (
            &["migrate", "plan", "--to-ipam", "multi-pool"],
            1,
            "use Cilium's own conversion (1.20 and later): set `enable-cluster-pool-to-multi-pool-migration`",
        ),
        (
            &args("migrate plan --to-ipam kubernetes --method recreate-node"),
            1,
            "cannot be used with",
        ),
        (
            &["migrate", "apply", "--timeout", "5"],
            1,
            "expected a duration",
        ),
        (&["migrate", "plan", "--out", "-"], 1, "`-` is not a file"),
        (&["migrate"], 1, "Usage: cilium-ipam migrate"),
    ];
    for (arguments, code, message) in cases {
        let ran = folder.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(message),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    folder.write("pools/a.yaml", "kind: IPPool\n");
    plan(&folder, &[]).expect(3);
}

/// A record of a migration of 6 nodes by re-creation, with its nodes.
pub fn record() -> (MigrationRecord, BTreeMap<NodeName, NodeRecord>) {
    let mut items = vec![];
    for number in 1..=6 {
        let block =
            format!(r#""podCIDR":"10.100.{number}.0/24","podCIDRs":["10.100.{number}.0/24"]"#);
        items.push(node(
            &format!("n{number}"),
            ["a", "b", "c"][number % 3],
            &block,
        ));
    }
    let folder = racks(&[]);
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &items));
    let planned = plan(&folder, &["--method", "recreate-node", "-o", "json"]).expect(0);
    let schedule = ScheduleDocument::read(&planned.stdout).unwrap();
    let rules = Rules {
        drain: DrainRules::default(),
        kubelet: KubeletRestart::ByPerson,
        drain_timeout: SignedDuration::from_secs(600),
        timeout: SignedDuration::from_secs(600),
    };
    let mut files = ApprovedFiles::new(&Desired::default(), &schedule);
    files.max_unavailable = schedule.max_unavailable;
    let record = MigrationRecord::new("20260101t000000z".to_owned(), schedule, files, rules);
    let nodes = record.nodes("2026-01-01T00:00:00Z".parse().unwrap());
    (record, nodes)
}

/// No agent ever starts, so the first node fails and cannot go back either.
#[test]
fn a_migration_that_stops_is_recorded_and_shown() {
    let installation = CiliumInstallation {
        ipam: "cluster-pool".into(),
        config: [
            ("cluster-pool-ipv4-cidr", "10.0.0.0/8"),
            ("cluster-pool-ipv4-mask-size", "24"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        ..CiliumInstallation::default()
    };
    let server = Server::start(&installation, Some("1.19.3"), Options::default(), &[]);
    let operator: serde_json::Value = serde_json::from_str(&operator("kubernetes")).unwrap();
    let deployments = "/apis/apps/v1/namespaces/kube-system/deployments";
    let _ = server.plane.create(deployments, &operator);
    let add = |name: &str, block: &str| {
        server.nodes([super::server::node(name, json!({"rack": "a"}))]);
        let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name}, "spec": {"ipam": {"podCIDRs": [block]}}});
        server
            .plane
            .create("/apis/cilium.io/v2/ciliumnodes", &object)
            .unwrap();
    };
    server
        .folder
        .write("pools/a.yaml", rack("a", "10.20.0.0/16"));
    let nothing = server.expect("migrate apply -o json", 0);
    let empty = json!({"format_version": "1.1", "migration": null});
    assert_eq!(nothing.json(), empty);
    add("n1", "10.100.1.0/24");
    let none = server.expect("migrate status", 0);
    assert_eq!(none.stdout, "The cluster has no record of a migration.\n");
    server.expect("migrate resume", 1);
    server.expect("migrate plan --out schedule.json", 0);
    let asked = server.expect("migrate apply", 1);
    assert!(
        asked
            .stderr
            .contains("stdin is not a terminal; nothing was written: pass --auto-approve"),
        "{}",
        asked.stderr
    );
    add("n2", "10.100.2.0/24");
    let stale = server.expect("migrate apply schedule.json --trust-plan-file", 4);
    assert!(
        stale
            .stderr
            .contains("node n2: not in the saved schedule, would now move to 10.20.1.0/24"),
        "{}",
        stale.stderr
    );
    let stopped = server.expect(
        "migrate apply --auto-approve --timeout 1s --check true -o json",
        7,
    );
    let status = stopped.json();
    assert_eq!(status["format_version"], "1.1");
    assert_eq!(status["migration"]["state"], "stopped", "{status}");
    assert_eq!(status["migration"]["counts"]["pending"], 1, "{status}");
    stopped.stderr.assert_has("cilium-ipam migrate resume");
    let again = server.expect("migrate apply --auto-approve", 1);
    assert!(
        again
            .stderr
            .contains("is not over (state: stopped); nothing was written"),
        "{}",
        again.stderr
    );
    let shown = server.expect("migrate status", 0).stdout;
    shown.assert_has("\nfailed\n  ! n1\n");
    shown.assert_has("your check: true\n");
    only_what_was_approved_is_resumed(&server);
    let unknown = server.expect("migrate resume --kubelet-restarted n9", 1);
    assert!(
        unknown
            .stderr
            .contains("node n9 is not part of this migration"),
        "{}",
        unknown.stderr
    );
}

/// The record of a stopped migration refuses other files, and a missing check.
fn only_what_was_approved_is_resumed(server: &Server) {
    let unchecked = server.expect("migrate resume", 4);
    let expected =
        "the migration began with a check (its program is `true`), and none is given now";
    unchecked.stderr.assert_has(expected);
    let never = "{schedule: '0 0 1 1 *', duration: 1m}";
    let windows = format!("{{migration: {{windows: [{never}]}}}}");
    server.folder.write("pools/policy.yaml", policy(&windows));
    server
        .folder
        .write("pools/a.yaml", rack("a", "10.20.0.0/15"));
    let resume = ["migrate", "resume", "--no-check"];
    let stale = server.run(&resume).expect(4);
    for expected in [
        "the files are not those that were approved; nothing was written",
        "the Policy: migration.windows: `0 0 1 1 *` for 1m (UTC) now, none when it was approved",
        "pool rack-a: cidrs: 10.20.0.0/15 now, 10.20.0.0/16 when it was approved",
        "--approve-files",
    ] {
        stale.stderr.assert_has(expected);
    }
    server
        .folder
        .write("pools/a.yaml", rack("a", "10.77.0.0/16"));
    let lost = server
        .run(&[&resume[..], &["--approve-files"]].concat())
        .expect(4);
    let expected = "node n1: 10.20.0.0/24 is not in pool rack-a any more";
    lost.stderr.assert_has(expected);
    server
        .folder
        .write("pools/a.yaml", rack("a", "10.20.0.0/15"));
    std::fs::remove_file(server.folder.path().join("pools/policy.yaml")).unwrap();
    let approved = [&resume[..], &["--approve-files", "--timeout", "1s"]].concat();
    server.run(&approved).expect(7);
    // The approval of the changed files is kept for the next resume.
    server.expect("migrate resume --timeout 1s", 7);
}
