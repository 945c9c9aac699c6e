//! The line that a benchmark or a proof ends with: `NAME: key=value …`.

use std::borrow::Cow;
use std::fmt::{self, Display};

use anyhow::{Result, bail};

/// A figure with everything needed to judge it.
pub struct Line {
    name: &'static str,
    fields: Vec<(Cow<'static, str>, String)>,
    limits: Limits,
    missed: Vec<&'static str>,
}

/// Whether the line has limits and keeps them. A missed limit fails nothing, a requirement does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Limits {
    None,
    Kept,
    /// The spread of the measurements allows no verdict.
    Open,
    Missed,
}

/// A limit of a measured number.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn value(self) -> f64 {
        match self {
            Limit::AtMost(limit) | Limit::AtLeast(limit) => limit,
        }
    }

    fn is_kept_by(self, value: f64) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }
}

impl Line {
    /// An empty line.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            fields: Vec::new(),
            limits: Limits::None,
            missed: Vec::new(),
        }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Display) -> Self {
        self.fields.push((key.into(), value.to_string()));
        self
    }

    /// Adds a measured number.
    #[must_use]
    pub fn measured(self, key: &'static str, value: f64) -> Self {
        self.with(key, digits(value))
    }

    /// Adds a measured number and its upper limit.
    #[must_use]
    pub fn at_most(
        self,
        key: &'static str,
        value: f64,
        limit_key: &'static str,
        limit: f64,
    ) -> Self {
        self.limited(Limits::of(value <= limit))
            .measured(key, value)
            .with(limit_key, limit)
    }

    /// Adds a measured number and its lower limit.
    #[must_use]
    pub fn at_least(
        self,
        key: &'static str,
        value: f64,
        limit_key: &'static str,
        limit: f64,
    ) -> Self {
        self.limited(Limits::of(value >= limit))
            .measured(key, value)
            .with(limit_key, limit)
    }

    /// Adds a value that must equal `wanted`.
    #[must_use]
    pub fn required<T: Display + PartialEq>(
        mut self,
        key: &'static str,
        value: T,
        wanted: T,
    ) -> Self {
        if value != wanted {
            self.missed.push(key);
        }
        self.with(key, value)
    }

    /// Adds a value that must reach `least`.
    #[must_use]
    pub fn required_least<T: Display + PartialOrd>(
        mut self,
        key: &'static str,
        value: T,
        least: T,
    ) -> Self {
        if value < least {
            self.missed.push(key);
        }
        self.with(key, value)
    }

    /// Prints it.
    pub fn print(&self) {
        println!("{self}");
    }

    /// Prints it and checks the requirements.
    ///
    /// # Errors
    /// Fails if a requirement does not hold; names each.
    pub fn conclude(&self) -> Result<()> {
        self.print();
        if !self.missed.is_empty() {
            bail!(
                "{} does not hold: see {}",
                self.name,
                self.missed.join(", ")
            );
        }
        Ok(())
    }

    /// Adds a measured number with its spread, and its limit under the key with `_limit`.
    #[must_use]
    pub fn judged(self, key: &'static str, value: f64, spread: (f64, f64), limit: Limit) -> Self {
        let (low, high) = spread;
        let verdict = match (limit.is_kept_by(low), limit.is_kept_by(high)) {
            (true, true) => Limits::Kept,
            (false, false) => Limits::Missed,
            _ => Limits::Open,
        };
        let mut line = self.limited(verdict).measured(key, value);
        let spread = format!("{}…{}", digits(low), digits(high));
        line.fields.push((format!("{key}_spread").into(), spread));
        let value = limit.value().to_string();
        line.fields.push((format!("{key}_limit").into(), value));
        line
    }

    fn limited(mut self, verdict: Limits) -> Self {
        self.limits = self.limits.max(verdict);
        self
    }
}

impl Limits {
    fn of(is_kept: bool) -> Limits {
        match is_kept {
            true => Limits::Kept,
            false => Limits::Missed,
        }
    }
}

/// As many digits as a repeated run would show again.
fn digits(value: f64) -> String {
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$}")
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name)?;
        for (key, value) in &self.fields {
            write!(f, " {key}={value}")?;
        }
        f.write_str(match self.limits {
            Limits::None => "",
            Limits::Kept => " within=yes",
            Limits::Open => " within=open",
            Limits::Missed => " within=no",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_limit_is_said_and_fails_nothing() {
        let line = Line::new("plan")
            .with("nodes", 5)
            .at_most("ratio", 1.2, "limit", 1.25);
        assert_eq!(
            line.to_string(),
            "plan: nodes=5 ratio=1.20 limit=1.25 within=yes"
        );
        let line = line.at_least("rate", 123.45, "rate_limit", 200.0);
        assert_eq!(
            line.to_string(),
            "plan: nodes=5 ratio=1.20 limit=1.25 rate=123 rate_limit=200 within=no"
        );
        assert!(
            Line::new("x")
                .at_most("ratio", f64::NAN, "limit", 1.0)
                .to_string()
                .ends_with("within=no")
        );
        assert!(line.conclude().is_ok());
    }

    #[test]
    fn what_is_required_and_missing_fails() {
        let line = Line::new("kills")
            .required_least("hits", 3, 3)
            .required("duplicates", 0, 0);
        assert_eq!(line.to_string(), "kills: hits=3 duplicates=0");
        assert!(line.conclude().is_ok());
        let error = line
            .required("converged", "no", "yes")
            .conclude()
            .unwrap_err();
        assert_eq!(error.to_string(), "kills does not hold: see converged");
    }
}
