//! Held blocks that the files would not give today: counted, explained and gated, and never more
//! than a screen of text.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, holds, node, pin, pool};

const NODES: usize = 2_000;

fn rack(name: &str, cidr: &str, size: u8, selected: &str) -> String {
    pool(
        name,
        &format!(
            "{{cidrs: [{cidr}], blockSize: {size}, nodeSelector: {{matchLabels: {{rack: {selected}}}}}}}"
        ),
    )
}

/// Racks a, b and c, whose pools select these racks and give blocks of this size.
fn racks(of_a: &str, of_b: &str, size: u8) -> [String; 3] {
    [
        rack("a", "10.0.0.0/12", size, of_a),
        rack("b", "10.16.0.0/12", size, of_b),
        rack("c", "10.32.0.0/12", size, "c"),
    ]
}

/// 2,000 nodes, each with a /24 of the pool of its rack.
fn applied(pools: &[String]) -> Folder {
    let nodes: Vec<String> = (0..NODES)
        .map(|index| node(&format!("n{index:04}"), ["a", "b", "c"][index % 3], ""))
        .collect();
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
        ("pools/racks.yaml", &racks("a", "b", 24).join("---\n")),
    ]);
    folder
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(0);
    let clean = folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "--fail-on",
            "misplaced",
        ])
        .expect(0)
        .stdout;
    assert_eq!(
        clean,
        "No changes. 2,000 nodes as the files say, 0 moved.\n"
    );
    folder.write("pools/racks.yaml", pools.join("---\n"));
    folder
}

fn plan(folder: &Folder) -> Value {
    folder
        .run(&["plan", "--cluster", "cluster.json", "-o", "json"])
        .expect(0)
        .json()
}

/// Code, pool and number of the misplaced blocks.
fn causes(plan: &Value) -> Vec<(String, String, usize)> {
    let mut causes = std::collections::BTreeMap::new();
    for one in plan["misplaced"].as_array().unwrap() {
        let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
        *causes.entry((text("code"), text("pool"))).or_insert(0) += 1;
    }
    causes
        .into_iter()
        .map(|((code, pool), count)| (code, pool, count))
        .collect()
}

fn cause(code: &str, pool: &str, count: usize) -> (String, String, usize) {
    (code.to_owned(), pool.to_owned(), count)
}

#[test]
fn swapped_selectors_are_told_grouped_and_gated() {
    let folder = applied(&racks("b", "a", 24));
    let ran = folder.run(&["plan", "--cluster", "cluster.json"]).expect(0);
    let headline =
        "No changes. 666 of 2,000 nodes as the files say, 0 moved; 1,334 nodes misplaced.";
    assert!(
        ran.stdout.starts_with(headline) && ran.stdout.trim_end().ends_with(headline),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("667 blocks of pool a: the pool does not select the node"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.lines().count() + ran.stderr.lines().count() < 60,
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
    let full = folder
        .run(&["plan", "--cluster", "cluster.json", "--full"])
        .expect(0)
        .stdout;
    assert!(
        full.contains("n0000 10.0.0.0/24") && full.contains("n1998 10.2.154.0/24"),
        "{full}"
    );
    assert_eq!(full.matches("/24").count(), 1_334);

    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "--fail-on",
            "misplaced",
        ])
        .expect(2);
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "--fail-on",
            "changes,blocked,refused,drift,warning",
        ])
        .expect(0);
    folder
        .run(&["plan", "--cluster", "cluster.json", "--detailed-exitcode"])
        .expect(0);
    let plan = plan(&folder);
    assert_eq!(
        causes(&plan),
        [
            cause("not-selected", "a", 667),
            cause("not-selected", "b", 667)
        ]
    );
    let summary = &plan["summary"];
    assert_eq!(
        (
            &summary["misplaced"],
            &summary["unchanged"],
            &summary["nodes"]
        ),
        (&1334.into(), &666.into(), &2000.into())
    );

    let markdown = folder
        .run(&["plan", "--cluster", "cluster.json", "-o", "markdown"])
        .expect(0)
        .stdout;
    assert!(
        markdown.contains("1,334 nodes misplaced")
            && markdown.contains("misplaced, 1,334 blocks of 1,334 nodes"),
        "{markdown}"
    );
    let nodes = folder
        .run(&["show", "nodes", "--cluster", "cluster.json"])
        .expect(0)
        .stdout;
    assert_eq!(nodes.matches("misplaced: ").count(), 1_334);
    let pools = folder
        .run(&["show", "pools", "--cluster", "cluster.json", "-o", "json"])
        .expect(0)
        .json();
    assert_eq!(pools["items"][0]["misplaced"], 667);
    let explained = folder
        .run(&["explain", "n0000", "--cluster", "cluster.json"])
        .expect(0)
        .stdout;
    assert!(
        explained.contains("misplaced: 10.0.0.0/24: the pool does not select the node"),
        "{explained}"
    );
}

