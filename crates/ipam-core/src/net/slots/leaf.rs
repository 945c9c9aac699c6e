//! A bitmap of 4,096 slots. Must never know where they lie.

const WORDS: usize = 64;
/// Number of slots of a leaf, one bit each.
pub(super) const LEAF_SLOTS: u128 = (WORDS * 64) as u128;

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    words: [u64; WORDS],
    /// A set bit marks a full word.
    full_words: u64,
}

/// The slots `first..=last` of a leaf in one of its words.
fn mask_of(word: usize, first: usize, last: usize) -> u64 {
    let low = if word == first / 64 { first % 64 } else { 0 };
    let high = if word == last / 64 { last % 64 } else { 63 };
    (u64::MAX >> (63 - high)) & (u64::MAX << low)
}

impl Leaf {
    pub(super) const EMPTY: Leaf = Leaf {
        words: [0; WORDS],
        full_words: 0,
    };

    pub(super) fn is_full(&self) -> bool {
        self.full_words == u64::MAX
    }

    pub(super) fn lowest_free(&self) -> Option<usize> {
        let word = self.full_words.trailing_ones() as usize;
        (word < WORDS).then(|| word * 64 + self.words[word].trailing_ones() as usize)
    }

    /// Takes the slots `first..=last` of this leaf, and returns how many of them were free.
    pub(super) fn take(&mut self, first: usize, last: usize) -> u32 {
        let mut newly = 0;
        for word in first / 64..=last / 64 {
            let mask = mask_of(word, first, last);
            newly += (mask & !self.words[word]).count_ones();
            self.words[word] |= mask;
            if self.words[word] == u64::MAX {
                self.full_words |= 1 << word;
            }
        }
        newly
    }

    /// Takes one slot, which must be free.
    pub(super) fn take_free(&mut self, slot: usize) {
        let word = &mut self.words[slot / 64];
        *word |= 1 << (slot % 64);
        if *word == u64::MAX {
            self.full_words |= 1 << (slot / 64);
        }
    }

    /// Number of taken slots.
    pub(super) fn count_taken(&self) -> u128 {
        self.words
            .iter()
            .map(|word| u128::from(word.count_ones()))
            .sum()
    }
}
