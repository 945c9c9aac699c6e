//! Calico's selectors against a second evaluator, written from Calico's documentation.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use ipam_core::model::{Labels, Operator, Requirement, Selector};

/// A selector as Calico's documentation describes it.
#[derive(Clone, Debug)]
enum Written {
    All,
    Has(&'static str),
    Equal(&'static str, &'static str),
    Unequal(&'static str, &'static str),
    In(&'static str, Vec<&'static str>),
    NotIn(&'static str, Vec<&'static str>),
    Part(&'static str, PartOfValue, &'static str),
    Not(Box<Written>),
    And(Vec<Written>),
    Or(Vec<Written>),
}

impl Written {
    /// The oracle: what the selector means for these labels.
    fn selects(&self, labels: &Labels) -> bool {
        let value = |key: &str| labels.get(key).map(String::as_str);
        match self {
            Written::All => true,
            Written::Has(key) => value(key).is_some(),
            Written::Equal(key, wanted) => value(key) == Some(wanted),
            Written::Unequal(key, unwanted) => value(key) != Some(unwanted),
            Written::In(key, wanted) => value(key).is_some_and(|value| wanted.contains(&value)),
            Written::NotIn(key, wanted) => value(key).is_none_or(|value| !wanted.contains(&value)),
            Written::Part(key, PartOfValue::Contains, part) => {
                value(key).is_some_and(|value| value.contains(part))
            }
            Written::Part(key, PartOfValue::StartsWith, part) => {
                value(key).is_some_and(|value| value.starts_with(part))
            }
            Written::Part(key, PartOfValue::EndsWith, part) => {
                value(key).is_some_and(|value| value.ends_with(part))
            }
            Written::Not(inner) => !inner.selects(labels),
            Written::And(parts) => parts.iter().all(|part| part.selects(labels)),
            Written::Or(parts) => parts.iter().any(|part| part.selects(labels)),
        }
    }

    /// The text, with or without the spaces that Calico does not need.
    fn text(&self, space: &str) -> String {
        let set = |values: &[&str]| {
            let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
            format!("{{{}}}", quoted.join(&format!(",{space}")))
        };
        let joined = |parts: &[Written], operator: &str| {
            let inner: Vec<String> = parts
                .iter()
                .map(|part| match part {
                    Written::Or(_) | Written::And(_) => format!("({})", part.text(space)),
                    _ => part.text(space),
                })
                .collect();
            inner.join(&format!("{space}{operator}{space}"))
        };
        match self {
            Written::All => format!("all({space})"),
            Written::Has(key) => format!("has({space}{key}{space})"),
            Written::Equal(key, value) => format!("{key}{space}=={space}\"{value}\""),
            Written::Unequal(key, value) => format!("{key}{space}!={space}'{value}'"),
            Written::In(key, values) => format!("{key} in{space}{}", set(values)),
            Written::NotIn(key, values) => format!("{key} not{space}in{space}{}", set(values)),
            Written::Part(key, comparison, part) => {
                format!(
                    "{key} {}{space}'{part}'",
                    comparison.as_str().replace(' ', space)
                )
            }
            Written::Not(inner) => format!("!{space}({})", inner.text(space)),
            Written::And(parts) => joined(parts, "&&"),
            Written::Or(parts) => joined(parts, "||"),
        }
    }

    fn has_parts_of_values(&self) -> bool {
        match self {
            Written::Part(..) => true,
            Written::Not(inner) => inner.has_parts_of_values(),
            Written::And(parts) | Written::Or(parts) => {
                parts.iter().any(Written::has_parts_of_values)
            }
            _ => false,
        }
    }
}

const KEYS: [&str; 2] = ["rack", "zone.io/b"];
/// No selector names the last one.
const VALUES: [&str; 5] = ["a", "ab", "c", "", "other"];

fn written(with_parts: bool) -> impl Strategy<Value = Written> {
    let key = || prop::sample::select(&KEYS[..]);
    let value = || prop::sample::select(&VALUES[..4]);
    let values = || prop::collection::vec(value(), 0..4);
    let comparison = prop::sample::select(&PartOfValue::ALL[..]);
    let part = (key(), comparison, prop::sample::select(&["a", "b", ""][..]));
    let leaf = prop_oneof![
        1 => Just(Written::All),
        3 => key().prop_map(Written::Has),
        3 => (key(), value()).prop_map(|(key, value)| Written::Equal(key, value)),
        3 => (key(), value()).prop_map(|(key, value)| Written::Unequal(key, value)),
        3 => (key(), values()).prop_map(|(key, values)| Written::In(key, values)),
        3 => (key(), values()).prop_map(|(key, values)| Written::NotIn(key, values)),
        u32::from(with_parts) => part.prop_map(|(key, comparison, part)| {
            Written::Part(key, comparison, part)
        }),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|inner| Written::Not(Box::new(inner))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Written::And),
            prop::collection::vec(inner, 1..4).prop_map(Written::Or),
        ]
    })
}

