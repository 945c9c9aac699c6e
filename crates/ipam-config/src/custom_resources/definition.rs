//! CustomResourceDefinitions, generated from the types that read the files. So a document has the
//! same meaning in a file and in the cluster.
//!
//! A structural schema (`apiextensions.k8s.io/v1`) can express less than a JSON Schema. CEL rules
//! express the rest. The status of the object reports everything else.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{AssignmentStatus, PolicyStatus, PoolStatus};
use crate::documents::{inline_settings, json_schema};
use ipam_desired::{CustomKind, GROUP, VERSION};

/// Longest text of a CIDR, range or address, in characters: two IPv6 addresses and a separator.
const LONGEST_RANGE: u64 = 100;

/// Longest name of an object (DNS subdomain, RFC 1123).
const LONGEST_NAME: u64 = 253;

/// Pattern of an OpenStack id.
const ID: &str = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

/// Limit of the CIDRs of a pool. The API server uses it to estimate the cost of a rule (`CELSchema`
/// limits of Kubernetes 1.30 and later).
const MOST_CIDRS: u64 = 64;

/// Limit of the entries of all lists other than CIDRs.
const MOST_ENTRIES: u64 = 256;

/// The CustomResourceDefinition of each kind.
pub fn definitions() -> Vec<Value> {
    CustomKind::ALL.map(definition).into()
}

