//! Why a held block is misplaced: the code, the pool and the count of each cause.

use serde_json::{Value, json};

use super::{NODES, applied, cause, causes, plan, rack, racks};
use crate::support::{Folder, KUBERNETES, cluster, holds, node, pin, pool};

#[test]
fn swapped_selectors_are_told_grouped_and_gated() {
    let folder = applied(&racks("b", "a", 24));
    let ran = folder.run(&["plan", "--cluster", "cluster.json"]).expect(0);
    let headline =
        "1,334 nodes misplaced; no changes. 666 of 2,000 nodes as the files say, 0 moved.";
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
        .run(&["plan", "--cluster", "cluster.json", "--show-all"])
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
            && markdown.contains("misplaced, 1,334 blocks of 1,334 nodes")
            && markdown.trim_end().ends_with(&format!("\n{headline}")),
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

/// Every rack's pool selects the nodes of the next rack, so all 2,000 blocks are misplaced.
#[test]
fn the_doctor_counts_every_node_and_lists_all_of_them_in_full() {
    let folder = applied(&[
        rack("a", "10.0.0.0/12", 24, "b"),
        rack("b", "10.16.0.0/12", 24, "c"),
        rack("c", "10.32.0.0/12", 24, "a"),
    ]);
    let words = ["doctor", "--cluster", "cluster.json", "--fail-on", "never"];
    let run = |more: &[&str]| folder.run(&[&words[..], more].concat()).expect(0);
    let short = run(&[]).stdout;
    assert!(short.lines().count() < 60, "{short}");
    assert_eq!(
        (
            short.matches("(667 in all)").count(),
            short.matches("(666 in all)").count()
        ),
        (2, 1),
        "{short}"
    );
    assert!(
        short.contains("… and 662 more; --show-all shows all"),
        "{short}"
    );
    let full = run(&["--show-all"]).stdout;
    for index in 0..NODES {
        assert!(
            full.contains(&format!("seen   `n{index:04}`: ")),
            "n{index:04}"
        );
    }
    assert!(!full.contains("--show-all"), "{full}");

    let misplaced = |more: &[&str]| -> Vec<Value> {
        let report = run(&[&["-o", "json"][..], more].concat()).json();
        let findings = report["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .filter(|one| one["rule"] == "block-misplaced")
            .collect()
    };
    let length = |one: &Value, key: &str| one[key].as_array().unwrap().len();
    for (more, listed) in [(&[][..], 10), (&["--show-all"][..], NODES)] {
        let findings = misplaced(more);
        let subjects = findings
            .iter()
            .map(|one| one["subject_count"].as_u64().unwrap());
        assert_eq!(subjects.sum::<u64>(), NODES as u64);
        for one in &findings {
            let subjects = one["subject_count"].as_u64().unwrap() as usize;
            let listed = listed.min(subjects);
            assert_eq!(
                (1 + length(one, "other_subjects"), length(one, "evidence")),
                (listed, listed),
                "{one:#}"
            );
        }
    }
    let sarif = run(&["-o", "sarif"]).json();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let result = results
        .iter()
        .find(|one| one["ruleId"] == "block-misplaced")
        .unwrap();
    assert_eq!(length(&result["locations"][0], "logicalLocations"), 10);
}

#[test]
fn explain_tells_every_misplaced_block_of_a_node() {
    let dual = r#""podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"]"#;
    let folder = Folder::new(&[
        (
            "cluster.json",
            &cluster(
                "1.19.3",
                &format!(r#"{KUBERNETES},"enable-ipv6":"true""#),
                &[node("n1", "a", dual)],
            ),
        ),
        (
            "pools/b.yaml",
            &pool(
                "b",
                "{cidrs: [10.0.0.0/16, \"fd00::/48\"], blockSize: {ipv4: 24, ipv6: 64}, nodeSelector: {matchLabels: {rack: b}}}",
            ),
        ),
    ]);
    let explained = folder
        .run(&["explain", "n1", "--cluster", "cluster.json"])
        .expect(0)
        .stdout;
    for block in ["10.0.0.0/24", "fd00::/64"] {
        let reason = format!("{block}: the pool does not select the node");
        assert!(explained.contains(&reason), "{explained}");
    }
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
    let policy = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {excluded: [10.0.1.7]}\n";
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
    assert_eq!(
        codes(&folder),
        ["better-pool", "block-excluded", "block-reserved"]
    );
    // A pin says that it is meant.
    folder.write("pools/pin.yaml", pin("n1", "10.0.0.0/24"));
    assert_eq!(codes(&folder), ["better-pool", "block-excluded"]);
    // Without room in the better pool, the next one is right.
    folder.write(
        "pools/a.yaml",
        folder
            .read("pools/a.yaml")
            .replace("10.0.0.0/22", "10.0.0.0/23"),
    );
    assert_eq!(codes(&folder), ["block-excluded"]);
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
        codes.contains(&"n1 fd01::/64 dual-stack-split".to_owned()),
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
        ["node-pools-exhausted"],
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

/// Rules about several nodes at once have each of them as a subject, with its evidence.
#[test]
fn the_doctor_lists_every_node_without_a_block() {
    const LACKING: usize = 12;
    let nodes: Vec<String> = (0..LACKING)
        .map(|index| node(&format!("n{index:02}"), "a", ""))
        .collect();
    let settings = format!(r#"{KUBERNETES},"enable-ipv4":"true""#);
    let folder = Folder::new(&[("cluster.json", &cluster("1.19.3", &settings, &nodes))]);
    let words = ["doctor", "--cluster", "cluster.json", "--fail-on", "never"];
    let full = folder
        .run(&[&words[..], &["--show-all"]].concat())
        .expect(0);
    for index in 0..LACKING {
        let seen = format!("seen   Node `n{index:02}`: no spec.podCIDRs");
        assert!(full.stdout.contains(&seen), "{}", full.stdout);
    }
    let short = folder.run(&words).expect(0).stdout;
    assert!(
        short.contains("… and 7 more; --show-all shows all"),
        "{short}"
    );
    let report = folder
        .run(&[&words[..], &["-o", "json"]].concat())
        .expect(0)
        .json();
    let finding = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["rule"] == "node-without-block")
        .unwrap();
    assert_eq!(finding["subject"], "Node/n00");
    assert_eq!(finding["subject_count"], LACKING);
}
