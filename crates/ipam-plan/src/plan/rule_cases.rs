//! Evaluates the rules of the Policy on examples of plans, as `policy test` shows them. Must never
//! know a cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::change::{ChangeAction, TargetKind};
use super::document::{ChangeDocument, EditDocument, ServiceEffectDocument};
use super::rules::pools;
use ipam_cilium::lbipam::Certainty;
use ipam_core::model::{Finding, Hazard, ObjectVersion, Rule, Severity};
use ipam_core::text::most_similar;
use ipam_core::text::one_line;
use ipam_desired::{Desired, Expectation, PolicyRule, RuleCase, WrittenPart};
use ipam_rules::{Verdict, judge};

const FAILED: Rule = Rule("policy-test-failed");
const UNKNOWN: Rule = Rule("unknown-policy-rule");
const UNTESTED: Rule = Rule("untested-policy-rule");

/// Results of all cases, in the order of the files.
#[derive(Debug)]
pub struct TestedPolicy<'d> {
    /// Number of rules in the Policy.
    pub rules: usize,
    pub cases: Vec<TestedCase<'d>>,
    /// A finding for each failed case, and one for each rule that no case holds or breaks.
    pub findings: Vec<Finding>,
}

/// The result of a case.
#[derive(Debug)]
pub struct TestedCase<'d> {
    pub case: &'d RuleCase,
    /// The result of the rule for the example; `None` if the rule does not exist.
    pub said: Option<Expectation>,
    /// The message of a broken rule, or why it has no result.
    pub message: Option<String>,
    pub outcome: CaseOutcome,
}

ipam_core::text_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CaseOutcome {
        Passed = "passed",
        Failed = "failed",
    }
}

/// Evaluates every case.
pub fn test_policy(desired: &Desired) -> TestedPolicy<'_> {
    let rules: BTreeMap<&str, &PolicyRule> = desired
        .policy
        .rules
        .iter()
        .map(|rule| (rule.name.as_str(), rule))
        .collect();
    let cases: Vec<TestedCase<'_>> = desired
        .rule_cases
        .iter()
        .map(|case| tested(case, rules.get(case.rule.as_str()).copied(), desired))
        .collect();
    let failed = cases
        .iter()
        .filter(|case| case.outcome == CaseOutcome::Failed);
    let mut findings: Vec<Finding> = failed
        .map(|case| failure(case, rules.get(case.case.rule.as_str()).copied(), &rules))
        .collect();
    findings.extend(untested(desired));
    findings.sort();
    TestedPolicy {
        rules: desired.policy.rules.len(),
        cases,
        findings,
    }
}

fn tested<'d>(case: &'d RuleCase, rule: Option<&PolicyRule>, desired: &Desired) -> TestedCase<'d> {
    let verdict = rule.map(|rule| {
        let mut verdicts = judge(&[&rule.rule], &input(case, desired));
        verdicts.remove(0)
    });
    let (said, message) = match verdict {
        None => (None, None),
        Some(Verdict::Holds) => (Some(Expectation::Holds), None),
        Some(Verdict::Broken(message)) => (Some(Expectation::Broken), Some(message)),
        Some(Verdict::Failed(failure)) => (Some(Expectation::NoResult), Some(failure.to_string())),
    };
    let says_it = case.message.as_ref().is_none_or(|part| {
        message
            .as_ref()
            .is_some_and(|message| message.contains(part))
    });
    let outcome = match said == Some(case.expected) && says_it {
        true => CaseOutcome::Passed,
        false => CaseOutcome::Failed,
    };
    TestedCase {
        case,
        said,
        message,
        outcome,
    }
}

fn failure(
    tested: &TestedCase<'_>,
    rule: Option<&PolicyRule>,
    rules: &BTreeMap<&str, &PolicyRule>,
) -> Finding {
    let TestedCase {
        case,
        said,
        message,
        outcome: _,
    } = tested;
    let (Some(rule), Some(said)) = (rule, said) else {
        return unknown_rule(case, rules);
    };
    let name = one_line(&case.rule);
    let because = message
        .as_ref()
        .map(|message| format!(": {}", one_line(message)))
        .unwrap_or_default();
    let said = match said {
        Expectation::Holds => format!("rule `{name}` holds"),
        Expectation::Broken => format!("rule `{name}` is broken{because}"),
        Expectation::NoResult => format!("rule `{name}` has no result{because}"),
    };
    let expected = match (case.expected, &case.message) {
        (Expectation::Broken, Some(message)) => {
            format!(
                "expected it to be broken with the message `{}`",
                one_line(message)
            )
        }
        (Expectation::Broken, None) => "expected it to be broken".to_owned(),
        (Expectation::Holds, _) => "expected it to hold".to_owned(),
        (Expectation::NoResult, _) => "expected it to have no result".to_owned(),
    };
    Finding::new(Severity::Error, FAILED, format!("{said}; {expected}"))
        .at(&case.origin, "this case")
        .and(&rule.origin, "the rule")
        .help("correct the rule, or the example and what it expects")
}

