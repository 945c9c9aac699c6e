//! Limits, waivers and protections: which plans are refused, with exit code 5 and without a write,
//! and which waiver allows them.

use super::support::{Folder, TextAssertions, args, cluster, holds, node, pin, pool};

const DUAL_STACK: &str =
    "{cidrs: [10.20.0.0/16, \"fd00:20::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
const OPEN_GATE: &str = r#""ipam":"kubernetes","annotate-k8s-node":"true""#;

/// Nodes that run with an IPv4 block and would get an IPv6 block beside it: their agents must be
/// restarted.
pub fn running(names: &[(&str, &str)]) -> Vec<String> {
    let each = |(index, (name, rack)): (usize, &(&str, &str))| {
        let block = format!("10.20.{index}.0/24");
        let agent = format!(
            r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}"}},"spec":{{"ipam":{{"podCIDRs":["{block}"]}}}}}}"#
        );
        [node(name, rack, &holds(&block)), agent]
    };
    names.iter().enumerate().flat_map(each).collect()
}

pub fn dual_stack(items: &[String], policy: &str) -> Folder {
    let folder = Folder::new(&[
        ("cluster.json", &cluster("1.19.3", OPEN_GATE, items)),
        ("pools/a.yaml", &pool("a", DUAL_STACK)),
    ]);
    if !policy.is_empty() {
        let head =
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: ";
        folder.write("pools/policy.yaml", format!("{head}{policy}\n"));
    }
    folder
}

fn apply(folder: &Folder, more: &[&str], code: i32) -> String {
    let before = folder.read("cluster.json");
    let words = [
        &["apply", "--cluster", "cluster.json", "--auto-approve"],
        more,
    ]
    .concat();
    let ran = folder.run(&words).expect(code);
    if code == 5 {
        assert_eq!(
            folder.read("cluster.json"),
            before,
            "nothing may be written"
        );
    }
    ran.stderr
}

const THREE: [(&str, &str); 3] = [("n1", "a"), ("n2", "a"), ("n3", "b")];

#[test]
fn a_share_holds_for_three_nodes_and_one_is_always_allowed() {
    let folder = dual_stack(&running(&THREE), "");
    let refused = apply(&folder, &[], 5);
    refused.assert_has("3 of 3 nodes would need a restart of their agent");
    assert!(
        refused.contains("disruptive-percent = 20 allows 1")
            && refused.contains("--waive disruptive-percent")
    );
    apply(&dual_stack(&running(&THREE[..1]), ""), &[], 0);
    apply(
        &dual_stack(&running(&THREE), "{limits: {disruptive: {percent: 100}}}"),
        &[],
        0,
    );
    apply(
        &dual_stack(
            &running(&THREE[..1]),
            "{limits: {disruptive: {percent: 0}}}",
        ),
        &[],
        5,
    );
}

