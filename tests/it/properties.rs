//! Properties of plans over generated worlds, against a planner that is too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::generated::{cases, worlds};
use ipam_core::alloc::WhenFull;
use ipam_core::net::Block;
use ipam_plan::plan::{Plan, PlanDocument, node_changes, plan};
use ipam_plan::simulate::{Group, NodesChange, simulate};
use worlds::invariants::{Broken, of_plan, shared};
use worlds::{ClaimState, FALLBACK, NodeState, Number, Profile, World, ipv4, name};

/// The naive planner, and what it must know of a world.
struct Naive<'w>(&'w World);

impl Naive<'_> {
    /// The block of each node, by its number.
    fn held(&self) -> impl Iterator<Item = Number> {
        self.0.nodes.iter().filter_map(|node| node.spec.0)
    }

    /// What is claimed for a node, by number of the block.
    fn claimed(&self) -> BTreeMap<Number, usize> {
        let shows = |node: usize, number| self.0.nodes[node].spec.0 == Some(number);
        let is_dead = |number: Number, node: usize, state: ClaimState| {
            let exists = node < self.0.nodes.len();
            let is_missed = state == ClaimState::ForNodeBefore;
            exists && (is_missed || (state == ClaimState::ForNode && shows(node, number)))
        };
        let claims = self.0.claims.iter();
        claims
            .filter(|((number, _), (node, state))| !is_dead(*number, *node, *state))
            .map(|((number, _), (node, _))| (*number, *node))
            .collect()
    }

    /// The pools that are tried for a node, in order: none after pool `a` if nodes wait for it.
    fn tried(&self, node: usize) -> Vec<Vec<Number>> {
        let mut pools = self.0.pools_of(node);
        if self.waits(node) {
            pools.truncate(if self.0.priority > 0 { 2 } else { 1 });
        }
        pools
    }

    fn waits(&self, node: usize) -> bool {
        self.0.when_full == WhenFull::Wait && self.0.nodes[node].rack == 'a'
    }

    /// Node by node, block by block, in the words of the documentation.
    fn plan(&self) -> BTreeMap<String, String> {
        let world = self.0;
        let mut taken: BTreeSet<Number> = self.held().collect();
        let claimed = self.claimed();
        let held_by_any = taken.clone();
        let mut given = BTreeMap::new();
        for (node, number) in world.pins.range(..world.nodes.len()) {
            let is_claimed = claimed.get(number).is_some_and(|claimant| claimant != node);
            if world.nodes[*node].spec.0.is_none() && !taken.contains(number) && !is_claimed {
                given.insert(name(*node), ipv4(*number));
            }
        }
        let is_pinned = |number: &Number| world.pins.values().any(|pin| pin == number);
        taken.extend(world.pins.values());
        taken.extend(claimed.keys());
        for (index, node) in world.nodes.iter().enumerate() {
            if node.spec.0.is_some() || world.pins.contains_key(&index) {
                continue;
            }
            let is_kept = |number: &&Number| {
                let is_own = claimed.get(number) == Some(&index);
                is_own && !held_by_any.contains(number) && !is_pinned(number)
            };
            // Claims in flight come before quarantined blocks.
            let is_pending = |number: &&Number| {
                is_kept(number) && world.claims[&(**number, false)].1 == ClaimState::ForNode
            };
            let of_pool = |pool: &Vec<Number>| {
                let free = || pool.iter().find(|number| !taken.contains(number));
                let pending = pool.iter().find(is_pending);
                pending
                    .or_else(|| pool.iter().find(is_kept))
                    .or_else(free)
                    .copied()
            };
            if let Some(number) = self.tried(index).iter().find_map(of_pool) {
                taken.insert(number);
                given.insert(name(index), ipv4(number));
            }
        }
        given
    }

    /// Nodes that hold a block of another pool than a node without blocks would get one of, when
    /// all that this plan gives is given, or one that is pinned to another. A pinned node is in its
    /// place or blocked.
    fn misplaced(&self, given: &BTreeMap<String, Block>) -> BTreeSet<String> {
        let world = self.0;
        let held: BTreeSet<Number> = self.held().collect();
        let is_given = |number: &Number| given.values().any(|one| one.to_string() == ipv4(*number));
        let claimed = self.claimed();
        let is_pinned = |number: &Number| world.pins.values().any(|pin| pin == number);
        let is_free = |number: &Number| {
            let is_in_use = held.contains(number) || is_given(number);
            !is_in_use && !claimed.contains_key(number) && !is_pinned(number)
        };
        let mut misplaced = BTreeSet::new();
        for (index, node) in world.nodes.iter().enumerate() {
            let Some(held) = node.spec.0.filter(|_| !world.pins.contains_key(&index)) else {
                continue;
            };
            let has_room = |pool: &&Vec<Number>| {
                let mut numbers = pool.iter();
                numbers.any(|number| *number == held || is_free(number))
            };
            let pools = self.tried(index);
            let is_right = match pools.iter().find(has_room) {
                Some(wanted) => wanted.contains(&held),
                // A node that would wait keeps its block of a later pool.
                None => self.waits(index) && FALLBACK.contains(&held),
            };
            if is_pinned(&held) || !is_right {
                misplaced.insert(name(index));
            }
        }
        misplaced
    }
}

