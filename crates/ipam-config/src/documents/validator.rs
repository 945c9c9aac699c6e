//! Validates a JSON value against the JSON Schema of one kind of document.
//!
//! Supports the keywords that our schemas use, and ignores all others. Knows nothing of our kinds,
//! of YAML or of messages.

use serde_json::{Map, Number, Value};

use crate::documents::tree::Step;

/// One violation of a schema.
#[derive(Debug)]
pub(super) struct Fault<'s, 'v> {
    pub path: Vec<Step>,
    pub kind: FaultKind<'s, 'v>,
    pub instance: &'v Value,
    /// The schema of the instance. For a keyword below `else`, the schema around `else`.
    pub schema: &'s Value,
    /// The schema of the mapping that has the instance as a property.
    pub mapping: Option<&'s Value>,
}

/// The violated keyword, with its value or with what violates it.
#[derive(Debug)]
pub(super) enum FaultKind<'s, 'v> {
    /// Allowed types, in alphabetical order.
    Type(Vec<&'s str>),
    /// The value is not among these allowed values.
    Enum(&'s [Value]),
    Const(&'s Value),
    /// This required field is missing.
    Required(&'s str),
    /// Unknown fields, all of one mapping.
    AdditionalProperties(Vec<&'v str>),
    Minimum(&'s Number),
    Maximum(&'s Number),
    MinItems(u64),
    MaxItems(u64),
    MinProperties,
    /// The schema `false` allows no value.
    Never,
}

/// Every violation, in no particular order.
pub(super) fn faults<'s, 'v>(schema: &'s Value, value: &'v Value) -> Vec<Fault<'s, 'v>> {
    let mut validation = Validation {
        path: Vec::new(),
        faults: Vec::new(),
    };
    let location = Location {
        schema,
        mapping: None,
    };
    validation.check(schema, location, value);
    validation.faults
}

/// Schemas that a fault refers to.
#[derive(Clone, Copy)]
struct Location<'s> {
    schema: &'s Value,
    mapping: Option<&'s Value>,
}

struct Validation<'s, 'v> {
    path: Vec<Step>,
    faults: Vec<Fault<'s, 'v>>,
}

impl<'s, 'v> Validation<'s, 'v> {
    fn check(&mut self, schema: &'s Value, location: Location<'s>, value: &'v Value) {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => {
                self.faults.push(Fault {
                    path: self.path.clone(),
                    kind: FaultKind::Never,
                    instance: value,
                    schema: location.schema,
                    mapping: location.mapping,
                });
                return;
            }
            // `true` allows every value. Others are no schemas.
            Value::Bool(true)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return,
        };
        for (keyword, argument) in keywords {
            if let Some(kind) = violation(keyword, argument, value) {
                self.faults.push(Fault {
                    path: self.path.clone(),
                    kind,
                    instance: value,
                    schema: location.schema,
                    mapping: location.mapping,
                });
            }
        }
        self.check_required(keywords, location, value);
        match value {
            Value::Object(fields) => self.check_fields(keywords, location, value, fields),
            Value::Array(items) => self.check_items(keywords, items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if let (Some(condition), Some(otherwise)) = (keywords.get("if"), keywords.get("else"))
            && !faults(condition, value).is_empty()
        {
            self.check(otherwise, location, value);
        }
    }

    fn check_required(
        &mut self,
        keywords: &'s Map<String, Value>,
        location: Location<'s>,
        value: &'v Value,
    ) {
        let (Some(Value::Array(required)), Value::Object(fields)) =
            (keywords.get("required"), value)
        else {
            return;
        };
        let missing = required
            .iter()
            .filter_map(Value::as_str)
            .filter(|name| !fields.contains_key(*name));
        for name in missing {
            self.faults.push(Fault {
                path: self.path.clone(),
                kind: FaultKind::Required(name),
                instance: value,
                schema: location.schema,
                mapping: location.mapping,
            });
        }
    }

    fn check_fields(
        &mut self,
        keywords: &'s Map<String, Value>,
        location: Location<'s>,
        value: &'v Value,
        fields: &'v Map<String, Value>,
    ) {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let additional = keywords.get("additionalProperties");
        let mut unknown = Vec::new();
        for (name, field) in fields {
            let known = properties.and_then(|properties| properties.get(name));
            let (schema, mapping) = match (known, additional) {
                (Some(schema), _) => (schema, Some(location.schema)),
                (None, Some(Value::Bool(false))) => {
                    unknown.push(name.as_str());
                    continue;
                }
                (None, Some(schema)) => (schema, None),
                (None, None) => continue,
            };
            self.path.push(Step::Key(name.clone()));
            self.check(schema, Location { schema, mapping }, field);
            self.path.pop();
        }
        if !unknown.is_empty() {
            self.faults.push(Fault {
                path: self.path.clone(),
                kind: FaultKind::AdditionalProperties(unknown),
                instance: value,
                schema: location.schema,
                mapping: location.mapping,
            });
        }
    }

    fn check_items(&mut self, keywords: &'s Map<String, Value>, items: &'v [Value]) {
        let Some(schema) = keywords.get("items") else {
            return;
        };
        let location = Location {
            schema,
            mapping: None,
        };
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            self.check(schema, location, item);
            self.path.pop();
        }
    }
}

/// The fault of a keyword that needs nothing but its argument and the value.
fn violation<'s, 'v>(
    keyword: &str,
    argument: &'s Value,
    value: &'v Value,
) -> Option<FaultKind<'s, 'v>> {
    match (keyword, argument, value) {
        ("type", types, _) => {
            let types = type_names(types);
            let is_allowed = types.iter().any(|name| has_type(value, name));
            (!is_allowed).then_some(FaultKind::Type(types))
        }
        ("enum", Value::Array(allowed), _) => {
            (!allowed.contains(value)).then_some(FaultKind::Enum(allowed))
        }
        ("const", expected, _) => (expected != value).then_some(FaultKind::Const(expected)),
        ("minimum", Value::Number(limit), Value::Number(number)) => {
            is_less(number, limit).then_some(FaultKind::Minimum(limit))
        }
        ("maximum", Value::Number(limit), Value::Number(number)) => {
            is_less(limit, number).then_some(FaultKind::Maximum(limit))
        }
        ("minItems", limit, Value::Array(items)) => limit
            .as_u64()
            .filter(|limit| (items.len() as u64) < *limit)
            .map(FaultKind::MinItems),
        ("maxItems", limit, Value::Array(items)) => limit
            .as_u64()
            .filter(|limit| items.len() as u64 > *limit)
            .map(FaultKind::MaxItems),
        ("minProperties", limit, Value::Object(fields)) => limit
            .as_u64()
            .filter(|limit| (fields.len() as u64) < *limit)
            .map(|_| FaultKind::MinProperties),
        _ => None,
    }
}

fn type_names(types: &Value) -> Vec<&str> {
    match types {
        Value::Array(types) => {
            let mut names: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
            names.sort_unstable();
            names
        }
        one => one.as_str().into_iter().collect(),
    }
}

/// Whether a value has a type by JSON Schema 2020-12: a number without a fraction is an integer,
/// however it is written.
fn has_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => {
            let is_whole =
                !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0);
            name == "number" || name == "integer" && is_whole
        }
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

fn is_less(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one < other,
        _ => matches!((one.as_f64(), other.as_f64()), (Some(one), Some(other)) if one < other),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::documents::{DocumentKind, json_schema};

    /// Keywords that this module checks, and those that check nothing.
    const KNOWN: [&str; 19] = [
        "$schema",
        "additionalProperties",
        "const",
        "default",
        "description",
        "else",
        "enum",
        "format",
        "if",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minProperties",
        "minimum",
        "properties",
        "required",
        "title",
        "type",
    ];

    fn assert_known(schema: &Value, at: &str) {
        let Value::Object(keywords) = schema else {
            assert!(schema.is_boolean(), "{at} is no schema: {schema}");
            return;
        };
        for (keyword, argument) in keywords {
            assert!(
                KNOWN.contains(&keyword.as_str()),
                "{at}: `{keyword}` is not checked"
            );
            match keyword.as_str() {
                "properties" => argument
                    .as_object()
                    .unwrap()
                    .iter()
                    .for_each(|(name, schema)| assert_known(schema, &format!("{at}.{name}"))),
                "items" | "additionalProperties" | "if" | "else" => {
                    assert_known(argument, &format!("{at}.{keyword}"));
                }
                "minItems" | "maxItems" | "minProperties" => assert!(argument.is_u64(), "{at}"),
                "minimum" | "maximum" => assert!(argument.is_i64(), "{at}"),
                _ => {}
            }
        }
    }

    #[test]
    fn every_keyword_of_every_schema_is_checked() {
        for kind in DocumentKind::ALL {
            assert_known(&json_schema(kind), kind.as_str());
        }
    }

    #[test]
    #[should_panic(expected = "`pattern` is not checked")]
    fn a_keyword_that_is_not_checked_is_found() {
        let schema =
            json!({"properties": {"a": {"items": {"additionalProperties": {"pattern": "b"}}}}});
        assert_known(&schema, "test");
    }

    #[test]
    #[should_panic(expected = "test.items is no schema: 7")]
    fn what_is_no_schema_is_found() {
        assert_known(&json!({"items": 7}), "test");
    }

    #[test]
    fn a_boolean_schema_allows_all_or_nothing() {
        let value = json!({"a": [1, 2]});
        for schema in [
            json!(true),
            json!(false),
            json!({"properties": {"a": true}}),
            json!({"properties": {"a": false, "b": false}}),
            json!({"properties": {"a": {"items": false}}}),
            json!({"additionalProperties": {"items": true}}),
            json!({"if": false, "else": {"required": ["b"]}}),
            json!({"if": {"required": ["b"]}, "else": false}),
            json!({"if": true, "else": false}),
        ] {
            assert_known(&schema, "test");
            let validator = jsonschema::validator_for(&schema).unwrap();
            let ours = faults(&schema, &value);
            let mut ours: Vec<String> = ours.iter().map(|fault| pointer(&fault.path)).collect();
            let theirs = validator.iter_errors(&value);
            let mut theirs: Vec<String> = theirs
                .map(|error| error.instance_path().to_string())
                .collect();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{schema}");
        }
        assert!(matches!(
            faults(&json!(false), &json!(7))[..],
            [Fault {
                kind: FaultKind::Never,
                ..
            }]
        ));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            (-2..130_i64).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-5_000_000_000..5_000_000_000_i64).prop_map(Value::from),
            (-1.0e18..1.0e18).prop_map(Value::from),
            (0..40_u32).prop_map(|number| Value::from(f64::from(number) / 2.0)),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number,
            "(In|Yes|auto|10m|PodCIDRs|[a-z]{0,3})".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("(ipv4|ipv6|cidr|name|[a-z])", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Mostly what the schema asks for.
    fn near(schema: &Value) -> BoxedStrategy<Value> {
        if let Some(only) = schema.get("const") {
            return prop_oneof![9 => Just(only.clone()), 1 => any_value()].boxed();
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let values = prop::sample::select(values.clone());
            return prop_oneof![9 => values, 1 => any_value()].boxed();
        }
        let types = schema.get("type").map(type_names).unwrap_or_default();
        let mut options: Vec<BoxedStrategy<Value>> = Vec::new();
        for name in types {
            options.push(match name {
                "object" => near_mapping(schema),
                "array" => {
                    let item = schema.get("items").map_or(any_value().boxed(), near);
                    prop::collection::vec(item, 0..4)
                        .prop_map(Value::from)
                        .boxed()
                }
                "integer" => prop_oneof![Just(24), Just(0), Just(1), -1..130_i64]
                    .prop_map(Value::from)
                    .boxed(),
                "boolean" => any::<bool>().prop_map(Value::from).boxed(),
                _ => "[a-z]{1,3}".prop_map(Value::from).boxed(),
            });
        }
        if options.is_empty() {
            return any_value().boxed();
        }
        let valid = prop::strategy::Union::new(options);
        prop_oneof![19 => valid, 1 => any_value()].boxed()
    }

    fn near_mapping(schema: &Value) -> BoxedStrategy<Value> {
        let required = |name: &str| {
            ["/required", "/else/required"]
                .iter()
                .filter_map(|part| schema.pointer(part)?.as_array())
                .flatten()
                .any(|required| required == name)
        };
        let mut fields: Vec<BoxedStrategy<Option<(String, Value)>>> = Vec::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let weight = if required(name) { 0.95 } else { 0.3 };
            let name = name.clone();
            let field = near(property).prop_map(move |value| (name.clone(), value));
            fields.push(prop::option::weighted(weight, field).boxed());
        }
        let others = match schema.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => near(schema),
            _ => any_value().boxed(),
        };
        fields.push(prop::option::weighted(0.05, ("[a-z]{1,4}", others)).boxed());
        fields
            .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
            .boxed()
    }

    fn documents() -> impl Strategy<Value = (DocumentKind, Value)> {
        let of_kind = |kind: DocumentKind| {
            near(&json_schema(kind))
                .prop_map(move |value| (kind, value))
                .boxed()
        };
        prop::strategy::Union::new(DocumentKind::ALL.map(of_kind))
    }

    fn pointer(path: &[Step]) -> String {
        path.iter()
            .map(|step| match step {
                Step::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => format!("/{index}"),
            })
            .collect()
    }

    static JSONSCHEMA: LazyLock<BTreeMap<DocumentKind, jsonschema::Validator>> =
        LazyLock::new(|| {
            let compile = |kind| jsonschema::validator_for(&json_schema(kind)).unwrap();
            DocumentKind::ALL.map(|kind| (kind, compile(kind))).into()
        });

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn it_agrees_with_jsonschema((kind, value) in documents()) {
            let schema = json_schema(kind);
            let validator = &JSONSCHEMA[&kind];
            let ours = faults(&schema, &value);
            prop_assert_eq!(ours.is_empty(), validator.is_valid(&value), "{:?}", ours);
            let mut ours: Vec<String> = ours.iter().map(|fault| pointer(&fault.path)).collect();
            let theirs = validator.iter_errors(&value);
            let mut theirs: Vec<String> =
                theirs.map(|error| error.instance_path().to_string()).collect();
            ours.sort();
            theirs.sort();
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn documents_near_valid_ones_are_valid_often_enough() {
        use proptest::strategy::ValueTree;
        use proptest::test_runner::TestRunner;
        let mut runner = TestRunner::deterministic();
        for kind in DocumentKind::ALL {
            let schema = json_schema(kind);
            let strategy = near(&schema);
            let valid = (0..500)
                .filter(|_| {
                    let value = strategy.new_tree(&mut runner).unwrap().current();
                    faults(&schema, &value).is_empty()
                })
                .count();
            assert!(
                (25..475).contains(&valid),
                "{}: {valid} of 500",
                kind.as_str()
            );
        }
    }
}