fn unknown_rule(case: &RuleCase, rules: &BTreeMap<&str, &PolicyRule>) -> Finding {
    let message = format!("the Policy has no rule `{}`", one_line(&case.rule));
    let names: Vec<&str> = rules.keys().copied().collect();
    let help = match most_similar(&case.rule, names) {
        Some(similar) => format!("did you mean `{}`?", one_line(similar)),
        None => "name a rule of the Policy, or remove the case".to_owned(),
    };
    Finding::new(Severity::Error, UNKNOWN, message)
        .at(&case.origin, "this case")
        .help(help)
}

/// A rule that no example breaks may be one that is always true.
fn untested(desired: &Desired) -> Vec<Finding> {
    let shown: BTreeSet<(&str, &str)> = desired
        .rule_cases
        .iter()
        .map(|case| (case.rule.as_str(), case.expected.as_str()))
        .collect();
    let finding = |rule: &PolicyRule| {
        let has = |expected: Expectation| shown.contains(&(rule.name.as_str(), expected.as_str()));
        let name = one_line(&rule.name);
        let message = match (has(Expectation::Holds), has(Expectation::Broken)) {
            (true, true) => return None,
            (true, false) => format!("no case breaks rule `{name}`"),
            (false, true) => format!("rule `{name}` holds in no case"),
            (false, false) => format!("rule `{name}` has no case"),
        };
        let finding = Finding::new(Severity::Warning, UNTESTED, message);
        let help =
            "add a case to a PolicyTest: one plan that the rule allows, and one that it refuses";
        Some(finding.at(&rule.origin, "this rule").help(help))
    };
    desired.policy.rules.iter().filter_map(finding).collect()
}

/// The variables of an example.
fn input(case: &RuleCase, desired: &Desired) -> Value {
    let mut nodes: Map<String, Value> = case.nodes.clone();
    let changes: Vec<Value> = case
        .changes
        .iter()
        .enumerate()
        .map(|(index, written)| change(index, written, &mut nodes))
        .collect();
    let services = case.services.iter().enumerate();
    let services: Vec<Value> = services
        .map(|(index, written)| service(index, written))
        .collect();
    let pools = match &case.pools {
        Some(written) => json!(written),
        None => pools(desired),
    };
    json!({
        "plan": {"changes": changes, "services": services},
        "pools": pools,
        "nodes": nodes,
    })
}

/// A change of the first block of a node, with the fields that are written. Joins its node to the
/// nodes.
fn change(index: usize, written: &WrittenPart, nodes: &mut Map<String, Value>) -> Value {
    let after = written.get("after").cloned().unwrap_or_default();
    let usual = ChangeDocument {
        action: ChangeAction::Assign,
        kind: TargetKind::Node,
        name: format!("node-{}", index + 1),
        write_path: "node-spec".to_owned(),
        before: Vec::new(),
        after: Vec::new(),
        pool: None,
        failure_domain: None,
        reason: String::new(),
        hazard: Hazard::None,
        edit: EditDocument::NodeSpec(serde_json::from_value(after).unwrap_or_default()),
        undo: None,
        guard: ObjectVersion::default(),
        origin: None,
        needs_approval: Vec::new(),
    };
    let mut change = merged(json!(usual), written);
    let name = change["name"].as_str().unwrap_or_default().to_owned();
    if change.get("labels").is_none() {
        let of_node = nodes.get(&name).filter(|_| change["kind"] == "Node");
        change["labels"] = of_node.map_or(json!({}), |node| node["labels"].clone());
    }
    if change["kind"] == "Node" {
        let node = json!({"labels": change["labels"]});
        nodes.entry(name).or_insert(node);
    }
    change
}

