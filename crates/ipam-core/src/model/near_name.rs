//! Finds the known name that a misspelt name probably means.

use std::cell::Cell;

/// Most known names that a name is compared with.
const MOST_NAMES: usize = 10_000;

/// Most unknown names that are searched for. More of them are not typing errors.
const MOST_SEARCHES: u32 = 1_000;

/// Known names, of which one may be meant by a name that differs by a typing error. The numbers of
/// known names and of searches are limited, so that suggestions never dominate a plan.
pub struct NearNames<'k> {
    known: Vec<&'k str>,
    searches: Cell<u32>,
}

impl<'k> NearNames<'k> {
    pub fn new(known: impl IntoIterator<Item = &'k str>) -> NearNames<'k> {
        NearNames {
            known: known.into_iter().take(MOST_NAMES).collect(),
            searches: Cell::new(0),
        }
    }

    /// The first known name from which `given` differs by case, or by one letter that is missing,
    /// added, changed or swapped with its neighbour.
    ///
    /// A different number or single letter does not count: `worker-8` is a valid name beside
    /// `worker-7`, and `rack-b` beside `rack-a`.
    pub fn of(&self, given: &str) -> Option<&'k str> {
        if self.searches.get() == MOST_SEARCHES {
            return None;
        }
        self.searches.set(self.searches.get() + 1);
        let mut known = self.known.iter().copied();
        known.find(|known| is_slip(given.as_bytes(), known.as_bytes()))
    }
}

fn is_slip(given: &[u8], known: &[u8]) -> bool {
    if given == known || given.len().abs_diff(known.len()) > 1 {
        return false;
    }
    if given.eq_ignore_ascii_case(known) {
        return true;
    }
    let before = given.iter().zip(known).take_while(|(a, b)| a == b).count();
    let edge = before.checked_sub(1).map(|at| given[at]);
    let (given, known) = (&given[before..], &known[before..]);
    let behind = given
        .iter()
        .rev()
        .zip(known.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let next = given.get(given.len() - behind).copied();
    let (given, known) = (
        &given[..given.len() - behind],
        &known[..known.len() - behind],
    );
    // One edit changes at most two letters. Longer differences need no distance.
    given.len().max(known.len()) <= 2
        && strsim::generic_damerau_levenshtein(given, known) == 1
        && !is_numbering(given, known, [edge, next])
}

/// Whether only digits differ, or one letter between separators.
fn is_numbering(given: &[u8], known: &[u8], neighbours: [Option<u8>; 2]) -> bool {
    let mut changed = given.iter().chain(known);
    let is_alone = neighbours
        .iter()
        .flatten()
        .all(|next| !next.is_ascii_alphabetic());
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
            assert_eq!(
                NearNames::new(["other", known]).of(given),
                Some(known),
                "{given}"
            );
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
            assert_eq!(NearNames::new([known]).of(given), None, "{given} {known}");
            assert_eq!(NearNames::new([given]).of(known), None, "{known} {given}");
        }
    }

    #[test]
    fn one_edit_is_that_of_strsim() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut name = || {
            (0..random.usize(0..7))
                .filter_map(|_| random.choice(*b"abAB+-").map(char::from))
                .collect::<String>()
        };
        for (given, known) in (0..20_000).map(|_| (name(), name())) {
            let is_found = NearNames::new([known.as_str()]).of(&given).is_some();
            let is_other_case = given != known && given.eq_ignore_ascii_case(&known);
            let is_one_edit = strsim::osa_distance(&given, &known) == 1;
            assert!(!is_found || is_one_edit || is_other_case, "{given} {known}");
            // Between separators, another letter is another name.
            let has_letters = [&given, &known]
                .iter()
                .any(|name| name.contains(char::is_alphabetic));
            let is_found_if = is_other_case || is_one_edit && !has_letters;
            assert!(is_found || !is_found_if, "{given} {known}");
        }
    }

    /// A comparison of each with each takes a minute here.
    #[test]
    fn tens_of_thousands_of_names_are_no_matter() {
        let names = |prefix: &str| {
            (0..50_000)
                .map(|number| format!("{prefix}-{number}.example"))
                .collect::<Vec<_>>()
        };
        let (given, known) = (names("wrkr"), names("worker"));
        let index = NearNames::new(known.iter().map(String::as_str));
        assert_eq!(index.of("wroker-9999.example"), Some("worker-9999.example"));
        assert_eq!(given.iter().filter_map(|given| index.of(given)).count(), 0);
        assert_eq!(index.of("wroker-9999.example"), None);
    }
}
