//! Rules of the Policy: they refuse `apply`, their findings name rule, file and line, and a rule
//! without a result never passes.

use super::safety_arguments::{dual_stack, running};
use super::support::{Folder, Ran, TextAssertions, node, pool, repository};

const NODES: [(&str, &str); 3] = [("n1", "a"), ("n2", "a"), ("n3", "b")];

/// Three nodes, each with a disruptive change, and these rules. No limit is in the way.
fn folder(rules: &str) -> Folder {
    let limits = "limits: {disruptive: {percent: 100}}";
    dual_stack(
        &running(&NODES),
        &format!("\n  {limits}\n  rules:\n{rules}"),
    )
}

fn rule(name: &str, expression: &str, more: &str) -> String {
    format!("  - name: {name}\n    expression: '{expression}'\n{more}")
}

fn plan(folder: &Folder, more: &[&str]) -> Ran {
    folder.run(&[&["plan", "--cluster", "cluster.json"], more].concat())
}

fn apply(folder: &Folder, more: &[&str], code: i32) -> String {
    let before = folder.read("cluster.json");
    let words = ["apply", "--cluster", "cluster.json", "--auto-approve"];
    let ran = folder.run(&[&words, more].concat()).expect(code);
    assert_eq!(
        folder.read("cluster.json") == before,
        code != 0,
        "{}",
        ran.all()
    );
    ran.all()
}

