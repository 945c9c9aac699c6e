//! Permissions to exceed one limit. Each waiver names one thing, and how much of it is allowed.

use std::fmt;
use std::str::FromStr;

use super::limit::LimitName;

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
