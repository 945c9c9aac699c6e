//! LoadBalancer pools and pins of Services: the changes, their effects on each Service, and blocked
//! changes.
//!
//! Changes are simulated and sent in the same order. Pins of Services without an address come
//! first, so that Cilium gives no address that changes at once. Changed and deleted pools follow,
//! then created pools, then the other pins, then pins that go. The simulation never predicts an address that Cilium is
//! free to pick.

mod address_pools;
mod change;
mod choice;
mod obstacle;
mod refusals;
mod saved;
mod service_pins;
mod simulate;
mod simulated_state;

use super::Blocked;
use super::change::{Change, Target};
use ipam_cilium::lbipam::Certainty;
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{Finding, ObjectRef, Origin, Rule, Severity};
use ipam_desired::Desired;

pub use change::{AddressPoolChange, PoolAction, ServiceChange};
pub use obstacle::{AddressUser, LbObstacle};
pub(super) use refusals::refusals;
pub(super) use saved::{creates, is_gone, shows, unseen};
pub use simulate::{Effects, LossTime, LostAddress, ServiceEffect, effects};

/// The part of a plan that is about LoadBalancer addresses.
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
        let pools = simulate::Simulation::after(observed, &plan.changes);
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
    let mut simulation = simulate::Simulation::new(observed, &plan.changes);
    for change in &mut plan.changes {
        simulation.record_step(change);
    }
    plan.effects = simulation.finish();
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
        .help("remove the addresses from one of them first");
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

/// Why the server does not show a kind, in its own words.
fn hidden(observed: &Observed, kind: ObservedKind) -> Option<&str> {
    observed.blind_spot(kind).map(|spot| spot.why.as_str())
}
