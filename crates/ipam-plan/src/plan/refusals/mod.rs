//! Why a plan may not be applied as a whole: limits, protections, rules, and blindness.
//!
//! A refusal never changes what is planned.
//!
//! Protected nodes and pools: their pods are not disturbed.
//!
//! Changes that would give addresses of a Neutron subnet are refused.

mod limits;

use std::collections::BTreeSet;

use super::change::{Action, Change, NodeChange, Reason, node_changes};
use super::lb::{self, Effects};
use super::pod_pools::{PodPoolObject, PodPoolSpec};
use super::ports::PortChange;
use super::{Plan, rules};
use crate::openstack::{Overlapping, SubnetOverlap, SubnetPools};
use ipam_cilium::observed::{Observed, Protection};
use ipam_core::model::{AddressPoolName, Finding, Hazard, NodeName, PoolName, Rule, Waiver};
use ipam_core::net::{Block, RangeIndex};
use ipam_core::text::joined;
use ipam_desired::Desired;

pub use limits::exceeded_limits;

/// Why changes may not be applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// The limit or protection that refuses the changes.
    pub rule: Rule,
    /// The refused changes and the limit that they exceed, in a sentence.
    pub message: String,
    /// How to make the changes acceptable: a sentence for people.
    pub help: String,
    /// The waiver that would allow the changes; `None` for protections, which cannot be waived.
    pub waiver: Option<Waiver>,
}

impl Refusal {
    /// Whether one of these waivers allows the refused changes.
    pub fn is_waived(&self, waivers: &BTreeSet<Waiver>) -> bool {
        self.waiver
            .is_some_and(|needed| waivers.iter().any(|waiver| waiver.covers(needed)))
    }
}

/// Every refusal of these changes, with their effects on Services.
pub fn refusals(
    changes: &[Change],
    effects: &Effects,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    let broken = rules::findings(changes, effects, desired, observed);
    all(changes, effects, desired, observed, &broken)
}

impl Plan {
    /// Refusals that are still in force with these waivers.
    pub(super) fn unwaived(&self, waivers: &BTreeSet<Waiver>) -> impl Iterator<Item = &Refusal> {
        let refusals = self.refusals.iter();
        refusals.filter(move |refusal| !refusal.is_waived(waivers))
    }

    /// Sets the refusals and the broken rules of all changes together.
    pub(super) fn judge(&mut self, desired: &Desired, observed: &Observed) {
        let broken = rules::findings(&self.changes, &self.effects, desired, observed);
        self.refusals = all(&self.changes, &self.effects, desired, observed, &broken);
        self.findings.retain(|finding| finding.rule != rules::CODE);
        self.findings.extend(broken);
        self.findings.sort();
    }
}

fn all(
    changes: &[Change],
    effects: &Effects,
    desired: &Desired,
    observed: &Observed,
    broken: &[Finding],
) -> Vec<Refusal> {
    let nodes: Vec<&NodeChange> = node_changes(changes).collect();
    let mut refusals: Vec<Refusal> = limits::refusals(changes, &desired.policy, observed);
    refusals.extend(of_nodes(changes, desired, observed));
    refusals.extend(of_pools(&nodes, desired, observed));
    refusals.extend(last_pod_pools(changes, observed));
    refusals.extend(blindness(changes, observed));
    refusals.extend(subnet_refusals(changes, desired, observed));
    refusals.extend(lb::refusals(changes, effects, desired, observed));
    if !changes.is_empty() {
        refusals.extend(rules::refusals(broken));
    }
    refusals.sort();
    refusals
}

/// Addresses that are removed may be in use by objects that cannot be read.
fn blindness(changes: &[Change], observed: &Observed) -> Option<Refusal> {
    let takes = |change: &&Change| match change {
        Change::Port(change) => !change.removed.is_empty(),
        other => other.hazard() == Hazard::Destructive,
    };
    let change = changes.iter().find(takes)?;
    let spot = observed.hidden_users()?;
    Some(Refusal {
        rule: Rule("destructive-with-unreadable-kind"),
        message: match change {
            Change::Node(node) => {
                format!(
                    "node `{}` would lose a block while {} cannot be read",
                    node.node,
                    spot.kind.resource()
                )
            }
            Change::Port(port) => format!(
                "the port of node `{}` would allow fewer addresses while {} cannot be read",
                port.node,
                spot.kind.resource()
            ),
            other => format!(
                "{} would be changed while {} cannot be read, and Services may lose addresses by it",
                other.target(),
                spot.kind.resource()
            ),
        },
        help: "allow `list` on it; without it, nothing is removed".to_owned(),
        waiver: None,
    })
}