fn given(plan: &Plan) -> BTreeMap<String, Block> {
    node_changes(&plan.changes)
        .map(|change| (change.node.to_string(), change.after[0]))
        .collect()
}

/// What nodes got that joined.
#[derive(Default)]
struct Joined {
    /// For each rack in turn, how many got a block of each pool.
    groups: Vec<BTreeMap<String, usize>>,
    /// The number of the first node without a block.
    first_without: Option<usize>,
}

/// Nodes of these racks join one after the other, each before the next plan.
fn joined(mut world: World, racks: &[(char, usize)]) -> Result<Joined, TestCaseError> {
    let (mut number, mut joined) = (0, Joined::default());
    for (rack, count) in racks {
        let mut by_pool: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..*count {
            number += 1;
            let new = name(world.nodes.len());
            world.nodes.push(NodeState::new(*rack));
            let plan = first_plan(&world)?;
            let mut changes = node_changes(&plan.changes);
            match changes.find(|change| change.node.as_str() == new) {
                None => joined.first_without = joined.first_without.or(Some(number)),
                Some(change) => {
                    let pool = change.pool.as_ref().map(ToString::to_string);
                    *by_pool.entry(pool.unwrap_or_default()).or_default() += 1;
                }
            }
            world = world.with_assigned(&given(&plan));
        }
        joined.groups.push(by_pool);
    }
    Ok(joined)
}

/// The plan when these blocks are assigned, and every invariant of plans. A world whose files are
/// refused says nothing of plans: another one is tried instead.
fn planned(world: &World, given: &BTreeMap<String, Block>) -> Result<Plan, TestCaseError> {
    let world = world.with_assigned(given);
    let desired = world.desired();
    let desired = desired.ok_or_else(|| TestCaseError::reject("the files are refused"))?;
    let observed = world.observed();
    let plan = plan(&desired, &observed, Vec::new());
    prop_assert_eq!(of_plan(&plan, &desired, &observed), Vec::<Broken>::new());
    Ok(plan)
}

