//! What is done to a link, in which order. Each step is one request to the kernel, so a run that is
//! killed ends between two of them; and each is chosen from what is seen of the links, so that
//! whoever comes next goes on from wherever it ended.

use crate::nic::link::{Kind, Link, Mac, NodeAddress, NodeRoute, State};
use crate::nic::port::Given;
use crate::nic::record::{Record, Taken};

/// A network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The node's, in which the plugin runs.
    Node,
    /// The Pod's.
    Pod,
}

/// What changes of a link. With `to`, the kernel moves it first (which switches it off and takes
/// its addresses and routes away) and then does the rest, before anybody else sees it; a name that
/// is in use it refuses after the move (`do_setlink`, `net/core/rtnetlink.c` of Linux).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Where it goes.
    pub to: Option<Place>,
    /// Its name.
    pub name: Option<String>,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Its largest packet, in bytes.
    pub mtu: Option<u32>,
    /// What is written about it; empty is nothing.
    pub alias: Option<String>,
    /// Whether it is switched on.
    pub state: Option<State>,
    /// How it takes packets (`IFF_…` of Linux).
    pub modes: Option<u32>,
}

/// One request to the kernel, about the link with this number in this place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes it.
    Change(Place, u32, Change),
    /// Lets it answer to one more name.
    Name(Place, u32, String),
    /// Lets it answer to this name no more.
    Unname(Place, u32, String),
    /// Gives it an address; one that it has is no fault.
    Address(Place, u32, NodeAddress),
    /// Makes a route through it; one that is there is no fault.
    Route(Place, u32, NodeRoute),
}

/// What is known of the Pod's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pod<'l> {
    /// These links.
    Links(&'l [Link]),
    /// It is there no more, or nobody can enter it.
    Gone,
}

/// How it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// With these, and then another look.
    Steps(Vec<Step>),
    /// With these, and then the record can go.
    Last(Vec<Step>),
    /// The kernel will give it back, and has not yet; or its Pod keeps it where nobody sees it.
    Wait,
    /// Nothing is left to do: the record can go.
    Forget,
}

/// The link of a record among those of a namespace: by its mark; or by what of a device cannot be
/// changed; or, of one that vanishes with its namespace, as it was.
pub fn find<'l>(record: &Record, links: &'l [Link]) -> Option<&'l Link> {
    let nic = &record.nic;
    let is_device = |link: &&Link| {
        let is_known = nic.pci.is_some() || nic.permanent.is_some();
        nic.kind == Kind::Physical && is_known && is_same_device(nic, link)
    };
    // Its number is another one after a journey.
    let is_untouched = |link: &&Link| {
        (link.index == nic.index || link.name == nic.name)
            && (&link.kind, link.mac, &link.alias) == (&nic.kind, Some(nic.mac), &nic.alias)
    };
    find_marked(record, links)
        .or_else(|| links.iter().find(is_device))
        .or_else(|| links.iter().find(is_untouched))
}

/// What nobody can change of a device; other links have none of it.
fn is_same_device(nic: &Taken, link: &Link) -> bool {
    (&link.kind, &link.pci, link.permanent) == (&nic.kind, &nic.pci, nic.permanent)
}

/// A Pod can write marks, but not where a device is.
fn find_marked<'l>(record: &Record, links: &'l [Link]) -> Option<&'l Link> {
    let is_marked = |link: &&Link| link.alias.as_deref() == Some(record.mark.as_str());
    links
        .iter()
        .filter(is_marked)
        .find(|link| is_same_device(&record.nic, link))
}

/// The link of a record that went to a Pod. A mark on the node is ours for certain, since no Pod
/// writes there; one in the Pod says more than that something on the node looks as the link did.
pub fn find_handed<'l>(record: &Record, node: &[Link], pod: &'l [Link]) -> Option<&'l Link> {
    if find_marked(record, node).is_some() {
        return None;
    }
    find_marked(record, pod).or_else(|| {
        if find(record, node).is_some() {
            None
        } else {
            find_in_pod(record, pod)
        }
    })
}

/// The same in a Pod, where it may have lost its mark, and where numbers mean nothing. Its name
/// alone is not enough: another link may have it.
fn find_in_pod<'l>(record: &Record, links: &'l [Link]) -> Option<&'l Link> {
    let nic = &record.nic;
    match nic.kind {
        Kind::Physical => find(record, links),
        _ => links
            .iter()
            .find(|link| link.kind == nic.kind && link.mac == Some(nic.mac)),
    }
}

/// The first steps of an ADD: the link gets its mark, and goes to the Pod with its name there. They
/// are two, because the kernel may move a link and then refuse the name.
pub fn hand_over(record: &Record, node: &[Link]) -> Option<[Step; 2]> {
    let link = find(record, node)?;
    let moved = Change {
        to: Some(Place::Pod),
        name: Some(record.interface.clone()),
        ..Change::default()
    };
    Some([
        Step::Change(Place::Node, link.index, marked(record)),
        Step::Change(Place::Node, link.index, moved),
    ])
}

fn marked(record: &Record) -> Change {
    Change {
        alias: Some(record.mark.as_str().to_owned()),
        ..Change::default()
    }
}

