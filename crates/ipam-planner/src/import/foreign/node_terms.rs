//! A `v1.NodeSelector`: its meaning as a set of labelled nodes. Terms are alternatives; the
//! requirements of a term must all hold.
//!
//! Source: `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go` of Kubernetes 1.36.

use serde_json::Value;

use super::alternatives::{Alternatives, any_of};
use super::object::texts;
use ipam_core::model::{Operator, Requirement, RequirementError, Selector};

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
    Alternatives(#[from] Alternatives),
    #[error(transparent)]
    Requirement(#[from] RequirementError),
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
    let mut alternatives = Vec::new();
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
        let of_term: Vec<Requirement> = expressions
            .iter()
            .map(requirement)
            .collect::<Result<_, TermError>>()?;
        alternatives.push(Selector::all_of(of_term));
    }
    Ok(SelectedNodes {
        selector: any_of(alternatives)?,
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

fn requirement(expression: &Value) -> Result<Requirement, TermError> {
    let key = expression["key"].as_str().ok_or(TermError::Malformed)?;
    let values = || texts(&expression["values"]).map(str::to_owned).collect();
    let operator = match expression["operator"].as_str().unwrap_or_default() {
        "In" => Operator::In(values()),
        "NotIn" => Operator::NotIn(values()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        operator @ ("Gt" | "Lt") => {
            return Err(TermError::Number {
                key: key.to_owned(),
                operator: operator.to_owned(),
            });
        }
        other => return Err(TermError::Operator(other.to_owned())),
    };
    Ok(Requirement::new(key, operator)?)
}