#[test]
fn the_doctor_tells_one_finding_for_each_cause() {
    let folder = applied(&racks("b", "a", 24));
    let ran = folder
        .run(&["doctor", "--cluster", "cluster.json", "--fail-on", "never"])
        .expect(0);
    assert!(ran.stdout.lines().count() < 60, "{}", ran.stdout);
    let report = folder
        .run(&[
            "doctor",
            "--cluster",
            "cluster.json",
            "-o",
            "json",
            "--fail-on",
            "never",
        ])
        .expect(0)
        .json();
    let findings: Vec<&Value> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["rule"] == "block-misplaced")
        .collect();
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(
        findings[0]["message"]
            .as_str()
            .unwrap()
            .contains("(667 in all)"),
        "{findings:#?}"
    );
}

#[test]
fn another_block_size_and_a_pool_that_is_gone() {
    let resized = applied(&racks("a", "b", 25));
    assert_eq!(
        causes(&plan(&resized)),
        [
            cause("other-block-size", "a", 667),
            cause("other-block-size", "b", 667),
            cause("other-block-size", "c", 666)
        ]
    );
    resized.write("pools/racks.yaml", racks("a", "b", 24)[..2].join("---\n"));
    assert_eq!(causes(&plan(&resized)), [cause("in-no-pool", "-", 666)]);
}

#[test]
fn reserved_and_excluded_addresses_and_a_better_pool_with_room() {
    let nodes = [
        node("n1", "a", &holds("10.0.0.0/24")),
        node("n2", "a", &holds("10.0.1.0/24")),
        node("n3", "a", &holds("10.9.0.0/24")),
    ];
    let policy = "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {excluded: [10.0.1.7]}\n";
    let pools = [
        pool(
            "a",
            "{cidrs: [10.0.0.0/22], blockSize: 24, reserved: [10.0.0.0/24], nodeSelector: {matchLabels: {rack: a}}}",
        ),
        pool("rest", "{cidrs: [10.9.0.0/16], blockSize: 24}"),
        policy.to_owned(),
    ];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
        ("pools/a.yaml", &pools.join("---\n")),
    ]);
    let codes = |folder: &Folder| {
        causes(&plan(folder))
            .into_iter()
            .map(|(code, _, _)| code)
            .collect::<Vec<_>>()
    };
    assert_eq!(codes(&folder), ["better-pool", "excluded", "reserved"]);
    // A pin says that it is meant.
    folder.write("pools/pin.yaml", pin("n1", "10.0.0.0/24"));
    assert_eq!(codes(&folder), ["better-pool", "excluded"]);
    // Without room in the better pool, the next one is right.
    folder.write(
        "pools/a.yaml",
        folder
            .read("pools/a.yaml")
            .replace("10.0.0.0/22", "10.0.0.0/23"),
    );
    assert_eq!(codes(&folder), ["excluded"]);
}

#[test]
fn a_block_of_a_family_that_no_pool_has_is_in_no_pool() {
    let dual = r#""podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"]"#;
    let items = [node("n1", "a", dual)];
    let is_on = |is_on: bool| {
        cluster(
            "1.19.3",
            &format!(r#"{KUBERNETES},"enable-ipv6":"{is_on}""#),
            &items,
        )
    };
    let folder = Folder::new(&[
        ("cluster.json", &is_on(false)),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.0.0.0/16], blockSize: 24}"),
        ),
    ]);
    assert_eq!(
        plan(&folder)["misplaced"],
        json!([]),
        "this Cilium has IPv6 switched off"
    );
    folder.write("cluster.json", is_on(true));
    let misplaced = plan(&folder)["misplaced"].clone();
    assert_eq!(
        (&misplaced[0]["code"], &misplaced[0]["block"]),
        (&json!("in-no-pool"), &json!("fd00::/64"))
    );
}