#[test]
fn each_limit_has_a_waiver_of_its_own() {
    let policy = "{limits: {disruptive: {count: 2}}}";
    let folder = dual_stack(&running(&THREE), policy);
    let refused = apply(&folder, &["--waive", "disruptive-percent"], 5);
    refused.assert_has("disruptive-count = 2 allows 2");
    refused.assert_lacks("disruptive-percent =");
    apply(
        &folder,
        &args("--waive disruptive-percent --waive disruptive-count"),
        0,
    );
    let unknown = folder.expect("apply --waive everything", 1);
    assert!(
        unknown
            .stderr
            .contains("unknown limit `everything`; expected one of assign-count"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn failure_domains_are_counted_apart() {
    let policy = "{limits: {failureDomain: rack, disruptive: {percent: 100, domainCount: 1}}}";
    let refused = apply(&dual_stack(&running(&THREE), policy), &[], 5);
    refused.assert_has("2 of 2 nodes in failure domain `a`");
    apply(&dual_stack(&running(&THREE[1..]), policy), &[], 0);
    let share = "{limits: {failureDomain: rack, disruptive: {percent: 100, domainPercent: 50}}}";
    apply(&dual_stack(&running(&THREE), share), &[], 5);
}

#[test]
fn the_command_line_limits_and_protects_too() {
    let bare = dual_stack(&[node("n1", "a", ""), node("n2", "a", "")], "");
    let refused = apply(&bare, &["--limit", "assign-count=1"], 5);
    refused.assert_has("2 of 2 nodes would get a block, and assign-count = 1 allows 1");
    let folder = dual_stack(&running(&THREE[..1]), "");
    assert!(apply(&folder, &["--protect-node", "n1"], 5).contains("and is protected"));
    let looser = ["--limit", "disruptive-percent=100"];
    assert!(
        apply(&dual_stack(&running(&THREE), ""), &looser, 5).contains("disruptive-percent = 20")
    );
    assert!(
        apply(&folder, &["--protect-pool", "a"], 5)
            .contains("a block of pool `a`, which is protected")
    );
    assert!(apply(&folder, &["--protect-pool", "gone"], 5).contains("no file declares it"));
    let bad = folder.expect("plan --limit assign-count", 1);
    bad.stderr.assert_has("LIMIT=N");
    let bad = folder.expect("plan --limit assign-percent=101", 1);
    bad.stderr.assert_has("at most 100");
}

#[test]
fn what_is_protected_needs_no_file_of_its_own_and_no_waiver_helps() {
    let mut items = running(&THREE[..1]);
    items[0] = items[0].replace(
        r#""labels""#,
        r#""annotations":{"cilium-ipam.io/protected":"true"},"labels""#,
    );
    let refused = apply(
        &dual_stack(&items, ""),
        &["--waive", "disruptive-percent"],
        5,
    );
    refused.assert_has("protected by its annotation cilium-ipam.io/protected");
    let policy = "{protected: {nodes: [n1], pools: [a]}}";
    let folder = dual_stack(&running(&THREE[..1]), policy);
    let refused = apply(&folder, &[], 5);
    refused.assert_has("node `n1`");
    refused.assert_has("pool `a`");
    // Deleting the pool's file does not delete its protection.
    std::fs::remove_file(folder.join("pools/a.yaml")).unwrap();
    assert!(apply(&folder, &[], 5).contains("pool `a` is protected, and no file declares it"));
    // A protected node that has nothing yet gets its block.
    apply(&dual_stack(&[node("n1", "a", "")], policy), &[], 0);
}

#[test]
fn a_protection_beside_what_it_protects_is_no_protection() {
    let folder = dual_stack(&[node("n1", "a", "")], "");
    let policy = "---\napiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {protected: {pools: [a], nodes: [n2]}}\n";
    folder.write(
        "pools/a.yaml",
        format!(
            "{}---\n{}{policy}",
            pool("a", DUAL_STACK),
            pin("n2", "10.20.9.0/24")
        ),
    );
    let ran = folder.expect("validate", 3);
    assert_eq!(
        ran.stderr
            .matches("cilium-ipam::protection-in-same-file")
            .count(),
        2,
        "{}",
        ran.stderr
    );
}

#[test]
fn a_saved_plan_names_its_waivers() {
    let folder = dual_stack(&running(&THREE), "");
    folder.expect("plan --cluster cluster.json --out plan.json", 5);
    let refused = folder.expect(
        "apply plan.json --trust-plan-file --cluster cluster.json",
        5,
    );
    refused.stderr.assert_has("disruptive-percent");
    let late = [
        "apply",
        "plan.json",
        "--trust-plan-file",
        "--cluster",
        "cluster.json",
        "--waive",
        "disruptive-percent",
    ];
    let said = folder.run(&late).expect(4).stderr;
    said.assert_has("the plan has no waivers, and --waive asks for the waiver disruptive-percent");
    said.assert_has("nothing was written");
    said.assert_has("plan again with these waivers");
    // A waiver that was put in by hand does not fit the digest.
    let plan = folder.read("plan.json");
    folder.write(
        "plan.json",
        plan.replace(r#""waivers": []"#, r#""waivers": ["disruptive-percent"]"#),
    );
    assert!(
        folder
            .expect(
                "apply plan.json --trust-plan-file --cluster cluster.json",
                1
            )
            .stderr
            .contains("digest")
    );
    let waive = args("plan --cluster cluster.json --waive disruptive-percent --out plan.json");
    assert!(
        folder
            .run(&waive)
            .expect(0)
            .stdout
            .contains("waived: disruptive-percent")
    );
    // Other waivers than those of the plan are refused; the very same ones pin it.
    let other = [&late[..], &["--waive", "release-percent"]].concat();
    assert!(
        folder
            .run(&other)
            .expect(4)
            .stderr
            .contains("the plan has the waiver disruptive-percent")
    );
    let before = folder.read("cluster.json");
    folder.run(&late).expect(0);
    folder.write("cluster.json", before);
    folder.expect(
        "apply plan.json --trust-plan-file --cluster cluster.json",
        0,
    );
}

#[test]
fn what_was_refused_when_it_was_saved_is_refused_for_good() {
    let folder = dual_stack(&running(&THREE[..1]), "");
    for flags in [["--protect-node", "n1"], ["--limit", "disruptive-count=0"]] {
        let words = ["plan", "--cluster", "cluster.json", "--out", "plan.json"];
        folder.run(&[&words[..], &flags].concat()).expect(5);
        folder.expect(
            "apply plan.json --trust-plan-file --cluster cluster.json",
            5,
        );
    }
}

#[test]
fn faults_of_the_policy() {
    let folder = dual_stack(
        &[],
        "{quarantine: soon, protected: {nodes: [N]}, limits: {disruptive: {percent: 101}}}",
    );
    let faults = folder.expect("validate", 3).stderr;
    for what in [
        "`spec.quarantine` is `soon`",
        "`N` is not an object name",
        "101",
    ] {
        assert!(faults.contains(what), "{what}: {faults}");
    }
}

#[test]
fn an_empty_directory_takes_nothing_away() {
    let folder = dual_stack(&running(&THREE), "");
    std::fs::remove_file(folder.join("pools/a.yaml")).unwrap();
    for (content, code) in [(None, 3), (Some("# nothing\n"), 3)] {
        if let Some(content) = content {
            folder.write("pools/a.yaml", content);
        }
        let before = folder.read("cluster.json");
        folder.expect("apply --cluster cluster.json --auto-approve", code);
        assert_eq!(folder.read("cluster.json"), before);
    }
}
