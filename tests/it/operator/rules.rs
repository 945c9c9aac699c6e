//! Rules of a Policy that is a custom resource: what the server accepts, and what the operator does.

use serde_json::{Value, json};

use super::{GROUP, condition, in_rack, object, operator_of, pool, server};
use crate::support::TextAssertions;

fn policy(rules: &Value) -> Value {
    object("IPAMPolicy", "default", json!({"rules": rules}))
}

#[test]
fn the_server_takes_rules_and_the_operator_obeys_them() {
    let server = server();
    let policies = format!("{GROUP}/ipampolicies");
    let rules = json!([
        {"name": "in-rack", "expression": "plan.changes.all(c, \"rack\" in c.labels)",
         "message": "label the node with its rack", "severity": "warning"},
        {"name": "few", "expression": "plan.changes.size() < 1",
         "messageExpression": "\"it changes \" + string(plan.changes.size())"},
    ]);
    for (wrong, message) in [
        (
            json!([{"name": "a", "expression": "true", "severity": "fatal"}]),
            "Unsupported value",
        ),
        (json!([{"name": "a"}]), "expression: Required value"),
        (
            json!([{"name": "a", "expression": "true", "expr": "true"}]),
            "unknown field",
        ),
        (
            Value::Array(vec![json!({"name": "a", "expression": "true"}); 101]),
            "at most 100 items",
        ),
    ] {
        let path = format!("{policies}?fieldValidation=Strict");
        let error = server.plane.create(&path, &policy(&wrong)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
    let taken = server.plane.create(&policies, &policy(&rules)).unwrap();
    assert_eq!(
        taken["spec"]["rules"], rules,
        "nothing is added and nothing is dropped"
    );
    let pools = format!("{GROUP}/ippools");
    server
        .plane
        .create(&pools, &pool("a", "10.20.0.0/23", "a"))
        .unwrap();
    server.nodes([in_rack("n1", "a")]);
    let operator = operator_of(&server);
    let status = condition(
        &server,
        "ipampolicies/default",
        "Refused",
        "LimitOrProtection",
    );
    let told = status["conditions"].to_string();
    told.assert_has("rule `few` is broken: it changes 1");
    assert_eq!(server.pod_cidrs()["n1"], Vec::<String>::new());

    let relaxed = json!({"spec": {"rules": [rules[0]]}});
    server
        .plane
        .patch(&format!("{policies}/default"), &relaxed)
        .unwrap();
    assert_eq!(operator.written("n1"), json!(["10.20.0.0/24"]));
    condition(&server, "ipampolicies/default", "Refused", "WithinLimits");
    assert_eq!(operator.end(), 0);
}
