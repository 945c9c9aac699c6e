//! What a whole plan leaves for nodes that join after it, so that serving one costs what one node
//! costs and not what the cluster does.
//!
//! It decides nothing by itself: newcomers go through the very functions that the whole plan goes
//! through, on a supply in which all that was seen is taken. Blocks that become free are free again
//! with the next whole plan.

use std::sync::Arc;

use jiff::Timestamp;

use super::decide::{addresses_in_use, plan_newcomers, supply};
use super::withheld::{self, Withheld};
use super::{Blocked, Change, Plan, node_changes};
use crate::check::{self, NeutronRival};
use ipam_cilium::observed::{CiliumNode, KeptClaims, ModeSeen, Node, Observed};
use ipam_core::alloc::Supply;
use ipam_core::model::{IpamMode, Limited};
use ipam_core::net::Range;
use ipam_desired::{Activity, Desired};

/// The state after a whole plan.
#[derive(Clone, Debug)]
pub struct PlannedState {
    /// All pools; taken is whatever was seen or planned.
    supply: Supply,
    /// What holds for every node, without the nodes.
    rest: Observed,
}

/// The plan for newcomers.
#[derive(Clone, Debug)]
pub struct Newcomers {
    /// What it was made from: the newcomers and what holds for every node.
    pub observed: Observed,
    /// Their blocks.
    pub changes: Vec<Change>,
    /// Those that get none.
    pub blocked: Vec<Blocked>,
}

impl PlannedState {
    /// What is left after this plan, which was made from these; `None` where a node's block hangs
    /// together with more than that node.
    pub fn after(plan: &Plan, desired: &Desired, observed: &Observed) -> Option<PlannedState> {
        let is_by_node = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
        let is_limited = desired
            .policy
            .limits
            .keys()
            .any(|limit| limit.limited == Limited::Assign);
        let is_paused = desired.policy.activity == Activity::Paused;
        let is_unread = check::neutron_trouble(desired, observed).is_some();
        // What such a pool would give is refused, and what another one would give instead.
        let has_overlap = check::neutron_overlaps(desired, observed)
            .iter()
            .any(|overlap| matches!(overlap.rival, NeutronRival::Pool(_)));
        if !is_by_node
            || is_limited
            || is_paused
            || is_unread
            || has_overlap
            || !plan.refusals.is_empty()
        {
            return None;
        }
        let mut supply = supply(desired);
        let claims = observed.claims_in_force(desired.policy.quarantine);
        let planned = node_changes(&plan.changes)
            .flat_map(|change| change.after.iter().map(|block| block.range()));
        let pinned = desired
            .pins
            .values()
            .flat_map(|pin| pin.blocks.iter().map(|block| block.range()));
        let withheld = Withheld::new(observed, &supply);
        let taken = addresses_in_use(desired, observed, &claims, &withheld)
            .into_iter()
            .chain(planned)
            .chain(pinned);
        taken.for_each(|range| supply.take(&range));
        Some(PlannedState {
            supply,
            rest: without_nodes(observed),
        })
    }

    /// Takes addresses that somebody has by now.
    pub fn take(&mut self, range: &Range) {
        self.supply.take(range);
    }

    /// Takes the addresses of a node's machine.
    pub fn take_machine(&mut self, node: &Node) {
        withheld::of_machine(node, &self.supply)
            .iter()
            .for_each(|range| self.supply.take(range));
    }

    /// Plans for nodes that hold nothing, with their CiliumNodes where there are any, and these
    /// claims. `None` where one of them is no newcomer, or a write is under way: then it takes a
    /// whole plan.
    pub fn newcomers(
        &mut self,
        desired: &Desired,
        claims: KeptClaims,
        at: Timestamp,
        nodes: Vec<(Arc<Node>, Option<Arc<CiliumNode>>)>,
    ) -> Option<Newcomers> {
        let is_named = |node: &Node| claims.claims.held().any(|(_, name)| *name == node.name);
        let shows_nothing = |other: &CiliumNode| {
            other.pod_cidrs.is_empty() && other.unreadable.is_empty() && other.allocated.is_empty()
        };
        let is_newcomer = |(node, cilium_node): &(Arc<Node>, Option<Arc<CiliumNode>>)| {
            node.shown.is_empty()
                && self.rest.unreadable(node).is_none()
                && !desired.pins.contains_key(&node.name)
                && !is_named(node)
                && cilium_node
                    .as_ref()
                    .is_none_or(|other| shows_nothing(other))
        };
        if !claims.claims.in_flight.is_empty() || !nodes.iter().all(is_newcomer) {
            return None;
        }
        let mut observed = Observed {
            claims,
            at,
            ..self.rest.clone()
        };
        for (node, cilium_node) in nodes {
            observed
                .cilium_nodes
                .extend(cilium_node.map(|other| (node.name.clone(), other)));
            observed.nodes.insert(node.name.clone(), node);
        }
        let supply = std::mem::take(&mut self.supply);
        let (
            supply,
            Plan {
                changes, blocked, ..
            },
        ) = plan_newcomers(desired, &observed, supply);
        self.supply = supply;
        Some(Newcomers {
            observed,
            changes,
            blocked,
        })
    }
}

fn without_nodes(observed: &Observed) -> Observed {
    let Observed {
        nodes: _,
        cilium_nodes: _,
        at,
        claims: _,
        cilium,
        // Taken in the supply, as is all that follows without a name.
        unattributed: _,
        service_ranges,
        primary_family,
        address_pools_served,
        address_pools: _,
        pod_pools_served,
        pod_pools: _,
        services: _,
        controller_manager,
        cluster_cidrs,
        node_configs_served,
        node_configs,
        announcing: _,
        // Pairs of nodes that join are for the next whole plan.
        ports: _,
        subnets,
        blind_spots,
        findings: _,
    } = observed;
    Observed {
        at: *at,
        cilium: cilium.clone(),
        service_ranges: service_ranges.clone(),
        primary_family: *primary_family,
        address_pools_served: *address_pools_served,
        pod_pools_served: *pod_pools_served,
        controller_manager: *controller_manager,
        cluster_cidrs: cluster_cidrs.clone(),
        node_configs_served: *node_configs_served,
        node_configs: node_configs.clone(),
        subnets: subnets.clone(),
        blind_spots: blind_spots.clone(),
        ..Observed::default()
    }
}
