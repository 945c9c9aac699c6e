//! A `metav1.LabelSelector` as an object spells it, and its meaning.
//!
//! Knows nothing of the kinds that have selectors.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::manifest::nullable;
use ipam_core::model::{Labels, Operator, Requirement, RequirementError, Selector};

/// A `metav1.LabelSelector`. All of its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenSelector {
    /// Required value of each label.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: Labels,
    /// Further requirements.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<WrittenRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRequirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub values: BTreeSet<String>,
}

impl WrittenSelector {
    /// The parsed selector.
    ///
    /// # Errors
    /// Fails if Kubernetes rejects a requirement.
    pub fn selector(&self) -> Result<Selector, String> {
        let text = |error: RequirementError| error.to_string();
        let mut requirements = Vec::new();
        for (key, value) in &self.match_labels {
            requirements
                .push(Requirement::new(key, Operator::In([value.clone()].into())).map_err(text)?);
        }
        for WrittenRequirement {
            key,
            operator,
            values,
        } in &self.match_expressions
        {
            let operator = match operator.as_str() {
                "In" => Operator::In(values.clone()),
                "NotIn" => Operator::NotIn(values.clone()),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("unknown operator `{}`", other.escape_debug())),
            };
            requirements.push(Requirement::new(key, operator).map_err(text)?);
        }
        Ok(Selector::all_of(requirements))
    }
}

impl From<&Selector> for WrittenSelector {
    fn from(selector: &Selector) -> WrittenSelector {
        let written = |requirement: &Requirement| {
            let (operator, values) = match requirement.operator() {
                Operator::In(values) => ("In", values.clone()),
                Operator::NotIn(values) => ("NotIn", values.clone()),
                Operator::Exists => ("Exists", BTreeSet::new()),
                Operator::DoesNotExist => ("DoesNotExist", BTreeSet::new()),
            };
            WrittenRequirement {
                key: requirement.key().to_owned(),
                operator: operator.to_owned(),
                values,
            }
        };
        WrittenSelector {
            match_labels: Labels::new(),
            match_expressions: selector.requirements().map(written).collect(),
        }
    }
}
