//! The LabelSelector that means the same as a list of alternatives, where one exists.

use std::collections::BTreeSet;

use super::listed;
use ipam_core::model::{Operator, Requirement, Selector};

/// Different selectors that are alternatives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has alternatives that differ in more than the values of one label: {0}")]
pub(super) struct Alternatives(String);

/// The LabelSelector that selects what any of these selects; `None` if they select nothing. Only
/// values of one label are joined.
///
/// # Errors
/// Fails if the selectors differ in anything else.
pub(super) fn any_of(
    selectors: impl IntoIterator<Item = Selector>,
) -> Result<Option<Selector>, Alternatives> {
    let different: BTreeSet<Selector> = selectors
        .into_iter()
        .filter(|selector| selector.contradiction().is_none())
        .collect();
    if different.len() < 2 {
        return Ok(different.into_iter().next());
    }
    match values_of_one_label(&different) {
        Some(joined) => Ok(Some(joined)),
        None => Err(Alternatives(listed(different))),
    }
}

/// One `In` with the values of all selectors, if each is one `In` of the same label.
fn values_of_one_label(selectors: &BTreeSet<Selector>) -> Option<Selector> {
    let label = selectors.first()?.keys().next()?;
    let mut all = BTreeSet::new();
    for selector in selectors {
        let mut requirements = selector.requirements();
        let (Some(only), None) = (requirements.next(), requirements.next()) else {
            return None;
        };
        match only.operator() {
            Operator::In(values) if only.key() == label => all.extend(values.iter().cloned()),
            _ => return None,
        }
    }
    let joined = Requirement::new(label, Operator::In(all)).ok()?;
    Some(Selector::all_of([joined]))
}