/// What an ADD does to the link in the Pod, from wherever an earlier one ended.
pub fn configure(link: &Link, given: &Given) -> Vec<Step> {
    let change = Change {
        mtu: given.mtu.filter(|mtu| *mtu != link.mtu),
        state: Some(State::Up),
        ..Change::default()
    };
    let mut steps = vec![Step::Change(Place::Pod, link.index, change)];
    steps.extend(
        given
            .addresses()
            .into_iter()
            .map(|address| Step::Address(Place::Pod, link.index, address)),
    );
    steps.extend(
        given
            .routes()
            .into_iter()
            .map(|route| Step::Route(Place::Pod, link.index, route)),
    );
    steps
}

/// What has to be undone next, of what is seen now.
pub fn take_back(record: &Record, node: &[Link], pod: Pod<'_>, boot: &str) -> Next {
    if record.boot != boot {
        // All links are as the machine's start made them.
        return Next::Forget;
    }
    if let Pod::Links(links) = pod
        && let Some(link) = find_handed(record, node, links)
    {
        let name = if is_free(record, link, node) {
            record.nic.name.clone()
        } else {
            record.mark.spare_name()
        };
        let moved = Change {
            to: Some(Place::Node),
            name: Some(name),
            ..Change::default()
        };
        // Marked again, as the Pod may have wiped it out.
        let mut steps = vec![Step::Change(Place::Pod, link.index, marked(record))];
        steps.extend(foreign_names(&record.nic, Place::Pod, link));
        // With one that somebody on the node has by now, the kernel would not move it.
        let taken = record
            .nic
            .other_names
            .intersection(&link.other_names)
            .filter(|name| is_in_use(name, node));
        steps.extend(taken.map(|name| Step::Unname(Place::Pod, link.index, name.clone())));
        steps.push(Step::Change(Place::Pod, link.index, moved));
        return Next::Steps(steps);
    }
    let Some(link) = find(record, node) else {
        return match record.nic.kind {
            // Its Pod may have put it into a namespace that nobody else knows.
            Kind::Physical => Next::Wait,
            // It vanished with its namespace, or somebody removed it.
            _ => Next::Forget,
        };
    };
    if is_as_it_was(record, link, node) {
        Next::Forget
    } else {
        Next::Last(restore(record, link, node))
    }
}

/// Whether the link's own name is nobody else's.
fn is_free(record: &Record, link: &Link, node: &[Link]) -> bool {
    let is_itself = |other: &Link| std::ptr::eq(other, link);
    !node
        .iter()
        .any(|other| !is_itself(other) && other.is_called(&record.nic.name))
}

/// Whether a link answers to this name.
fn is_in_use(name: &str, links: &[Link]) -> bool {
    links.iter().any(|link| link.is_called(name))
}

/// Takes names away that it did not have.
fn foreign_names(nic: &Taken, place: Place, link: &Link) -> Vec<Step> {
    let foreign = link.other_names.difference(&nic.other_names);
    foreign
        .map(|name| Step::Unname(place, link.index, name.clone()))
        .collect()
}

/// Whether nothing happened to it, or all of it was undone.
fn is_as_it_was(record: &Record, link: &Link, node: &[Link]) -> bool {
    let nic = &record.nic;
    let has = |address: &NodeAddress| {
        link.addresses
            .iter()
            .any(|other| other.address == address.address)
    };
    (link.name == nic.name || !is_free(record, link, node))
        && link.alias == nic.alias
        && link.mtu == nic.mtu
        && link.mac == Some(nic.mac)
        && link.state == nic.state
        && link.modes == nic.modes
        && link.other_names == nic.other_names
        && nic.addresses.iter().all(has)
}

/// All that it had, and the mark last: until then it is not done.
fn restore(record: &Record, link: &Link, node: &[Link]) -> Vec<Step> {
    let nic = &record.nic;
    let change = |change: Change| Step::Change(Place::Node, link.index, change);
    let mut steps = vec![change(Change {
        // One that the kernel gave back has none, perhaps.
        state: Some(State::Down),
        modes: Some(nic.modes),
        ..marked(record)
    })];
    steps.extend(foreign_names(nic, Place::Node, link));
    if link.name != nic.name && is_free(record, link, node) {
        steps.push(change(Change {
            name: Some(nic.name.clone()),
            ..Change::default()
        }));
    }
    let lost = nic
        .other_names
        .difference(&link.other_names)
        .filter(|name| !is_in_use(name, node));
    steps.extend(lost.map(|name| Step::Name(Place::Node, link.index, name.clone())));
    let mac = Some(nic.mac).filter(|mac| link.mac != Some(*mac));
    let mtu = Some(nic.mtu).filter(|mtu| link.mtu != *mtu);
    if mac.is_some() || mtu.is_some() {
        steps.push(change(Change {
            mac,
            mtu,
            ..Change::default()
        }));
    }
    if nic.state == State::Up {
        steps.push(change(Change {
            state: Some(State::Up),
            ..Change::default()
        }));
    }
    steps.extend(
        nic.addresses
            .iter()
            .map(|address| Step::Address(Place::Node, link.index, address.clone())),
    );
    steps.extend(
        nic.routes
            .iter()
            .map(|route| Step::Route(Place::Node, link.index, route.clone())),
    );
    steps.push(change(Change {
        alias: Some(nic.alias.clone().unwrap_or_default()),
        ..Change::default()
    }));
    steps
}
