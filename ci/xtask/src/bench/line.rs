//! The line that a benchmark ends with: `NAME: key=value …`.

use std::fmt::{self, Display};

/// One figure with everything that is needed to judge it.
pub struct Line {
    name: &'static str,
    fields: Vec<(&'static str, String)>,
    within: bool,
}

impl Line {
    /// Nothing in it yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, fields: Vec::new(), within: true }
    }

    /// A number as it is.
    pub fn with(mut self, key: &'static str, value: impl Display) -> Self {
        self.fields.push((key, value.to_string()));
        self
    }

    /// A measured number.
    pub fn measured(self, key: &'static str, value: f64) -> Self {
        // As many digits as a repeated run would show again.
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        self.with(key, format!("{value:.digits$}"))
    }

    /// A measured number, and what it must not exceed.
    pub fn at_most(mut self, key: &'static str, value: f64, limit_key: &'static str, limit: f64) -> Self {
        self.within &= value <= limit;
        self.measured(key, value).with(limit_key, limit)
    }

    /// A measured number, and what it must reach.
    pub fn at_least(mut self, key: &'static str, value: f64, limit_key: &'static str, limit: f64) -> Self {
        self.within &= value >= limit;
        self.measured(key, value).with(limit_key, limit)
    }

    /// Prints it.
    pub fn print(self) {
        println!("{self}");
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name)?;
        for (key, value) in &self.fields {
            write!(f, " {key}={value}")?;
        }
        write!(f, " within={}", if self.within { "yes" } else { "no" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_limit_is_said() {
        let line = Line::new("plan").with("nodes", 5).at_most("ratio", 1.2, "limit", 1.25);
        assert_eq!(line.to_string(), "plan: nodes=5 ratio=1.20 limit=1.25 within=yes");
        let line = line.at_least("rate", 123.45, "rate_limit", 200.0);
        assert_eq!(line.to_string(), "plan: nodes=5 ratio=1.20 limit=1.25 rate=123 rate_limit=200 within=no");
        assert!(Line::new("x").at_most("ratio", f64::NAN, "limit", 1.0).to_string().ends_with("within=no"));
    }
}
