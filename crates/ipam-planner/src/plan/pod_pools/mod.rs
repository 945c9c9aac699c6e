//! Ipam `multi-pool`: each pool of the files becomes a `CiliumPodIPPool` and a `CiliumNodeConfig`
//! that makes it the default of its nodes.
//!
//! Cilium's operator hands out the blocks here, on the demand of each agent, so no block of a node
//! is planned. If several `CiliumNodeConfig`s select a node, the last by name wins
//! (`pkg/option/resolver/resolver.go` @ 1.20). So the name carries the rank of the pool. The size
//! of a pool's blocks cannot be changed.

mod change;
mod choices;
mod other_writers;
mod pools;

use super::Blocked;
use super::blocked::{BlockedReason, PinObstacle};
use super::change::{Change, Target};
use ipam_cilium::observed::Observed;
use ipam_core::model::{WritePath, WritePathChoice};
use ipam_desired::Desired;

pub use change::{PodPoolChange, PodPoolObject, PodPoolSpec};
pub(crate) use choices::priority_in;

/// The part of a plan that is about pools of Pods.
#[derive(Default)]
pub(super) struct PodPoolPlan {
    pub(super) changes: Vec<PodPoolChange>,
    pub(super) blocked: Vec<Blocked>,
    pub(super) unchanged: Vec<Target>,
}

/// Whether Cilium's operator hands out blocks from pools of Pods.
pub(super) fn are_used(observed: &Observed, choice: WritePathChoice) -> bool {
    let is_asked = matches!(
        choice,
        WritePathChoice::Auto | WritePathChoice::Forced(WritePath::PodIpPool)
    );
    is_asked && observed.is_multi_pool()
}

pub(super) fn plan(desired: &Desired, observed: &Observed) -> PodPoolPlan {
    let mut plan = PodPoolPlan::default();
    pools::decide(desired, observed, &mut plan);
    choices::decide(desired, observed, &mut plan);
    for pin in desired.pins.values() {
        let target = Target::Node(pin.node.clone());
        plan.blocked.push(Blocked {
            target,
            reason: BlockedReason::Pin(PinObstacle::InMultiPool),
            origin: Some(pin.origin.clone()),
        });
    }
    plan.changes.sort_by_key(order);
    plan
}

/// A pool is created before it is chosen, and deleted after it is no longer chosen.
fn order(change: &PodPoolChange) -> (bool, bool, PodPoolObject) {
    let is_choice = matches!(change.object, PodPoolObject::Choice(..));
    let is_deletion = change.after.is_none();
    (is_deletion, is_choice != is_deletion, change.object.clone())
}

impl From<PodPoolChange> for Change {
    fn from(change: PodPoolChange) -> Change {
        Change::PodPool(Box::new(change))
    }
}