#[test]
fn a_pair_of_two_pools_and_a_block_of_a_pin_are_named() {
    let nodes = [
        node(
            "n1",
            "a",
            r#""podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd01::/64"]"#,
        ),
        node(
            "n2",
            "a",
            r#""podCIDR":"10.0.1.0/24","podCIDRs":["10.0.1.0/24","fd00::/64"]"#,
        ),
        node(
            "n3",
            "a",
            r#""podCIDR":"10.0.2.0/24","podCIDRs":["10.0.2.0/24","fd01:0:0:1::/64"]"#,
        ),
    ];
    let settings = format!(r#"{KUBERNETES},"enable-ipv6":"true""#);
    let pools = [
        pool(
            "a",
            "{cidrs: [10.0.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}, priority: 1}",
        ),
        pool(
            "b",
            "{cidrs: [10.1.0.0/16, \"fd01::/48\"], blockSize: {ipv4: 24, ipv6: 64}, priority: 1, nodeSelector: {matchLabels: {rack: a}}}",
        ),
    ];
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", &settings, &nodes)),
        ("pools/a.yaml", &pools.join("---\n")),
        (
            "pools/pin.yaml",
            &[pin("n9", "10.0.1.0/24"), pin("n3", "10.0.2.0/24")].join("---\n"),
        ),
    ]);
    let codes: Vec<String> = plan(&folder)["misplaced"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!(
                "{} {} {}",
                one["name"].as_str().unwrap(),
                one["block"].as_str().unwrap(),
                one["code"].as_str().unwrap()
            )
        })
        .collect();
    assert!(
        codes.contains(&"n2 10.0.1.0/24 pinned-to-other".to_owned()),
        "{codes:?}"
    );
    assert!(
        codes.contains(&"n1 fd01::/64 pair-of-two-pools".to_owned()),
        "{codes:?}"
    );
    assert!(
        codes.contains(&"n3 fd01:0:0:1::/64 pinned-elsewhere".to_owned()),
        "{codes:?}"
    );
}

/// Code of each misplaced or blocked node.
fn codes(plan: &Value) -> Vec<String> {
    let of = |key: &str| -> Vec<String> {
        plan[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["code"].as_str().unwrap().to_owned())
            .collect()
    };
    [of("misplaced"), of("blocked")].concat()
}

#[test]
fn what_a_pin_or_a_disabled_pool_gives_is_judged_too() {
    let one = |settings: &str, spec: &str, pools: &[String]| {
        let folder = Folder::new(&[
            (
                "cluster.json",
                &cluster("1.19.3", settings, &[node("n1", "a", spec)]),
            ),
            ("pools/a.yaml", &pools.join("---\n")),
        ]);
        codes(&plan(&folder))
    };
    let of_services = [
        pool("a", "{cidrs: [10.96.0.0/20], blockSize: 26}"),
        pin("n1", "10.96.0.64/26"),
    ];
    assert_eq!(
        one(KUBERNETES, &holds("10.96.0.64/26"), &of_services),
        ["used-by-others"]
    );
    let dual = r#""ipam":"kubernetes","enable-ipv4":"true","enable-ipv6":"true""#;
    let disabled =
        "{cidrs: [10.20.0.0/20, \"fd00:a::/60\"], blockSize: {ipv4: 26, ipv6: 64}, disabled: true}";
    assert_eq!(
        one(dual, &holds("10.20.0.64/26"), &[pool("a", disabled)]),
        ["exhausted"],
        "its agent waits for IPv6"
    );
    let other_family = r#""ipam":"kubernetes","enable-ipv4":"false","enable-ipv6":"true""#;
    let ipv4 = pool("a", "{cidrs: [10.20.0.0/20], blockSize: 26}");
    assert!(
        !one(other_family, "", &[ipv4]).is_empty(),
        "it has no block that it could use"
    );
    let off = r#""ipam":"kubernetes","enable-ipv6":"false""#;
    let pools = [
        pool(
            "a",
            "{cidrs: [10.20.0.0/20, \"fd00:a::/60\"], blockSize: {ipv4: 26, ipv6: 64}}",
        ),
        pool("b", "{cidrs: [10.30.0.0/20], blockSize: 26, priority: 5}"),
    ];
    let pair = r#""podCIDR":"10.30.0.0/26","podCIDRs":["10.30.0.0/26","fd00:a::/64"]"#;
    assert_eq!(
        one(off, pair, &pools),
        Vec::<String>::new(),
        "IPv6 is switched off"
    );
}

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
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &items)),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.0.0.0/8], blockSize: 24}"),
        ),
    ]);
    let ran = folder.run(&["plan", "--cluster", "cluster.json"]).expect(2);
    let headline = "No changes. 0 of 2,000 nodes as the files say, 0 moved; 2,000 drifted fields, 2,000 errors.";
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
    assert!(
        ran.stderr
            .contains("1,995 further errors of block-held-twice"),
        "{}",
        ran.stderr
    );
    folder
        .run(&["plan", "--cluster", "cluster.json", "--fail-on", "never"])
        .expect(0);
    // For it, 2 means changes, and an error is not green.
    let failed = folder
        .run(&["plan", "--cluster", "cluster.json", "--detailed-exitcode"])
        .expect(1)
        .stderr;
    assert!(
        failed.contains("there is nothing to change, but the checks found 2,000 errors"),
        "{failed}"
    );
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "--detailed-exitcode",
            "--fail-on",
            "error",
        ])
        .expect(2);
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "--detailed-exitcode",
            "--fail-on",
            "never",
        ])
        .expect(0);
    folder
        .run(&["plan", "--cluster", "cluster.json", "--fail-on", "drift"])
        .expect(2);
    let doctor = folder
        .run(&["doctor", "--cluster", "cluster.json"])
        .expect(2);
    assert!(doctor.stdout.lines().count() < 60, "{}", doctor.stdout);
    one_entry(&folder, &["plan", "--fail-on", "never"], "block-held-twice");
    one_entry(
        &folder,
        &["doctor", "--fail-on", "never"],
        "block-changes-at-restart",
    );
    let sarif = folder
        .run(&[
            "doctor",
            "--cluster",
            "cluster.json",
            "-o",
            "sarif",
            "--fail-on",
            "never",
        ])
        .expect(0)
        .json();
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
    let markdown = folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "-o",
            "markdown",
            "--fail-on",
            "never",
        ])
        .expect(0);
    assert!(
        markdown
            .stdout
            .contains("the same 1,999 times more: `Node/"),
        "{}",
        markdown.stdout
    );
    assert!(markdown.stdout.lines().count() < 60, "{}", markdown.stdout);
}