fn service(index: usize, written: &WrittenPart) -> Value {
    let usual = ServiceEffectDocument {
        namespace: "default".to_owned(),
        name: format!("service-{}", index + 1),
        loses: Vec::new(),
        gains: Vec::new(),
        pending: Vec::new(),
        certainty: Certainty::Certain,
    };
    merged(json!(usual), written)
}

fn merged(usual: Value, written: &WrittenPart) -> Value {
    let mut fields = usual.as_object().cloned().unwrap_or_default();
    fields.extend(written.clone());
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use ipam_core::model::Origin;
    use ipam_desired::{EDITS, rule_variables};
    use ipam_rules::Shape;

    use super::*;
    use crate::plan::LossTime;
    use crate::plan::document::{LostAddressDocument, UnapprovedBlockDocument, WriterDocument};

    /// Every key of a value is a field of its shape. Returns the number of values that were
    /// compared with fields.
    fn compare(shape: &Shape, value: &Value, at: &str) -> usize {
        match (shape, value) {
            (Shape::Fields(fields), Value::Object(values)) => {
                let seen = values.iter().map(|(key, value)| {
                    let shape = fields.get(key.as_str());
                    let shape = shape.unwrap_or_else(|| panic!("{at} has no field `{key}`"));
                    compare(shape, value, &format!("{at}.{key}"))
                });
                1 + seen.sum::<usize>()
            }
            (Shape::List(item), Value::Array(values)) => {
                let seen = values.iter().map(|value| compare(item, value, at));
                seen.sum()
            }
            (Shape::Map(of), Value::Object(values)) => {
                let seen = values.values().map(|value| compare(of, value, at));
                seen.sum()
            }
            (Shape::OneOf(known), Value::String(text)) => {
                assert!(known.contains(&&**text), "{at}: {text}");
                0
            }
            _ => 0,
        }
    }

    #[test]
    fn an_expression_may_name_every_field_of_a_plan() {
        let unapproved = UnapprovedBlockDocument {
            block: "10.20.1.0/24".to_owned(),
            source: "spec.podCIDRs".to_owned(),
            writer: Some(WriterDocument {
                manager: "agent".to_owned(),
                time: "2026-01-01T00:00:00Z".to_owned(),
            }),
            code: "outside".to_owned(),
            reason: String::new(),
        };
        let lost = LostAddressDocument {
            address: "20.0.10.9".to_owned(),
            when: LossTime::Now,
            certainty: Certainty::Certain,
            reason: String::new(),
            cause: Some("Service/a".to_owned()),
        };
        let origin = json!({"file": "a.yaml", "line": 1, "column": 1});
        let written = json!({"failure_domain": "a", "needs_approval": [unapproved],
            "origin": origin, "undo": {"spec.podCIDRs": []}});
        let part = |value: &Value| value.as_object().cloned().unwrap();
        let case = RuleCase {
            rule: "r".to_owned(),
            name: None,
            expected: Expectation::Holds,
            message: None,
            origin: Origin::whole_file(&"a.yaml".into()),
            changes: vec![part(&written)],
            services: vec![part(&json!({"loses": [lost]}))],
            pools: None,
            nodes: Map::new(),
        };
        let input = input(&case, &Desired::default());
        let compared = compare(&Shape::Fields(rule_variables()), &input, "");
        assert_eq!(compared, 12, "{input}");
        let Shape::Fields(plan) = &rule_variables()["plan"] else {
            panic!("a plan has fields");
        };
        let Shape::List(change) = &plan["changes"] else {
            panic!("changes are a list");
        };
        let Shape::Fields(fields) = &**change else {
            panic!("a change has fields");
        };
        let named: Vec<&str> = fields.keys().copied().collect();
        let shown = input["plan"]["changes"][0].as_object().unwrap();
        assert_eq!(named, shown.keys().collect::<Vec<_>>());
    }

    #[test]
    fn the_keys_of_an_edit_are_those_of_its_document() {
        let unknown = json!({"none": null});
        let error = serde_json::from_value::<EditDocument>(unknown).unwrap_err();
        let mut named: Vec<String> = EDITS.iter().map(|key| format!("`{key}`")).collect();
        named.sort();
        let text = error.to_string();
        let (_, expected) = text.split_once("expected one of ").unwrap();
        let mut keys: Vec<&str> = expected.split_inclusive('`').collect();
        keys.retain(|key| *key != "`" && *key != ", `");
        let mut keys: Vec<String> = keys.into_iter().map(|key| format!("`{key}")).collect();
        keys.sort();
        assert_eq!(keys, named);
    }
}