fn definition(kind: CustomKind) -> Value {
    let written = json_schema(kind.into());
    let mut spec = written["properties"]["spec"].clone();
    structural(&mut spec);
    narrow(kind, &mut spec);
    let status = status_schema(kind);
    let schema = json!({
        "description": written["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    });
    let names = json!({
        "kind": kind.as_str(),
        "listKind": format!("{}List", kind.as_str()),
        "plural": kind.plural(),
        "singular": kind.as_str().to_lowercase(),
        "categories": ["cilium-ipam"],
    });
    let version = json!({
        "name": VERSION,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns(kind),
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource()},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    })
}

fn status_schema(kind: CustomKind) -> Value {
    let generator = inline_settings(SchemaSettings::draft2020_12()).into_generator();
    let mut schema = match kind {
        CustomKind::IpPool => generator.into_root_schema_for::<PoolStatus>(),
        CustomKind::NodeAssignment | CustomKind::ServiceAssignment => {
            generator.into_root_schema_for::<AssignmentStatus>()
        }
        CustomKind::IpamPolicy => generator.into_root_schema_for::<PolicyStatus>(),
    }
    .to_value();
    structural(&mut schema);
    let conditions = &mut schema["properties"]["conditions"];
    conditions["x-kubernetes-list-type"] = json!("map");
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    schema
}

/// Removes keywords that a structural schema cannot have. Also removes defaults: the API server
/// would write them into objects, which would then differ from Git.
fn structural(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for field in ["$schema", "title", "default", "format", "if", "else"] {
                fields.remove(field);
            }
            // The API server drops unknown fields, or refuses them with strict validation.
            if fields.get("additionalProperties") == Some(&Value::Bool(false)) {
                fields.remove("additionalProperties");
            }
            one_type(fields);
            for (name, value) in fields.iter_mut() {
                if name == "properties" {
                    value
                        .as_object_mut()
                        .into_iter()
                        .flatten()
                        .for_each(|(_, property)| structural(property));
                } else if name == "items" || name == "additionalProperties" {
                    structural(value);
                }
            }
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reduces a list of types to one type without null. A field with several types accepts any value.
fn one_type(fields: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = fields.get("type") else {
        return;
    };
    let types: Vec<Value> = types.iter().filter(|one| *one != "null").cloned().collect();
    match <[Value; 1]>::try_from(types) {
        Ok([only]) => {
            fields.insert("type".to_owned(), only);
        }
        Err(_) => {
            fields.retain(|name, _| name == "description");
            fields.insert(
                "x-kubernetes-preserve-unknown-fields".to_owned(),
                json!(true),
            );
        }
    }
}

/// A validation rule in CEL, with the message for a violation.
fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

fn is_cidr(list: &str) -> [Value; 2] {
    [
        rule(
            &format!("{list}.all(c, isCIDR(c))"),
            "every entry must be a CIDR, such as 10.20.0.0/16",
        ),
        rule(
            &format!("{list}.all(c, !isCIDR(c) || cidr(c) == cidr(c).masked())"),
            "a CIDR must not have bits set behind its prefix; write 10.20.0.0/16, not 10.20.0.1/16",
        ),
    ]
}

/// CEL cannot refer to `blockSize`, because the schema gives it no type.
fn either_kind_of_pool() -> Value {
    json!([{"required": ["cidrs", "blockSize"]}, {"required": ["neutron"], "not": {"required": ["blockSize"]}}])
}

/// The part of [`either_kind_of_pool`] that CEL can express, with messages.
fn of_nodes_or_of_neutron() -> [Value; 2] {
    let others = [
        "cidrs",
        "nodeSelector",
        "priority",
        "reserved",
        "retiring",
        "disabled",
        "whenFull",
    ];
    let none = others
        .map(|field| format!("!has(self.{field})"))
        .join(" && ");
    [
        rule(
            "has(self.neutron) || has(self.cidrs)",
            "a pool has `cidrs`, or it is a subnet of `neutron`",
        ),
        rule(
            &format!("!has(self.neutron) || ({none})"),
            "a subnet of Neutron gives no blocks to nodes: remove the other fields",
        ),
    ]
}

/// Adds bounds and CEL rules.
fn narrow(kind: CustomKind, spec: &mut Value) {
    bounded(spec, "");
    match kind {
        CustomKind::IpPool => {
            // The API server drops a null that is not allowed, and the pool would select every
            // node. So the schema allows it, and reading refuses it. CEL cannot: `has` is false for
            // null.
            spec["properties"]["nodeSelector"]["nullable"] = json!(true);
            spec["oneOf"] = either_kind_of_pool();
            spec["x-kubernetes-validations"] = json!(of_nodes_or_of_neutron());
            for id in ["network", "subnet"] {
                spec["properties"]["neutron"]["properties"][id]["pattern"] = json!(ID);
            }
            spec["properties"]["cidrs"]["maxItems"] = json!(MOST_CIDRS);
            spec["properties"]["cidrs"]["x-kubernetes-validations"] = json!(is_cidr("self"));
            let requirement =
                &mut spec["properties"]["nodeSelector"]["properties"]["matchExpressions"]["items"];
            requirement["x-kubernetes-validations"] = json!([rule(
                "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
                "In and NotIn need values, Exists and DoesNotExist take none",
            ),]);
        }
        CustomKind::NodeAssignment => {
            let both = "self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()";
            let [cidr, masked] = is_cidr("self");
            let one_each = rule(both, "at most one block for each family");
            spec["properties"]["podCIDRs"]["x-kubernetes-validations"] =
                json!([cidr, masked, one_each]);
        }
        CustomKind::ServiceAssignment => {
            spec["properties"]["service"]["pattern"] =
                json!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
            spec["properties"]["ips"]["x-kubernetes-validations"] = json!([rule(
                "self.all(i, isIP(i))",
                "every entry must be an address, such as 20.0.10.9"
            )]);
            spec["x-kubernetes-validations"] = json!([rule(
                "has(self.ips) != has(self.pool)",
                "a pin has `ips` or a `pool`, and not both"
            )]);
        }
        CustomKind::IpamPolicy => {}
    }
}

/// Gives every list and text a maximum length.
fn bounded(schema: &mut Value, name: &str) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    match fields.get("type").and_then(Value::as_str) {
        Some("array") => {
            fields.entry("maxItems").or_insert(json!(MOST_ENTRIES));
        }
        Some("string") if !fields.contains_key("enum") => {
            let most = if name == "service" { 127 } else { LONGEST_NAME };
            fields.entry("maxLength").or_insert(json!(most));
        }
        _ => {}
    }
    for (name, value) in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        bounded(value, name);
    }
    if let Some(items) = fields.get_mut("items") {
        bounded(items, name);
        // Short texts keep the estimated cost of a rule small.
        if [
            "cidrs", "podCIDRs", "ips", "reserved", "retiring", "excluded",
        ]
        .contains(&name)
        {
            items["maxLength"] = json!(LONGEST_RANGE);
        }
    }
}

fn columns(kind: CustomKind) -> Value {
    let column =
        |name: &str, of: &str, path: &str| json!({"name": name, "type": of, "jsonPath": path});
    let wide = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path, "priority": 1});
    let ready = column(
        "Ready",
        "string",
        ".status.conditions[?(@.type=='Ready')].status",
    );
    let age = column("Age", "date", ".metadata.creationTimestamp");
    let why = wide("Reason", ".status.conditions[?(@.type=='Ready')].message");
    let own = match kind {
        CustomKind::IpPool => vec![
            column("CIDRs", "string", ".spec.cidrs"),
            column("Priority", "integer", ".spec.priority"),
            column("Nodes", "integer", ".status.nodes"),
            column(
                "Used",
                "integer",
                ".status.blocks[?(@.family=='IPv4')].used",
            ),
            column(
                "Free",
                "integer",
                ".status.blocks[?(@.family=='IPv4')].free",
            ),
            column(
                "Used6",
                "integer",
                ".status.blocks[?(@.family=='IPv6')].used",
            ),
            column(
                "Free6",
                "integer",
                ".status.blocks[?(@.family=='IPv6')].free",
            ),
            column("Disabled", "boolean", ".spec.disabled"),
        ],
        CustomKind::NodeAssignment => {
            vec![
                column("PodCIDRs", "string", ".spec.podCIDRs"),
                column("Pool", "string", ".spec.pool"),
            ]
        }
        CustomKind::ServiceAssignment => {
            vec![
                column("Service", "string", ".spec.service"),
                column("IPs", "string", ".spec.ips"),
            ]
        }
        CustomKind::IpamPolicy => vec![
            column("Paused", "boolean", ".spec.paused"),
            column("Waiting", "integer", ".status.waiting"),
            column("Blocked", "integer", ".status.blocked"),
        ],
    };
    own.into_iter().chain([ready, age, why]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keywords that `apiextensions.k8s.io/v1` refuses in a structural schema.
    fn forbidden(schema: &Value, path: &str, found: &mut Vec<String>) {
        let Some(fields) = schema.as_object() else {
            return;
        };
        for keyword in [
            "$ref",
            "$schema",
            "const",
            "oneOf",
            "anyOf",
            "if",
            "else",
            "default",
            "definitions",
            "$defs",
        ] {
            // `oneOf` is allowed for combinations of fields, not for their types.
            let is_ours = keyword == "oneOf" && fields.get(keyword) == Some(&either_kind_of_pool());
            if fields.contains_key(keyword) && !is_ours {
                found.push(format!("{path}/{keyword}"));
            }
        }
        if fields.get("type").is_none_or(|of| !of.is_string())
            && !fields.contains_key("x-kubernetes-preserve-unknown-fields")
        {
            found.push(format!("{path} has no type"));
        }
        for (name, property) in fields
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            forbidden(property, &format!("{path}/{name}"), found);
        }
        for child in ["items", "additionalProperties"]
            .iter()
            .filter_map(|child| fields.get(*child))
        {
            forbidden(child, &format!("{path}[]"), found);
        }
    }

    #[test]
    fn schemas_are_structural() {
        for definition in definitions() {
            let version = &definition["spec"]["versions"][0];
            let mut found = Vec::new();
            forbidden(
                &version["schema"]["openAPIV3Schema"],
                definition["metadata"]["name"].as_str().unwrap(),
                &mut found,
            );
            assert!(found.is_empty(), "{found:#?}");
        }
    }
}
