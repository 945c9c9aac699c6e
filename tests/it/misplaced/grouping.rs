//! Thousands of nodes or pools with one cause: grouped, cut and counted.

use serde_json::Value;

use super::NODES;
use crate::support::{Folder, TextAssertions, cluster, holds, node, pin, pool};

#[test]
fn nodes_that_all_show_blocks_of_others_are_one_entry_and_not_green() {
    let block = |index: usize| format!("10.{}.{}.0/24", index / 256, index % 256);
    let name = |index: usize| format!("n{index:04}");
    let nodes = (0..NODES).map(|index| node(&name(index), "a", &holds(&block(index))));
    let cilium_nodes = (0..NODES).map(|index| {
        let (name, block) = (name(index), block((index + 1) % NODES));
        format!(r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}"}},"spec":{{"ipam":{{"podCIDRs":["{block}"]}}}}}}"#)
    });
    let items: Vec<String> = nodes.chain(cilium_nodes).collect();
    let folder = Folder::with_cluster(
        &items,
        &[(
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.0.0.0/8], blockSize: 24}"),
        )],
    );
    let ran = folder.expect("plan --cluster cluster.json", 2);
    let headline =
        "2,000 drifted nodes, 2,000 errors; no changes. 0 of 2,000 nodes match the files, 0 moved.";
    assert!(
        ran.stdout.starts_with(headline) && ran.stdout.trim_end().ends_with(headline),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.lines().count() + ran.stderr.lines().count() < 60,
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
    ran.stdout
        .assert_has("? 2,000 objects: CiliumNode.spec.ipam.podCIDRs differs\n");
    ran.stdout.assert_has("… and 1,990 more\n");
    ran.stderr
        .assert_has("1,995 further errors of duplicate-block");
    folder.expect("plan --cluster cluster.json --fail-on never", 0);
    // For it, 2 means changes, and an error is not green.
    let failed = folder
        .expect("plan --cluster cluster.json --detailed-exitcode", 1)
        .stderr;
    failed.assert_has("there is nothing to change, but the checks found 2,000 errors");
    folder.expect(
        "plan --cluster cluster.json --detailed-exitcode --fail-on error",
        2,
    );
    folder.expect(
        "plan --cluster cluster.json --detailed-exitcode --fail-on never",
        0,
    );
    folder.expect("plan --cluster cluster.json --fail-on drift", 2);
    let doctor = folder.expect("doctor --cluster cluster.json", 2);
    assert!(doctor.stdout.lines().count() < 60, "{}", doctor.stdout);
    one_entry(&folder, &["plan", "--fail-on", "never"], "duplicate-block");
    one_entry(
        &folder,
        &["doctor", "--fail-on", "never"],
        "block-changes-at-restart",
    );
    let sarif = folder.json("doctor --cluster cluster.json -o sarif --fail-on never");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let result = results
        .iter()
        .find(|one| one["ruleId"] == "block-changes-at-restart")
        .unwrap();
    assert_eq!(
        (results.len() < 10, &result["occurrenceCount"]),
        (true, &NODES.into()),
        "{}",
        results.len()
    );
    let markdown = folder.expect("plan --cluster cluster.json -o markdown --fail-on never", 0);
    assert!(
        markdown
            .stdout
            .contains("the same 1,999 times more: `Node/"),
        "{}",
        markdown.stdout
    );
    assert!(
        markdown.stdout.contains(
            "| `CiliumNode.spec.ipam.podCIDRs` | unknown | 2,000 objects | `n0000` shows "
        ),
        "{}",
        markdown.stdout
    );
    assert!(markdown.stdout.lines().count() < 60, "{}", markdown.stdout);
}

/// In JSON, a rule with one cause is one entry with the first ten of its objects and exact counts;
/// with `--show-all`, with all of them.
fn one_entry(folder: &Folder, words: &[&str], rule: &str) {
    let words = [words, &["--cluster", "cluster.json", "-o", "json"]].concat();
    for (more, listed) in [(&[][..], 10), (&["--show-all"][..], NODES)] {
        let report = folder.run(&[&words[..], more].concat()).expect(0).json();
        let findings = report["findings"].as_array().unwrap();
        let of_rule: Vec<&Value> = findings
            .iter()
            .filter(|finding| finding["rule"] == rule)
            .collect();
        let [finding] = of_rule[..] else {
            panic!("{} entries", of_rule.len())
        };
        assert_eq!(
            (&finding["count"], &finding["subject_count"]),
            (&NODES.into(), &NODES.into()),
            "{words:?}"
        );
        let length = |key: &str| finding[key].as_array().unwrap().len();
        assert_eq!(
            (1 + length("other_subjects"), 1 + length("further_messages")),
            (listed, listed),
            "{words:?}"
        );
    }
}

