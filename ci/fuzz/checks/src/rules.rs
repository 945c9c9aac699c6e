//! The expression of a rule: parsing and evaluating it over a plan.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::safe_text::assert_harmless;
use ipam_core::text::one_line;
use ipam_desired::rule_variables;
use ipam_rules::{Expression, Failure, Message, Rule, Verdict, judge};

/// As rules see it. Small, so that loops in loops end soon.
static INPUT: LazyLock<Value> = LazyLock::new(|| {
    let change = |index: usize| {
        json!({
            "action": "assign", "kind": "Node", "name": format!("n{index}"), "hazard": "none",
            "before": [], "after": [format!("10.20.{index}.0/24")], "pool": "a", "undo": null,
            "labels": {"rack": format!("r{}", index % 4), "zone": ""},
        })
    };
    json!({
        "plan": {
            "changes": (0..9).map(change).collect::<Vec<_>>(),
            "services": [{"namespace": "shop", "name": "web", "loses": [], "gains": [], "pending": []}],
        },
        "pools": [{"name": "a", "cidrs": ["10.20.0.0/16"], "block_size": {"ipv4": 24}, "priority": -1}],
        "nodes": {"n1": {"labels": {}}, "n2": {"labels": {"rack": "r1"}}},
    })
});

/// The bytes are the expression.
pub fn check(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else {
        return;
    };
    let expression = match Expression::compile(source, &rule_variables()) {
        Ok(expression) => expression,
        Err(error) => {
            assert_harmless("the error", &one_line(&error.to_string()));
            return;
        }
    };
    let message = Message::Computed(expression.clone());
    let rule = Rule {
        expression,
        message,
    };
    let verdicts = judge(&[&rule], &INPUT);
    assert_eq!(
        judge(&[&rule], &INPUT),
        verdicts,
        "equal inputs, equal verdicts"
    );
    for verdict in verdicts {
        let Verdict::Failed(failure) = verdict else {
            continue;
        };
        assert_ne!(failure, Failure::Internal);
        assert_harmless("the failure", &one_line(&failure.to_string()));
    }
}