#[test]
fn a_broken_rule_refuses_every_apply_and_names_its_place() {
    let calm = r#"plan.changes.all(c, c.hazard != "disruptive")"#;
    let folder = folder(&rule("calm", calm, "    message: not today\n"));
    let refused = apply(&folder, &[], 5);
    for part in [
        "policy-rule",
        "rule `calm` is broken: not today",
        "pools/policy.yaml:8",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let json = plan(&folder, &["-o", "json", "--fail-on", "never"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["refusals"][0]["rule"], "policy-rule");
    assert_eq!(json["findings"][0]["rule"], "policy-rule");
    assert_eq!(json["findings"][0]["origin"]["line"], 8);
    assert_eq!(plan(&folder, &["--fail-on", "refused"]).code, 5);

    // A saved plan, and the plan of a reviewed digest, are judged again.
    plan(&folder, &["--out", "saved.json", "--fail-on", "never"]).expect(0);
    folder.expect(
        "apply saved.json --trust-plan-file --cluster cluster.json --auto-approve",
        5,
    );
    let digest = json["digest"].as_str().unwrap();
    apply(&folder, &["--expect-digest", digest], 5);
}

#[test]
fn a_rule_judges_the_part_of_a_plan_that_is_applied() {
    let expression = r#"plan.changes.all(c, c.labels["rack"] == "b")"#;
    let folder = folder(&rule("only-b", expression, ""));
    let refused = apply(&folder, &[], 5);
    refused.assert_has("`only-b`");
    apply(&folder, &["--target", "node/n3"], 0);
}

#[test]
fn a_warning_is_reported_and_refuses_nothing() {
    let few = rule("few", "plan.changes.size() < 2", "    severity: warning\n");
    let folder = folder(&few);
    assert_eq!(plan(&folder, &["--fail-on", "warning"]).code, 2);
    let applied = apply(&folder, &[], 0);
    applied.assert_has("`plan.changes.size() < 2` is false");
}

#[test]
fn a_comment_tells_each_broken_rule_once() {
    let few = rule("few", "plan.changes.size() < 2", "    severity: warning\n");
    let folder = folder(&(few + &rule("none", "plan.changes.size() < 1", "")));
    let words = ["comment", "--cluster", "cluster.json", "--dry-run"];
    let page = folder.run(&words).expect(5).stdout;
    let title = page.lines().next().unwrap();
    assert!(
        title.starts_with("### `pools`: refused for 1 reason; "),
        "{title}"
    );
    for line in [
        "**Look at first:** refused by `policy-rule`: rule `none` ",
        "- **warning** ",
    ] {
        assert!(page.contains(&format!("\n{line}")), "{line} in {page}");
    }
    for name in ["few", "none"] {
        let told = page.matches(&format!("rule `{name}` is broken")).count();
        assert_eq!(told, 1, "{name} in {page}");
    }
}

#[test]
fn a_rule_without_a_result_refuses() {
    let ticket = r#"plan.changes.all(c, c.labels["change-ticket"] != "")"#;
    for (expression, reason) in [
        (ticket, "there is no key `change-ticket`"),
        ("plan.changes", "of type `list`"),
        (
            r#"nodes["none"].labels.size() == 0"#,
            "there is no key `none`",
        ),
        (
            r#"plan.changes.all(c, c.labels["rak"] != "")"#,
            "did you mean `rack`?",
        ),
        (ticket, r#"c.labels[?"change-ticket"].orValue("")"#),
    ] {
        let refused = apply(&folder(&rule("r", expression, "")), &[], 5);
        let text = refused.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("rule `r` has no result"), "{refused}");
        assert!(text.contains(reason), "{refused}");
    }
}

#[test]
fn a_rule_that_cannot_be_used_makes_the_files_invalid() {
    for (rules, part) in [
        (rule("r", "plan.changes.all(c,", ""), "policy.yaml:8:37]"),
        (
            rule("r", "changes == []", ""),
            "there is no variable `changes`",
        ),
        (rule("\"\"", "true", ""), "a rule has an empty name"),
        (rule("r", "", ""), "it is empty"),
        (rule("r", "now() > 1", ""), "there is no function `now`"),
        (
            rule("r", "true", "") + &rule("r", "true", ""),
            "two rules have the name `r`",
        ),
        (
            rule(
                "r",
                "true",
                "    message: a\n    messageExpression: \"'a'\"\n",
            ),
            "`messageExpression`",
        ),
        (rule("r", "true", "    severity: fatal\n"), "severity"),
        ("  - name: r\n".to_owned(), "expression"),
    ] {
        let ran = folder(&rules).run(&["validate"]).expect(3);
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        ran.stderr.assert_has("policy.yaml");
    }
}

#[test]
fn a_misspelt_name_is_found_where_it_stands() {
    for (expression, misspelt, name) in [
        ("'plan.changes.all(c, c.poool != null)'", "poool", "pool"),
        (
            "plan.changes.all(c, has(c.failure_domian) && c.failure_domain != \"a\")",
            "failure_domian",
            "failure_domain",
        ),
        (
            "'plan.changes.all(c, c.hazard != \"destuctive\")'",
            "destuctive",
            "destructive",
        ),
        ("'pools.all(p, \"ipv5\" in p.block_size)'", "ipv5", "ipv6"),
        ("'plam.changes.size() < 5'", "plam", "plan"),
        (
            "'pools.all(p, p.name.startWith(\"a\"))'",
            "startWith",
            "startsWith",
        ),
        (
            ">-\n      plan.changes.all(c,\n        c.name != \"\" &&\n        c.poool != null)",
            "poool",
            "pool",
        ),
        (
            "|\n      plan.changes.all(c,\n\n        c.name != \"\" && c.poool != null)",
            "poool",
            "pool",
        ),
        (
            "\"true\"\n    messageExpression: >-\n      plan.changes[0]\n      .poool",
            "poool",
            "pool",
        ),
    ] {
        let rules = format!("  - name: r\n    expression: {expression}\n");
        let folder = folder(&rules);
        let ran = folder.expect("validate", 3);
        let help = format!("did you mean `{name}`?");
        assert!(ran.stderr.contains(&help), "{expression}: {}", ran.stderr);
        let text = folder.read("pools/policy.yaml");
        let before = &text[..text.rfind(misspelt).unwrap()];
        let line = before.lines().count();
        let column = before.lines().last().unwrap().len() + 1;
        let place = format!("policy.yaml:{line}:{column}]");
        assert!(ran.stderr.contains(&place), "{place}: {}", ran.stderr);
    }
}

/// Each rule of the example, with a change of the files or of the rule's figure that breaks it.
#[test]
fn rules_of_the_example_can_be_broken() {
    let example = repository().join("examples/rules");
    for (file, from, to, broken) in [
        (
            "racks.yaml",
            "name: rack-b",
            "name: team-b",
            "names-of-pools",
        ),
        (
            "racks.yaml",
            "10.20.0.0/22",
            "10.20.4.0/22",
            "racks-reserve-their-gateways",
        ),
        (
            "racks.yaml",
            "blockSize: 24",
            "blockSize: 27",
            "ipv4-blocks",
        ),
        (
            "racks.yaml",
            "10.21.0.0/16",
            "20.21.0.0/16",
            "private-ranges",
        ),
        (
            "policy.yaml",
            "size() <= 4",
            "size() <= 1",
            "at-most-four-of-a-rack",
        ),
        (
            "policy.yaml",
            "== \"node-spec\"",
            "== \"cilium-node\"",
            "only-node-spec",
        ),
        (
            "policy.yaml",
            "c.action != \"release\"",
            "c.action != \"assign\"",
            "no-release",
        ),
    ] {
        let folder = super::examples::copy(&example);
        let text = folder.read(&format!("pools/{file}"));
        assert!(text.contains(from), "{from}");
        folder.write(&format!("pools/{file}"), text.replacen(from, to, 1));
        let words = ["apply", "--cluster", "cluster.yaml", "--auto-approve"];
        let ran = folder.run(&words).expect(5);
        assert!(ran.all().contains(&format!("`{broken}`")), "{}", ran.all());
    }
}

/// Each of 300 changes beside each other one, four times: 8,100,000,000 turns.
#[test]
fn a_rule_that_would_not_end_is_stopped_and_told() {
    let nodes: Vec<String> = (0..300)
        .map(|index| node(&format!("n{index}"), "a", ""))
        .collect();
    let endless = "plan.changes.all(a, plan.changes.all(b, plan.changes.all(c, plan.changes.all(d, \
                   a.name + b.name + c.name + d.name != \"\"))))";
    let policy = format!("spec:\n  rules:\n{}", rule("endless", endless, ""));
    let head = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\n";
    let folder = Folder::with_cluster(
        &nodes,
        &[
            (
                "pools/a.yaml",
                &pool("a", "{cidrs: [10.20.0.0/15], blockSize: 24}"),
            ),
            ("pools/policy.yaml", &format!("{head}{policy}")),
        ],
    );
    let refused = apply(&folder, &[], 5);
    for part in [
        "rule `endless` has no result",
        "costs too much",
        "pools/policy.yaml:7",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn a_rule_refuses_an_undo() {
    let folder = folder("  - {name: all, expression: \"true\"}\n");
    apply(&folder, &["--undo-out", "undo.json"], 0);
    let kept = "plan.changes.all(c, c.action != \"release\")";
    let policy = folder.read("pools/policy.yaml");
    let (head, _) = policy.split_once("  - {name: all").unwrap();
    folder.write(
        "pools/policy.yaml",
        format!("{head}{}", rule("kept", kept, "")),
    );
    let before = folder.read("cluster.json");
    let undo = |folder: &Folder| {
        let words = ["apply", "undo.json", "--cluster", "cluster.json"];
        folder.run(&[&words[..], &["--auto-approve"]].concat())
    };
    let refused = undo(&folder).expect(5);
    refused.stderr.assert_has("rule `kept` is broken");
    assert_eq!(folder.read("cluster.json"), before);
    folder.write("pools/policy.yaml", policy);
    undo(&folder).expect(0);
}