/// A directory without any of our pools is more often the wrong directory than intended.
fn last_pod_pools(changes: &[Change], observed: &Observed) -> Option<Refusal> {
    let is_deleted = |change: &&Change| match change {
        Change::PodPool(change) => {
            change.after.is_none() && matches!(change.object, PodPoolObject::Pool(..))
        }
        Change::AddressPool(_) | Change::Service(_) | Change::Port(_) | Change::Node(_) => false,
    };
    let count = changes.iter().filter(is_deleted).count();
    let is_left = observed
        .pod_pools
        .values()
        .filter(|pool| pool.is_ours())
        .count()
        > count;
    (count > 0 && !is_left).then(|| Refusal {
        rule: Rule("last-pod-pools"),
        message: format!(
            "the files have none of our CiliumPodIPPools, and all would be deleted ({count})"
        ),
        help: "check that it is the right directory, since each cluster has its own; or delete them by hand".to_owned(),
        waiver: None,
    })
}

/// Nodes whose agents take addresses of another pool when they restart.
fn disturbed(changes: &[Change]) -> impl Iterator<Item = &NodeName> {
    changes
        .iter()
        .flat_map(|change| match change {
            Change::PodPool(change) => Some(&change.disturbed),
            Change::AddressPool(_) | Change::Service(_) | Change::Port(_) | Change::Node(_) => None,
        })
        .flatten()
}

fn ports(changes: &[Change]) -> impl Iterator<Item = &PortChange> {
    changes.iter().filter_map(|change| match change {
        Change::Port(change) => Some(&**change),
        Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) | Change::Node(_) => None,
    })
}

const UNPROTECT: &str = "remove the protection first, in a change of its own";

fn is_disruptive(change: &NodeChange) -> bool {
    change.hazard != Hazard::None || change.action == Action::Release
}

pub(super) fn of_nodes(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Refusal> {
    let by_itself = |node: &NodeName| {
        observed
            .nodes
            .get(node)
            .is_some_and(|node| node.protection == Protection::Protected)
    };
    let by_policy = |node: &NodeName| desired.policy.protected.nodes.contains(node);
    let refusal = |(node, what, help): (&NodeName, String, &str)| {
        let by = if by_policy(node) {
            ""
        } else {
            " by its annotation cilium-ipam.io/protected"
        };
        Refusal {
            rule: Rule("protected-node"),
            message: format!("node `{node}` would {what}, and is protected{by}"),
            help: help.to_owned(),
            waiver: None,
        }
    };
    let concerned = node_changes(changes).filter(|change| is_disruptive(change));
    let concerned = concerned.map(|change| (&change.node, harm(change), way_out(change)));
    let disturbed = disturbed(changes).map(|node| (node, "take addresses of another pool"));
    let cut_off = ports(changes).filter(|change| !change.removed.is_empty());
    let cut_off = cut_off.map(|change| (&change.node, "allow fewer addresses on its port"));
    let others = disturbed.chain(cut_off);
    concerned
        .chain(others.map(|(node, what)| (node, what.to_owned(), UNPROTECT)))
        .filter(|(node, ..)| by_policy(node) || by_itself(node))
        .map(refusal)
        .collect()
}

/// What the change would do to its node.
fn harm(change: &NodeChange) -> String {
    match (change.action, &change.reason) {
        (Action::Release, _) => "lose its block".to_owned(),
        (_, Reason::MovedByPin { from }) => {
            format!("move from {from} to {}", joined(&change.after, " "))
        }
        _ => "need a restart of its agent".to_owned(),
    }
}

/// A pin is the only cause of a move, and easier to remove than the protection.
fn way_out(change: &NodeChange) -> &'static str {
    match (change.action, &change.reason) {
        (Action::Update | Action::Assign, Reason::MovedByPin { .. }) => {
            "remove the pin, and the node keeps its block; if it is to move, first remove the protection, in a change of its own"
        }
        _ => UNPROTECT,
    }
}

