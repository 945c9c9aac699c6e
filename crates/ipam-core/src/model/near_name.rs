//! Finds the known name that a misspelt name probably means.

use std::collections::BTreeSet;

/// Known names, searchable for one that differs by a typing error. The cost of a search depends on
/// the length of the name, not on the number of known names.
pub struct NearNames<'k> {
    known: Vec<&'k str>,
    /// Hash of each variant with the index of its name, sorted. Two names that differ by one edit
    /// share a variant. Names with equal hashes are compared in full.
    by_variant: Vec<(u64, usize)>,
}

impl<'k> NearNames<'k> {
    pub fn new(known: impl IntoIterator<Item = &'k str>) -> NearNames<'k> {
        let known: Vec<&str> = known.into_iter().collect();
        let places = known.iter().enumerate();
        let mut by_variant: Vec<(u64, usize)> = places
            .flat_map(|(place, name)| {
                variants(name)
                    .into_iter()
                    .map(move |variant| (variant, place))
            })
            .collect();
        by_variant.sort_unstable();
        NearNames { known, by_variant }
    }

    /// The first known name from which `given` differs by case, or by one letter that is missing,
    /// added, changed or swapped with its neighbour.
    ///
    /// A different number or single letter does not count: `worker-8` is a valid name beside
    /// `worker-7`, and `rack-b` beside `rack-a`.
    pub fn of(&self, given: &str) -> Option<&'k str> {
        let places: BTreeSet<usize> = variants(given)
            .into_iter()
            .flat_map(|variant| self.places(variant))
            .collect();
        let mut candidates = places
            .into_iter()
            .filter_map(|place| self.known.get(place).copied());
        candidates.find(|known| is_slip(given.as_bytes(), known.as_bytes()))
    }

    fn places(&self, variant: u64) -> impl Iterator<Item = usize> {
        let start = self
            .by_variant
            .partition_point(|(other, _)| *other < variant);
        self.by_variant[start..]
            .iter()
            .take_while(move |(other, _)| *other == variant)
            .map(|(_, place)| *place)
    }
}

/// Hashes of the name and of the name without each of its letters, ignoring case.
fn variants(name: &str) -> BTreeSet<u64> {
    const BASE: u64 = 0x0000_0100_0000_01b3;
    let letters: Vec<u64> = name
        .bytes()
        .map(|byte| u64::from(byte.to_ascii_lowercase()) + 1)
        .collect();
    let add = |hash: u64, letter: &u64| hash.wrapping_mul(BASE).wrapping_add(*letter);
    let whole = letters.iter().fold(0, add);
    let mut variants = BTreeSet::from([whole]);
    // From the end: the hash of the text after a letter, and the weight of the text before it.
    let (mut behind, mut weight, mut before) = (0u64, 1u64, whole);
    let inverse = inverse_of(BASE);
    for letter in letters.iter().rev() {
        before = before.wrapping_sub(*letter).wrapping_mul(inverse);
        variants.insert(before.wrapping_mul(weight).wrapping_add(behind));
        behind = letter.wrapping_mul(weight).wrapping_add(behind);
        weight = weight.wrapping_mul(BASE);
    }
    variants
}

/// Inverse of an odd number modulo 2⁶⁴. Each step of Newton's method doubles the correct bits.
fn inverse_of(odd: u64) -> u64 {
    (0..6).fold(odd, |inverse, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)))
    })
}

fn is_slip(given: &[u8], known: &[u8]) -> bool {
    if given == known || given.len().abs_diff(known.len()) > 1 {
        return false;
    }
    if given.eq_ignore_ascii_case(known) {
        return true;
    }
    let before = given.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (given, known, edge) = (
        &given[before..],
        &known[before..],
        before.checked_sub(1).map(|at| given[at]),
    );
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
    let is_one_edit = match (given, known) {
        ([_], []) | ([], [_]) | ([_], [_]) => true,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    };
    is_one_edit && !is_numbering(given, known, [edge, next])
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

    /// With many names and short letters, so that hashes meet: the same as comparing with each of
    /// them.
    #[test]
    fn the_index_finds_what_comparing_with_all_finds() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut name = || {
            (0..random.usize(0..7))
                .filter_map(|_| random.choice(*b"abAB-1").map(char::from))
                .collect::<String>()
        };
        let known: Vec<String> = (0..400).map(|_| name()).collect();
        let index = NearNames::new(known.iter().map(String::as_str));
        for given in (0..2_000).map(|_| name()) {
            let first = known
                .iter()
                .find(|known| is_slip(given.as_bytes(), known.as_bytes()));
            assert_eq!(index.of(&given), first.map(String::as_str), "{given}");
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
        assert_eq!(given.iter().filter_map(|given| index.of(given)).count(), 0);
        assert_eq!(
            index.of("wroker-49999.example"),
            Some("worker-49999.example")
        );
    }
}
