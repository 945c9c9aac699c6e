//! `policy test`: rules of the Policy on examples of plans, without a cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::support::{Folder, Ran, TextAssertions, args, pool, repository, run};

const POLICY: &str = "apiVersion: cilium-ipam.io/v1alpha1
kind: IPAMPolicy
metadata: {name: default}
spec:
  rules:
  - name: calm
    expression: plan.changes.all(c, c.hazard == \"none\")
    message: not today
  - name: zoned
    expression: plan.changes.all(c, c.labels[\"zone\"] != \"\")
";

const TEST: &str = "apiVersion: cilium-ipam.io/v1alpha1
kind: PolicyTest
metadata: {name: rules}
spec:
  cases:
";

fn folder(cases: &str) -> Folder {
    Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        ("pools/policy.yaml", POLICY),
        ("pools/rules-test.yaml", &format!("{TEST}{cases}")),
    ])
}

fn test(cases: &str, more: &[&str]) -> Ran {
    folder(cases).run(&[&["policy", "test"], more].concat())
}

const GOOD: &str = "  - {rule: calm, expect: holds, plan: {changes: [{}]}}
  - {rule: calm, expect: broken, message: today, plan: {changes: [{hazard: disruptive}]}}
  - {rule: zoned, expect: holds, plan: {changes: [{labels: {zone: a}}]}}
  - {rule: zoned, expect: broken, plan: {changes: [{labels: {zone: \"\"}}]}}
  - {rule: zoned, expect: no-result, plan: {changes: [{}]}}
";

#[test]
fn every_rule_of_the_example_allows_a_plan_and_refuses_one() {
    let words = args("policy test examples/rules/pools --strict -o json");
    let ran = run(repository(), &words).expect(0);
    assert_eq!(ran.stderr, "");
    let report = ran.json();
    let mut said: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in report["cases"].as_array().unwrap() {
        let text = |key: &str| case[key].as_str().unwrap().to_owned();
        said.entry(text("rule")).or_default().insert(text("said"));
    }
    assert_eq!(report["rules"], 30);
    assert_eq!(said.len(), 30);
    for (rule, said) in said {
        assert!(
            said.contains("holds") && said.contains("broken"),
            "{rule}: {said:?}"
        );
    }
    let page = std::fs::read_to_string(repository().join("docs/src/how-to/rules.md")).unwrap();
    for case in report["cases"].as_array().unwrap() {
        let rule = case["rule"].as_str().unwrap();
        assert!(
            page.contains(&format!("| `{rule}` |")),
            "{rule} is not in the table"
        );
    }
}

#[test]
fn cases_that_say_what_they_should_pass() {
    let ran = test(GOOD, &["--strict"]).expect(0);
    insta::assert_snapshot!(ran.all());
}

#[test]
fn a_case_that_says_otherwise_fails_at_its_place() {
    let cases =
        "  - {rule: calm, name: a restart, expect: holds, plan: {changes: [{hazard: disruptive}]}}
  - {rule: calm, expect: broken}
  - {rule: calm, expect: broken, message: tomorrow, plan: {changes: [{hazard: disruptive}]}}
  - {rule: zoned, expect: broken, plan: {changes: [{}]}}
  - {rule: zoned, expect: holds, plan: {changes: [{labels: {zone: a}}]}}
";
    let ran = test(cases, &[]).expect(2);
    insta::assert_snapshot!(ran.all());
    let report = test(cases, &["-o", "json"]).expect(2).json();
    assert_eq!(
        (&report["passed"], &report["failed"]),
        (&1.into(), &4.into())
    );
    assert_eq!(report["cases"][0]["message"], "not today");
    assert_eq!(report["cases"][0]["origin"]["line"], 6);
    assert_eq!(report["findings"][0]["rule"], "policy-test-failed");
    let junit = test(cases, &["-o", "junit"]).expect(2).stdout;
    for part in [
        "tests=\"5\" skipped=\"0\" failures=\"4\"",
        "<testcase name=\"a restart\" classname=\"calm\">",
        "<failure message=\"rule `calm` is broken: not today; expected it to hold\">",
        "<testcase name=\"pools/rules-test.yaml:10\" classname=\"zoned\"/>",
    ] {
        assert!(junit.contains(part), "{part}: {junit}");
    }
}

/// A suite that runs nothing, or a rule that no case breaks, must not look tested.
#[test]
fn what_is_not_tested_is_told() {
    let empty = Folder::new(&[
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        ("pools/policy.yaml", POLICY),
    ]);
    let ran = empty.run(&["policy", "test"]).expect(1);
    ran.stderr.assert_has("nothing was tested");
    ran.stderr.assert_has("rule `calm` has no case");

    let half = "  - {rule: calm, expect: holds}\n";
    let ran = test(half, &[]).expect(0);
    for part in [
        "no case breaks rule `calm`",
        "rule `zoned` has no case",
        "policy.yaml:7",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    test(half, &["--strict"]).expect(2);

    let renamed = format!("{GOOD}  - {{rule: clam, expect: holds}}\n");
    let ran = test(&renamed, &[]).expect(2);
    for part in [
        "unknown-policy-rule",
        "no rule `clam`",
        "did you mean `calm`?",
        "rules-test.yaml:11",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[test]
fn a_faulty_case_makes_the_files_invalid() {
    for (case, part) in [
        (
            "  - {rule: calm, expect: holds, plan: {changes: [{hazzard: none}]}}\n",
            "hazard",
        ),
        (
            "  - {rule: calm, expect: holds, plan: {changes: [{hazard: high}]}}\n",
            "destructive",
        ),
        (
            "  - {rule: calm, expect: holds, plan: {changes: [{action: realease}]}}\n",
            "release",
        ),
        (
            "  - {rule: calm, expect: holds, plan: {changes: [{kind: node}]}}\n",
            "Node",
        ),
        (
            "  - {rule: calm, expect: holds, plan: {changes: [{edit: {NodeSpec: []}}]}}\n",
            "spec.podCIDRs",
        ),
        (
            "  - {rule: calm, expect: holds, plan: {changes: [{undo: {spec.podCIDR: []}}]}}\n",
            "spec.podCIDRs",
        ),
        (
            "  - {rule: calm, expect: holds, plan: {services: [{loses: [{address: a, when: soon}]}]}}\n",
            "operator-restart",
        ),
        ("  - {rule: calm, expect: fails}\n", "no-result"),
        ("  - {rule: calm}\n", "expect"),
        ("  - {expect: holds}\n", "rule"),
        (
            "  - {rule: calm, expect: holds, message: no}\n",
            "bad-policy-test",
        ),
        (
            "  - {rule: calm, expect: holds, pools: [{cidrs: []}]}\n",
            "name",
        ),
    ] {
        for words in [&["policy", "test"][..], &["validate"]] {
            let ran = folder(case).run(words).expect(3);
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
            ran.stderr.assert_has("rules-test.yaml");
        }
    }
}

/// A case has the names that expressions see.
#[test]
fn a_change_of_a_case_has_the_fields_of_a_plan() {
    let schema = run(repository(), &["schema", "PolicyTest"])
        .expect(0)
        .json();
    let plan = &schema["properties"]["spec"]["properties"]["cases"]["items"]["properties"]["plan"];
    let page = std::fs::read_to_string(repository().join("docs/src/reference/json.md")).unwrap();
    let fields_of = |part: &str| -> BTreeSet<String> {
        let start = format!("\n- `{part}[]`");
        let (_, list) = page.split_once(&start).unwrap();
        let lines = list.lines().skip(1);
        let lines = lines.take_while(|line| line.starts_with("  "));
        let name = |line: &str| Some(line.strip_prefix("  - `")?.split_once('`')?.0.to_owned());
        let names = lines.filter_map(name);
        names
            .map(|name| name.trim_end_matches(['?', ']', '[']).to_owned())
            .collect()
    };
    let written = |part: &str| -> BTreeSet<String> {
        let items: &Value = &plan["properties"][part]["items"]["properties"];
        items.as_object().unwrap().keys().cloned().collect()
    };
    let mut changes = fields_of("changes");
    changes.insert("labels".to_owned());
    assert_eq!(written("changes"), changes);
    assert_eq!(written("services"), fields_of("services"));
}

#[test]
fn tests_change_no_plan() {
    let with_tests = folder(GOOD);
    let nodes = super::support::cluster("1.19.3", super::support::KUBERNETES, &[]);
    let source = |folder: &Folder| {
        folder.write("cluster.json", &nodes);
        folder.plan()["source"]["digest"].clone()
    };
    let before = source(&with_tests);
    std::fs::remove_file(with_tests.join("pools/rules-test.yaml")).unwrap();
    assert_eq!(source(&with_tests), before);
    // Rules are a part of the files' meaning.
    with_tests.write("pools/policy.yaml", POLICY.replace("none", "disruptive"));
    assert_ne!(source(&with_tests), before);
}

/// People keep examples apart from what they apply to the cluster.
#[test]
fn a_folder_with_examples_alone_is_valid_and_is_no_plan() {
    let folder = folder(GOOD);
    folder.write("tests/rules-test.yaml", format!("{TEST}{GOOD}"));
    let valid = folder.expect("validate tests --strict", 0);
    assert_eq!(
        valid.stdout,
        "valid: 0 pools, 0 pins, 5 rule cases, 0 warnings\n"
    );
    for verb in ["plan", "apply"] {
        let cluster = ["--cluster-file", "cluster.json"];
        let refused = folder.run(&[&[verb, "tests"], &cluster[..]].concat());
        let refused = refused.expect(3).stderr;
        refused.assert_has("empty-directory");
    }
    folder.write(
        "tests/rules-test.yaml",
        format!("{TEST}  - {{rule: calm}}\n"),
    );
    folder.expect("validate tests --strict", 3);
    folder.write("none/notes.yaml", "# nothing\n");
    folder.expect("validate none", 3);
}
