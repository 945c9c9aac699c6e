//! The steps that move a link to a Pod and back. Each step is one request to the kernel, so a killed
//! run ends between two steps. The next run chooses its steps from the links it sees, and goes on.

use crate::nic::link::{Kind, Link, Mac, NodeAddress, NodeRoute, State};
use crate::nic::port::PortConfig;
use crate::nic::record::{Record, TakenNic};

/// The network namespace of the node or of the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The plugin runs in this one.
    Node,
    Pod,
}

/// A change of a link. With `to`, the kernel first moves the link, which switches it off and removes
/// its addresses and routes. It does the rest before others see the link, and refuses a name in use
/// after the move (`do_setlink`, `net/core/rtnetlink.c` of Linux).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub to: Option<Side>,
    pub name: Option<String>,
    pub mac: Option<Mac>,
    /// New MTU of the link, in bytes.
    pub mtu: Option<u32>,
    /// New alias of the link; an empty text removes the alias.
    pub alias: Option<String>,
    pub state: Option<State>,
    /// The flags in `MODES`.
    pub modes: Option<u32>,
}

/// One request to the kernel about the link with this index on this side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Change(Side, u32, Change),
    /// Adds an alternative name to a link.
    Name(Side, u32, String),
    /// Removes an alternative name of a link.
    Unname(Side, u32, String),
    /// Adds an address to a link. An existing address is no error.
    Address(Side, u32, NodeAddress),
    /// Adds a route through a link. An existing route is no error.
    Route(Side, u32, NodeRoute),
}

/// The links in the Pod's namespace, if it can be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pod<'l> {
    Links(&'l [Link]),
    /// The namespace was removed, or cannot be entered.
    Gone,
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Execute these steps, then read the links again and decide anew.
    Steps(Vec<Step>),
    /// Execute these steps, then remove the record.
    Last(Vec<Step>),
    /// The kernel has not returned the link yet, or the Pod moved it to a hidden namespace.
    Wait,
    /// No step is left. Remove the record.
    Forget,
}

/// Finds the link of a record in a namespace: by its key, else by the identity of its device, else
/// (for links without a device) by its unchanged properties.
pub fn find<'l>(record: &Record, links: &'l [Link]) -> Option<&'l Link> {
    let nic = &record.nic;
    let is_device = |link: &&Link| {
        let is_known = nic.pci.is_some() || nic.permanent.is_some();
        nic.kind == Kind::Physical && is_known && is_same_device(nic, link)
    };
    // The index may change with a move.
    let is_untouched = |link: &&Link| {
        (link.index == nic.index || link.name == nic.name)
            && (&link.kind, link.mac, &link.alias) == (&nic.kind, Some(nic.mac), &nic.alias)
    };
    find_marked(record, links)
        .or_else(|| links.iter().find(is_device))
        .or_else(|| links.iter().find(is_untouched))
}

/// Compares the identity of the device, which nothing can change. Other links have none.
fn is_same_device(nic: &TakenNic, link: &Link) -> bool {
    (&link.kind, &link.pci, link.permanent) == (&nic.kind, &nic.pci, nic.permanent)
}

/// A Pod can write a key to an alias, but it cannot change the identity of a device.
fn find_marked<'l>(record: &Record, links: &'l [Link]) -> Option<&'l Link> {
    let is_marked = |link: &&Link| link.alias.as_deref() == Some(record.mark.as_str());
    links
        .iter()
        .filter(is_marked)
        .find(|link| is_same_device(&record.nic, link))
}

/// Finds the link of a record in the Pod. A key on the node is certain, because no Pod writes there.
/// A key in the Pod counts more than a similar link on the node.
pub fn find_moved<'l>(record: &Record, node: &[Link], pod: &'l [Link]) -> Option<&'l Link> {
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

/// Finds a link in a Pod that may have removed the key. The index means nothing there, and another
/// link may have the name.
fn find_in_pod<'l>(record: &Record, links: &'l [Link]) -> Option<&'l Link> {
    let nic = &record.nic;
    match nic.kind {
        Kind::Physical => find(record, links),
        _ => links
            .iter()
            .find(|link| link.kind == nic.kind && link.mac == Some(nic.mac)),
    }
}

/// The first steps of an ADD: write the key, then move the link with its new name. They are two,
/// because the kernel may move a link and then refuse the name.
pub fn move_to_pod(record: &Record, node: &[Link]) -> Option<[Step; 2]> {
    let link = find(record, node)?;
    let moved = Change {
        to: Some(Side::Pod),
        name: Some(record.interface.clone()),
        ..Change::default()
    };
    Some([
        Step::Change(Side::Node, link.index, marked(record)),
        Step::Change(Side::Node, link.index, moved),
    ])
}

