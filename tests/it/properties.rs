//! Properties of plans over generated files and clusters, against a planner that is too simple to
//! be wrong.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::support::{holds, node, pin, pool};
use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::Severity;
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_planner::check;
use ipam_planner::plan::{Plan, PlanDocument, node_changes, plan};

/// A small world: two pools of eight blocks, a fallback of four, and up to twenty nodes.
#[derive(Clone, Debug)]
struct World {
    /// Rack of each node, and the number of the block that it holds.
    nodes: Vec<(char, Option<u8>)>,
    /// Node and number of the block that it is pinned to.
    pins: Vec<(usize, u8)>,
    /// Reserved blocks of pool a.
    reserved: BTreeSet<u8>,
    priority: i8,
    /// Number of a block, the node that it is claimed for, and the claim's state.
    claims: BTreeMap<u8, (usize, ClaimState)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    /// Its write may land.
    Pending,
    /// The node has moved on.
    Missed,
    /// It was of an earlier object of that name.
    OfPredecessor,
}

const RACK_A: std::ops::Range<u8> = 0..8;
const RACK_B: std::ops::Range<u8> = 8..16;
const FALLBACK: std::ops::Range<u8> = 16..20;

fn block(number: u8) -> String {
    format!("10.0.0.{}/28", u32::from(number) * 16 % 256)
        .replace("10.0.0.", if number < 16 { "10.0.0." } else { "10.0.1." })
}

impl World {
    fn documents(&self) -> Documents {
        let reserved: Vec<String> = self.reserved.iter().map(|number| block(*number)).collect();
        let rack = |range: &str, rack: &str, more: &str| {
            format!(
                "{{cidrs: [{range}], blockSize: 28, nodeSelector: {{matchLabels: {{rack: {rack}}}}}{more}}}"
            )
        };
        let mut documents = vec![
            pool(
                "a",
                &rack(
                    "10.0.0.0/25",
                    "a",
                    &format!(", reserved: [{}]", reserved.join(", ")),
                ),
            ),
            pool("b", &rack("10.0.0.128/25", "b", "")),
            pool(
                "fallback",
                &format!(
                    "{{cidrs: [10.0.1.0/26], blockSize: 28, priority: {}}}",
                    self.priority
                ),
            ),
        ];
        documents.extend(
            self.pins
                .iter()
                .map(|(node, number)| pin(&format!("n{node:02}"), &block(*number))),
        );
        Documents {
            files: vec![SourceFile {
                path: "pools.yaml".into(),
                text: documents.join("---\n").into(),
            }],
        }
    }

    fn desired(&self) -> Option<Desired> {
        let (desired, mut findings) = lower(&self.documents());
        findings.extend(check::files(&desired));
        findings
            .iter()
            .all(|finding| finding.severity != Severity::Error)
            .then_some(desired)
    }

    fn observed(&self, given: &BTreeMap<String, Block>) -> Observed {
        let mut reader = Reader::default();
        let config = r#"{"metadata":{"name":"cilium-config","namespace":"kube-system"},"data":{"ipam":"kubernetes"}}"#;
        reader.object(ObservedKind::CiliumConfig, config).unwrap();
        for (index, (rack, held)) in self.nodes.iter().enumerate() {
            let name = format!("n{index:02}");
            let held = given
                .get(&name)
                .map(ToString::to_string)
                .or(held.map(block));
            let object = node(
                &name,
                &rack.to_string(),
                &held.map(|cidr| holds(&cidr)).unwrap_or_default(),
            );
            reader.object(ObservedKind::Node, &object).unwrap();
        }
        let claims: Vec<String> = self
            .claims
            .iter()
            .map(|(number, claim)| self.claim(*number, claim))
            .collect();
        let claims = format!(
            r#"{{"format_version":"1.0","claims":[{}]}}"#,
            claims.join(",")
        );
        let claims = serde_json::json!({"metadata": {"uid": "c", "resourceVersion": "1"}, "data": {"claims.json": claims}});
        reader
            .object(ObservedKind::Claims, &claims.to_string())
            .unwrap();
        reader.finish(jiff::Timestamp::UNIX_EPOCH)
    }

    fn claim(&self, number: u8, (node, state): &(usize, ClaimState)) -> String {
        let (uid, version) = match state {
            ClaimState::Pending => ("uid", "7"),
            ClaimState::Missed => ("uid", "6"),
            ClaimState::OfPredecessor => ("older", "7"),
        };
        let block = block(number);
        format!(
            r#"{{"block":"{block}","node":"n{node:02}","uid":"{uid}-n{node:02}","resource_version":"{version}"}}"#
        )
    }

    /// What is kept for a node, by number of the block.
    fn spoken_for(&self) -> BTreeMap<u8, usize> {
        let exists = |node: usize| node < self.nodes.len();
        let is_dead = |number: u8, node: usize, state: ClaimState| {
            let shown = exists(node) && self.nodes[node].1 == Some(number);
            exists(node) && (state == ClaimState::Missed || (state == ClaimState::Pending && shown))
        };
        let alive = self
            .claims
            .iter()
            .filter(|(number, (node, state))| !is_dead(**number, *node, *state));
        alive.map(|(number, (node, _))| (*number, *node)).collect()
    }

