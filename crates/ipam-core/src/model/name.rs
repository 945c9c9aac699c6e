//! Names of objects, as Kubernetes allows them.
//!
//! Finds the known name that a misspelt name probably means.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::selector::Labels;

/// Label of every object that we create or adopt. We delete no object without it.
pub const OWNER_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "cilium-ipam");

pub fn is_ours(labels: &Labels) -> bool {
    labels
        .get(OWNER_LABEL.0)
        .is_some_and(|owner| owner == OWNER_LABEL.1)
}

/// A text that is not a Kubernetes object name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an object name: expected lower-case letters, digits, `-` and `.`, at most 253, first and last a letter or digit"
)]
pub struct NameError {
    text: String,
}

/// DNS-1123 subdomain, `k8s.io/apimachinery/pkg/util/validation` `IsDNS1123Subdomain`.
fn check(text: &str) -> Result<(), NameError> {
    let edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part_is_fine = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|&c| edge(c))
            && bytes.last().is_some_and(|&c| edge(c))
            && bytes.iter().all(|&c| edge(c) || c == b'-')
    };
    if text.len() <= 253 && text.split('.').all(part_is_fine) {
        Ok(())
    } else {
        Err(NameError {
            text: text.to_owned(),
        })
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<$name, NameError> {
                check(text).map(|()| $name(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

impl NodeName {
    /// A name that no node has. A block reserved for it is free for no node (RFC 2606 reserves
    /// `invalid`).
    pub fn nobody() -> NodeName {
        NodeName("nobody.cilium-ipam.invalid".into())
    }
}

name! {
    /// Name of an `IPPool`.
    PoolName
}
name! {
    /// Name of a Node, and of its CiliumNode.
    NodeName
}

name! {
    /// Name of a `CiliumLoadBalancerIPPool`.
    AddressPoolName
}

crate::serde_as_text! {
    PoolName: "name of a pool",
    NodeName: "name of a node",
}

/// Namespace and name of a Service, as the API server shows them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ServiceName {
    pub fn new(namespace: &str, name: &str) -> ServiceName {
        ServiceName {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for ServiceName {
    type Err = NameError;

    /// Reads `namespace/name`.
    fn from_str(text: &str) -> Result<ServiceName, NameError> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| NameError {
            text: text.to_owned(),
        })?;
        check(namespace)?;
        check(name)?;
        Ok(ServiceName::new(namespace, name))
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.namespace, self.name))
    }
}

/// Kind and name of a live object or of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Kind of the object, as Kubernetes writes it.
    pub kind: &'static str,
    /// Name of the object, without its namespace.
    pub name: String,
}

impl ObjectRef {
    pub fn node(name: &NodeName) -> ObjectRef {
        ObjectRef {
            kind: "Node",
            name: name.to_string(),
        }
    }

    pub fn pool(name: &PoolName) -> ObjectRef {
        ObjectRef {
            kind: "IPPool",
            name: name.to_string(),
        }
    }

    /// A `CiliumLoadBalancerIPPool`, even if its name is invalid.
    pub fn address_pool(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "CiliumLoadBalancerIPPool",
            name: name.to_owned(),
        }
    }

    pub fn service(name: &ServiceName) -> ObjectRef {
        ObjectRef {
            kind: "Service",
            name: name.to_string(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Limit of the known names that an unknown name is compared with.
const MOST_NAMES: usize = 10_000;

/// Limit of the unknown names for which a similar name is searched. More of them are not typing
/// errors.
const MOST_SEARCHES: u32 = 1_000;

/// Known names, of which one may be meant by a name that differs by a typing error. The numbers of
/// known names and of searches are limited, so that suggestions never dominate a plan.
pub struct NearNames<'k> {
    known: Vec<&'k str>,
    searches: Cell<u32>,
}

impl<'k> NearNames<'k> {
    pub fn new(known: impl IntoIterator<Item = &'k str>) -> NearNames<'k> {
        NearNames {
            known: known.into_iter().take(MOST_NAMES).collect(),
            searches: Cell::new(0),
        }
    }

    /// The first known name from which `given` differs by case, or by one letter that is missing,
    /// added, changed or swapped with its neighbour.
    ///
    /// A different number or single letter does not count: `worker-8` is a valid name beside
    /// `worker-7`, and `rack-b` beside `rack-a`.
    pub fn of(&self, given: &str) -> Option<&'k str> {
        if self.searches.get() == MOST_SEARCHES {
            return None;
        }
        self.searches.set(self.searches.get() + 1);
        let mut known = self.known.iter().copied();
        known.find(|known| is_slip(given.as_bytes(), known.as_bytes()))
    }
}

fn is_slip(given: &[u8], known: &[u8]) -> bool {
    if given == known || given.len().abs_diff(known.len()) > 1 {
        return false;
    }
    if given.eq_ignore_ascii_case(known) {
        return true;
    }
    let before = given.iter().zip(known).take_while(|(a, b)| a == b).count();
    let edge = before.checked_sub(1).map(|at| given[at]);
    let (given, known) = (&given[before..], &known[before..]);
    let behind = given
        .iter()
        .rev()
        .zip(known.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let next = given.get(given.len() - behind).copied();
    let (given, known) = (
        &given[..given.len() - behind],
        &known[..known.len() - behind],
    );
    // One edit changes at most two letters, so longer differences need no comparison.
    given.len().max(known.len()) <= 2
        && strsim::generic_damerau_levenshtein(given, known) == 1
        && !is_numbering(given, known, [edge, next])
}

/// Whether only digits differ, or one letter between separators.
fn is_numbering(given: &[u8], known: &[u8], neighbours: [Option<u8>; 2]) -> bool {
    let mut changed = given.iter().chain(known);
    let is_alone = neighbours
        .iter()
        .flatten()
        .all(|next| !next.is_ascii_alphabetic());
    let is_letter = changed.clone().all(u8::is_ascii_alphabetic);
    changed.all(u8::is_ascii_digit) || given.len().max(known.len()) == 1 && is_letter && is_alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "worker-7", "ip-10-0-0-1.eu.compute.internal", "0"] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a..b",
            "a_b",
            "a/b",
            "\u{1b}[31m",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }
}

#[cfg(test)]
mod near_name_tests {
    use super::*;

    #[test]
    fn slips() {
        for (given, known) in [
            ("wrker-7", "worker-7"),
            ("workker-7", "worker-7"),
            ("wroker-7", "worker-7"),
            ("worker7", "worker-7"),
            ("worker-7.", "worker-7"),
            ("worker_7", "worker-7"),
            ("Worker-7", "worker-7"),
            ("cp1", "cp-1"),
            ("n0de", "node"),
            ("shop/webb", "shop/web"),
        ] {
            assert_eq!(
                NearNames::new(["other", known]).of(given),
                Some(known),
                "{given}"
            );
        }
    }

    #[test]
    fn other_names() {
        for (given, known) in [
            ("worker-7", "worker-7"),
            ("worker-8", "worker-7"),
            ("worker-1", "worker-12"),
            ("worker-12", "worker-21"),
            ("rack-b", "rack-a"),
            ("worker-b1", "worker-a1"),
            ("us-east-1", "us-east-1a"),
            ("wrkr-7", "worker-7"),
            ("wokrer-8", "worker-7"),
            ("", "worker"),
        ] {
            assert_eq!(NearNames::new([known]).of(given), None, "{given} {known}");
            assert_eq!(NearNames::new([given]).of(known), None, "{known} {given}");
        }
    }

    #[test]
    fn one_edit_is_that_of_strsim() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut name = || {
            (0..random.usize(0..7))
                .filter_map(|_| random.choice(*b"abAB+-").map(char::from))
                .collect::<String>()
        };
        for (given, known) in (0..20_000).map(|_| (name(), name())) {
            let is_found = NearNames::new([known.as_str()]).of(&given).is_some();
            let is_other_case = given != known && given.eq_ignore_ascii_case(&known);
            let is_one_edit = strsim::osa_distance(&given, &known) == 1;
            assert!(!is_found || is_one_edit || is_other_case, "{given} {known}");
            // Between separators, another letter is another name.
            let has_letters = [&given, &known]
                .iter()
                .any(|name| name.contains(char::is_alphabetic));
            let is_found_if = is_other_case || is_one_edit && !has_letters;
            assert!(is_found || !is_found_if, "{given} {known}");
        }
    }

    /// A comparison of each with each takes a minute here.
    #[test]
    fn tens_of_thousands_of_names_are_no_matter() {
        let names = |prefix: &str| {
            (0..50_000)
                .map(|number| format!("{prefix}-{number}.example"))
                .collect::<Vec<_>>()
        };
        let (given, known) = (names("wrkr"), names("worker"));
        let index = NearNames::new(known.iter().map(String::as_str));
        assert_eq!(index.of("wroker-9999.example"), Some("worker-9999.example"));
        assert_eq!(given.iter().filter_map(|given| index.of(given)).count(), 0);
        assert_eq!(index.of("wroker-9999.example"), None);
    }
}
