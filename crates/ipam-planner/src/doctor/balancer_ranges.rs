//! LoadBalancer pools over the addresses of machines and over the Service CIDR.

use std::collections::BTreeMap;

use super::finding;
use ipam_cilium::observed::{Observed, OtherUser};
use ipam_core::model::{Finding, ObjectRef, Severity, grouped_digits};
use ipam_core::net::{Range, RangeIndex};

/// Pools over blocks of Pods are told for each node.
pub(super) fn over_other_addresses(observed: &Observed) -> Vec<Finding> {
    let others = observed.used_by_others().filter(|(_, user)| match user {
        OtherUser::Machine(_) | OtherUser::ServiceCidr => true,
        OtherUser::AddressPool(_) | OtherUser::Service(_) => false,
    });
    let others = RangeIndex::new(others);
    let mut used: BTreeMap<&str, Vec<(Range, OtherUser<'_>)>> = BTreeMap::new();
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
    let finding = |(name, mut users): (&str, Vec<(Range, OtherUser<'_>)>)| {
        users.sort_unstable();
        users.dedup();
        let (range, user) = users.first()?;
        let more = match users.len() - 1 {
            0 => String::new(),
            count => format!(", and {} more", grouped_digits(count)),
        };
        let message = format!(
            "CiliumLoadBalancerIPPool `{}` may give Services {range}, {user}{more}",
            name.escape_debug()
        );
        let finding = finding(Severity::Error, "address-pool-in-use", message)
            .about(ObjectRef::address_pool(name))
            .seen(users.iter().map(|(range, user)| format!("{range}: {user}")));
        let finding = finding.causes("packets to one of the two go to the other");
        Some(finding.help("remove these addresses from the pool"))
    };
    used.into_iter().filter_map(finding).collect()
}
