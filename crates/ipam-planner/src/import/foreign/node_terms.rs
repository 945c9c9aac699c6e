//! A `v1.NodeSelector`: its meaning as a set of labelled nodes. Terms are alternatives; the
//! requirements of a term must all hold.
//!
//! Source: `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go` of Kubernetes 1.36.

use serde_json::Value;

use super::label_set::{Inexpressible, LabelSet};
use super::object::texts;
use ipam_core::model::Selector;

/// Why a NodeSelector has no LabelSelector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TermError {
    #[error("`matchFields` selects nodes by name, not by label")]
    Fields,
    #[error("`{key}` is compared with a number (`{operator}`)")]
    Number { key: String, operator: String },
    #[error("`{0}` is not an operator of Kubernetes")]
    Operator(String),
    #[error("it is not a NodeSelector")]
    Malformed,
    #[error(transparent)]
    Inexpressible(#[from] Inexpressible),
}

/// Nodes of a NodeSelector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SelectedNodes {
    /// The LabelSelector that selects exactly these; `None` if there are none.
    pub(super) selector: Option<Selector>,
    /// Requirements of the longest term.
    pub(super) requirements: usize,
}

/// # Errors
/// Fails if no LabelSelector selects exactly these nodes.
pub(super) fn selected(selector: &Value) -> Result<SelectedNodes, TermError> {
    let terms = match (selector.is_null(), selector["nodeSelectorTerms"].as_array()) {
        (true, _) => {
            return Ok(SelectedNodes {
                selector: Some(Selector::default()),
                requirements: 0,
            });
        }
        (false, Some(terms)) => terms,
        (false, None) => return Err(TermError::Malformed),
    };
    let mut nodes = LabelSet::nothing();
    let mut requirements = 0;
    for term in terms {
        let fields = list(&term["matchFields"])?;
        let expressions = list(&term["matchExpressions"])?;
        if !fields.is_empty() {
            return Err(TermError::Fields);
        }
        // An empty term selects nothing.
        if expressions.is_empty() {
            continue;
        }
        requirements = requirements.max(expressions.len());
        let mut of_term = LabelSet::everything();
        for expression in expressions {
            of_term = of_term.and(of_expression(expression)?)?;
        }
        nodes = nodes.or(of_term)?;
    }
    Ok(SelectedNodes {
        selector: nodes.selector()?,
        requirements,
    })
}

fn list(value: &Value) -> Result<&[Value], TermError> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(TermError::Malformed),
    }
}

fn of_expression(expression: &Value) -> Result<LabelSet, TermError> {
    let key = expression["key"].as_str().ok_or(TermError::Malformed)?;
    let values = || texts(&expression["values"]).map(str::to_owned);
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => Ok(LabelSet::with_value(key, values())),
        "NotIn" => Ok(LabelSet::with_value(key, values()).complement_of_one(key)),
        "Exists" => Ok(LabelSet::with_label(key)),
        "DoesNotExist" => Ok(LabelSet::with_label(key).complement_of_one(key)),
        operator @ ("Gt" | "Lt") => Err(TermError::Number {
            key: key.to_owned(),
            operator: operator.to_owned(),
        }),
        other => Err(TermError::Operator(other.to_owned())),
    }
}
