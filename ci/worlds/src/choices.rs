//! Decisions of a generator, taken from bytes: those of a fuzzer, of proptest, or of a seed. When the
//! bytes have run out, every choice is the first one, which is the simplest. It knows no worlds.

/// The bytes that are left.
#[derive(Debug)]
pub struct Choices<'b>(&'b [u8]);

impl<'b> Choices<'b> {
    /// Choices of these bytes.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Choices<'b> {
        Choices(bytes)
    }

    /// A number below `sides`, which must not be 0.
    pub fn roll(&mut self, sides: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first % sides
    }

    /// Yes or no.
    pub fn flip(&mut self) -> bool {
        self.roll(2) == 1
    }

    /// One of these values, of which there must be one.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let count = u8::try_from(values.len()).unwrap_or(u8::MAX);
        values[usize::from(self.roll(count))]
    }

    /// Takes one of these values out.
    pub fn take<T>(&mut self, values: &mut Vec<T>) -> Option<T> {
        let count = u8::try_from(values.len()).unwrap_or(u8::MAX);
        (count > 0).then(|| values.remove(usize::from(self.roll(count))))
    }
}

/// As many bytes as a world needs, always the same for the same seed (SplitMix64).
pub(crate) fn bytes_of(seed: u64) -> Vec<u8> {
    const WORDS: u64 = 64;
    let word = |index: u64| {
        let mut mixed = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..WORDS)
        .flat_map(|index| word(index).to_le_bytes())
        .collect()
}