pub(super) fn of_pools(
    changes: &[&NodeChange],
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    let protected = &desired.policy.protected.pools;
    let refusal = |message: String, help: &str| Refusal {
        rule: Rule("protected-pool"),
        message,
        help: format!("{help}remove the protection first, in a change of its own"),
        waiver: None,
    };
    let is_declared = |pool: &PoolName| {
        desired.pools.contains_key(pool) || desired.neutron_pools.contains_key(pool)
    };
    let balancers = desired.address_pools.keys();
    let balancers: BTreeSet<&str> = balancers.map(AddressPoolName::as_str).collect();
    let is_balancer = |pool: &PoolName| balancers.contains(pool.as_str());
    let gone = protected
        .iter()
        .filter(|pool| !is_declared(pool) && !is_balancer(pool));
    let gone = gone.map(|pool| {
        refusal(
            format!("pool `{pool}` is protected, and no file declares it"),
            "bring it back, or ",
        )
    });
    let by_address = RangeIndex::new(protected.iter().flat_map(|name| {
        let ranges = desired
            .pools
            .get(name)
            .into_iter()
            .flat_map(|pool| &pool.ranges);
        ranges.map(move |range| (range.block.range(), (range.block, name)))
    }));
    let held = |change: &NodeChange| {
        let node = observed.nodes.get(&change.node);
        let shown = node.into_iter().flat_map(|node| &node.shown).copied();
        let around = shown.flat_map(|block| {
            let overlapping = by_address.overlapping(&block.range());
            overlapping.filter(move |(_, (cidr, _))| cidr.contains(block))
        });
        around.map(|(_, (_, name))| *name).min()
    };
    let hit = changes.iter().filter(|change| is_disruptive(change));
    let hit = hit.filter_map(|change| {
        let own = change.pool.as_ref().and_then(|pool| protected.get(pool));
        Some((change, own.into_iter().chain(held(change)).min()?))
    });
    let hit = hit.map(|(change, pool)| {
        let message = format!(
            "node `{}` has or would get a block of pool `{pool}`, which is protected, and its pods would be disturbed",
            change.node
        );
        refusal(message, "")
    });
    gone.chain(hit).collect()
}

pub(super) fn subnet_refusals(
    changes: &[Change],
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    if desired.neutron_pools.is_empty() {
        return Vec::new();
    }
    let overlaps = SubnetPools::resolve(desired, observed)
        .overlaps()
        .into_iter();
    let concerned = overlaps.filter(|overlap| changes.iter().any(|change| gives(change, overlap)));
    let refusal = |overlap: SubnetOverlap<'_>| {
        Refusal {
        rule: Rule("neutron-overlap"),
        message: format!(
            "the plan would give addresses of a Neutron subnet: {}",
            overlap.message()
        ),
        help: "this cannot be undone while the ranges overlap; Neutron gives those of a subnet to ports"
            .to_owned(),
        waiver: None,
    }
    };
    concerned.map(refusal).collect()
}

/// Whether a change gives addresses that are of the pool and of the subnet.
fn gives(change: &Change, overlap: &SubnetOverlap<'_>) -> bool {
    let is_shared = |block: &Block| {
        let range = block.range();
        range.overlaps(&overlap.range.range()) && range.overlaps(&overlap.other_range)
    };
    match (change, &overlap.other) {
        (Change::Node(change), Overlapping::Pool(_)) => {
            change.action != Action::Release && change.after.iter().any(is_shared)
        }
        (Change::PodPool(change), Overlapping::Pool(_)) => match &change.after {
            Some(PodPoolSpec::Pool(ranges)) => {
                let mut cidrs = ranges.iter().flat_map(|ranges| &ranges.cidrs);
                cidrs.any(is_shared)
            }
            Some(PodPoolSpec::Choice { .. }) | None => false,
        },
        (Change::AddressPool(change), Overlapping::AddressPool(name)) => {
            change.after.is_some() && change.object.name.as_str() == *name
        }
        (
            Change::Node(_)
            | Change::PodPool(_)
            | Change::Port(_)
            | Change::AddressPool(_)
            | Change::Service(_),
            _,
        ) => false,
    }
}
