//! The object or the addresses whose past is asked for.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::explain::Relation;
use crate::plan::Selected;
use ipam_core::net::{Address, Block, Range};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Node(String),
    /// As `namespace/name`.
    Service(String),
    Pool(String),
    Addresses(Range),
}

impl FromStr for Subject {
    type Err = Infallible;

    /// An address and a CIDR come before names. `node/NAME`, `pool/NAME` and
    /// `service/NAMESPACE/NAME` are unambiguous.
    fn from_str(text: &str) -> Result<Subject, Infallible> {
        if let Ok(address) = text.parse::<Address>() {
            return Ok(Subject::Addresses(Range::from(address)));
        }
        if let Ok(block) = Block::lenient(text) {
            return Ok(Subject::Addresses(block.range()));
        }
        Ok(match text.parse::<Selected>() {
            Ok(Selected::Node(name)) => Subject::Node(name.to_string()),
            Ok(Selected::Pool(name)) => Subject::Pool(name),
            Ok(Selected::Service(name)) => Subject::Service(name.to_string()),
            Ok(Selected::Labels(_)) | Err(_) if text.contains('/') => {
                Subject::Service(text.to_owned())
            }
            Ok(Selected::Labels(_)) | Err(_) => Subject::Node(text.to_owned()),
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Node(name) => write!(f, "node {name}"),
            Subject::Service(name) => write!(f, "Service {name}"),
            Subject::Pool(name) => write!(f, "pool {name}"),
            Subject::Addresses(range) if range.first() == range.last() => range.first().fmt(f),
            Subject::Addresses(range) => range.fmt(f),
        }
    }
}

impl Subject {
    /// How a range lies to the addresses in question; `None` if they share none.
    pub fn relation(&self, range: &Range) -> Option<Relation> {
        match self {
            Subject::Addresses(own) => range.overlaps(own).then(|| Relation::of(range, own)),
            Subject::Node(_) | Subject::Service(_) | Subject::Pool(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_before_names() {
        for (text, shown) in [
            ("10.20.3.7", "10.20.3.7"),
            ("10.20.3.7/24", "10.20.3.0/24"),
            ("fd00::/64", "fd00::/64"),
            ("worker-7", "node worker-7"),
            ("node/10.20.3.7", "node 10.20.3.7"),
            ("pool/rack-a", "pool rack-a"),
            ("shop/web", "Service shop/web"),
            ("service/shop/web", "Service shop/web"),
        ] {
            let Ok(subject) = text.parse::<Subject>();
            assert_eq!(subject.to_string(), shown, "{text}");
        }
    }
}
