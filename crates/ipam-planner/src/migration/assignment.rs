//! The change that gives a node the blocks of its record: that of a plan of the files with a pin.
//!
//! A plan of the node's [`Surroundings`] finds it. Everything else is left to a plan of the whole
//! cluster: a change with blocks that were not asked for, a refusal and its reason, and that nothing
//! is to be written. It must never write.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::{Method, NodeRecord};
use super::step::AssignOutcome;
use super::surroundings::Surroundings;
use crate::plan::{Change, Plan, Target, plan, plan_nodes};
use ipam_cilium::observed::Observed;
use ipam_core::model::{IpamMode, Origin, WritePath, WritePathChoice};
use ipam_desired::{Desired, Pin};

/// The files, for one node after the other.
#[derive(Debug)]
pub struct Assignments<'d> {
    desired: &'d Desired,
    /// The files without what decides nothing about a block that is asked for.
    pools: Desired,
}

impl<'d> Assignments<'d> {
    pub fn new(desired: &'d Desired) -> Assignments<'d> {
        let Desired {
            pools,
            neutron_pools: _,
            faulty,
            pins: _,
            address_pools,
            address_pools_asked,
            service_pins: _,
            policy,
            rule_cases: _,
        } = desired;
        let pools = Desired {
            pools: pools.clone(),
            neutron_pools: BTreeMap::new(),
            faulty: faulty.clone(),
            pins: BTreeMap::new(),
            address_pools: address_pools.clone(),
            address_pools_asked: *address_pools_asked,
            service_pins: BTreeMap::new(),
            policy: policy.clone(),
            rule_cases: Vec::new(),
        };
        Assignments { desired, pools }
    }

    /// The change that writes the goal of the record.
    ///
    /// # Errors
    /// Fails if there is nothing to write, or if it cannot be written, and says which.
    pub fn change(
        &self,
        cluster: &Surroundings,
        record: &NodeRecord,
    ) -> Result<Change, AssignOutcome> {
        match self.near(cluster, record) {
            Some(change) => Ok(change),
            None => self.far(cluster.whole(), record),
        }
    }

    /// The change by the surroundings of the node, if it gives nothing but the goal. Then nothing
    /// farther away has a say: no pool chooses, and every user of the goal is near.
    fn near(&self, cluster: &Surroundings, record: &NodeRecord) -> Option<Change> {
        let goal = record.goal();
        let observed = as_changeable(cluster.of(&record.node, goal), record);
        let desired = with_pin(self.pools.clone(), record);
        let change = change_in(plan_nodes(&desired, &observed), record)?;
        let gives = change.as_node()?.new_blocks();
        gives
            .iter()
            .all(|block| goal.contains(block))
            .then_some(change)
    }

    /// The change by the whole cluster.
    fn far(&self, whole: &Observed, record: &NodeRecord) -> Result<Change, AssignOutcome> {
        let observed = as_changeable(whole.clone(), record);
        let desired = with_pin(self.desired.clone(), record);
        let plan = plan(&desired, &observed, Vec::new());
        let target = Target::Node(record.node.clone());
        if let Some(blocked) = plan.blocked.iter().find(|blocked| blocked.target == target) {
            let why = blocked.reason.to_string();
            // The agent or the operator made the CiliumNode anew since it was looked at.
            let is_back = observed.cilium_nodes.contains_key(&record.node);
            return Err(match (record.method, is_back) {
                (Method::CiliumNode, true) => AssignOutcome::Again(why),
                _ => AssignOutcome::Blocked(why),
            });
        }
        change_in(plan, record).ok_or(match record.method {
            // It was deleted, so a plan that has nothing to write saw another moment.
            Method::CiliumNode => {
                AssignOutcome::Again("another program wrote the CiliumNode".to_owned())
            }
            _ => AssignOutcome::Shown,
        })
    }
}

fn change_in(plan: Plan, record: &NodeRecord) -> Option<Change> {
    let target = Target::Node(record.node.clone());
    let mut changes = plan.changes.into_iter();
    changes.find(|change| change.target() == target)
}

/// The files with the record as a pin.
fn with_pin(mut desired: Desired, record: &NodeRecord) -> Desired {
    desired.policy.write_path = WritePathChoice::Forced(match record.method {
        Method::CiliumNode | Method::ToClusterPool => WritePath::CiliumNode,
        Method::NodeConfig => WritePath::NodeConfig,
        Method::NodeObject | Method::ToKubernetes => WritePath::NodeSpec,
    });
    // The schedule was made with the subnets; without them, the plan would wait for them.
    desired.neutron_pools.clear();
    let pin = Pin {
        node: record.node.clone(),
        pool: record.pool.clone(),
        blocks: record.goal().iter().copied().collect(),
        origin: Origin::whole_file(&Arc::from("the record of the migration")),
    };
    desired.pins.insert(record.node.clone(), pin);
    desired
}

/// The cluster in which a plan may change the node of the record.
fn as_changeable(mut observed: Observed, record: &NodeRecord) -> Observed {
    observed.migration = None;
    if let Some(node) = observed.nodes.get_mut(&record.node) {
        Arc::make_mut(node).migration = None;
    }
    match record.method {
        // The old agent still shows the old block, which the new Node does not have.
        Method::NodeObject => drop(observed.cilium_nodes.remove(&record.node)),
        Method::ToKubernetes => observed.cilium.mode_override = Some(IpamMode::Kubernetes),
        Method::CiliumNode | Method::NodeConfig | Method::ToClusterPool => {}
    }
    observed
}

#[cfg(test)]
mod tests;
