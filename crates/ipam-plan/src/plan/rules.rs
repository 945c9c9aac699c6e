//! Rules of the Policy over the changes that are applied together.
//!
//! A rule that cannot be evaluated is broken: nothing holds that is not known to hold.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::change::Change;
use super::document::{ChangeDocument, service_effects};
use super::lb::Effects;
use super::refusals::Refusal;
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, NodeName, Rule, Severity};
use ipam_core::text::most_similar;
use ipam_core::text::one_line;
use ipam_desired::{Desired, PolicyRule, Pool, PoolRange, PoolState};
use ipam_rules::{Failure, Message, Verdict, judge};

/// Code of every broken rule.
pub(super) const CODE: Rule = Rule("policy-rule");

/// A finding for each rule that these changes break.
pub(super) fn findings(
    changes: &[Change],
    effects: &Effects,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Finding> {
    let rules = &desired.policy.rules;
    if rules.is_empty() {
        return Vec::new();
    }
    let input = input(rules, changes, effects, desired, observed);
    let compiled: Vec<_> = rules.iter().map(|rule| &rule.rule).collect();
    let verdicts = judge(&compiled, &input);
    let broken = rules.iter().zip(verdicts);
    broken
        .filter_map(|(rule, verdict)| finding(rule, &verdict, &input))
        .collect()
}

fn finding(rule: &PolicyRule, verdict: &Verdict, input: &Value) -> Option<Finding> {
    let name = one_line(&rule.name);
    let (message, help) = match verdict {
        Verdict::Holds => return None,
        Verdict::Broken(message) => (
            format!("rule `{name}` is broken: {}", one_line(message)),
            "change the files so that the rule holds, or change the rule in the Policy".to_owned(),
        ),
        Verdict::Failed(failure) => (
            format!(
                "rule `{name}` has no result: {}",
                one_line(&failure.to_string())
            ),
            way_out(failure, input),
        ),
    };
    let finding = Finding::new(rule.severity, CODE, message);
    Some(finding.at(&rule.origin, "this rule").help(help))
}

/// How the rule gets a result.
pub(super) fn way_out(failure: &Failure, input: &Value) -> String {
    match failure {
        Failure::NoKey(key) => missing(key, input),
        Failure::TooCostly | Failure::MoreThanItsShare { .. } => {
            "loop over fewer values, such as `[\"a\", \"b\"]` in place of all changes".to_owned()
        }
        Failure::NotBoolean(_) | Failure::Error(_) | Failure::Internal => {
            "correct the rule: one without a result counts as broken".to_owned()
        }
    }
}

/// A key that is not there may be misspelt. A test whether it is there would hide that.
fn missing(key: &str, input: &Value) -> String {
    let mut keys = BTreeSet::new();
    add_keys(input, &mut keys);
    let shown = one_line(key);
    match most_similar(key, keys.iter().copied().filter(|one| *one != key)) {
        Some(similar) if !keys.contains(key) => format!("did you mean `{}`?", one_line(similar)),
        _ => format!(
            "if it may be absent, say what holds then, as in `c.labels[?\"{shown}\"].orValue(\"\")`"
        ),
    }
}

/// Collects names of nodes and labels, which `validate` cannot know.
fn add_keys<'i>(of: &'i Value, keys: &mut BTreeSet<&'i str>) {
    match of {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let ("labels" | "nodes", Some(named)) = (name.as_str(), field.as_object()) {
                    keys.extend(named.keys().map(String::as_str));
                }
                add_keys(field, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_keys(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Broken rules of severity `error` refuse the changes.
pub(super) fn refusals(findings: &[Finding]) -> impl Iterator<Item = Refusal> {
    let refused = findings
        .iter()
        .filter(|one| one.severity == Severity::Error);
    refused.map(|finding| {
        let place = finding.origin.as_ref();
        let place = place
            .map(|origin| format!(" ({origin})"))
            .unwrap_or_default();
        Refusal {
            rule: CODE,
            message: finding.message.clone(),
            help: format!("{}{place}", finding.help),
            waiver: None,
        }
    })
}

/// The variables of the rules. Those that no rule uses are left out.
fn input(
    rules: &[PolicyRule],
    changes: &[Change],
    effects: &Effects,
    desired: &Desired,
    observed: &Observed,
) -> Value {
    let used: BTreeSet<&str> = rules
        .iter()
        .flat_map(|rule| {
            let message = match &rule.rule.message {
                Message::Computed(expression) => Some(expression),
                Message::Expression | Message::Text(_) => None,
            };
            std::iter::once(&rule.rule.expression).chain(message)
        })
        .flat_map(|expression| expression.variables().iter().map(String::as_str))
        .collect();
    let mut input = Map::new();
    for name in used {
        let value = match name {
            "plan" => plan(changes, effects, desired, observed),
            "pools" => pools(desired),
            _ => nodes(observed),
        };
        input.insert(name.to_owned(), value);
    }
    Value::Object(input)
}

/// The plan as in its JSON form, with the labels of the nodes.
fn plan(changes: &[Change], effects: &Effects, desired: &Desired, observed: &Observed) -> Value {
    let domain = &desired.policy.failure_domain;
    let change = |change: &Change| {
        let mut document = ChangeDocument::from(change);
        let node = change.as_node().map(|change| &change.node);
        let node = node.and_then(|name| observed.nodes.get(name));
        document.failure_domain = node.and_then(|node| node.labels.get(domain).cloned());
        let mut value = json!(document);
        value["labels"] = match node_of(change) {
            Some(name) => labels(observed, name),
            None => json!({}),
        };
        value
    };
    json!({
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
        "services": service_effects(&effects.services, changes),
    })
}

fn node_of(change: &Change) -> Option<&NodeName> {
    match change {
        Change::Node(change) => Some(&change.node),
        Change::Port(change) => Some(&change.node),
        Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) => None,
    }
}

fn labels(observed: &Observed, name: &NodeName) -> Value {
    match observed.nodes.get(name) {
        Some(node) => json!(node.labels),
        None => json!({}),
    }
}

fn nodes(observed: &Observed) -> Value {
    let node = |name: &NodeName| (name.to_string(), json!({"labels": labels(observed, name)}));
    Value::Object(observed.nodes.keys().map(node).collect())
}

/// All pools of the files.
pub(super) fn pools(desired: &Desired) -> Value {
    desired.pools.values().map(pool).collect()
}

fn pool(pool: &Pool) -> Value {
    let blocks = |ranges: &[PoolRange]| -> Vec<String> {
        ranges.iter().map(|range| range.block.to_string()).collect()
    };
    let sizes = pool.block_size.iter().map(|size| {
        let family = size.family().to_string().to_lowercase();
        (family, json!(size.prefix_len()))
    });
    json!({
        "name": pool.name.as_str(),
        "cidrs": blocks(&pool.ranges),
        "block_size": sizes.collect::<Map<_, _>>(),
        "priority": pool.priority,
        "disabled": pool.state == PoolState::Disabled,
        "when_full": pool.when_full,
        "reserved": pool.reserved.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "retiring": blocks(&pool.retiring),
        "selector": pool.selector.to_string(),
    })
}
