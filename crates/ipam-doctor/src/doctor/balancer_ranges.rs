//! LoadBalancer pools over addresses of machines, BGP peers or the Service CIDR. `future_ranges`
//! reports pools over blocks of Pods, by node.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::finding;
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{Observed, OtherUser};
use ipam_core::model::{Finding, ObjectRef, Severity, grouped_digits};
use ipam_core::net::{Range, RangeIndex};

/// What has the addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum User<'o> {
    Other(OtherUser<'o>),
    /// A BGP peer of this object, such as a router.
    Peer {
        kind: &'static str,
        name: &'o str,
    },
}

impl fmt::Display for User<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Other(user) => user.fmt(f),
            User::Peer { kind, name } => write!(
                f,
                "the address of a BGP peer ({kind} `{}`)",
                name.escape_debug()
            ),
        }
    }
}

pub(super) fn over_other_addresses(observed: &Observed) -> Vec<Finding> {
    let others = observed.used_by_others().filter(|(_, user)| match user {
        OtherUser::Machine(_) | OtherUser::ServiceCidr => true,
        OtherUser::AddressPool(_) | OtherUser::Service(_) => false,
    });
    let others = others.map(|(range, user)| (range, User::Other(user)));
    let peers = observed.bgp_peers();
    let peers = peers.map(|(address, kind, name)| (address.into(), User::Peer { kind, name }));
    let others = RangeIndex::new(others.chain(peers));
    let mut used: BTreeMap<&str, Vec<(Range, User<'_>)>> = BTreeMap::new();
    for (name, range) in observed.load_balancer_ranges() {
        let is_disabled = observed
            .address_pools
            .get(name)
            .is_some_and(|pool| pool.manifest.spec.disabled);
        if !is_disabled {
            let overlapping = others.overlapping(&range).copied();
            used.entry(name).or_default().extend(overlapping);
        }
    }
    let used = used.into_iter();
    used.filter_map(|(name, users)| of_pool(observed, name, users))
        .collect()
}

fn of_pool(observed: &Observed, name: &str, mut users: Vec<(Range, User<'_>)>) -> Option<Finding> {
    users.sort_unstable();
    users.dedup();
    let (range, user) = users.first()?;
    let more = match users.len() - 1 {
        0 => String::new(),
        count => format!(", and {} more", grouped_digits(count)),
    };
    let held = held(observed, name, &users);
    let pool = format!("CiliumLoadBalancerIPPool `{}`", name.escape_debug());
    let message = match held.first() {
        Some(first) => format!("{first}, of {pool}{more}"),
        None => format!("{pool} may give Services {range}, {user}{more}"),
    };
    let help = match held.is_empty() {
        true => "remove these addresses from the pool",
        false => "remove these addresses from the pool: its Services then get others",
    };
    let finding = finding(Severity::Error, "address-pool-in-use", message)
        .about(ObjectRef::address_pool(name))
        .seen(users.iter().map(|(range, user)| format!("{range}: {user}")))
        .seen(held);
    let finding = finding.causes("packets to one of the two go to the other");
    Some(finding.help(help))
}

/// Services that have such an address of the pool already, as sentences.
fn held(observed: &Observed, name: &str, users: &[(Range, User<'_>)]) -> Vec<String> {
    let rules = observed.lb_rules();
    let is_ours = |service: &&LbService| rules.serves(service);
    let ranges = observed.load_balancer_ranges();
    let ranges: Vec<Range> = ranges
        .filter(|(pool, _)| *pool == name)
        .map(|(_, range)| range)
        .collect();
    let users = RangeIndex::new(users.iter().copied());
    let line = |service: &LbService, address: &IpAddr| {
        let one = Range::from(*address);
        let (_, user) = users.overlapping(&one).next()?;
        let is_of_pool = ranges.iter().any(|range| range.contains(&one));
        let name = service.name.to_string();
        is_of_pool.then(|| format!("Service `{}` has {address}, {user}", name.escape_debug()))
    };
    let services = observed.services.values().filter(is_ours);
    services
        .flat_map(|service| {
            let addresses = service.ingress.iter();
            addresses
                .filter_map(move |address| line(service, address))
                .collect::<Vec<_>>()
        })
        .collect()
}