/// Every set of labels of the two keys.
fn universe() -> Vec<Labels> {
    let values = || VALUES.iter().map(Some).chain([None]);
    let mut all = Vec::new();
    for one in values() {
        for two in values() {
            let pairs = [(KEYS[0], one), (KEYS[1], two)];
            let labels = pairs
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), (*value?).to_owned())));
            all.push(labels.collect());
        }
    }
    all
}

/// Every meaning that a LabelSelector on the two keys can have in the universe.
fn expressible() -> BTreeSet<Vec<bool>> {
    let mut operators: Vec<Vec<Operator>> = vec![vec![], vec![Operator::DoesNotExist]];
    for bits in 0..16_u32 {
        let values: BTreeSet<String> = (0..4)
            .filter(|bit| bits >> bit & 1 == 1)
            .map(|bit| VALUES[bit].to_owned())
            .collect();
        if values.is_empty() {
            operators.push(vec![Operator::Exists]);
        } else {
            operators.push(vec![Operator::In(values.clone())]);
            operators.push(vec![Operator::NotIn(values.clone())]);
            operators.push(vec![Operator::Exists, Operator::NotIn(values)]);
        }
    }
    let universe = universe();
    let of_key = |place: usize, operators: &[Operator]| -> Vec<bool> {
        let requirements: Vec<Requirement> = operators
            .iter()
            .map(|operator| Requirement::new(KEYS[place], operator.clone()).unwrap())
            .collect();
        let selector = Selector::all_of(requirements);
        universe
            .iter()
            .map(|labels| selector.matches(labels))
            .collect()
    };
    let of_first: Vec<Vec<bool>> = operators.iter().map(|one| of_key(0, one)).collect();
    let of_second: Vec<Vec<bool>> = operators.iter().map(|one| of_key(1, one)).collect();
    let mut meanings = BTreeSet::new();
    for first in &of_first {
        for second in &of_second {
            meanings.insert(first.iter().zip(second).map(|(a, b)| *a && *b).collect());
        }
    }
    meanings
}

fn selector(text: &str) -> Result<Option<Selector>, Inexpressible> {
    CalicoSelector::parse(text).unwrap().nodes()?.selector()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_translated_selector_selects_the_same_nodes(
        written in written(true),
        space in prop::sample::select(&["", " ", "\t  "][..]),
    ) {
        let text = written.text(space);
        let universe = universe();
        match selector(&text) {
            Ok(Some(selector)) => for labels in &universe {
                prop_assert_eq!(
                    selector.matches(labels),
                    written.selects(labels),
                    "{} as {} for {:?}", text, selector, labels
                );
            },
            Ok(None) => prop_assert!(
                !universe.iter().any(|labels| written.selects(labels)),
                "{} selects nothing", text
            ),
            Err(_) => {}
        }
    }

    #[test]
    fn only_an_inexpressible_selector_is_refused(written in written(false)) {
        prop_assert!(!written.has_parts_of_values());
        let text = written.text(" ");
        if let Err(reason) = selector(&text) {
            prop_assert_ne!(&reason, &Inexpressible::TooComplex);
            let meaning: Vec<bool> =
                universe().iter().map(|labels| written.selects(labels)).collect();
            prop_assert!(!expressible().contains(&meaning), "{}: {}", text, reason);
        }
    }

    #[test]
    fn no_text_breaks_the_parser(
        words in prop::collection::vec(
            prop::sample::select(&[
                "a", "has(", "all()", "global(", ")", "(", "!", "!=", "==", "&&", "||", "|", "&",
                "{", "}", ",", "'x'", "\"y\"", "'", " in ", " not in ", "notin", " contains ",
                " starts with ", "endswith", " ", "\t", "\n", "é", "has(a)", "a == 'b'", "\u{0}",
            ][..]),
            0..40,
        ),
    ) {
        if let Ok(selector) = CalicoSelector::parse(&words.concat()) {
            let _ = selector.nodes().and_then(|set| set.selector());
        }
    }

    #[test]
    fn no_bytes_break_the_parser(text in ".{0,200}") {
        if let Ok(selector) = CalicoSelector::parse(&text) {
            let _ = selector.nodes().and_then(|set| set.selector());
        }
    }
}