fn marked(record: &Record) -> Change {
    Change {
        alias: Some(record.mark.as_str().to_owned()),
        ..Change::default()
    }
}

/// The steps of an ADD in the Pod. They also complete an unfinished ADD.
pub fn configure(link: &Link, given: &PortConfig) -> Vec<Step> {
    let change = Change {
        mtu: given.mtu.filter(|mtu| *mtu != link.mtu),
        state: Some(State::Up),
        ..Change::default()
    };
    let mut steps = vec![Step::Change(Side::Pod, link.index, change)];
    steps.extend(
        given
            .addresses()
            .into_iter()
            .map(|address| Step::Address(Side::Pod, link.index, address)),
    );
    steps.extend(
        given
            .routes()
            .into_iter()
            .map(|route| Step::Route(Side::Pod, link.index, route)),
    );
    steps
}

/// The next steps that return a link to the node, by the links that exist now.
pub fn give_back(record: &Record, node: &[Link], pod: Pod<'_>, boot: &str) -> Next {
    if record.boot != boot {
        // The boot reset all links.
        return Next::Forget;
    }
    if let Pod::Links(links) = pod
        && let Some(link) = find_moved(record, node, links)
    {
        let name = if is_free(record, link, node) {
            record.nic.name.clone()
        } else {
            record.mark.spare_name()
        };
        let moved = Change {
            to: Some(Side::Node),
            name: Some(name),
            ..Change::default()
        };
        // Write the link's alias again: the Pod may have removed the key from it.
        let mut steps = vec![Step::Change(Side::Pod, link.index, marked(record))];
        steps.extend(foreign_names(&record.nic, Side::Pod, link));
        // The kernel refuses to move a link with an alternative name that is in use on the node.
        let taken = record
            .nic
            .other_names
            .intersection(&link.other_names)
            .filter(|name| is_in_use(name, node));
        steps.extend(taken.map(|name| Step::Unname(Side::Pod, link.index, name.clone())));
        steps.push(Step::Change(Side::Pod, link.index, moved));
        return Next::Steps(steps);
    }
    let Some(link) = find(record, node) else {
        return match record.nic.kind {
            // The Pod may have moved the NIC to a hidden namespace.
            Kind::Physical => Next::Wait,
            // The link was removed, perhaps with its namespace.
            _ => Next::Forget,
        };
    };
    if is_restored(record, link, node) {
        Next::Forget
    } else {
        Next::Last(restore(record, link, node))
    }
}

/// Whether no other link has the original name.
fn is_free(record: &Record, link: &Link, node: &[Link]) -> bool {
    let is_itself = |other: &Link| std::ptr::eq(other, link);
    !node
        .iter()
        .any(|other| !is_itself(other) && other.is_called(&record.nic.name))
}

/// Whether a link has this name or alternative name.
fn is_in_use(name: &str, links: &[Link]) -> bool {
    links.iter().any(|link| link.is_called(name))
}

/// Removes alternative names that the link did not have on the node.
fn foreign_names(nic: &TakenNic, side: Side, link: &Link) -> Vec<Step> {
    let foreign = link.other_names.difference(&nic.other_names);
    foreign
        .map(|name| Step::Unname(side, link.index, name.clone()))
        .collect()
}

/// Whether the link has its original state.
fn is_restored(record: &Record, link: &Link, node: &[Link]) -> bool {
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

/// Restores the original state, and the alias last: until then the key marks it as unfinished.
fn restore(record: &Record, link: &Link, node: &[Link]) -> Vec<Step> {
    let nic = &record.nic;
    let change = |change: Change| Step::Change(Side::Node, link.index, change);
    let mut steps = vec![change(Change {
        // A link that the kernel returned may lack the key.
        state: Some(State::Down),
        modes: Some(nic.modes),
        ..marked(record)
    })];
    steps.extend(foreign_names(nic, Side::Node, link));
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
    steps.extend(lost.map(|name| Step::Name(Side::Node, link.index, name.clone())));
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
            .map(|address| Step::Address(Side::Node, link.index, address.clone())),
    );
    steps.extend(
        nic.routes
            .iter()
            .map(|route| Step::Route(Side::Node, link.index, route.clone())),
    );
    steps.push(change(Change {
        alias: Some(nic.alias.clone().unwrap_or_default()),
        ..Change::default()
    }));
    steps
}
