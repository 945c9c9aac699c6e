//! Label selectors, with the meaning of `metav1.LabelSelector` (`k8s.io/apimachinery/pkg/labels`).
//!
//! Label selectors as `kubectl -l` takes them (`k8s.io/apimachinery/pkg/labels/selector.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::text::joined;

pub type Labels = BTreeMap<String, String>;

/// How a requirement compares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// The label is present with one of these values.
    In(BTreeSet<String>),
    /// The label is absent or has another value.
    NotIn(BTreeSet<String>),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    key: String,
    operator: Operator,
}

/// Why a requirement is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// The text is not a label key.
    #[error(
        "`{0}` is not a label key: expected an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, `_`, `.`"
    )]
    Key(String),
    /// The text is not a label value.
    #[error("`{0}` is not a label value: expected at most 63 letters, digits, `-`, `_`, `.`")]
    Value(String),
    /// `In` or `NotIn` without values.
    #[error("the requirement on `{0}` has no values")]
    NoValues(String),
}

impl Requirement {
    /// # Errors
    /// Fails if no label can have the key or a value, or if `In` or `NotIn` has no values.
    pub fn new(key: &str, operator: Operator) -> Result<Requirement, RequirementError> {
        if !is_label_key(key) {
            return Err(RequirementError::Key(key.to_owned()));
        }
        if let Operator::In(values) | Operator::NotIn(values) = &operator {
            if values.is_empty() {
                return Err(RequirementError::NoValues(key.to_owned()));
            }
            if let Some(bad) = values.iter().find(|value| !is_label_value(value)) {
                return Err(RequirementError::Value(bad.clone()));
            }
        }
        Ok(Requirement {
            key: key.to_owned(),
            operator,
        })
    }

    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    /// The requirement in the form that `kubectl -l` accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requirement { key, operator } = self;
        let listed = |values: &BTreeSet<String>| joined(values, ",");
        match operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", listed(values)),
            Operator::In(values) => write!(f, "{key} in ({})", listed(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", listed(values)),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified_part(text)
}

fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => {
            prefix.parse::<super::NodeName>().is_ok() && is_qualified_part(name)
        }
        None => is_qualified_part(text),
    }
}

fn is_qualified_part(text: &str) -> bool {
    let edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
}

/// Whether requirements on the same label contradict each other.
fn is_impossible(operators: &[&Operator]) -> bool {
    let is_absent = operators.contains(&&Operator::DoesNotExist);
    let is_there = operators
        .iter()
        .any(|operator| matches!(operator, Operator::In(_) | Operator::Exists));
    let mut allowed: Option<BTreeSet<&String>> = None;
    for operator in operators {
        if let Operator::In(values) = operator {
            match &mut allowed {
                Some(allowed) => allowed.retain(|value| values.contains(*value)),
                None => allowed = Some(values.iter().collect()),
            }
        }
    }
    let excluded = operators.iter().filter_map(|operator| match operator {
        Operator::NotIn(values) => Some(values),
        _ => None,
    });
    if let Some(allowed) = &mut allowed {
        excluded.flatten().for_each(|value| {
            allowed.remove(value);
        });
    }
    (is_absent && is_there) || allowed.is_some_and(|allowed| allowed.is_empty())
}

/// A list of requirements that must all hold. An empty one selects every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector(Vec<Requirement>);

impl Selector {
    /// A selector of all these requirements. Equal requirements count once.
    pub fn all_of(requirements: impl IntoIterator<Item = Requirement>) -> Selector {
        let distinct: BTreeSet<Requirement> = requirements.into_iter().collect();
        Selector(distinct.into_iter().collect())
    }

    /// A selector that selects nothing, in place of one that cannot be read.
    pub fn nothing() -> Selector {
        let requirement = |operator| Requirement {
            key: "none".to_owned(),
            operator,
        };
        Selector(vec![
            requirement(Operator::Exists),
            requirement(Operator::DoesNotExist),
        ])
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// A label key whose requirements contradict each other.
    pub fn contradiction(&self) -> Option<&str> {
        // Requirements are sorted by key.
        let mut keys = self.0.chunk_by(|one, next| one.key == next.key);
        let operators = |of_key: &[Requirement]| {
            is_impossible(&of_key.iter().map(|one| &one.operator).collect::<Vec<_>>())
        };
        keys.find(|of_key| operators(of_key))
            .map(|of_key| of_key[0].key.as_str())
    }

    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| requirement.key.as_str())
    }

    /// Number of distinct requirements.
    pub fn specificity(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("every node");
        }
        for (index, requirement) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// Why a text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorTextError {
    /// The text has no requirement.
    #[error("the selector is empty; write it as `KEY=VALUE`, `KEY!=VALUE`, `KEY` or `!KEY`")]
    Empty,
    /// The text has parentheses without a match, or values outside parentheses.
    #[error("`{0}` is not a requirement; write it as `KEY in (A,B)` or `KEY notin (A,B)`")]
    Values(String),
    /// No label can have this key or value.
    #[error(transparent)]
    Requirement(#[from] RequirementError),
}

impl FromStr for Selector {
    type Err = SelectorTextError;

    fn from_str(text: &str) -> Result<Selector, SelectorTextError> {
        if text.trim().is_empty() {
            return Err(SelectorTextError::Empty);
        }
        let requirements: Result<Vec<Requirement>, SelectorTextError> =
            parts(text).into_iter().map(requirement).collect();
        Ok(Selector::all_of(requirements?))
    }
}