/// In JSON, a rule with one cause is one entry with the first ten of its objects and exact counts;
/// with `--full`, with all of them.
fn one_entry(folder: &Folder, words: &[&str], rule: &str) {
    let words = [words, &["--cluster", "cluster.json", "-o", "json"]].concat();
    for (more, listed) in [(&[][..], 10), (&["--full"][..], NODES)] {
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
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &items)),
        ("pools/a.yaml", &pools.join("---\n")),
    ]);
    let words = ["plan", "--cluster", "cluster.json"];
    let short = folder.run(&words).expect(0).stdout;
    assert!(
        short.lines().count() < 90,
        "{} lines:\n{short}",
        short.lines().count()
    );
    assert!(
        short.starts_with("Plan: 500 to assign, 0 to update"),
        "{short}"
    );
    assert!(
        short.contains("… and 490 further pools with 490 changes; --full shows all"),
        "{short}"
    );
    assert!(
        short.contains("misplaced (500 blocks of 500 nodes; a held block never moves by itself)"),
        "{short}"
    );
    assert!(
        short.contains("… and 490 further causes: 490 not-selected; --full shows all"),
        "{short}"
    );
    let full = folder
        .run(&[&words[..], &["--full"]].concat())
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
    assert!(
        short.contains("… and 490 further pools with 490 changes")
            && short.contains("490 further causes: 490"),
        "{short}"
    );
    let full = folder
        .run(&[&words[..], &["-o", "markdown", "--full"]].concat())
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
    let rows = folder
        .run(&["show", "nodes", "--cluster", "cluster.json", "-o", "json"])
        .expect(0)
        .json();
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
        state(1).contains("; needs the approval of a person: 8.8.8.0/24, which only CiliumNode"),
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
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, &nodes)),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.0.0.0/8], blockSize: 24}"),
        ),
        ("pools/pins.yaml", &pins.join("---\n")),
    ]);
    let ran = folder.run(&["plan", "--cluster", "cluster.json"]).expect(0);
    assert!(
        ran.stdout
            .starts_with("No changes. 0 of 2,000 nodes as the files say, 0 moved; 2,000 blocked"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.lines().count() + ran.stderr.lines().count() < 60,
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
    folder
        .run(&["plan", "--cluster", "cluster.json", "--fail-on", "blocked"])
        .expect(2);
    let full = folder
        .run(&["plan", "--cluster", "cluster.json", "--full"])
        .expect(0)
        .stdout;
    assert_eq!(full.matches("is pinned to").count(), NODES);
}
