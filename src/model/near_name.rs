//! Names that differ by a slip of the keyboard.

/// The first of `known` from which `given` differs by case or by one letter that is missing, added, changed or swapped with its neighbour.
/// Differences in numbering do not count: `worker-8` may well be meant beside `worker-7`, and `rack-b` beside `rack-a`.
pub fn near_name<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known.into_iter().find(|known| is_slip(given.as_bytes(), known.as_bytes()))
}

fn is_slip(given: &[u8], known: &[u8]) -> bool {
    if given == known || given.len().abs_diff(known.len()) > 1 {
        return false;
    }
    if given.eq_ignore_ascii_case(known) {
        return true;
    }
    let before = given.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (given, known, edge) = (&given[before..], &known[before..], before.checked_sub(1).map(|at| given[at]));
    let behind = given.iter().rev().zip(known.iter().rev()).take_while(|(a, b)| a == b).count();
    let next = given.get(given.len() - behind).copied();
    let (given, known) = (&given[..given.len() - behind], &known[..known.len() - behind]);
    let is_one_edit = match (given, known) {
        ([_], []) | ([], [_]) | ([_], [_]) => true,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    };
    is_one_edit && !is_numbering(given, known, [edge, next])
}

/// Whether only digits differ, or a letter that stands alone between its neighbours.
fn is_numbering(given: &[u8], known: &[u8], neighbours: [Option<u8>; 2]) -> bool {
    let mut changed = given.iter().chain(known);
    let is_alone = neighbours.iter().flatten().all(|next| !next.is_ascii_alphabetic());
    let is_letter = changed.clone().all(u8::is_ascii_alphabetic);
    changed.all(u8::is_ascii_digit) || given.len().max(known.len()) == 1 && is_letter && is_alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips() {
        for (given, known) in [
            ("wrker-7", "worker-7"),
            ("workker-7", "worker-7"),
            ("wroker-7", "worker-7"),
            ("worker7", "worker-7"),
            ("worker-7.", "worker-7"),
            ("worker_7", "worker-7"),
            ("Worker-7", "worker-7"),
            ("cp1", "cp-1"),
            ("n0de", "node"),
            ("shop/webb", "shop/web"),
        ] {
            assert_eq!(near_name(given, ["other", known]), Some(known), "{given}");
        }
    }

    #[test]
    fn other_names() {
        for (given, known) in [
            ("worker-7", "worker-7"),
            ("worker-8", "worker-7"),
            ("worker-1", "worker-12"),
            ("worker-12", "worker-21"),
            ("rack-b", "rack-a"),
            ("worker-b1", "worker-a1"),
            ("us-east-1", "us-east-1a"),
            ("wrkr-7", "worker-7"),
            ("wokrer-8", "worker-7"),
            ("", "worker"),
        ] {
            assert_eq!(near_name(given, [known]), None, "{given} {known}");
            assert_eq!(near_name(known, [given]), None, "{known} {given}");
        }
    }
}
