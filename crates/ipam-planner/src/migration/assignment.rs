//! The change that gives a node the blocks of its record: that of a plan of the files with a pin. It
//! must never write.

use std::sync::Arc;

use super::record::{Method, NodeRecord};
use super::step::AssignOutcome;
use crate::plan::{Change, Plan, Target, plan};
use ipam_cilium::observed::Observed;
use ipam_core::model::{IpamMode, Origin, WritePath, WritePathChoice};
use ipam_desired::{Desired, Pin};

/// The change that writes the goal of the record.
///
/// # Errors
/// Fails if there is nothing to write, or if it cannot be written, and says which.
pub fn assignment(
    desired: &Desired,
    observed: &Observed,
    record: &NodeRecord,
) -> Result<Change, AssignOutcome> {
    let observed = as_changeable(observed.clone(), record);
    let Plan {
        changes, blocked, ..
    } = plan(&with_pin(desired.clone(), record), &observed, Vec::new());
    let target = Target::Node(record.node.clone());
    if let Some(blocked) = blocked.iter().find(|blocked| blocked.target == target) {
        let why = blocked.reason.to_string();
        // The agent or the operator made the CiliumNode anew since it was looked at.
        let is_back = observed.cilium_nodes.contains_key(&record.node);
        return Err(match (record.method, is_back) {
            (Method::CiliumNode, true) => AssignOutcome::Again(why),
            _ => AssignOutcome::Blocked(why),
        });
    }
    let change = changes.into_iter().find(|change| change.target() == target);
    change.ok_or(match record.method {
        // It was deleted, so a plan that has nothing to write saw another moment.
        Method::CiliumNode => {
            AssignOutcome::Again("another program wrote the CiliumNode".to_owned())
        }
        _ => AssignOutcome::Shown,
    })
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
