//! Patterns of `matches`: RE2's syntax, in which `\d`, `\w` and `\s` mean ASCII.

use regex::bytes::{Regex, RegexBuilder};

/// Sizes of compiled patterns in bytes, smallest first, and the units for each byte of a text. A
/// text that visits every state of a pattern costs that much; `ci/fuzz/checks/tests/rule_time.rs`
/// measures it. A pattern that exceeds the last size is refused.
const SIZES: [(usize, u64); 3] = [(4 << 10, 8), (16 << 10, 24), (LARGEST, 64)];

const LARGEST: usize = 64 << 10;

/// Longest pattern in bytes: the time of a compilation grows with it.
const LONGEST: usize = 1_000;

/// Deepest nesting of a pattern.
const NESTING: u32 = 32;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Units for each byte of a text.
    for_each_byte: u64,
}

impl Pattern {
    /// Patterns of one evaluation that are kept.
    pub(super) const KEPT: usize = 32;

    /// Units of a compilation.
    pub(super) fn compiling(pattern: &str) -> u64 {
        6_000 + 16 * pattern.len().min(LONGEST) as u64
    }

    pub(super) fn compile(pattern: &str) -> Result<Pattern, String> {
        if pattern.len() > LONGEST {
            return Err(format!("the pattern has more than {LONGEST} bytes"));
        }
        let mut last = String::new();
        for (size, for_each_byte) in SIZES {
            let built = RegexBuilder::new(pattern)
                .unicode(false)
                .size_limit(size)
                .dfa_size_limit(LARGEST)
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
