//! Rules on the size of blocks.

use ipam_core::model::{Finding, ObjectRef, Rule, Severity};
use ipam_core::net::Family;
use ipam_desired::{Desired, Pool};

/// Longest usable prefix. Cilium reserves the first and the last address, and uses one for its
/// router and one for its health endpoint. The minimum mask is /30
/// (Documentation/network/concepts/ipam @ 1.20); IPv6 needs as many addresses.
fn longest(family: Family) -> u8 {
    family.bits() - 2
}

pub(super) fn too_small_for_cilium(desired: &Desired) -> Vec<Finding> {
    let finding = |pool: &Pool| {
        let size = pool
            .block_size
            .iter()
            .find(|size| size.prefix_len() > longest(size.family()))?;
        let message = format!(
            "pool `{}` gives {size} blocks, in which Cilium has no address left for a Pod",
            pool.name
        );
        let finding = Finding::new(Severity::Warning, Rule("block-too-small"), message)
            .about(ObjectRef::pool(&pool.name));
        let help = format!(
            "use /{} or shorter; /{} and shorter is sensible",
            longest(size.family()),
            longest(size.family()) - 1
        );
        Some(finding.at(&pool.origin, format!("gives {size}")).help(help))
    };
    desired.pools.values().filter_map(finding).collect()
}
