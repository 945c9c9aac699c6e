//! Limits on how much one apply may change. Each has its own name, so that each is waived alone.
//!
//! Permissions to exceed one limit.

use std::fmt;
use std::str::FromStr;

use crate::text::joined;

crate::text_enum! {
    /// The changes that a limit counts. The text is part of limit names and of `IPAMPolicy`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Limited {
        /// The node gets a block.
        Assign = "assign",
        /// The node's agent must restart.
        Disruptive = "disruptive",
        /// The node loses a block.
        Release = "release",
    }
}

crate::text_enum! {
    /// How a limit counts. The text is part of limit names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Measure {
        /// Number of nodes.
        Count = "count",
        /// Percent of all nodes. Allows at least one node unless it is 0.
        Percent = "percent",
        /// Number of nodes of one failure domain.
        DomainCount = "domain-count",
        /// Percent of the nodes of one failure domain. Allows at least one node unless it is 0.
        DomainPercent = "domain-percent",
    }
}

/// Name of a limit, such as `disruptive-percent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName {
    pub limited: Limited,
    pub measure: Measure,
}

impl Measure {
    /// Whether the limit counts each failure domain separately.
    pub fn is_by_domain(self) -> bool {
        match self {
            Measure::Count | Measure::Percent => false,
            Measure::DomainCount | Measure::DomainPercent => true,
        }
    }

    /// The largest value that a limit with this measure may have.
    pub fn most(self) -> u32 {
        match self {
            Measure::Count | Measure::DomainCount => u32::MAX,
            Measure::Percent | Measure::DomainPercent => 100,
        }
    }

    /// How many nodes a value of this measure allows, out of `nodes`.
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown limit `{text}`; expected one of {}", every_name())]
pub struct LimitNameError {
    text: String,
}

fn every_name() -> String {
    joined(LimitName::all(), ", ")
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiver {
    Limit(LimitName),
    /// Services may lose this many addresses at most.
    LostAddresses(u32),
    /// Our last address pools may be deleted.
    LastAddressPools,
}

const LOST_ADDRESSES: &str = "lost-addresses";
const LAST_ADDRESS_POOLS: &str = "last-address-pools";

impl Waiver {
    /// Whether this waiver is sufficient if `needed` is required.
    pub fn covers(self, needed: Waiver) -> bool {
        match (self, needed) {
            (Waiver::LostAddresses(allowed), Waiver::LostAddresses(lost)) => lost <= allowed,
            (waiver, needed) => waiver == needed,
        }
    }
}

impl From<LimitName> for Waiver {
    fn from(name: LimitName) -> Waiver {
        Waiver::Limit(name)
    }
}

impl fmt::Display for Waiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiver::Limit(name) => name.fmt(f),
            Waiver::LostAddresses(count) => write!(f, "{LOST_ADDRESSES}={count}"),
            Waiver::LastAddressPools => f.write_str(LAST_ADDRESS_POOLS),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit}, {LAST_ADDRESS_POOLS}, or {LOST_ADDRESSES}=N with the number of addresses")]
pub struct WaiverError {
    limit: super::LimitNameError,
}

impl FromStr for Waiver {
    type Err = WaiverError;

    fn from_str(text: &str) -> Result<Waiver, WaiverError> {
        let count = text
            .strip_prefix(LOST_ADDRESSES)
            .and_then(|rest| rest.strip_prefix('=')?.parse().ok());
        match count {
            Some(count) => Ok(Waiver::LostAddresses(count)),
            None if text == LAST_ADDRESS_POOLS => Ok(Waiver::LastAddressPools),
            None => text
                .parse()
                .map(Waiver::Limit)
                .map_err(|limit| WaiverError { limit }),
        }
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

#[cfg(test)]
mod waiver_tests {
    use super::*;

    #[test]
    fn each_is_read_as_it_is_printed() {
        for text in ["release-percent", "lost-addresses=3", "last-address-pools"] {
            assert_eq!(text.parse::<Waiver>().unwrap().to_string(), text);
        }
        for text in [
            "lost-addresses",
            "lost-addresses=-1",
            "lost-addresses=all",
            "everything",
        ] {
            assert!(text.parse::<Waiver>().is_err(), "{text}");
        }
    }

    #[test]
    fn more_addresses_cover_fewer() {
        let (two, three) = (Waiver::LostAddresses(2), Waiver::LostAddresses(3));
        assert!(three.covers(two) && three.covers(three) && !two.covers(three));
        assert!(!three.covers(Waiver::LastAddressPools));
    }
}
