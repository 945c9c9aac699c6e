//! `--base`: weakened settings of the Policy are listed first, and changes that the Policy of the
//! base refuses stay refused.

use serde_json::Value;

use super::git::git;
use super::support::{Folder, TextAssertions, args, node, policy, pool};

const STRICT: &str = "apiVersion: cilium-ipam.io/v1alpha1
kind: IPAMPolicy
metadata: {name: p}
spec:
  quarantine: 1h
  excluded: [10.20.0.0/24]
  limits: {assign: {count: 1}}
  protected: {nodes: [n1], pools: [a]}
  rules:
  - {name: few, expression: plan.changes.size() < 2}
";

/// The commit `main` has this Policy, and the work tree another one.
fn folder(base: &str, head: &str) -> Folder {
    let nodes = [node("n1", "a", ""), node("n2", "a", "")];
    let spec = "{cidrs: [10.20.0.0/16], blockSize: 24}";
    let folder = Folder::with_cluster(
        &nodes,
        &[
            ("pools/a.yaml", &pool("a", spec)),
            ("pools/policy.yaml", base),
        ],
    );
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(folder.path(), &["add", "pools"]);
    git(folder.path(), &["commit", "-q", "-m", "Add pools"]);
    folder.write("pools/policy.yaml", head);
    folder
}

const PLAN: [&str; 5] = ["plan", "--cluster", "cluster.json", "--base", "main"];

#[test]
fn a_deleted_policy_is_told_first_and_its_limits_and_rules_apply() {
    let folder = folder(STRICT, "");
    let human = folder.run(&PLAN).expect(5).stdout;
    assert!(human.starts_with("The Policy is weakened:\n"), "{human}");
    for part in [
        "the Policy is deleted",
        "limit `assign-count` of 1 is removed",
        "rule `few` is removed",
        "node `n1` is no longer protected",
        "pool `a` is no longer protected",
        "range 10.20.0.0/24 is no longer excluded",
        "quarantine of freed blocks is shortened",
        "by the Policy of main: ",
        "would get 10.20.0.0/24, which is excluded",
    ] {
        assert!(human.contains(part), "{part} in {human}");
    }
    for (condition, code) in [("policy", 5), ("refused", 5), ("never", 0)] {
        folder
            .run(&[&PLAN[..], &["--fail-on", condition]].concat())
            .expect(code);
    }
    let comment = args("comment --dry-run --cluster cluster.json --base main");
    let text = folder.run(&comment).expect(5).stdout;
    assert!(text.starts_with("**The Policy is weakened:**\n"), "{text}");
}

/// A waiver lifts a limit of the base, and no other refusal of it.
#[test]
fn a_refusal_of_the_base_advises_only_what_helps() {
    let limit = |count: u32| {
        let spec = format!("{{limits: {{assign: {{count: {count}}}}}, quarantine: 1h}}");
        policy(&spec)
    };
    let limited = folder(&limit(1), &limit(9));
    let human = limited.run(&PLAN).expect(5).stdout;
    let expected = "apply fewer at a time with `--target`, merge the higher limit first, or plan again with `--waive assign-count`";
    human.assert_has(expected);
    human.assert_lacks("raise the limit");
    let waive = ["--waive", "assign-count"];
    let waived = limited.run(&[&PLAN[..], &waive, &["--fail-on", "refused"]].concat());
    waived.expect(0);

    let strict = folder(STRICT, "");
    let json = ["--output", "json"];
    let plan = strict.run(&[&PLAN[..], &waive, &json].concat()).expect(5);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let refusals = plan["refusals"].as_array().unwrap();
    assert!(refusals.len() > 1, "{refusals:#?}");
    for refusal in refusals {
        let help = refusal["help"].as_str().unwrap();
        assert!(!help.contains("--waive"), "{refusal:#}");
        assert!(help.contains("merge the change of the "), "{refusal:#}");
    }
}

#[test]
fn a_rule_that_moved_in_its_file_refuses_once() {
    let folder = folder(STRICT, &format!("# Moved.\n{STRICT}"));
    let plan = folder.run(&[&PLAN[..], &["--output", "json"]].concat());
    let plan: Value = serde_json::from_str(&plan.expect(5).stdout).unwrap();
    assert!(plan.get("weakened").is_none(), "{plan:#}");
    let refusals = plan["refusals"].as_array().unwrap().iter();
    let of_rule: Vec<&Value> = refusals
        .filter(|one| one["rule"] == "policy-rule")
        .collect();
    let [refusal] = of_rule[..] else {
        panic!("{of_rule:#?}")
    };
    assert!(
        refusal["help"].to_string().contains("pools/policy.yaml:11"),
        "{refusal}"
    );
}

