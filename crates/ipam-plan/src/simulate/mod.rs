//! What would happen if nodes joined and left: the one planner on a changed cluster, or, where nodes get
//! their blocks from another allocator, the room in its ranges.
//!
//! It writes nothing, and knows neither files nor clocks.

mod by_supplies;
mod document;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use crate::allocators::OtherAllocator;
use crate::capacity::{Supplier, Unknown, own_rows};
use crate::plan::{BlockedReason, Change, Plan, Target, full_pool, plan};
use ipam_cilium::observed::{BlockAllocator, ModeSeen, Observed};
use ipam_core::model::{IpamMode, Labels, NodeName, Rule, WritePathChoice};
use ipam_core::net::Family;
use ipam_desired::{AddressPairs, Desired};

pub use document::{
    FirstDocument, GivenDocument, GroupDocument, LeftDocument, SimulationDocument, WithoutDocument,
};
use world::World;
pub use world::{Group, NodesChange, NodesChangeError};

/// What nodes get that do not exist yet.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// In the order of the question.
    pub groups: Vec<GroupOutcome>,
    /// Number of nodes that leave.
    pub removed: usize,
    /// The first new node that lacks a block, and the first outside its best pool.
    pub first_without: Option<First>,
    pub first_outside: Option<First>,
    /// What is free afterwards.
    pub left: Vec<Left>,
    /// What to do about full supplies, as sentences.
    pub needs: Vec<String>,
    pub unknown: Vec<Unknown>,
}

/// What the nodes of a group get.
#[derive(Clone, Debug, Default)]
pub struct GroupOutcome {
    pub labels: Labels,
    pub count: usize,
    /// Number of nodes by the supply of their blocks.
    pub given: BTreeMap<Supplier, usize>,
    /// Number of nodes without a block, by the reason.
    pub without: BTreeMap<String, usize>,
    /// Number of nodes with a block of a later pool, because a better one is full.
    pub outside: usize,
}

/// A new node, by its number among all new nodes; 1 is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    pub number: usize,
    pub group: usize,
    /// As a clause.
    pub why: String,
}

/// Free blocks of a supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub of: Supplier,
    pub family: Family,
    pub free: u128,
    pub total: u128,
}

/// What new nodes would get. With files, their plan decides, unless another allocator gives nodes their
/// blocks.
pub fn simulate(files: Option<&Desired>, observed: &Observed, change: &NodesChange) -> Simulation {
    let world = World::new(observed, change);
    match files.filter(|desired| !others_assign(desired, &world)) {
        Some(desired) => by_plan(desired, world),
        None => by_supplies::by_supplies(&world, change.pod_limit()),
    }
}

/// Whether another allocator gives new nodes their blocks, so that a plan leaves them alone.
fn others_assign(desired: &Desired, world: &World) -> bool {
    let observed = &world.observed;
    let node = world
        .added
        .first()
        .and_then(|(_, name)| observed.nodes.get(name));
    let by_operator = node.is_some_and(|node| {
        desired.policy.write_path == WritePathChoice::Auto
            && observed.block_allocator(node) == BlockAllocator::Operator
    });
    desired.leaves_nodes_to_others()
        || match observed.cilium.mode() {
            ModeSeen::Known(IpamMode::ClusterPool) => by_operator,
            ModeSeen::Known(IpamMode::Kubernetes) => OtherAllocator::of(observed, &desired.policy)
                .active()
                .is_some(),
            // Agents ask for blocks; files only say which pool is the default of a node.
            ModeSeen::Known(IpamMode::MultiPool) => true,
            ModeSeen::Known(_) | ModeSeen::Unknown(_) | ModeSeen::NoSettings => false,
        }
}

fn by_plan(desired: &Desired, mut world: World) -> Simulation {
    // A simulated VM has no port.
    let mut wanted = desired.clone();
    wanted.policy.address_pairs = AddressPairs::Ignored;
    let planned = plan(&wanted, &world.observed, Vec::new());
    let mut simulation = world.outcome(&planned);
    world.assign(&planned);
    let rows = own_rows(desired, &world.observed).into_iter();
    simulation.left = rows
        .map(|row| Left {
            of: row.of,
            family: row.family,
            free: row.counts.free,
            total: row.counts.total,
        })
        .collect();
    let full = planned
        .findings
        .iter()
        .filter(|one| one.rule == Rule("pool-exhausted"));
    simulation.needs = full
        .map(|finding| format!("{}: {}", finding.message, finding.help))
        .collect::<BTreeSet<String>>()
        .into_iter()
        .collect();
    simulation
}

impl World {
    fn outcome(&self, planned: &Plan) -> Simulation {
        let mut changes = BTreeMap::new();
        for change in &planned.changes {
            if let Change::Node(change) = change {
                changes.insert(&change.node, change);
            }
        }
        let mut blocked: BTreeMap<&NodeName, &BlockedReason> = BTreeMap::new();
        for one in &planned.blocked {
            if let Target::Node(name) = &one.target {
                blocked.insert(name, &one.reason);
            }
        }
        let mut simulation = self.empty();
        for (at, (group, name)) in self.added.iter().enumerate() {
            let first = |why| First {
                number: at + 1,
                group: *group,
                why,
            };
            let outcome = &mut simulation.groups[*group];
            let Some(change) = changes.get(name) else {
                let reason = blocked.get(name).map(ToString::to_string);
                let reason = reason.unwrap_or_else(|| "the plan gives it none".to_owned());
                *outcome.without.entry(reason.clone()).or_default() += 1;
                simulation.first_without.get_or_insert(first(reason));
                continue;
            };
            if let Some(pool) = &change.pool {
                *outcome
                    .given
                    .entry(Supplier::Pool(pool.clone()))
                    .or_default() += 1;
            }
            if let Some(full) = full_pool(change) {
                outcome.outside += 1;
                let why = format!("pool `{full}` is full");
                simulation.first_outside.get_or_insert(first(why));
            }
        }
        simulation
    }

    fn empty(&self) -> Simulation {
        let outcome = |group: &Group| GroupOutcome {
            labels: group.labels.clone(),
            count: group.count,
            ..GroupOutcome::default()
        };
        Simulation {
            groups: self.groups.iter().map(outcome).collect(),
            removed: self.removed,
            ..Simulation::default()
        }
    }
}
