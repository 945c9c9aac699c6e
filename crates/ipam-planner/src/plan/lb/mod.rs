//! LoadBalancer pools and pins of Services: what would change, what it does to each Service, and
//! what must wait.
//!
//! Changes are sent in the order in which they stand, and what they do is foretold in this order:
//! pins of Services that have no address yet, so that none is given that is changed at once; pools
//! that change or go before pools that are made; then the other pins. Which address Cilium picks
//! where it is free to pick is never foretold.

mod address_pools;
mod change;
mod obstacle;
mod refusals;
mod service_pins;
mod simulate;
mod simulated_state;
mod undo;

use super::Blocked;
use super::change::{Change, Target};
use ipam_cilium::lbipam::Certainty;
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{Finding, ObjectRef, Origin, Rule, Severity};
use ipam_desired::Desired;

pub use change::{AddressPoolChange, PoolAction, ServiceAction, ServiceChange};
pub use obstacle::{AddressUser, LbObstacle};
pub(super) use refusals::refusals;
pub use simulate::{Effects, LossTime, LostAddress, ServiceEffect, effects};
pub(super) use undo::{
    after, as_written_now, creates, inverted, is_gone, shows, undone, unseen, wants_pool,
};

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
    address_pools::decide(desired, observed, &mut plan);
    if !desired.service_pins.is_empty() {
        let mut pools = simulate::Simulation::new(observed);
        for change in &plan.changes {
            pools.foresee(change);
        }
        service_pins::decide(desired, observed, pools.state(), &mut plan);
        let is_early = |change: &Change| match change {
            Change::Service(change) => observed
                .services
                .get(&change.service)
                .is_some_and(|s| s.ingress.is_empty()),
            Change::AddressPool(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => {
                false
            }
        };
        plan.changes.sort_by_key(|change| !is_early(change));
    }
    if plan.changes.is_empty() {
        return plan;
    }
    let mut foretelling = simulate::Simulation::new(observed);
    for change in &mut plan.changes {
        foretelling.step(change);
    }
    plan.effects = foretelling.finish();
    plan.findings
        .extend(plan.effects.conflicts.iter().map(|(name, conflict)| {
            let origin = desired
                .address_pools
                .values()
                .find(|pool| pool.name.as_str() == name)
                .map(|pool| &pool.origin);
            conflict_finding(name, conflict, origin)
        }));
    plan
}

fn conflict_finding(
    name: &str,
    conflict: &ipam_cilium::lbipam::Conflict,
    origin: Option<&Origin>,
) -> Finding {
    let other = if conflict.with == name {
        "itself".to_owned()
    } else {
        format!("`{}`", conflict.with.escape_debug())
    };
    let loser = match conflict.certainty {
        Certainty::Certain => format!("`{}`", name.escape_debug()),
        Certainty::LeftToChance => "one of the two, left to chance,".to_owned(),
    };
    let message = format!(
        "CiliumLoadBalancerIPPool `{}` would overlap {other} ({} and {}), and Cilium would put {loser} out of use",
        name.escape_debug(),
        conflict.range,
        conflict.with_range
    );
    let finding = Finding::new(Severity::Warning, Rule("address-pool-conflict"), message);
    let finding = finding
        .about(ObjectRef::address_pool(name))
        .help("take the addresses out of one of them first");
    match origin {
        Some(origin) => finding.at(origin, "would overlap"),
        None => finding,
    }
}

fn blocked(target: Target, obstacle: LbObstacle, origin: Option<&Origin>) -> Blocked {
    Blocked {
        target,
        reason: obstacle.into(),
        origin: origin.cloned(),
    }
}

/// Why a kind cannot be seen, in the server's words.
fn hidden(observed: &Observed, kind: ObservedKind) -> Option<&str> {
    observed.blind_spot(kind).map(|spot| spot.why.as_str())
}
