//! Choices of the generator, read from the bytes of a fuzzer or of proptest. When the bytes have
//! run out, every choice is its first option, which is the simplest. It knows no worlds.

/// The bytes that are left.
#[derive(Debug)]
pub(crate) struct Choices<'b>(&'b [u8]);

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
