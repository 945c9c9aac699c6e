//! ADD: starts from nothing, whatever an earlier run of the same attachment left, and removes all of
//! it if a step fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::change;
use crate::cni::{CniError, ErrorCode, InterfaceName};
use crate::kernel::namespace::Namespace;
use crate::kernel::{dump as links, kernel_error};
use crate::unnumbered::{
    End, Previous, PtpSettings, SecondaryRoute, ShownEnd, Step, Surroundings, WayKey,
};
use crate::unnumbered_ptp::change::Ends;
use crate::unnumbered_ptp::remove;

/// How long duplicate detection of IPv6 may take (RFC 4862: one second, and up to one before it).
const SETTLING: Duration = Duration::from_secs(10);

/// Interval between reads of the state of duplicate detection.
const PAUSE: Duration = Duration::from_millis(20);

/// An ADD of the plugin: makes a second way between a Pod and its node.
pub(super) struct AddOperation<'a> {
    pub(super) settings: &'a PtpSettings,
    pub(super) key: WayKey,
    /// The interface whose addresses the way borrows.
    pub(super) interface: &'a InterfaceName,
    pub(super) node: &'a Namespace,
    pub(super) pod: &'a Namespace,
}

impl AddOperation<'_> {
    /// Makes the way. Returns the result of the chain.
    pub(super) fn run(&self) -> Result<String, CniError> {
        self.settings.wanted()?;
        let previous = self.settings.previous(self.interface)?;
        remove(&self.key, self.node, Some(self.pod))?;
        self.await_addresses(&previous)?;
        let way = decide(
            self.settings,
            &self.key,
            self.interface,
            &previous,
            self.node,
            self.pod,
        )?;
        if let Err(error) = self.establish(&way) {
            return Err(match remove(&self.key, self.node, Some(self.pod)) {
                Ok(()) => error,
                Err(why) => error.and_also(&format!("it was not undone: {why}")),
            });
        }
        let sandbox = self.pod.netns.path.display().to_string();
        let pair = &way.pair;
        let end = |name, mac, sandbox| ShownEnd {
            name,
            mac,
            mtu: pair.mtu,
            sandbox,
        };
        let ends = [
            end(&pair.node_end, pair.node_mac, None),
            end(&pair.pod_end, pair.pod_mac, Some(sandbox.as_str())),
        ];
        Ok(previous.with_ends(&ends, self.settings.version))
    }

    fn establish(&self, way: &SecondaryRoute) -> Result<(), CniError> {
        let mut ends = Ends {
            node: self.node,
            pod: self.pod,
            indexes: BTreeMap::new(),
        };
        way.steps().iter().try_for_each(|step| {
            let done = ends.execute(step);
            done.map_err(|why| failed(step, &way.pair.pod_end, &why))
        })
    }

    /// Routes take only a source address whose duplicate detection is over.
    fn await_addresses(&self, previous: &Previous) -> Result<(), CniError> {
        let until = Instant::now() + SETTLING;
        loop {
            let unsettled = change::unsettled(&self.pod.netlink)
                .map_err(|why| kernel_error("the addresses of the Pod", &why))?;
            let one_of = |set: &BTreeSet<IpAddr>| {
                previous
                    .addresses
                    .iter()
                    .find(|one| set.contains(one))
                    .copied()
            };
            if let Some(address) = one_of(&unsettled.duplicate) {
                let message = format!("another machine has the Pod's address {address}");
                return Err(CniError::new(
                    ErrorCode::Refused,
                    message,
                    "see `ip address` in the Pod, and the neighbours of its link",
                ));
            }
            match one_of(&unsettled.tentative) {
                None => return Ok(()),
                Some(address) if Instant::now() >= until => {
                    return Err(CniError::new(
                        ErrorCode::TryAgainLater,
                        format!("duplicate detection of {address} is not over"),
                        "the runtime will retry",
                    ));
                }
                Some(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// The way of an attachment, by what is on the node and in the Pod now.
pub(super) fn decide(
    settings: &PtpSettings,
    key: &WayKey,
    interface: &InterfaceName,
    previous: &Previous,
    node: &Namespace,
    pod: &Namespace,
) -> Result<SecondaryRoute, CniError> {
    let wanted = settings.wanted()?;
    let interface = interface.to_string();
    let around = surroundings(key, &interface, previous, node, pod)
        .map_err(|why| kernel_error("the links of the node and the Pod", &why))?;
    SecondaryRoute::new(key.clone(), &interface, &wanted, previous, &around)
}

fn surroundings(
    key: &WayKey,
    interface: &str,
    previous: &Previous,
    node: &Namespace,
    pod: &Namespace,
) -> io::Result<Surroundings> {
    let of_node = links::links(&node.netlink)?;
    let reachable = change::reachable(&of_node, &change::unsettled(&node.netlink)?);
    let own_end = of_node.iter().find(|link| key.is_node_end(link));
    let mut pod_links = change::links_with_routes(&pod.netlink)?;
    let borrowed = pod_links.iter().find(|(link, _)| link.name == interface);
    let mut mtus: Vec<u32> = borrowed.iter().map(|(link, _)| link.mtu).collect();
    let mut sources = Vec::new();
    for is_family in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
        let Some(address) = previous.addresses.iter().find(|one| is_family(one)) else {
            continue;
        };
        // Without a route to it, the node has no way there yet.
        let there = change::way_to(&node.netlink, *address).ok().flatten();
        let source = there.and_then(|there| there.source);
        let source = source.filter(|source| reachable.contains(source));
        let first = reachable.iter().find(|one| is_family(one)).copied();
        sources.extend(source.or(first));
        let through = there.and_then(|there| there.through);
        let uplink = of_node.iter().find(|link| Some(link.index) == through);
        mtus.extend(uplink.map(|link| link.mtu));
    }
    // A CHECK looks while the way exists.
    let mark = key.mark();
    pod_links.retain(|(link, _)| own_end.is_none() || link.alias.as_ref() != Some(&mark));
    Ok(Surroundings {
        node_addresses: reachable.into_iter().collect(),
        sources,
        mtus,
        pod_links,
    })
}

fn failed(step: &Step, pod_end: &str, why: &io::Error) -> CniError {
    let place = |end: &End| match end {
        End::Node => "the node",
        End::Pod => "the Pod",
    };
    let what = match step {
        Step::Create(pair) => format!("the pair {} and {pod_end} of the Pod", pair.node_end),
        Step::Mark(end, _) => format!("the alias of the end in {}", place(end)),
        Step::Protect(name) => format!("the settings of {name} in /proc/sys/net"),
        Step::Up(end) => format!("the end in {}", place(end)),
        Step::Neighbour(end, neighbour) => {
            format!("the neighbour {} of {}", neighbour.address, place(end))
        }
        Step::Rule(rule) => format!("the rule of the Pod for {}", rule.source),
        Step::Route(end, route) => format!("the route of {} to {}", place(end), route.destination),
    };
    kernel_error(&what, why)
}
