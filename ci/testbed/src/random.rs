//! Choices that a seed repeats. Good enough to spread things; nothing here is secret.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A generator of choices (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The same seed gives the same choices.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the first `count` numbers; 0 if there are none.
    pub fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number() % count).unwrap_or_default()
    }

    /// Up to `count` of the items, in random order.
    pub fn some_of<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut items = items.to_vec();
        let count = count.min(items.len());
        for place in 0..count {
            let other = place + self.below(items.len() - place);
            items.swap(place, other);
        }
        items.truncate(count);
        items
    }

    /// Another generator, for another thread.
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }
}

/// A seed that no earlier run had: the system's randomness seeds every hasher.
pub fn fresh_seed() -> u64 {
    // Short enough to be typed again.
    RandomState::new().build_hasher().finish() % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_the_choices_and_none_comes_twice() {
        let items: Vec<usize> = (0..100).collect();
        let chosen = |seed| Random::new(seed).some_of(&items, 30);
        assert_eq!(chosen(7), chosen(7));
        assert_ne!(chosen(7), chosen(8));
        let mut sorted = chosen(7);
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 30);
        assert_eq!(Random::new(1).some_of(&[1, 2], 5).len(), 2);
        assert_eq!(Random::new(1).below(0), 0);
    }
}
