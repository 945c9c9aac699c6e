//! Chooses a NIC: never one that the machine needs, or that another attachment has.

use crate::nic::link::{Kind, Link, NodeRoute};
use crate::nic::record::Record;
use crate::nic::settings::{Configured, Selection, Which};
use crate::nic::steps::find;

/// Why a NIC cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} is the loopback")]
    Loopback(String),
    /// A link of this kind could not be found again.
    #[error("{0} is a {1}; only devices, veth and tap can be moved")]
    Kind(String, String),
    /// A NIC without a hardware address, by which its port would be found.
    #[error("{0} has no hardware address")]
    NoMac(String),
    #[error("{0} is a member of a bridge, a bond or the like")]
    Member(String),
    #[error("{1} is on top of {0}")]
    Base(String, String),
    #[error("{0} belongs to {1}")]
    Taken(String, String),
    #[error("{0} has {1} of this node")]
    Configured(String, &'static str),
    /// A route could not be restored.
    #[error("{0} has a route to {1} that could not be restored (several next hops, or a tunnel)")]
    Unrestorable(String, String),
    #[error("{0} is not the requested NIC")]
    NotAsked(String),
}

/// The NICs of a selection that may be taken, by name; and why the others may not.
pub fn candidates<'l>(
    links: &'l [Link],
    selection: &Selection,
    records: &[Record],
) -> (Vec<&'l Link>, Vec<Refusal>) {
    let mut chosen: Vec<&Link> = links
        .iter()
        .filter(|link| is_meant(link, &selection.which))
        .collect();
    chosen.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    let mut free = Vec::new();
    let mut refusals = Vec::new();
    for link in chosen {
        match refusal(link, links, selection, records) {
            None => free.push(link),
            Some(refusal) => refusals.push(refusal),
        }
    }
    (free, refusals)
}

fn is_meant(link: &Link, which: &Which) -> bool {
    match which {
        Which::Name(name) => link.is_called(name),
        Which::Mac(mac) => link.mac == Some(*mac),
        Which::Pci(pci) => link.pci.as_ref() == Some(pci),
        // A veth whose peer is in another namespace belongs to a Pod.
        Which::Any { names, drivers } => {
            let is_of = |driver: &String| drivers.iter().any(|wanted| wanted == driver);
            (names.is_empty() || names.iter().any(|pattern| matches(pattern, &link.name)))
                && (drivers.is_empty() || link.driver.as_ref().is_some_and(is_of))
                && !(link.kind == Kind::Veth && link.is_from_elsewhere)
                && !matches!(link.kind, Kind::Other(_))
        }
    }
}

fn refusal(
    link: &Link,
    links: &[Link],
    selection: &Selection,
    records: &[Record],
) -> Option<Refusal> {
    let name = || link.name.clone();
    match &link.kind {
        Kind::Other(kind) if kind == "loopback" => return Some(Refusal::Loopback(name())),
        Kind::Other(kind) => return Some(Refusal::Kind(name(), kind.clone())),
        Kind::Physical | Kind::Veth | Kind::Tap => {}
    }
    if link.mac.is_none() {
        return Some(Refusal::NoMac(name()));
    }
    if link.master.is_some() {
        return Some(Refusal::Member(name()));
    }
    let is_on_it = |other: &&Link| {
        other.master == Some(link.index)
            // The two ends of a veth name each other.
            || (other.below == Some(link.index) && other.kind != Kind::Veth && other.index != link.index)
    };
    if let Some(other) = links.iter().find(is_on_it) {
        return Some(Refusal::Base(name(), other.name.clone()));
    }
    if let Some(record) = records
        .iter()
        .find(|record| find(record, links).is_some_and(|one| one.index == link.index))
    {
        return Some(Refusal::Taken(
            name(),
            format!("{}/{}", record.container, record.interface),
        ));
    }
    let is_asked = selection.mac.is_none_or(|mac| link.mac == Some(mac))
        && selection
            .pci
            .as_ref()
            .is_none_or(|pci| link.pci.as_ref() == Some(pci));
    (!is_asked).then(|| Refusal::NotAsked(name()))
}

/// Checks the addresses and routes of a NIC. Separate from `candidates`, because routes are many.
///
/// # Errors
/// Fails if the node needs them, or if they could not be restored.
pub fn is_available(
    link: &Link,
    routes: &[NodeRoute],
    selection: &Selection,
) -> Result<(), Refusal> {
    let name = || link.name.clone();
    if let Some(route) = routes
        .iter()
        .find(|route| route.is_configured() && !route.unknown.is_empty())
    {
        return Err(Refusal::Unrestorable(name(), route.destination.to_string()));
    }
    let is_explicit = !matches!(selection.which, Which::Any { .. });
    if is_explicit && selection.configured == Configured::Restore {
        return Ok(());
    }
    if routes.iter().any(NodeRoute::is_default) {
        return Err(Refusal::Configured(name(), "the default route"));
    }
    if link
        .addresses
        .iter()
        .any(|address| !address.is_link_local())
    {
        return Err(Refusal::Configured(name(), "an address"));
    }
    Ok(())
}

/// `*` matches any text, `?` any character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // Positions in pattern and name to which the last `*` returns.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p).is_some_and(|c| *c == '?' || *c == name[n]) {
            p += 1;
            n += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            n = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match() {
        for (pattern, name) in [
            ("eth*", "eth1"),
            ("*", ""),
            ("e?h0", "eth0"),
            ("*a*b", "xaxbxb"),
            ("eth0", "eth0"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("eth*", "weth1"),
            ("", "e"),
            ("e?h0", "eh0"),
            ("*a*b", "xaxbx"),
            ("eth", "eth0"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
