//! Repeated measurements of one quantity.

/// The values, in the order of the runs.
#[derive(Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The median: neither a lucky run nor a disturbed one decides.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => sorted[count / 2],
            count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
        }
    }

    /// The smallest value that this percentage of all do not exceed.
    pub fn percentile(&self, percentage: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percentage).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
    }

    /// The largest.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }

    /// The smallest.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The lowest and the highest value without one outlier on each side: with seven values, the
    /// median of all runs lies between them seven times in eight.
    pub fn middle(&self) -> (f64, f64) {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted[..] {
            [_, low, .., high, _] => (low, high),
            [low, .., high] => (low, high),
            [only] => (only, only),
            [] => (f64::NAN, f64::NAN),
        }
    }

    /// Minimum, median and maximum, for the text before a figure.
    pub fn spread(&self) -> String {
        self.spread_of(1)
    }

    /// The same with this many decimal places.
    pub fn spread_of(&self, places: usize) -> String {
        let (least, median, most) = (self.min(), self.median(), self.max());
        format!("{least:.places$} … {median:.places$} … {most:.places$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_odd_and_an_even_number() {
        let mut samples = Samples::default();
        for value in [9.0, 1.0, 2.0] {
            samples.add(value);
        }
        assert_eq!((samples.median(), samples.max()), (2.0, 9.0));
        assert_eq!((samples.percentile(99), samples.percentile(33)), (9.0, 1.0));
        assert!(Samples::default().percentile(99).is_nan());
        samples.add(4.0);
        assert_eq!(samples.spread(), "1.0 … 3.0 … 9.0");
    }
}
