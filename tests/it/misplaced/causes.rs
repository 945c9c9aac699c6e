//! Why a held block is misplaced: the code, the pool and the count of each cause.

use serde_json::Value;

use super::{NODES, applied, cause, causes, plan, rack, racks};
use crate::support::{Folder, KUBERNETES, TextAssertions, cluster, node};

#[test]
fn swapped_selectors_are_told_grouped_and_gated() {
    let folder = applied(&racks("b", "a", 24));
    let ran = folder.expect("plan --cluster cluster.json", 0);
    let headline =
        "1,334 nodes misplaced; no changes. 666 of 2,000 nodes match the files, 0 moved.";
    assert!(
        ran.stdout.starts_with(headline) && ran.stdout.trim_end().ends_with(headline),
        "{}",
        ran.stdout
    );
    ran.stdout
        .assert_has("667 blocks of pool a: the pool does not select the node");
    assert!(
        ran.stdout.lines().count() + ran.stderr.lines().count() < 60,
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );
    let full = folder
        .expect("plan --cluster cluster.json --show-all", 0)
        .stdout;
    full.assert_has("n0000 10.0.0.0/24");
    full.assert_has("n1998 10.2.154.0/24");
    assert_eq!(full.matches("/24").count(), 1_334);

    folder.expect("plan --cluster cluster.json --fail-on misplaced", 2);
    folder.expect(
        "plan --cluster cluster.json --fail-on changes,blocked,refused,drift,warning",
        0,
    );
    folder.expect("plan --cluster cluster.json --detailed-exitcode", 0);
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
        .expect("plan --cluster cluster.json -o markdown", 0)
        .stdout;
    assert!(
        markdown.contains("1,334 nodes misplaced")
            && markdown.contains("misplaced, 1,334 blocks of 1,334 nodes")
            && markdown.trim_end().ends_with(&format!("\n{headline}")),
        "{markdown}"
    );
    let nodes = folder.expect("show nodes --cluster cluster.json", 0).stdout;
    assert_eq!(nodes.matches("misplaced: ").count(), 1_334);
    let pools = folder.json("show pools --cluster cluster.json -o json");
    assert_eq!(pools["items"][0]["misplaced"], 667);
    let explained = folder
        .expect("explain n0000 --cluster cluster.json", 0)
        .stdout;
    explained.assert_has("misplaced: 10.0.0.0/24: the pool does not select the node");
}

#[test]
fn the_doctor_tells_one_finding_for_each_cause() {
    let folder = applied(&racks("b", "a", 24));
    let ran = folder.expect("doctor --cluster cluster.json --fail-on never", 0);
    assert!(ran.stdout.lines().count() < 60, "{}", ran.stdout);
    let report = folder.json("doctor --cluster cluster.json -o json --fail-on never");
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
    short.assert_has("… and 662 more; --show-all shows all");
    let full = run(&["--show-all"]).stdout;
    for index in 0..NODES {
        assert!(
            full.contains(&format!("seen   `n{index:04}`: ")),
            "n{index:04}"
        );
    }
    full.assert_lacks("--show-all");

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
        full.stdout.assert_has(&seen);
    }
    let short = folder.run(&words).expect(0).stdout;
    short.assert_has("… and 7 more; --show-all shows all");
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