#[test]
fn selectors_of_the_documentation() {
    for (text, expected) in [
        ("", "every node"),
        ("all()", "every node"),
        ("rack == 'a'", "rack=a"),
        ("rack == \"a\" || rack == 'b'", "rack in (a,b)"),
        ("rack in {'a','b',}", "rack in (a,b)"),
        ("rack notin {'a', 'b'}", "rack notin (a,b)"),
        ("rack != 'a'", "rack notin (a)"),
        ("has(rack) && rack != 'a'", "rack notin (a),rack"),
        ("!has(rack)", "!rack"),
        ("!!has(rack)", "rack"),
        ("!(has(rack) || zone == 'x')", "!rack,zone notin (x)"),
        (
            "role == 'gpu' && (rack == 'a' || rack == 'b')",
            "rack in (a,b),role=gpu",
        ),
        (
            "(rack == 'a' && z == '1') || (rack == 'a' && z == '2')",
            "rack=a,z in (1,2)",
        ),
        ("has(a) || !has(a)", "every node"),
        ("rack in {'abc','x'} && rack contains 'b'", "rack=abc"),
        ("rack starts with ''", "rack"),
        ("rack == 'a' || rack == 'not a label value'", "rack=a"),
        ("has(-bad) || rack == 'a'", "rack=a"),
        (
            "kubernetes.io/hostname == 'w1'",
            "kubernetes.io/hostname=w1",
        ),
        ("in == 'a'", "in=a"),
    ] {
        let found = selector(text).unwrap().unwrap();
        assert_eq!(found.to_string(), expected, "{text}");
    }
    for nothing in [
        "!all()",
        "rack in {}",
        "rack == 'a' && rack == 'b'",
        "has(a) && !has(a)",
    ] {
        assert_eq!(selector(nothing).unwrap(), None, "{nothing}");
    }
}

#[test]
fn a_refused_selector_names_what_no_label_selector_can_say() {
    for (text, expected) in [
        (
            "rack contains 'a'",
            "`rack contains 'a'` looks at a part of a label's value",
        ),
        (
            "!(rack starts with 'a')",
            "`rack starts with 'a'` looks at a part of a label's value",
        ),
        (
            "!has(rack) || rack == 'a'",
            "it selects objects without the label `rack` and also objects with rack in (a)",
        ),
        (
            "rack == 'a' || zone == 'b'",
            "it selects alternatives on several labels: `rack=a`, `zone=b`",
        ),
    ] {
        assert_eq!(selector(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn texts_that_calico_rejects() {
    for (text, expected) in [
        (
            "rack = 'a'",
            "expected an operator after the label after 5 bytes",
        ),
        ("rack == a", "expected a quoted value after 9 bytes"),
        ("rack == 'a", "expected the closing quote after 9 bytes"),
        ("(rack == 'a'", "expected `)` after 12 bytes"),
        (
            "rack == 'a')",
            "expected `(` before this `)` after 12 bytes",
        ),
        (
            "rack == 'a' zone == 'b'",
            "expected `&&`, `||` or the end after 16 bytes",
        ),
        ("rack in {'a' 'b'}", "expected `,` or `}` after 16 bytes"),
        ("&& a == 'b'", "expected a comparison after 2 bytes"),
        ("a == 'b' &&", "expected a comparison after 11 bytes"),
        ("has(a", "expected `)` after 5 bytes"),
        ("global()", "`global()` selects no nodes"),
        (
            "a\n== 'b'",
            "expected an operator after the label after 1 bytes",
        ),
    ] {
        let error = CalicoSelector::parse(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn nesting_and_length_cost_no_stack_and_little_time() {
    let deep = format!("{}has(a){}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(selector(&deep).unwrap().unwrap().to_string(), "a");
    let negated = format!("{}has(a){}", "!(".repeat(10_001), ")".repeat(10_001));
    assert_eq!(selector(&negated).unwrap().unwrap().to_string(), "!a");
    assert!(CalicoSelector::parse(&"(".repeat(10_000)).is_err());
    let values: Vec<String> = (0..4000).map(|n| format!("a=='{n}'")).collect();
    let one_label = selector(&values.join("||")).unwrap().unwrap();
    assert_eq!(one_label.specificity(), 1);
    let labels: Vec<String> = (0..4000).map(|n| format!("a{n}=='x'")).collect();
    assert_eq!(selector(&labels.join("||")), Err(Inexpressible::TooComplex));
    assert_eq!(
        selector(&labels.join("&&")).unwrap().unwrap().specificity(),
        4000
    );
    let pairs: Vec<String> = (0..2000)
        .map(|n| format!("(a{n}=='x'||b{n}=='x')"))
        .collect();
    assert_eq!(selector(&pairs.join("&&")), Err(Inexpressible::TooComplex));
    assert_eq!(
        CalicoSelector::parse(&" ".repeat(70_000)),
        Err(SelectorError::TooLong)
    );
}
