//! Calico's selectors against a second evaluator, written from Calico's documentation.

use proptest::prelude::*;

use super::*;
use ipam_core::model::Labels;

/// A comparison as Calico's documentation describes it.
#[derive(Clone, Debug)]
enum Written {
    All,
    Has(&'static str),
    HasNot(&'static str),
    Equal(&'static str, &'static str),
    Unequal(&'static str, &'static str),
    In(&'static str, Vec<&'static str>),
    NotIn(&'static str, Vec<&'static str>),
}

impl Written {
    /// The oracle: whether the comparison holds for these labels.
    fn selects(&self, labels: &Labels) -> bool {
        let value = |key: &str| labels.get(key).map(String::as_str);
        match self {
            Written::All => true,
            Written::Has(key) => value(key).is_some(),
            Written::HasNot(key) => value(key).is_none(),
            Written::Equal(key, wanted) => value(key) == Some(wanted),
            Written::Unequal(key, unwanted) => value(key) != Some(unwanted),
            Written::In(key, wanted) => value(key).is_some_and(|value| wanted.contains(&value)),
            Written::NotIn(key, wanted) => value(key).is_none_or(|value| !wanted.contains(&value)),
        }
    }

    /// The text, with or without the spaces that Calico does not need.
    fn text(&self, space: &str) -> String {
        let set = |values: &[&str]| {
            let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
            format!("{{{}}}", quoted.join(&format!(",{space}")))
        };
        match self {
            Written::All => format!("all({space})"),
            Written::Has(key) => format!("has({space}{key}{space})"),
            Written::HasNot(key) => format!("!{space}has({key})"),
            Written::Equal(key, value) => format!("{key}{space}=={space}\"{value}\""),
            Written::Unequal(key, value) => format!("{key}{space}!={space}'{value}'"),
            Written::In(key, values) => format!("{key} in{space}{}", set(values)),
            Written::NotIn(key, values) => format!("{key} not{space}in{space}{}", set(values)),
        }
    }
}

const KEYS: [&str; 2] = ["rack", "zone.io/b"];
/// No selector names the last one.
const VALUES: [&str; 5] = ["a", "ab", "c", "", "other"];

fn written() -> impl Strategy<Value = Written> {
    let key = || prop::sample::select(&KEYS[..]);
    let value = || prop::sample::select(&VALUES[..4]);
    let values = || prop::collection::vec(value(), 1..4);
    prop_oneof![
        Just(Written::All),
        key().prop_map(Written::Has),
        key().prop_map(Written::HasNot),
        (key(), value()).prop_map(|(key, value)| Written::Equal(key, value)),
        (key(), value()).prop_map(|(key, value)| Written::Unequal(key, value)),
        (key(), values()).prop_map(|(key, values)| Written::In(key, values)),
        (key(), values()).prop_map(|(key, values)| Written::NotIn(key, values)),
    ]
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_translated_selector_selects_the_same_nodes(
        written in prop::collection::vec((written(), 0..3_usize), 1..5),
        space in prop::sample::select(&["", " ", "\t  "][..]),
    ) {
        let parts: Vec<String> = written
            .iter()
            .map(|(one, depth)| {
                format!("{}{}{}", "(".repeat(*depth), one.text(space), ")".repeat(*depth))
            })
            .collect();
        let text = parts.join(&format!("{space}&&{space}"));
        let selector = translated(&text).unwrap();
        for labels in universe() {
            prop_assert_eq!(
                selector.matches(&labels),
                written.iter().all(|(one, _)| one.selects(&labels)),
                "{} as {} for {:?}", text, selector, labels
            );
        }
    }

    /// Alternatives and negations of conjunctions are never translated.
    #[test]
    fn other_joins_are_refused(one in written(), two in written()) {
        let (one, two) = (one.text(" "), two.text(" "));
        for text in [
            format!("{one} || {two}"), format!("({one}) || {two}"), format!("!({one} && {two})"),
            format!("!({one})"), format!("{one} {two}"), format!("({one} && {two}"),
            format!("{one} && {two})"), format!("{one} &&"), format!("&& {one}"),
        ] {
            prop_assert!(translated(&text).is_err(), "{}", text);
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
        let _ = translated(&words.concat());
    }

    #[test]
    fn no_bytes_break_the_parser(text in ".{0,200}") {
        let _ = translated(&text);
    }
}

#[test]
fn selectors_of_the_documentation() {
    for (text, expected) in [
        ("", "every node"),
        ("all()", "every node"),
        ("rack == 'a'", "rack=a"),
        ("rack in {'a','b',}", "rack in (a,b)"),
        ("rack notin {'a', 'b'}", "rack notin (a,b)"),
        ("rack != 'a'", "rack notin (a)"),
        ("has(rack) && rack != 'a'", "rack notin (a),rack"),
        ("!has(rack)", "!rack"),
        ("(has(rack)) && (zone == 'z' && all())", "rack,zone=z"),
        (
            "kubernetes.io/hostname == 'w1'",
            "kubernetes.io/hostname=w1",
        ),
        ("in == 'a'", "in=a"),
        ("has == 'a'", "has=a"),
    ] {
        assert_eq!(translated(text).unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn a_refused_selector_names_the_place() {
    for (text, expected) in [
        (
            "rack contains 'a'",
            "after 5 bytes, only `==`, `!=`, `in` and `not in` can be translated",
        ),
        (
            "rack = 'a'",
            "after 5 bytes, only `==`, `!=`, `in` and `not in` can be translated",
        ),
        (
            "rack inside {'a'}",
            "after 7 bytes, only `==`, `!=`, `in` and `not in` can be translated",
        ),
        (
            "rack == 'a' || rack == 'b'",
            "after 12 bytes, only `&&` can be translated",
        ),
        (
            "(rack == 'a'",
            "after 12 bytes, only `&&` or `)` can be translated",
        ),
        (
            "!all()",
            "after 1 bytes, only `has(…)` with `!` can be translated",
        ),
        (
            "rack == a",
            "after 8 bytes, only a quoted value can be translated",
        ),
        (
            "rack == 'a",
            "after 9 bytes, only a value with a closing quote can be translated",
        ),
        (
            "rack in {'a' 'b'}",
            "after 13 bytes, only `,` or `}` can be translated",
        ),
        (
            "global()",
            "after 6 bytes, only `==`, `!=`, `in` and `not in` can be translated",
        ),
        ("rack in {}", "the requirement on `rack` has no values"),
        (
            "rack == 'not a value'",
            "`not a value` is not a label value: expected at most 63 letters, digits, `-`, `_`, `.`",
        ),
    ] {
        assert_eq!(
            translated(text).unwrap_err().to_string(),
            expected,
            "{text}"
        );
    }
    assert!(translated("has(-bad)").is_err());
}

#[test]
fn nesting_and_length_cost_no_stack_and_little_time() {
    let deep = format!("{}has(a){}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(translated(&deep).unwrap().to_string(), "a");
    assert!(translated(&"(".repeat(10_000)).is_err());
    let labels: Vec<String> = (0..4000).map(|n| format!("a{n}=='x'")).collect();
    assert_eq!(translated(&labels.join("&&")).unwrap().specificity(), 4000);
}