/// The requirements, cut at the commas outside parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn requirement(text: &str) -> Result<Requirement, SelectorTextError> {
    if text.is_empty() {
        return Err(SelectorTextError::Empty);
    }
    let (key, operator) = match comparison(text) {
        Some(found) => found,
        None => set(text)?,
    };
    Ok(Requirement::new(key, operator)?)
}

/// `KEY=VALUE`, `KEY==VALUE` or `KEY!=VALUE`.
fn comparison(text: &str) -> Option<(&str, Operator)> {
    let one = |value: &str| BTreeSet::from([value.trim().to_owned()]);
    if let Some((key, value)) = text.split_once("!=") {
        return Some((key.trim(), Operator::NotIn(one(value))));
    }
    let (key, value) = text.split_once("==").or_else(|| text.split_once('='))?;
    Some((key.trim(), Operator::In(one(value))))
}

/// `KEY in (…)`, `KEY notin (…)`, `KEY` or `!KEY`.
fn set(text: &str) -> Result<(&str, Operator), SelectorTextError> {
    if let Some(key) = text.strip_prefix('!') {
        return Ok((key.trim(), Operator::DoesNotExist));
    }
    let mut words = text.splitn(3, char::is_whitespace);
    let (key, operator, values) = (words.next(), words.next(), words.next());
    match (key, operator, values) {
        (Some(key), None, None) => Ok((key, Operator::Exists)),
        (Some(key), Some("in"), Some(values)) => Ok((key, Operator::In(listed(text, values)?))),
        (Some(key), Some("notin"), Some(values)) => {
            Ok((key, Operator::NotIn(listed(text, values)?)))
        }
        _ => Err(SelectorTextError::Values(text.to_owned())),
    }
}

fn listed(text: &str, values: &str) -> Result<BTreeSet<String>, SelectorTextError> {
    let inner = values
        .trim()
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or_else(|| SelectorTextError::Values(text.to_owned()))?;
    Ok(inner
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect()
    }

    fn values(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_missing_label_satisfies_not_in_as_in_kubernetes() {
        let cases = [
            (Operator::In(values(&["a", "b"])), [true, false, false]),
            (Operator::NotIn(values(&["a"])), [false, true, true]),
            (Operator::Exists, [true, true, false]),
            (Operator::DoesNotExist, [false, false, true]),
        ];
        for (operator, expected) in cases {
            let selector = Selector::all_of([Requirement::new("rack", operator.clone()).unwrap()]);
            let seen = [
                labels(&[("rack", "a")]),
                labels(&[("rack", "c")]),
                labels(&[]),
            ]
            .map(|l| selector.matches(&l));
            assert_eq!(seen, expected, "{operator:?}");
        }
    }

    #[test]
    fn contradictions() {
        let of = |operators: &[Operator]| {
            let requirement =
                |operator: &Operator| Requirement::new("a", operator.clone()).unwrap();
            Selector::all_of(operators.iter().map(requirement))
                .contradiction()
                .map(str::to_owned)
        };
        let (one, two) = (
            Operator::In(values(&["x"])),
            Operator::In(values(&["y", "z"])),
        );
        let impossible = Some("a".to_owned());
        assert_eq!(of(&[one.clone(), two.clone()]), impossible);
        assert_eq!(
            of(&[one.clone(), Operator::NotIn(values(&["x", "q"]))]),
            impossible
        );
        assert_eq!(of(&[Operator::Exists, Operator::DoesNotExist]), impossible);
        assert_eq!(
            of(&[
                two.clone(),
                Operator::NotIn(values(&["y"])),
                Operator::Exists
            ]),
            None
        );
        assert_eq!(
            of(&[Operator::DoesNotExist, Operator::NotIn(values(&["y"]))]),
            None
        );
        assert_eq!(Selector::nothing().contradiction(), Some("none"));
    }

    #[test]
    fn faulty_requirements() {
        assert!(Requirement::new("topology.kubernetes.io/zone", Operator::Exists).is_ok());
        assert!(matches!(
            Requirement::new("a/b/c", Operator::Exists),
            Err(RequirementError::Key(_))
        ));
        assert!(matches!(
            Requirement::new("a", Operator::In(values(&[]))),
            Err(RequirementError::NoValues(_))
        ));
        assert!(matches!(
            Requirement::new("a", Operator::In(values(&["-"]))),
            Err(RequirementError::Value(_))
        ));
    }
}

#[cfg(test)]
mod selector_text_tests {
    use super::*;

    #[test]
    fn selectors_of_kubectl() {
        for (text, read) in [
            ("rack=a", "rack=a"),
            ("rack == a", "rack=a"),
            ("rack!=a", "rack notin (a)"),
            ("rack", "rack"),
            ("!rack", "!rack"),
            ("rack in (b, a),zone", "rack in (a,b),zone"),
            ("rack notin (a,b)", "rack notin (a,b)"),
            ("a=1,b=2, c", "a=1,b=2,c"),
            (
                "topology.kubernetes.io/zone=x",
                "topology.kubernetes.io/zone=x",
            ),
            ("rack=", "rack="),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), read, "{text}");
            assert_eq!(selector.to_string().parse(), Ok(selector), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_selectors() {
        for text in [
            "",
            " ",
            "a,,b",
            "a in b",
            "a within (b)",
            "a in (b",
            "-=x",
            "a b",
        ] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
