//! Generates worlds from choices. Every choice offers only options that are possible, so no option
//! is rejected and drawn again.

use crate::choices::Choices;
use crate::numbers::{AROUND, FALLBACK, HALF, Number, OUTSIDE, POOL_A, POOL_B, WHOLE_B, WIDE};
use crate::world::{Agent, ClaimState, Mode, NodeState, Owner, Shown, World};
use ipam_core::alloc::WhenFull;

/// The purpose of a generated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Up to 19 nodes with distinct blocks, in `spec` only: the input of a naive planner.
    Spec,
    /// Up to 6 nodes with blocks in every field, also blocks of other nodes, in both families and
    /// every mode.
    Fields,
    /// Up to 11 nodes with distinct blocks of two sizes, in the field that Cilium reads.
    Running,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 3] = [Profile::Spec, Profile::Fields, Profile::Running];
}

const MODES: [Mode; 7] = [
    Mode::Spec { annotate: false },
    Mode::Spec { annotate: true },
    Mode::Annotation,
    Mode::OldAnnotation,
    Mode::NodeConfig,
    Mode::ClusterPool,
    Mode::BesideOperator,
];
const RUNNING_MODES: [Mode; 5] = [
    Mode::Spec { annotate: false },
    Mode::BesideControllerManager,
    Mode::Annotation,
    Mode::BesideOperator,
    Mode::ClusterPool,
];
const RACKS: [char; 3] = ['a', 'b', 'c'];
/// The states of claims that a world of [`Profile::Spec`] has.
const PLAIN_CLAIMS: [ClaimState; 3] = [
    ClaimState::ForNode,
    ClaimState::ForNodeBefore,
    ClaimState::ForPredecessor,
];
const CLAIMS: [ClaimState; 7] = [
    ClaimState::ForNode,
    ClaimState::ForNodeBefore,
    ClaimState::ForCiliumNode,
    ClaimState::ForCreation,
    ClaimState::ForPredecessor,
    ClaimState::Resting,
    ClaimState::Rested,
];
/// Unusual blocks: wider than a block of a pool, outside all pools, or of pool `b`. Usual blocks
/// are of pool `a`.
const ODD: [Number; 6] = [WIDE, AROUND, WHOLE_B, OUTSIDE, 9, 40];

impl World {
    /// The world that these bytes choose. Equal bytes give equal worlds; fewer give simpler ones.
    #[must_use]
    pub fn generate(profile: Profile, bytes: &[u8]) -> World {
        let choices = &mut Choices::new(bytes);
        match profile {
            Profile::Spec => of_specs(choices),
            Profile::Fields => of_fields(choices),
            Profile::Running => running(choices),
        }
    }
}

fn of_specs(choices: &mut Choices<'_>) -> World {
    let all: Vec<Number> = POOL_A.chain(POOL_B).chain(FALLBACK).collect();
    let mut free = all.clone();
    let mut world = World::new(MODES[0]);
    let count = choices.roll(20);
    world.priority = choices.one_of(&[0, -1, 1]);
    for _ in 0..choices.roll(4) {
        world.reserved.insert(choices.roll(POOL_A.end));
    }
    for _ in 0..choices.roll(5) {
        let node = usize::from(choices.roll(22));
        world.pins.insert(node, choices.one_of(&all));
    }
    for _ in 0..choices.roll(5) {
        let number = choices.one_of(&all);
        let claim = (usize::from(choices.roll(22)), choices.one_of(&PLAIN_CLAIMS));
        world.claims.insert((number, false), claim);
    }
    for _ in 0..count {
        let mut node = NodeState::new(choices.one_of(&RACKS));
        if choices.roll(4) == 1 {
            node.spec.0 = choices.take(&mut free);
        }
        world.nodes.push(node);
    }
    world.when_full = choices.one_of(&WhenFull::ALL);
    for _ in 0..choices.roll(4) {
        world.retiring.insert(choices.roll(POOL_A.end));
    }
    world
}

fn of_fields(choices: &mut Choices<'_>) -> World {
    let mut world = World::new(choices.one_of(&MODES));
    world.has_ipv6 = choices.flip();
    world.is_b_large = true;
    let count = 1 + choices.roll(6);
    for _ in 0..choices.roll(3) {
        let node = usize::from(choices.roll(6));
        world.pins.insert(node, choices.roll(POOL_A.end));
    }
    if choices.flip() {
        world.excluded.insert(choices.roll(POOL_A.end));
    }
    for _ in 0..choices.roll(6) {
        let block = (choices.roll(POOL_A.end), choices.flip());
        // Of one node more than there may be: it is gone.
        let claim = (usize::from(choices.roll(7)), choices.one_of(&CLAIMS));
        world.claims.insert(block, claim);
    }
    world.nodes = (0..count).map(|_| any_node(choices)).collect();
    world
}

fn any_node(choices: &mut Choices<'_>) -> NodeState {
    let mut node = NodeState::new(choices.one_of(&RACKS));
    node.spec = shown(choices);
    node.newer = shown(choices);
    node.older = shown(choices);
    if choices.flip() {
        let owner = choices.one_of(&[Owner::Absent, Owner::Node, Owner::Predecessor]);
        node.cilium_node = Some((shown(choices), owner));
    }
    node.agent = choices.one_of(&[Agent::Started, Agent::Unseen]);
    node.config = choices.flip().then(|| choices.roll(POOL_A.end));
    node
}

fn shown(choices: &mut Choices<'_>) -> Shown {
    let mut number = || match choices.roll(20) {
        0..12 => None,
        12..17 => Some(choices.roll(POOL_A.end)),
        _ => Some(choices.one_of(&ODD)),
    };
    (number(), number())
}

fn running(choices: &mut Choices<'_>) -> World {
    let mut world = World::new(choices.one_of(&RUNNING_MODES));
    world.has_ipv6 = choices.flip();
    world.is_b_large = true;
    let mut free: Vec<Number> = (POOL_B.start..POOL_B.start + 40).collect();
    let count = 1 + choices.roll(11);
    let mut numbers: Vec<Number> = (0..count).filter_map(|_| choices.take(&mut free)).collect();
    numbers.sort_unstable();
    let mut racks: Vec<char> = numbers.iter().map(|_| choices.one_of(&RACKS)).collect();
    if choices.flip() {
        racks.sort_unstable();
    }
    for (number, rack) in numbers.into_iter().zip(racks) {
        let half = if choices.roll(7) == 6 { HALF } else { 0 };
        let has_block = world.nodes.is_empty() || choices.roll(10) != 9;
        let second = world.has_ipv6.then_some(number);
        let shown = if has_block {
            (Some(number + half), second)
        } else {
            (None, None)
        };
        world.nodes.push(running_node(world.mode, rack, shown));
    }
    world
}

fn running_node(mode: Mode, rack: char, shown: Shown) -> NodeState {
    let mut node = NodeState {
        agent: Agent::Unseen,
        ..NodeState::new(rack)
    };
    match mode {
        Mode::Annotation => node.newer = shown,
        Mode::ClusterPool | Mode::BesideOperator => {
            node.cilium_node = Some((shown, Owner::Absent));
        }
        _ => node.spec = shown,
    }
    node
}
