//! Why a plan may not be applied as a whole: limits, protections, rules, and blindness.
//!
//! A refusal never changes what is planned.

mod limits;
mod protection;
mod subnets;

use std::collections::BTreeSet;

use super::change::{Change, NodeChange, node_changes};
use super::lb::{self, Effects};
use super::pod_pools::PodPoolObject;
use super::ports::PortChange;
use super::{Plan, rules};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, Hazard, NodeName, Rule, Waiver};
use ipam_desired::Desired;

pub use limits::exceeded_limits;

/// Why changes may not be applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Stable code.
    pub rule: Rule,
    /// What is refused.
    pub message: String,
    /// The way out.
    pub help: String,
    /// The waiver that would allow it; protections cannot be waived.
    pub waiver: Option<Waiver>,
}

impl Refusal {
    /// Whether one of these waivers allows it.
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
    /// The refusals that none of these waivers allows.
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
    refusals.extend(protection::of_nodes(changes, desired, observed));
    refusals.extend(protection::of_pools(&nodes, desired, observed));
    refusals.extend(last_pod_pools(changes, observed));
    refusals.extend(blindness(changes, observed));
    refusals.extend(subnets::refusals(changes, desired, observed));
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
    let spot = observed.blind_spots.first()?;
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
