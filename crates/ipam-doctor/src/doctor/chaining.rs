//! CNI chaining: another plugin gives Pods their addresses, so the rules about blocks of Pods do not
//! apply. The block of a node has only Cilium's own addresses, which must collide with no others.

use super::{finding, future_ranges};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, Severity, grouped_digits};
use ipam_core::net::RangeIndex;
use ipam_plan::allocators::overlapping_holders;

pub(super) fn colliding_ranges(observed: &Observed) -> Vec<Finding> {
    let Some(mode) = observed.chaining_mode() else {
        return Vec::new();
    };
    let now = collisions(observed);
    let soon = future_ranges::reached_soon(observed);
    let Some(first) = now.iter().chain(&soon).next() else {
        return Vec::new();
    };
    let all = now.len() + soon.len();
    let more = match all - 1 {
        0 => String::new(),
        others => format!(", and {} more", grouped_digits(others)),
    };
    let message = format!(
        "Pods get their addresses from another plugin (cni-chaining-mode {}), but Cilium's own addresses can collide: {first}{more}",
        mode.escape_debug()
    );
    let finding = finding(Severity::Warning, "chained-range-in-use", message);
    let finding = finding
        .seen([format!("cilium-config cni-chaining-mode: {}", mode.escape_debug())])
        .seen(now)
        .seen(soon)
        .causes("the agent gives cilium_host and its health endpoint addresses of this block, which a machine, a Service or a Pod may have, too");
    vec![finding.help("give Cilium's IPAM a range outside the networks of machines, Pods and Services; then delete the CiliumNodes and restart the agents, one node after the other: Pods keep the addresses of the other plugin")]
}

/// Blocks of nodes over addresses in other use, and over those of other nodes.
fn collisions(observed: &Observed) -> Vec<String> {
    let others = RangeIndex::new(observed.used_by_others());
    let of_others = observed.pod_blocks().flat_map(|(name, block)| {
        let others = others.overlapping(&block.range());
        others
            .map(move |(range, user)| format!("{block} of node `{name}` overlaps {range}, {user}"))
    });
    let pairs = overlapping_holders(observed.pod_blocks().collect()).into_iter();
    let twice = pairs.map(|((one, block), (other, same))| {
        format!("{block} of node `{one}` overlaps {same} of node `{other}`")
    });
    of_others
        .collect::<Vec<_>>()
        .into_iter()
        .chain(twice)
        .collect()
}
