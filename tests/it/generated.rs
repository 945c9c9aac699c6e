//! The worlds of `ci/worlds` for proptest, with those in which a property once failed.

use proptest::prelude::*;
use proptest::test_runner::Config;

use worlds::{AROUND, Agent, ClaimState, Mode, NodeState, Owner, Profile, Shown, WHOLE_B, World};

/// Maximum number of bytes for a world.
const LONGEST: usize = 220;

/// Worlds of a profile. Fewer and smaller bytes are simpler worlds, so failures shrink.
pub fn worlds(profile: Profile) -> impl Strategy<Value = World> {
    let bytes = prop::collection::vec(any::<u8>(), 0..LONGEST);
    let generated = bytes.prop_map(move |bytes| World::generate(profile, &bytes));
    prop_oneof![9 => generated, 1 => prop::sample::select(known(profile))]
}

/// The number of cases: `usual`, unless `cargo xtask prove properties` requests more.
pub fn cases(usual: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual),
        ..Config::default()
    }
}

/// Worlds in which a property once failed.
pub fn known(profile: Profile) -> Vec<World> {
    match profile {
        Profile::Spec => specs(),
        Profile::Fields => fields(),
        Profile::Running => running(),
    }
}

fn world(mode: Mode, nodes: Vec<NodeState>) -> World {
    World {
        nodes,
        ..World::new(mode)
    }
}

fn holder(rack: char, number: Option<u8>) -> NodeState {
    NodeState {
        spec: (number, None),
        ..NodeState::new(rack)
    }
}

/// In the order of their failures: two claims of a node that a full pool does not serve, a pin of a
/// node that is not there to a block in use, and a pin to the block of another node.
fn specs() -> Vec<World> {
    let mode = Mode::Spec { annotate: false };
    let mut claimed = world(mode, vec![NodeState::new('a'); 19]);
    claimed.claims = [
        ((72, false), (18, ClaimState::ForPredecessor)),
        ((75, false), (18, ClaimState::ForNode)),
    ]
    .into();
    let mut absent = world(mode, vec![holder('a', Some(74)), holder('c', Some(73))]);
    absent.pins = [(2, 73)].into();
    let mut pinned = world(mode, vec![holder('a', Some(0)), holder('a', None)]);
    pinned.pins = [(1, 0)].into();
    vec![claimed, absent, pinned]
}

/// Blocks that are wider than those of a pool, in fields that no agent reads, and a pin to the
/// block of another node's settings.
fn fields() -> Vec<World> {
    let large = |world: World, has_ipv6: bool| World {
        is_b_large: true,
        has_ipv6,
        ..world
    };
    let last = |count: usize, node: NodeState| {
        let mut nodes = vec![NodeState::new('a'); count];
        nodes.push(node);
        nodes
    };
    let annotated = |newer: Option<u8>, older: Shown| NodeState {
        newer: (None, newer),
        older,
        ..NodeState::new('a')
    };
    let first = NodeState {
        newer: (Some(AROUND), None),
        cilium_node: Some(((Some(0), None), Owner::Absent)),
        ..NodeState::new('b')
    };
    let config = NodeState {
        config: Some(4),
        agent: Agent::Started,
        ..NodeState::new('a')
    };
    let mut configured = world(Mode::NodeConfig, vec![config]);
    configured.pins = [(1, 4)].into();
    let annotate = Mode::Spec { annotate: true };
    let mut old = vec![NodeState::new('a'), first];
    old.extend(vec![NodeState::new('a'); 2]);
    let around = annotated(Some(9), (Some(AROUND), None));
    let wide = annotated(Some(76), (None, Some(2)));
    vec![
        large(world(annotate, vec![holder('a', Some(WHOLE_B))]), true),
        large(world(Mode::ClusterPool, last(4, around)), true),
        large(world(Mode::ClusterPool, last(1, wide)), true),
        large(world(Mode::OldAnnotation, old), false),
        large(configured, false),
    ]
}

/// Nodes without a block before and after those with one.
fn running() -> Vec<World> {
    let annotated = NodeState {
        newer: (Some(8), None),
        ..NodeState::new('b')
    };
    let mut nodes = vec![annotated];
    nodes.extend(['a', 'c', 'a', 'a'].map(NodeState::new));
    let beside = [('b', Some(8)), ('b', None), ('a', Some(10)), ('a', None)];
    let beside = beside.map(|(rack, number)| holder(rack, number));
    vec![
        world(Mode::Annotation, nodes),
        world(Mode::BesideControllerManager, beside.into()),
    ]
}