fn first_plan(world: &World) -> Result<Plan, TestCaseError> {
    planned(world, &BTreeMap::new())
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn plans_as_the_naive_planner_does(world in worlds(Profile::Spec)) {
        let given = given(&first_plan(&world)?).into_iter();
        let given: BTreeMap<String, String> = given.map(|(node, block)| (node, block.to_string())).collect();
        prop_assert_eq!(given, Naive(&world).plan());
    }

    #[test]
    fn nothing_overlaps_nothing_moves_and_nothing_is_left(world in worlds(Profile::Spec)) {
        let plan = first_plan(&world)?;
        let given = given(&plan);
        let held = world.nodes.iter().enumerate().filter_map(|(index, node)| Some((name(index), ipv4(node.spec.0?).parse::<Block>().unwrap())));
        let all: Vec<(String, Block)> = held.chain(given.clone()).collect();
        prop_assert_eq!(shared(&all, |one, two| one.overlaps(*two)), vec![]);
        prop_assert!(node_changes(&plan.changes).all(|change| change.before.is_empty()));
        prop_assert_eq!(PlanDocument::new(&plan, "pools").summary.moved, 0);
        prop_assert_eq!(planned(&world, &given)?.changes, vec![]);
    }

    #[test]
    fn a_block_that_the_files_would_not_give_today_is_misplaced(world in worlds(Profile::Spec)) {
        let plan = first_plan(&world)?;
        let misplaced: BTreeSet<String> = plan.misplaced.iter().map(|one| one.node.to_string()).collect();
        let expected = Naive(&world).misplaced(&given(&plan));
        prop_assert_eq!(&misplaced, &expected, "{:?}", plan.misplaced);
        let is_clean = plan.changes.is_empty() && plan.blocked.is_empty() && expected.is_empty();
        prop_assert_eq!(PlanDocument::new(&plan, "pools").summary.matches_the_files(), is_clean);
    }

    #[test]
    fn who_joins_gets_what_a_plan_of_all_gives(world in worlds(Profile::Spec), first in 0usize..20) {
        let mut world = World { claims: BTreeMap::new(), ..world };
        let first = first.min(world.nodes.len());
        world.nodes[first..].iter_mut().for_each(|node| node.spec.0 = None);
        let all = given(&first_plan(&world)?);
        let mut one_by_one = BTreeMap::new();
        for count in first..=world.nodes.len() {
            let world = World { nodes: world.nodes[..count].to_vec(), ..world.clone() };
            one_by_one.extend(given(&planned(&world, &one_by_one)?));
        }
        prop_assert_eq!(one_by_one, all);
    }

    #[test]
    fn a_simulation_is_what_nodes_get_that_join(world in worlds(Profile::Spec), counts in prop::array::uniform3(1usize..14)) {
        // Simulated nodes have no pins and no claims.
        let mut world = world;
        let nodes = world.nodes.len();
        world.pins.retain(|node, _| *node < nodes);
        world.claims.retain(|_, (node, _)| *node < nodes);
        let racks: Vec<(char, usize)> = "abc".chars().zip(counts).collect();
        let group = |(rack, count): &(char, usize)| Group { count: *count, labels: [("rack".to_owned(), rack.to_string())].into() };
        let change = NodesChange::new(racks.iter().map(group).collect(), None, None).unwrap();
        let desired = world.desired();
        let desired = desired.ok_or_else(|| TestCaseError::reject("the files are refused"))?;
        let simulated = simulate(Some(&desired), &world.observed(), &change);
        let settled = world.with_assigned(&given(&first_plan(&world)?));
        let joined = joined(settled, &racks)?;
        prop_assert_eq!(simulated.first_without.map(|first| first.number), joined.first_without);
        for (simulated, group) in simulated.groups.iter().zip(joined.groups) {
            let given = simulated.given.iter().map(|(of, nodes)| (of.name().to_owned(), *nodes));
            prop_assert_eq!(given.collect::<BTreeMap<String, usize>>(), group);
        }
    }

    #[test]
    fn any_applied_part_plans_to_the_rest(world in worlds(Profile::Spec), part in any::<u32>()) {
        let all = given(&first_plan(&world)?);
        let applied = |index: usize| part >> (index % 32) & 1 == 1;
        let of = |is_applied: bool| -> BTreeMap<String, Block> {
            let chosen = all.iter().enumerate().filter(|(index, _)| applied(*index) == is_applied);
            chosen.map(|(_, (node, block))| (node.clone(), *block)).collect()
        };
        prop_assert_eq!(given(&planned(&world, &of(true))?), of(false));
    }

    #[test]
    fn more_pools_and_nodes_never_move_what_is_held(world in worlds(Profile::Spec), more in worlds(Profile::Spec)) {
        let given = given(&first_plan(&world)?);
        let mut larger = world.clone();
        larger.nodes.extend(more.nodes.iter().map(|node| worlds::NodeState::new(node.rack)));
        larger.pins = more.pins;
        larger.reserved = more.reserved;
        let again = planned(&larger, &given)?;
        prop_assert!(node_changes(&again.changes).all(|change| !given.contains_key(change.node.as_str())));
    }
}
