//! Label selectors as `kubectl -l` takes them (`k8s.io/apimachinery/pkg/labels/selector.go`).

use std::collections::BTreeSet;
use std::str::FromStr;

use super::selector::{Operator, Requirement, RequirementError, Selector};

/// Why a text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorTextError {
    /// Without any requirement.
    #[error("the selector is empty; write it as `KEY=VALUE`, `KEY!=VALUE`, `KEY` or `!KEY`")]
    Empty,
    /// Parentheses without a match, or values outside of them.
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

/// The requirements, cut at the commas outside of parentheses.
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
