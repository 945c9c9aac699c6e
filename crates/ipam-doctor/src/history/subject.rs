//! The object or the addresses in question.
//!
//! A fact about the subject in a document or an object.
//!
//! The pull request that a commit message names.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::explain::Relation;
use ipam_core::net::{Address, Block, Range};
use ipam_plan::plan::Selected;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Node(String),
    /// A Service, as `namespace/name`.
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
    /// The relation of a range to the addresses in question; `None` without common addresses.
    pub fn relation(&self, range: &Range) -> Option<Relation> {
        match self {
            Subject::Addresses(own) => range.overlaps(own).then(|| Relation::of(range, own)),
            Subject::Node(_) | Subject::Service(_) | Subject::Pool(_) => None,
        }
    }
}

/// A fact without its place: the fact stays the same when it moves to another line or file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// The document or object, such as `NodeAssignment/worker-7`.
    pub object: String,
    pub field: String,
    pub value: String,
    /// The relation of the value to the addresses in question.
    pub relation: Option<Relation>,
}

/// The pull request, such as `#12` or `group/name!12`.
///
/// Knows the messages of GitHub, Gitea, Forgejo and GitLab, for merges and for squashed commits.
pub fn pull_request(message: &str) -> Option<String> {
    let subject = message.lines().find(|line| !line.trim().is_empty())?;
    let subject = subject.trim();
    of_merge(subject)
        .or_else(|| of_gitlab(message))
        .or_else(|| squashed(subject))
}

/// `Merge pull request #12 from …`, or Gitea's `Merge pull request 'title' (#12) from … into …`.
fn of_merge(subject: &str) -> Option<String> {
    let rest = subject.strip_prefix("Merge pull request ")?;
    if let Some(number) = rest.strip_prefix('#') {
        return number_at_start(number);
    }
    let (before, _) = rest.rsplit_once(") from ")?;
    let (_, number) = before.rsplit_once("(#")?;
    whole_number(number)
}

/// `See merge request group/name!12`, on a line of its own, the last one.
fn of_gitlab(message: &str) -> Option<String> {
    let lines = message.lines().rev();
    let request = lines
        .filter_map(|line| line.trim().strip_prefix("See merge request "))
        .next()?;
    let (project, number) = request.split_once('!')?;
    let is_project = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let number = number.trim_end_matches('.');
    (project.chars().all(is_project) && whole_number(number).is_some())
        .then(|| format!("{project}!{number}"))
}

/// `title (#12)`. The number of a revert is the last one: `Revert "title (#12)" (#13)`.
fn squashed(subject: &str) -> Option<String> {
    let (_, number) = subject.strip_suffix(')')?.rsplit_once("(#")?;
    whole_number(number)
}

fn whole_number(text: &str) -> Option<String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("#{text}"))
}

fn number_at_start(text: &str) -> Option<String> {
    whole_number(text.split(' ').next()?)
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

#[cfg(test)]
mod pull_request_tests {
    use super::*;

    #[test]
    fn messages_of_each_server() {
        for (message, expected) in [
            (
                "Merge pull request #12 from me/pin\n\nPin worker-7 (#9)",
                Some("#12"),
            ),
            (
                "Merge pull request 'Pin (#9)' (#12) from me/pin into main",
                Some("#12"),
            ),
            ("\nPin worker-7 (#12)\n\n* see (#3)", Some("#12")),
            ("Revert \"Pin worker-7 (#12)\" (#13)", Some("#13")),
            ("Revert \"Pin worker-7 (#12)\"", None),
            (
                "Merge branch 'pin' into 'main'\n\nPin\n\nSee merge request net/pools!12\n",
                Some("net/pools!12"),
            ),
            (
                "Merge branch 'pin' into 'main'\n\nSee merge request !12",
                Some("!12"),
            ),
            ("See merge request a\u{1b}[31m!12", None),
            ("Merge pull request #x from y", None),
            ("Merge pull request #", None),
            ("Fix (#12", None),
            ("Fix (#)", None),
            ("Fix #12", None),
            ("", None),
        ] {
            assert_eq!(pull_request(message).as_deref(), expected, "{message}");
        }
    }
}