/// Pools by the hundred, each with a cause of its own.
#[test]
fn hundreds_of_pools_are_cut_and_counted() {
    const POOLS: usize = 500;
    let own =
        |index: usize, block: usize| format!("10.{}.{}.0/24", index / 64, index % 64 * 4 + block);
    let range = |index: usize| format!("10.{}.{}.0/22", index / 64, index % 64 * 4);
    let rack = |index: usize, rack: usize| {
        let spec = format!(
            "{{cidrs: [{}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: r{rack}}}}}}}",
            range(index)
        );
        pool(&format!("p{index:03}"), &spec)
    };
    let held = (0..POOLS).map(|index| {
        node(
            &format!("n{index:03}"),
            &format!("r{index}"),
            &holds(&own(index, 1)),
        )
    });
    let new = (0..POOLS).map(|index| node(&format!("x{index:03}"), &format!("r{index}"), ""));
    let items: Vec<String> = held.chain(new).collect();
    // The selector of each pool is that of the next one.
    let pools: Vec<String> = (0..POOLS)
        .map(|index| rack(index, (index + 1) % POOLS))
        .collect();
    let folder = Folder::with_cluster(&items, &[("pools/a.yaml", &pools.join("---\n"))]);
    let words = ["plan", "--cluster", "cluster.json"];
    let short = folder.run(&words).expect(0).stdout;
    assert!(
        short.lines().count() < 90,
        "{} lines:\n{short}",
        short.lines().count()
    );
    assert!(short.starts_with("Plan: 500 to assign, 0 moved"), "{short}");
    short.assert_has("… and 490 further pools with 490 changes; --show-all shows all");
    short.assert_has(
        "misplaced (500 blocks of 500 nodes; the block of a node never moves automatically)",
    );
    short.assert_has("… and 490 further causes: 490 not-selected; --show-all shows all");
    let full = folder
        .run(&[&words[..], &["--show-all"]].concat())
        .expect(0)
        .stdout;
    assert_eq!(
        (
            full.matches("\npool p").count(),
            full.matches("1 block of pool").count()
        ),
        (POOLS, POOLS)
    );
    let short = folder
        .run(&[&words[..], &["-o", "markdown"]].concat())
        .expect(0)
        .stdout;
    assert_eq!(short.matches("<details>").count(), 11, "{short}");
    short.assert_has("… and 490 further pools with 490 changes");
    short.assert_has("490 further causes: 490");
    let full = folder
        .run(&[&words[..], &["-o", "markdown", "--show-all"]].concat())
        .expect(0)
        .stdout;
    assert!(
        full.matches("<details>").count() > 200 && full.len() < 65_536,
        "{}",
        full.len()
    );
}

/// A node that gets a block of one family while that of the other is misplaced.
#[test]
fn show_nodes_tells_everything_at_once() {
    let settings = r#""ipam":"kubernetes","annotate-k8s-node":"true""#;
    let shown = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"n2"},"spec":{"ipam":{"podCIDRs":["8.8.8.0/24"]}}}"#;
    let items = [
        node("n1", "a", &holds("10.0.8.0/25")),
        node("n2", "a", ""),
        shown.to_owned(),
    ];
    let dual = "{cidrs: [10.0.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", settings, &items)),
        ("pools/a.yaml", &pool("a", dual)),
    ]);
    let rows = folder.json("show nodes --cluster cluster.json -o json");
    let state = |index: usize| rows["items"][index]["state"].as_str().unwrap();
    assert_eq!(
        state(0),
        "will get fd00::/64; misplaced: 10.0.8.0/25: the pool gives /24 blocks"
    );
    assert!(
        state(1).starts_with("will get ")
            && state(1).contains("; misplaced: 8.8.8.0/24: in no pool"),
        "{rows:#}"
    );
    assert!(
        state(1).contains("; needs manual approval: 8.8.8.0/24, which only CiliumNode"),
        "{rows:#}"
    );
    assert_eq!(
        rows["items"][1]["needs_approval"].as_array().unwrap().len(),
        1,
        "{rows:#}"
    );
}

#[test]
fn thousands_of_blocked_nodes_with_one_cause_are_one_entry() {
    let block = |index: usize| format!("10.{}.{}.0/24", index / 256, index % 256);
    // Each is pinned to the block that the next one holds, so that no two reasons are equal.
    let nodes: Vec<String> = (0..NODES)
        .map(|index| node(&format!("n{index:04}"), "a", &holds(&block(index))))
        .collect();
    let pins: Vec<String> = (0..NODES)
        .map(|index| pin(&format!("n{index:04}"), &block((index + 1) % NODES)))
        .collect();
    let folder = Folder::with_cluster(
        &nodes,
        &[
            (
                "pools/a.yaml",
                &pool("a", "{cidrs: [10.0.0.0/8], blockSize: 24}"),
            ),
            ("pools/pins.yaml", &pins.join("---\n")),
        ],
    );
    let ran = folder.expect("plan --cluster cluster.json", 0);
    assert!(ran.stdout.starts_with("2,000 blocked"), "{}", ran.stdout);
    assert!(
        ran.stdout.lines().count() + ran.stderr.lines().count() < 60,
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
    folder.expect("plan --cluster cluster.json --fail-on blocked", 2);
    let full = folder
        .expect("plan --cluster cluster.json --show-all", 0)
        .stdout;
    assert_eq!(full.matches("is pinned to").count(), NODES);
}
