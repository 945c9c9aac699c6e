//! How much one apply may change: limits by kind of change, each with a name of its own, so that
//! each is waived alone.

use std::fmt;
use std::str::FromStr;

/// What a limit counts: nodes with such a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limited {
    /// They get a block.
    Assign,
    /// Their agent must be restarted.
    Disruptive,
    /// A block is taken from them.
    Release,
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Nodes.
    Count,
    /// Share of all nodes; one node is always allowed unless it is 0.
    Percent,
    /// Nodes of one failure domain.
    DomainCount,
    /// Share of the nodes of one failure domain; one node is always allowed unless it is 0.
    DomainPercent,
}

/// Name of a limit, such as `disruptive-percent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName {
    /// What it counts.
    pub limited: Limited,
    /// How.
    pub measure: Measure,
}

impl Limited {
    /// All kinds of change.
    pub const ALL: [Limited; 3] = [Limited::Assign, Limited::Disruptive, Limited::Release];

    /// As in names and in `Policy`.
    pub fn as_str(self) -> &'static str {
        match self {
            Limited::Assign => "assign",
            Limited::Disruptive => "disruptive",
            Limited::Release => "release",
        }
    }
}

impl Measure {
    /// All measures.
    pub const ALL: [Measure; 4] = [
        Measure::Count,
        Measure::Percent,
        Measure::DomainCount,
        Measure::DomainPercent,
    ];

    /// As in names.
    pub fn as_str(self) -> &'static str {
        match self {
            Measure::Count => "count",
            Measure::Percent => "percent",
            Measure::DomainCount => "domain-count",
            Measure::DomainPercent => "domain-percent",
        }
    }

    /// The largest value that means anything.
    pub fn most(self) -> u32 {
        match self {
            Measure::Count | Measure::DomainCount => u32::MAX,
            Measure::Percent | Measure::DomainPercent => 100,
        }
    }

    /// How many of so many nodes a value of this measure allows.
    pub fn allows(self, value: u32, nodes: usize) -> usize {
        let value = value as usize;
        match self {
            Measure::Count | Measure::DomainCount => value,
            Measure::Percent | Measure::DomainPercent if value == 0 => 0,
            Measure::Percent | Measure::DomainPercent => (nodes * value / 100).max(1),
        }
    }
}

impl LimitName {
    /// Every limit.
    pub fn all() -> impl Iterator<Item = LimitName> {
        Limited::ALL
            .into_iter()
            .flat_map(|limited| Measure::ALL.map(|measure| LimitName { limited, measure }))
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.limited.as_str(), self.measure.as_str())
    }
}

/// A text that names no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no limit; they are {}", every_name())]
pub struct LimitNameError {
    text: String,
}

fn every_name() -> String {
    LimitName::all()
        .map(|name| name.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

impl FromStr for LimitName {
    type Err = LimitNameError;

    fn from_str(text: &str) -> Result<LimitName, LimitNameError> {
        let error = || LimitNameError {
            text: text.escape_debug().to_string(),
        };
        LimitName::all()
            .find(|name| name.to_string() == text)
            .ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(
            "disruptive-domain-percent"
                .parse::<LimitName>()
                .unwrap()
                .to_string(),
            "disruptive-domain-percent"
        );
        assert!("all".parse::<LimitName>().is_err());
    }

    #[test]
    fn a_share_of_few_is_at_least_one() {
        let allowed = |percent, nodes| Measure::Percent.allows(percent, nodes);
        assert_eq!(
            [
                allowed(20, 3),
                allowed(20, 10),
                allowed(20, 5_000),
                allowed(0, 5_000)
            ],
            [1, 2, 1_000, 0]
        );
        assert_eq!(Measure::Count.allows(0, 3), 0);
    }
}