    fn plan(&self, given: &BTreeMap<String, Block>) -> Option<Plan> {
        Some(plan(&self.desired()?, &self.observed(given), Vec::new()))
    }

    /// Node by node, block by block, in the words of the documentation.
    fn naive(&self) -> BTreeMap<String, String> {
        let mut taken: BTreeSet<u8> = self.nodes.iter().filter_map(|(_, held)| *held).collect();
        let pinned: BTreeMap<usize, u8> = self.pins.iter().copied().collect();
        let spoken_for = self.spoken_for();
        let held_by_any = taken.clone();
        let mut given = BTreeMap::new();
        for (node, number) in pinned.iter().filter(|(node, _)| **node < self.nodes.len()) {
            let is_claimed = spoken_for
                .get(number)
                .is_some_and(|claimant| claimant != node);
            if self.nodes[*node].1.is_none() && !taken.contains(number) && !is_claimed {
                given.insert(format!("n{node:02}"), block(*number));
            }
        }
        taken.extend(pinned.values());
        taken.extend(spoken_for.keys());
        for (index, (rack, held)) in self.nodes.iter().enumerate() {
            if held.is_some() || pinned.contains_key(&index) {
                continue;
            }
            let own: Vec<u8> = match rack {
                'a' => RACK_A
                    .filter(|number| !self.reserved.contains(number))
                    .collect(),
                'b' => RACK_B.collect(),
                _ => Vec::new(),
            };
            let mut pools: [Vec<u8>; 2] = [own, FALLBACK.collect()];
            if self.priority > 0 {
                pools.reverse();
            }
            let is_kept = |number: &&u8| {
                let spoken = spoken_for.get(number) == Some(&index);
                spoken
                    && !held_by_any.contains(number)
                    && !pinned.values().any(|pin| pin == *number)
            };
            // Claims in flight come before quarantined blocks.
            let is_pending =
                |number: &&u8| is_kept(number) && self.claims[*number].1 == ClaimState::Pending;
            let of_pool = |pool: &Vec<u8>| {
                let free = || pool.iter().find(|number| !taken.contains(number));
                pool.iter()
                    .find(is_pending)
                    .or_else(|| pool.iter().find(is_kept))
                    .or_else(free)
                    .copied()
            };
            if let Some(number) = pools.iter().find_map(of_pool) {
                taken.insert(number);
                given.insert(format!("n{index:02}"), block(number));
            }
        }
        given
    }

    /// Nodes that hold a block of another pool than a node without blocks would get one of, when
    /// all that this plan gives is given, or one that is pinned to another. A pinned node is in its
    /// place or blocked.
    fn naively_misplaced(&self, given: &BTreeMap<String, Block>) -> BTreeSet<String> {
        let held: BTreeSet<u8> = self.nodes.iter().filter_map(|(_, held)| *held).collect();
        let is_given = |number: &u8| given.values().any(|one| one.to_string() == block(*number));
        let spoken_for = self.spoken_for();
        let is_pinned = |number: &u8| self.pins.iter().any(|(_, pin)| pin == number);
        let is_free = |number: &u8| {
            !held.contains(number)
                && !is_given(number)
                && !spoken_for.contains_key(number)
                && !is_pinned(number)
        };
        let mut misplaced = BTreeSet::new();
        for (index, (rack, held)) in self.nodes.iter().enumerate() {
            let Some(held) = held.filter(|_| !self.pins.iter().any(|(pinned, _)| *pinned == index))
            else {
                continue;
            };
            let own: Vec<u8> = match rack {
                'a' => RACK_A
                    .filter(|number| !self.reserved.contains(number))
                    .collect(),
                'b' => RACK_B.collect(),
                _ => Vec::new(),
            };
            let mut pools: [Vec<u8>; 2] = [own, FALLBACK.collect()];
            if self.priority > 0 {
                pools.reverse();
            }
            let has_room =
                |pool: &&Vec<u8>| pool.iter().any(|number| *number == held || is_free(number));
            let is_of_another = is_pinned(&held);
            if is_of_another
                || !pools
                    .iter()
                    .find(has_room)
                    .is_some_and(|pool| pool.contains(&held))
            {
                misplaced.insert(format!("n{index:02}"));
            }
        }
        misplaced
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let held = prop::collection::btree_set(0u8..20, 0..8);
    let racks = prop::collection::vec(prop::sample::select(vec!['a', 'b', 'c']), 0..20);
    let pins = prop::collection::btree_map(0usize..22, 0u8..20, 0..5);
    let reserved = prop::collection::btree_set(0u8..8, 0..4);
    let states = prop::sample::select(vec![
        ClaimState::Pending,
        ClaimState::Missed,
        ClaimState::OfPredecessor,
    ]);
    let claims = prop::collection::btree_map(0u8..20, (0usize..22, states), 0..5);
    let parts = (racks, held, pins, reserved, claims, -1i8..=1, any::<u64>());
    parts.prop_map(|(racks, held, pins, reserved, claims, priority, seed)| {
        let mut held: Vec<u8> = held.into_iter().collect();
        let mut turn = seed;
        let nodes = racks.into_iter().map(|rack| {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (rack, if turn >> 63 == 1 { held.pop() } else { None })
        });
        World {
            nodes: nodes.collect(),
            pins: pins.into_iter().collect(),
            reserved,
            priority,
            claims,
        }
    })
}

fn given(plan: &Plan) -> BTreeMap<String, Block> {
    node_changes(&plan.changes)
        .map(|change| (change.node.to_string(), change.after[0]))
        .collect()
}

/// `cargo xtask prove properties` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(400)
}

