//! Two measurements that take turns, so that a disturbance meets both. It must never know what is
//! measured.

use anyhow::Result;
use xtask::line::{Limit, Line};

use crate::samples::Samples;

/// Pairs of a comparison. With fewer, one disturbed pair decides the spread.
pub const PAIRS: usize = 7;

/// Measurements of ours and of what it is compared with.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Ours.
    pub ours: Samples,
    /// The peer, or the raw requests.
    pub theirs: Samples,
    ratios: Samples,
}

impl Pairs {
    /// Measures [`PAIRS`] pairs; each side goes first in every other one.
    ///
    /// # Errors
    /// The first failure.
    pub fn measure(
        mut ours: impl FnMut() -> Result<f64>,
        mut theirs: impl FnMut() -> Result<f64>,
    ) -> Result<Pairs> {
        let mut pairs = Pairs::default();
        for round in 0..PAIRS {
            let (of_us, of_them) = if round % 2 == 0 {
                let of_them = theirs()?;
                (ours()?, of_them)
            } else {
                (ours()?, theirs()?)
            };
            pairs.add(of_us, of_them);
        }
        Ok(pairs)
    }

    /// Adds a pair.
    pub fn add(&mut self, ours: f64, theirs: f64) {
        self.ours.add(ours);
        self.theirs.add(theirs);
        self.ratios.add(ours / theirs);
    }

    /// The median of the pairs' ratios.
    pub fn ratio(&self) -> f64 {
        self.ratios.median()
    }

    /// The same with its spread, for text.
    pub fn spread(&self) -> String {
        let (low, high) = self.ratios.middle();
        format!("{low:.2} … {:.2} … {high:.2}", self.ratios.median())
    }

    /// Adds the ratio to a line: its median, its spread without the lowest and the highest pair,
    /// and the limit. A limit within the spread is neither kept nor missed.
    pub fn at_most(&self, line: Line, key: &'static str, limit: f64) -> Line {
        self.judged(line, key, Limit::AtMost(limit))
    }

    /// The same with a lower limit.
    pub fn at_least(&self, line: Line, key: &'static str, limit: f64) -> Line {
        self.judged(line, key, Limit::AtLeast(limit))
    }

    fn judged(&self, line: Line, key: &'static str, limit: Limit) -> Line {
        line.judged(key, self.ratios.median(), self.ratios.middle(), limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64]) -> Pairs {
        let mut pairs = Pairs::default();
        ratios.iter().for_each(|ratio| pairs.add(*ratio, 1.0));
        pairs
    }

    #[test]
    fn a_verdict_needs_a_spread_on_one_side_of_the_limit() {
        let line = |ratios: &[f64]| {
            pairs(ratios)
                .at_most(Line::new("plan"), "ratio", 0.6)
                .to_string()
        };
        assert_eq!(
            line(&[0.9, 0.5, 0.52, 0.54, 0.53, 0.51, 0.55]),
            "plan: ratio=0.53 ratio_spread=0.51…0.55 ratio_limit=0.6 within=yes"
        );
        assert!(line(&[0.5, 0.7, 0.5, 0.7, 0.5, 0.7, 0.5]).ends_with("within=open"));
        assert!(line(&[0.7, 0.8, 0.7, 0.8, 0.7, 0.8, 0.1]).ends_with("within=no"));
    }

    #[test]
    fn each_side_goes_first_by_turns() {
        let turns = std::cell::RefCell::new(String::new());
        let note = |side: char| {
            turns.borrow_mut().push(side);
            Ok(1.0)
        };
        Pairs::measure(|| note('o'), || note('t')).unwrap();
        assert!(turns.borrow().starts_with("toottoot"));
    }
}