/// Nothing else is wrong with the plan.
#[test]
fn a_weakened_policy_alone_fails_where_it_is_asked_for() {
    let folder = folder(&policy("{protected: {nodes: [n1]}}"), &policy("{}"));
    let human = folder.run(&PLAN).expect(0).stdout;
    human.assert_has("Plan: the Policy is weakened; ");
    let asked = [&PLAN[..], &["--fail-on", "policy"]].concat();
    folder.run(&asked).expect(2);
    let comment = args("comment --dry-run --cluster cluster.json --base main");
    folder.run(&comment).expect(2);
    let nothing_to_compare = ["plan", "--cluster", "cluster.json", "--fail-on", "policy"];
    let refused = folder.run(&nothing_to_compare).expect(1);
    assert!(refused.stderr.contains("pass --base"), "{refused:?}");
}

#[test]
fn a_policy_that_allows_no_more_is_not_reported() {
    let loose = &policy("{}")[..];
    for (base, head) in [(STRICT, STRICT), (loose, STRICT), ("", loose)] {
        let folder = folder(base, head);
        let ran = folder.run(&[&PLAN[..], &["--fail-on", "policy,never"]].concat());
        assert!(!ran.expect(0).stdout.contains("weakened"), "{base} {head}");
    }
}

#[test]
fn an_unknown_base_is_an_error() {
    let folder = folder(STRICT, STRICT);
    let words = ["plan", "--cluster", "cluster.json", "--base", "absent"];
    let refused = folder.run(&words).expect(1);
    assert!(
        refused.stderr.contains("--base absent cannot be used"),
        "{refused:?}"
    );
}

/// The place of a directory is no way around its Policy.
#[test]
fn a_moved_directory_does_not_lose_the_policy_of_its_base() {
    let folder = folder(STRICT, STRICT);
    folder.write(
        "net/other.yaml",
        pool("b", "{cidrs: [10.30.0.0/16], blockSize: 24}"),
    );
    std::fs::rename(folder.join("pools/a.yaml"), folder.join("net/a.yaml")).unwrap();
    std::fs::remove_file(folder.join("pools/policy.yaml")).unwrap();
    let plan = |base: &str, code: i32| {
        let words = ["plan", "net", "--cluster", "cluster.json", "--base", base];
        let words = [&words[..], &["--fail-on", "policy"]].concat();
        let ran = folder.run(&words).expect(code);
        ran.stdout + &ran.stderr
    };
    let told = plan("main", 2);
    let expected = "the Policy of main in `pools/policy.yaml` is gone or has lost its pools, and main has none in `net`: if the directory was moved, pass its earlier place, `--base main:DIR`";
    told.assert_has(expected);
    let told = plan("main:pools", 5);
    told.assert_has("the Policy is deleted");
    told.assert_has("by the Policy of main: ");
    folder.write("net/policy.yaml", STRICT);
    assert!(!plan("main:pools", 5).contains("weakened"));
    assert!(plan("main:absent", 1).contains("--base main:absent cannot be used"));
    assert!(plan("main:", 1).contains("names no directory after its colon"));
    std::fs::remove_file(folder.join("net/policy.yaml")).unwrap();
    // What stays behind governs no pools, is a comment, or is hidden from searches.
    let commented: String = STRICT.lines().map(|line| format!("# {line}\n")).collect();
    for (attributes, left) in [("", STRICT), ("", &commented), ("*.yaml binary\n", "")] {
        folder.write(".gitattributes", attributes);
        folder.write("pools/policy.yaml", left);
        assert!(plan("main", 2).contains("weakened"), "{left}");
    }
    // Nothing has moved: another directory is new.
    folder.write("pools/policy.yml", STRICT);
    folder.write("pools/a.yaml", folder.read("net/a.yaml"));
    assert!(!plan("main", 0).contains("weakened"));
    folder.write("README.md", STRICT);
    assert!(!plan("main@{0}", 0).contains("weakened"));
}