/// A world whose files are refused says nothing of plans: another one is tried instead.
fn planned(world: &World, given: &BTreeMap<String, Block>) -> Result<Plan, TestCaseError> {
    world
        .plan(given)
        .ok_or_else(|| TestCaseError::reject("the files are refused"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn plans_as_the_naive_planner_does(world in worlds()) {
        let plan = planned(&world, &BTreeMap::new())?;
        let given: BTreeMap<String, String> = given(&plan).into_iter().map(|(node, block)| (node, block.to_string())).collect();
        prop_assert_eq!(given, world.naive());
    }

    #[test]
    fn nothing_overlaps_nothing_moves_and_nothing_is_left(world in worlds()) {
        let plan = planned(&world, &BTreeMap::new())?;
        let given = given(&plan);
        let held = world.nodes.iter().filter_map(|(_, held)| held.map(|number| block(number).parse::<Block>().unwrap()));
        let all: Vec<Block> = held.chain(given.values().copied()).collect();
        for (index, one) in all.iter().enumerate() {
            prop_assert!(all[index + 1..].iter().all(|other| !one.overlaps(*other)), "{:?}", all);
        }
        prop_assert!(node_changes(&plan.changes).all(|change| change.before.is_empty()));
        prop_assert_eq!(PlanDocument::new(&plan, "pools").summary.moved, 0);
        prop_assert_eq!(world.plan(&given).unwrap().changes, vec![]);
        prop_assert_eq!(plan.changes.len() + plan.blocked.len() + plan.unchanged.len(), world.nodes.len());
    }

    #[test]
    fn a_block_that_the_files_would_not_give_today_is_misplaced(world in worlds()) {
        let plan = planned(&world, &BTreeMap::new())?;
        let misplaced: BTreeSet<String> = plan.misplaced.iter().map(|one| one.node.to_string()).collect();
        let expected = world.naively_misplaced(&given(&plan));
        prop_assert_eq!(&misplaced, &expected, "{:?}", plan.misplaced);
        let is_clean = plan.changes.is_empty() && plan.blocked.is_empty() && expected.is_empty();
        prop_assert_eq!(PlanDocument::new(&plan, "pools").summary.is_as_the_files_say(), is_clean);
    }

    #[test]
    fn who_joins_gets_what_a_plan_of_all_gives(world in worlds(), first in 0usize..20) {
        let mut world = World { claims: BTreeMap::new(), ..world };
        let first = first.min(world.nodes.len());
        world.nodes[first..].iter_mut().for_each(|(_, held)| *held = None);
        let all = given(&planned(&world, &BTreeMap::new())?);
        let mut one_by_one = BTreeMap::new();
        for count in first..=world.nodes.len() {
            let world = World { nodes: world.nodes[..count].to_vec(), ..world.clone() };
            one_by_one.extend(given(&world.plan(&one_by_one).unwrap()));
        }
        prop_assert_eq!(one_by_one, all);
    }

    #[test]
    fn any_applied_part_plans_to_the_rest(world in worlds(), part in any::<u32>()) {
        let plan = planned(&world, &BTreeMap::new())?;
        let all = given(&plan);
        let applied = |index: usize| part >> (index % 32) & 1 == 1;
        let first: BTreeMap<String, Block> = all.iter().enumerate().filter(|(i, _)| applied(*i)).map(|(_, (n, b))| (n.clone(), *b)).collect();
        let rest: BTreeMap<String, Block> = all.iter().filter(|(node, _)| !first.contains_key(*node)).map(|(n, b)| (n.clone(), *b)).collect();
        prop_assert_eq!(given(&world.plan(&first).unwrap()), rest);
    }

    #[test]
    fn more_pools_and_nodes_never_move_what_is_held(world in worlds(), more in worlds()) {
        let plan = planned(&world, &BTreeMap::new())?;
        let mut larger = world.clone();
        larger.nodes.extend(more.nodes.iter().map(|(rack, _)| (*rack, None)));
        larger.pins = more.pins;
        larger.reserved = more.reserved;
        let again = planned(&larger, &given(&plan))?;
        prop_assert!(node_changes(&again.changes).all(|change| !given(&plan).contains_key(change.node.as_str())));
    }
}
