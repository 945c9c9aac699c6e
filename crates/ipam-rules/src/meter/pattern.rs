//! Patterns of `matches`: RE2's syntax, in which `\d`, `\w` and `\s` mean ASCII.

use regex::bytes::{Regex, RegexBuilder};

/// Sizes of compiled patterns in bytes, smallest first. One that exceeds the last is refused.
const SIZES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// Deepest nesting of a pattern.
const NESTING: u32 = 32;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Units for each byte of a text. A larger pattern has more states.
    for_each_byte: u64,
}

impl Pattern {
    /// Units of a compilation.
    pub(super) const COMPILING: u64 = 20_000;

    /// Patterns of one evaluation that are kept.
    pub(super) const KEPT: usize = 32;

    pub(super) fn compile(pattern: &str) -> Result<Pattern, String> {
        let mut last = String::new();
        for (size, for_each_byte) in SIZES.into_iter().zip([1, 4, 16]) {
            let built = RegexBuilder::new(pattern)
                .unicode(false)
                .size_limit(size)
                .dfa_size_limit(SIZES[2])
                .nest_limit(NESTING)
                .build();
            match built {
                Ok(regex) => {
                    return Ok(Pattern {
                        regex,
                        for_each_byte,
                    });
                }
                Err(regex::Error::CompiledTooBig(_)) => {
                    last = "the pattern is too large".to_owned();
                }
                Err(_) => return Err("it is not a pattern".to_owned()),
            }
        }
        Err(last)
    }

    pub(super) fn cost(&self, text: &str) -> u64 {
        (text.len() as u64 + 8).saturating_mul(self.for_each_byte)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }
}
