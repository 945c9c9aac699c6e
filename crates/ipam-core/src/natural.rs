//! The order in which people read names: `rack-2` before `rack-10`. For tables and lists; JSON is
//! in plain order.

use std::cmp::Ordering;

/// Compares texts part by part; numbers by their value.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while !left.is_empty() && !right.is_empty() {
        let (one, other) = (part(left), part(right));
        let order = match is_number(one) && is_number(other) {
            true => by_value(one, other),
            false => one.cmp(other),
        };
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (&left[one.len()..], &right[other.len()..]);
    }
    // `a01` and `a1` are equal by value.
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The items in the natural order of their names. Items with equal names keep their order.
pub fn by_name<'i, T>(
    items: impl IntoIterator<Item = &'i T>,
    name: impl Fn(&T) -> &str,
) -> Vec<&'i T> {
    let mut items: Vec<&T> = items.into_iter().collect();
    items.sort_by(|a, b| natural_order(name(a), name(b)));
    items
}

/// The digits, or the text without digits, at the start.
fn part(text: &str) -> &str {
    let digits = is_number(text);
    let end = text.find(|c: char| c.is_ascii_digit() != digits);
    &text[..end.unwrap_or(text.len())]
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Compares numbers of any length.
fn by_value(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let sorted = [
            "",
            "2",
            "10",
            "a",
            "a01",
            "a1",
            "a1b",
            "a2",
            "a10",
            "rack-2",
            "rack-2-b1",
            "rack-10",
            "rack-10-b1",
            "rack-a",
            "ä1",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, sorted);
        let huge = format!("n{}", "9".repeat(60));
        assert_eq!(natural_order("n1", &huge), Ordering::Less);
        assert_eq!(natural_order(&huge, &huge), Ordering::Equal);
    }
}
