//! Fields without a value, in our kinds and in Cilium's own.

use ipam_config::documents::{DocumentKind, Documents, SourceFile, json_schema, lower};
use ipam_core::model::{Finding, Rule, Severity};
use serde_json::{Value, json};

use super::folder;
use crate::support::{address_pool, pool};

/// Every place of a schema where a mapping has a field, as the keys that lead to it; `[]` is an
/// item of a list.
fn fields(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        found.push(path.clone());
        fields(field, path, found);
        path.pop();
    }
    if schema["items"].is_object() {
        path.push("[]".to_owned());
        fields(&schema["items"], path, found);
        path.pop();
    }
}

/// A document whose only content is `value` at the end of `path`.
fn nested(path: &[String], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |value, key| match key.as_str() {
            "[]" => json!([value]),
            key => json!({key: value}),
        })
}

#[test]
fn no_field_of_our_kinds_may_be_empty() {
    use DocumentKind::{IpPool, IpamPolicy, NodeAssignment, ServiceAssignment};
    for kind in [IpPool, NodeAssignment, ServiceAssignment, IpamPolicy] {
        let mut places = Vec::new();
        fields(&json_schema(kind), &mut Vec::new(), &mut places);
        assert!(places.len() > 5, "{places:?}");
        for path in places.iter().filter(|path| path[0] != "kind") {
            let mut document = nested(path, Value::Null);
            document["kind"] = json!(kind.as_str());
            let file = SourceFile {
                path: "a.yaml".into(),
                text: document.to_string().into(),
            };
            let (_, findings) = lower(&Documents { files: vec![file] });
            let field = path.join(".").replace(".[]", "[0]");
            let told = |finding: &&Finding| {
                let is_empty = finding
                    .message
                    .starts_with(&format!("`{field}` is empty, expected"));
                // If only one word is allowed, the message names it.
                let is_word = finding.message.starts_with(&format!("`{field}` is not `"));
                let is_unknown = finding
                    .message
                    .starts_with(&format!("`{field}` cannot be `null`"));
                finding.rule == Rule("wrong-type") && is_empty
                    || finding.rule == Rule("unknown-value") && (is_word || is_unknown)
            };
            let finding = findings
                .iter()
                .find(told)
                .unwrap_or_else(|| panic!("{kind:?} {field}: {findings:#?}"));
            assert!(
                finding.severity == Severity::Error && !finding.help.is_empty(),
                "{finding:#?}"
            );
            let about = findings
                .iter()
                .filter(|finding| finding.message.starts_with(&format!("`{field}` ")));
            assert_eq!(
                about.count(),
                1,
                "{kind:?} {field} is reported once: {findings:#?}"
            );
        }
    }
}

#[test]
fn an_empty_selector_does_not_select_every_node() {
    for (selector, is_valid) in [
        ("nodeSelector:", false),
        ("nodeSelector: ~", false),
        ("nodeSelector: {}", true),
    ] {
        let folder = folder();
        folder.write(
            "pools/a.yaml",
            pool(
                "a",
                &format!("\n  cidrs: [10.20.0.0/16]\n  blockSize: 24\n  {selector}"),
            ),
        );
        let report = folder
            .run(&["validate", "-o", "json"])
            .expect(if is_valid { 0 } else { 3 })
            .json();
        if !is_valid {
            let finding = &report["findings"][0];
            assert_eq!(
                (&finding["rule"], &finding["origin"]["line"]),
                (&json!("wrong-type"), &json!(7))
            );
            assert_eq!(finding["help"], "write a selector, or `{}` for every node");
        }
    }
}

/// As the API server, which drops such fields before it looks at them.
#[test]
fn empty_fields_of_ciliums_own_kind_are_dropped_with_a_warning() {
    let folder = folder();
    let spec = "{blocks: [{cidr: 20.0.10.0/24, start: null}], cidrs: ,\n  serviceSelector: , disabled: ~, allowFirstLastIPs: }";
    folder.write("pools/lb.yaml", address_pool("blue", spec));
    let report = folder.json("validate -o json");
    let findings = report["findings"].as_array().unwrap();
    let told: Vec<&str> = findings
        .iter()
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    for field in [
        "blocks[0].start",
        "cidrs",
        "serviceSelector",
        "disabled",
        "allowFirstLastIPs",
    ] {
        assert!(
            told.contains(&&*format!(
                "`spec.{field}` is empty, so the API server drops it"
            )),
            "{field}: {told:#?}"
        );
    }
    assert!(
        findings.len() == 5
            && findings
                .iter()
                .all(|finding| finding["rule"] == "empty-field"),
        "{report:#}"
    );
    for (spec, rule) in [
        ("{blocks: [{cidr: 20.0.10.0/24}, null]}", "wrong-type"),
        (
            "{blocks: [{cidr: 20.0.10.0/24}], serviceSelektor: null}",
            "unknown-field",
        ),
        ("null", "missing-field"),
    ] {
        folder.write("pools/lb.yaml", address_pool("blue", spec));
        let report = folder.expect("validate -o json", 3).json();
        assert_eq!(report["findings"][0]["rule"], rule, "{report:#}");
    }
}
