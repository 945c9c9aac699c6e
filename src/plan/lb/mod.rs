//! LoadBalancer pools and pins of Services: what would change, what it does to each Service, and what must wait.
//!
//! Changes of pools come first, those that change or delete before those that make, then pins; they are sent in this order, and what
//! they do is foretold in this order. Which address Cilium picks where it is free to pick is never foretold.

mod address_pools;
mod change;
mod foretell;
mod obstacle;
mod refusals;
mod service_pins;
mod undo;
mod world;

use super::Blocked;
use super::change::{Change, Target};
use crate::desired::Desired;
use crate::model::{Finding, ObjectRef, Origin, Rule, Severity};
use crate::observed::{Observed, ObservedKind};

pub use change::{AddressPoolChange, PoolAction, ServiceAction, ServiceChange};
pub use foretell::{Effects, LossTime, LostAddress, ServiceEffect, effects};
pub use obstacle::{AddressUser, LbObstacle};
pub(super) use refusals::refusals;
pub(super) use undo::{after, inverted, is_gone, shows, undone};

/// What is planned for LoadBalancer addresses.
#[derive(Default)]
pub(super) struct LbPlan {
    pub(super) changes: Vec<Change>,
    pub(super) blocked: Vec<Blocked>,
    pub(super) unchanged: Vec<Target>,
    pub(super) effects: Effects,
    pub(super) findings: Vec<Finding>,
}

pub(super) fn plan(desired: &Desired, observed: &Observed) -> LbPlan {
    let mut plan = LbPlan::default();
    let mut foretelling = foretell::Foretelling::new(observed);
    address_pools::decide(desired, observed, &mut plan);
    for change in &mut plan.changes {
        foretelling.step(change);
    }
    let pins = plan.changes.len();
    service_pins::decide(desired, observed, foretelling.world(), &mut plan);
    for change in &mut plan.changes[pins..] {
        foretelling.step(change);
    }
    plan.effects = foretelling.finish();
    plan.findings.extend(plan.effects.conflicts.iter().map(|(name, conflict)| {
        let origin = desired.address_pools.values().find(|pool| pool.name.as_str() == name).map(|pool| &pool.origin);
        conflict_finding(name, conflict, origin)
    }));
    plan
}

fn conflict_finding(name: &str, conflict: &crate::lbipam::Conflict, origin: Option<&Origin>) -> Finding {
    let other = if conflict.with == name { "itself".to_owned() } else { format!("`{}`", conflict.with.escape_debug()) };
    let message = format!(
        "CiliumLoadBalancerIPPool `{}` would overlap {other} ({} and {}), and Cilium would put one of them out of use",
        name.escape_debug(),
        conflict.range,
        conflict.with_range
    );
    let finding = Finding::new(Severity::Warning, Rule("address-pool-conflict"), message);
    let finding = finding.about(ObjectRef::address_pool(name)).help("take the addresses out of one of them first");
    origin.map_or_else(|| finding.clone(), |origin| finding.clone().at(origin, "would overlap"))
}

fn blocked(target: Target, obstacle: LbObstacle, origin: Option<&Origin>) -> Blocked {
    Blocked { target, reason: obstacle.into(), origin: origin.cloned() }
}

/// Why a kind cannot be seen, in the server's words.
fn hidden(observed: &Observed, kind: ObservedKind) -> Option<&str> {
    observed.blind_spots.iter().find(|spot| spot.kind == kind).map(|spot| spot.why.as_str())
}
