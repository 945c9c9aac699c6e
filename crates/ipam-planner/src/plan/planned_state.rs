//! The state that a whole plan leaves for nodes that join after it, so that the cost of a new node
//! does not depend on the size of the cluster.
//!
//! Decides nothing by itself: new nodes go through the functions of the whole plan, on a supply in
//! which every known address is taken. Freed blocks become free with the next whole plan.

use std::sync::Arc;

use jiff::Timestamp;

use super::decide::plan_new_nodes;
use super::kept_addresses::{self, KeptAddresses};
use super::supply::{addresses_in_use, supply};
use super::{Blocked, Change, Plan, node_changes};
use crate::openstack::{Overlapping, SubnetPools};
use ipam_cilium::observed::{CiliumNode, ModeSeen, Node, Observed, StoredClaims};
use ipam_core::alloc::Supply;
use ipam_core::model::{IpamMode, Limited};
use ipam_core::net::Range;
use ipam_desired::{Activity, Desired};

/// The state after a whole plan.
#[derive(Clone, Debug)]
pub struct PlannedState {
    /// All pools; every observed or planned block is taken.
    supply: Supply,
    /// The observed state without nodes.
    rest: Observed,
}

/// The plan for new nodes.
#[derive(Clone, Debug)]
pub struct NewNodes {
    /// The observed state with the new nodes alone.
    pub observed: Observed,
    /// The changes that give them blocks.
    pub changes: Vec<Change>,
    /// The new nodes that get no block.
    pub blocked: Vec<Blocked>,
}

impl PlannedState {
    /// The state after this plan, which was made from these inputs; `None` if the block of a new
    /// node may depend on other nodes.
    pub fn after(plan: &Plan, desired: &Desired, observed: &Observed) -> Option<PlannedState> {
        let is_by_node = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
        let is_limited = desired
            .policy
            .limits
            .keys()
            .any(|limit| limit.limited == Limited::Assign);
        // A rule may be about all changes together.
        let has_rules = !desired.policy.rules.is_empty();
        let is_paused = desired.policy.activity == Activity::Paused;
        let subnets = SubnetPools::resolve(desired, observed);
        let is_unresolved = subnets.unresolved().is_some();
        // A node that such a pool leaves without a block is blocked, and not served by another pool.
        let has_overlap = subnets
            .overlaps()
            .iter()
            .any(|overlap| matches!(overlap.other, Overlapping::Pool(_)));
        if !is_by_node
            || is_limited
            || has_rules
            || is_paused
            || is_unresolved
            || has_overlap
            || !plan.refusals.is_empty()
        {
            return None;
        }
        let mut supply = supply(desired);
        let claims = observed.live_claims(desired.policy.quarantine);
        let planned = node_changes(&plan.changes)
            .flat_map(|change| change.after.iter().map(|block| block.range()));
        let pinned = desired
            .pins
            .values()
            .flat_map(|pin| pin.blocks.iter().map(|block| block.range()));
        let kept_addresses = KeptAddresses::new(observed, &supply);
        let taken = addresses_in_use(desired, observed, &claims, &kept_addresses)
            .into_iter()
            .chain(planned)
            .chain(pinned);
        taken.for_each(|range| supply.take(&range));
        Some(PlannedState {
            supply,
            rest: without_nodes(observed),
        })
    }

    /// Takes addresses that came into use since.
    pub fn take(&mut self, range: &Range) {
        self.supply.take(range);
    }

    /// Takes the addresses of a node's machine.
    pub fn take_machine(&mut self, node: &Node) {
        kept_addresses::of_machine(node, &self.supply)
            .iter()
            .for_each(|range| self.supply.take(range));
    }

    /// Plans for nodes without blocks, each with its CiliumNode if one exists, and these claims.
    /// `None` if one of them is not new, or a write is under way: then a whole plan is required.
    pub fn newcomers(
        &mut self,
        desired: &Desired,
        claims: StoredClaims,
        at: Timestamp,
        nodes: Vec<(Arc<Node>, Option<Arc<CiliumNode>>)>,
    ) -> Option<NewNodes> {
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
        ) = plan_new_nodes(desired, &observed, supply);
        self.supply = supply;
        Some(NewNodes {
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
        migration,
        cilium,
        // These addresses are taken in the supply.
        unattributed: _,
        service_ranges,
        primary_family,
        address_pools_served,
        address_pools: _,
        pod_pools_served,
        pod_pools: _,
        services: _,
        unread_annotations: _,
        services_with_host: _,
        controller_manager,
        cluster_cidrs,
        node_configs_served,
        node_configs,
        announcing: _,
        // The next whole plan sets the pairs of new nodes.
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
        migration: migration.clone(),
        ..Observed::default()
    }
}
