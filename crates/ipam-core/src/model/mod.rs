//! The validated nouns that every crate shares, and numbers as people read them.
//!
//! A value of these types is always valid. Must never know Kubernetes' wire formats.

mod finding;
mod ipam;
mod limit;
mod name;
mod selector;
mod selector_index;

pub use finding::{Finding, FindingGroup, Label, Origin, Rule, Severity, grouped};
pub use ipam::{
    CiliumVersion, Hazard, IpamMode, ObjectVersion, PerFamily, Stage, WritePath, WritePathChoice,
};
pub use limit::{LimitName, LimitNameError, Limited, Measure, Waiver, WaiverError};
pub use name::{
    AddressPoolName, NameError, NearNames, NodeName, OWNER_LABEL, ObjectRef, PoolName, ServiceName,
    is_ours,
};
pub use selector::{Labels, Operator, Requirement, RequirementError, Selector, SelectorTextError};
pub use selector_index::SelectorIndex;

use crate::text::joined;

/// `1,234`, for a whole number of any type.
pub fn grouped_digits(number: impl std::fmt::Display) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 node`, `2 nodes`.
pub fn count(number: usize, one: &str) -> String {
    let grouped = grouped_digits(number);
    if number == 1 {
        format!("{grouped} {one}")
    } else {
        format!("{grouped} {one}s")
    }
}

/// `a, b and 3 more`: the first items, and the number of the others.
pub fn first_of<T: std::fmt::Display>(most: usize, items: impl IntoIterator<Item = T>) -> String {
    let mut items = items.into_iter();
    let shown = joined(items.by_ref().take(most), ", ");
    match items.count() {
        0 => shown,
        more => format!("{shown} and {} more", grouped_digits(more)),
    }
}

/// `node a`, or the first ten of several nodes and the number of the others.
pub fn named_nodes(names: &[&NodeName]) -> String {
    let noun = if names.len() == 1 { "node" } else { "nodes" };
    let names = names.iter().map(|name| format!("`{name}`"));
    format!("{noun} {}", first_of(10, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_items_are_counted() {
        assert_eq!(first_of(2, ["a", "b"]), "a, b");
        assert_eq!(first_of(2, 1..=2_000), "1, 2 and 1,998 more");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped_digits(number), text);
        }
        assert_eq!(
            (count(1, "node"), count(1_500, "node")),
            ("1 node".to_owned(), "1,500 nodes".to_owned())
        );
    }
}
