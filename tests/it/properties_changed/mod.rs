//! Plans for the nodes that changed since a whole plan, held against whole plans of the same
//! cluster, in every ipam mode.

mod controller;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use self::controller::Controller;
use self::world::{MODES, Mode, Operation, World, block, desired};
use ipam_desired::Desired;
use ipam_planner::plan::NextWholePlan;

fn operations() -> impl Strategy<Value = Operation> {
    let name = 0u8..9;
    let rack = prop::sample::select(vec!['a', 'a', 'b', 'c', 'd']);
    // Mostly blocks of pools, and sometimes one beside them.
    let number = prop_oneof![12 => 0u8..20, 1 => Just(32u8), 1 => Just(33u8)];
    let machine = prop_oneof![12 => Just(None), 1 => (0u8..24).prop_map(Some)];
    prop_oneof![
        8 => (name.clone(), rack.clone(), machine).prop_map(|(name, rack, machine)| Operation::Join(name, rack, machine)),
        4 => name.clone().prop_map(Operation::Leave),
        2 => name.clone().prop_map(Operation::LeaveCiliumNode),
        3 => (name.clone(), rack).prop_map(|(name, rack)| Operation::Relabel(name, rack)),
        2 => (name.clone(), number.clone()).prop_map(|(name, number)| Operation::ShowInSpec(name, number)),
        3 => (name.clone(), prop::option::weighted(0.7, number)).prop_map(|(name, number)| Operation::ShowInCiliumNode(name, number)),
        1 => (0u8..20, name, 1i64..20).prop_map(|(number, node, until)| Operation::Quarantine(number, node, until)),
        1 => (1i64..15).prop_map(Operation::Wait),
    ]
}

/// Steps of some operations each, and whether a block that disappears may still show elsewhere.
fn histories() -> impl Strategy<Value = Vec<(Vec<Operation>, bool)>> {
    let step = (
        prop::collection::vec(operations(), 1..4),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(step, 1..14)
}

/// `cargo xtask prove properties` asks for more.
fn cases() -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

/// Steps that pass until a whole plan that is due soon.
const SOON: u8 = 3;

fn holds_in_history(world: &mut World, desired: Desired, history: &[(Vec<Operation>, bool)]) {
    let mut controller = Controller::new(desired, world);
    let mut changed = world.members.keys().copied().collect::<BTreeSet<u8>>();
    let mut due: Option<u8> = None;
    for (operations, has_tombstones) in history {
        let shown = world.shown();
        changed.extend(
            operations
                .iter()
                .filter_map(|operation| world.change(operation)),
        );
        let gone = shown
            .difference(&world.shown())
            .map(|number| block(*number).parse().unwrap())
            .collect();
        let tombstones = if *has_tombstones {
            gone
        } else {
            BTreeSet::new()
        };
        due = due.map(|steps| steps - 1);
        let planned = (due != Some(0))
            .then(|| controller.plan_changed(world, &changed, &tombstones))
            .flatten();
        let Some(planned) = planned else {
            (changed, due) = (controller.plan_as_a_whole(world, &tombstones), None);
            continue;
        };
        if planned.next == NextWholePlan::Soon {
            due.get_or_insert(SOON);
        }
        controller.compare(world, &planned, &changed, &tombstones, due);
        changed = world.write(&planned.changes);
        if due.is_none() {
            controller.compare_overview(world, &tombstones);
        }
    }
}

/// What a node does beside joining, and nothing else in the cluster waits for.
#[test]
fn no_single_node_takes_a_whole_plan() {
    use Operation::{Join, Leave, LeaveCiliumNode, Quarantine, Relabel, ShowInCiliumNode, Wait};
    let pins: BTreeMap<u8, u8> = [(1, 2), (8, 17)].into();
    let steps = [
        Join(0, 'a', None),
        // Its pin, and one of no pool.
        Join(1, 'a', None),
        Join(2, 'd', None),
        Relabel(0, 'b'),
        ShowInCiliumNode(3, Some(32)),
        Quarantine(7, 6, 5),
        Join(4, 'a', None),
        Leave(1),
        LeaveCiliumNode(1),
        LeaveCiliumNode(3),
        Wait(10),
        Join(1, 'a', None),
        Leave(2),
        LeaveCiliumNode(2),
    ];
    for mode in MODES {
        let pins = if mode == Mode::MultiPool {
            BTreeMap::new()
        } else {
            pins.clone()
        };
        let mut world = World {
            mode,
            members: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            now: 0,
        };
        let mut controller = Controller::new(desired(&pins).unwrap(), &mut world);
        let mut written = BTreeSet::new();
        for step in &steps {
            let (mut changed, none) = (written, BTreeSet::new());
            changed.extend(world.change(step));
            let planned = controller.plan_changed(&world, &changed, &none);
            let planned = planned.unwrap_or_else(|| panic!("{mode:?}: {step:?}"));
            assert_eq!(planned.next, NextWholePlan::InTime, "{mode:?}: {step:?}");
            controller.compare(&world, &planned, &changed, &none, None);
            written = world.write(&planned.changes);
            controller.compare_overview(&world, &none);
        }
        let given = if matches!(mode, Mode::OperatorGives | Mode::MultiPool) {
            0
        } else {
            3
        };
        assert_eq!(world.shown().len(), given, "{mode:?}");
    }
}

/// What others wait for, or find.
#[test]
fn a_node_that_others_wait_for_takes_one() {
    use Operation::{Join, Leave, LeaveCiliumNode, ShowInCiliumNode, ShowInSpec};
    let (soon, at_once) = (Some(NextWholePlan::Soon), None);
    for (mode, first, last, expected) in [
        // A pinned node waits for its block.
        (
            Mode::Kubernetes,
            vec![ShowInCiliumNode(0, Some(2)), Join(1, 'a', None)],
            LeaveCiliumNode(0),
            soon,
        ),
        (
            Mode::Kubernetes,
            vec![Join(0, 'a', None)],
            ShowInCiliumNode(2, Some(0)),
            at_once,
        ),
        (
            Mode::Kubernetes,
            vec![Join(0, 'a', None)],
            ShowInCiliumNode(2, Some(2)),
            soon,
        ),
        // All blocks of the pool are taken, so the node waits.
        (
            Mode::ClusterPool,
            (16..20).map(|n| ShowInCiliumNode(n, Some(n))).collect(),
            Join(0, 'c', None),
            at_once,
        ),
        (
            Mode::OperatorStopped,
            (16..20)
                .map(|n| ShowInCiliumNode(n, Some(n)))
                .chain([Join(0, 'c', None)])
                .collect(),
            LeaveCiliumNode(17),
            soon,
        ),
        // The machine's address is in a pool, which shrinks by it in ipam multi-pool.
        (Mode::Kubernetes, vec![], Join(0, 'a', Some(9)), soon),
        (Mode::MultiPool, vec![], Join(0, 'a', Some(9)), at_once),
        // kube-controller-manager was faster with a block of another node.
        (
            Mode::Kubernetes,
            vec![Join(0, 'a', None), Join(2, 'd', None)],
            ShowInSpec(2, 0),
            at_once,
        ),
        (
            Mode::Kubernetes,
            vec![
                Join(0, 'a', None),
                ShowInSpec(0, 0),
                ShowInCiliumNode(4, Some(0)),
            ],
            Leave(0),
            soon,
        ),
    ] {
        let pins = if mode == Mode::MultiPool {
            BTreeMap::new()
        } else {
            [(1, 2)].into()
        };
        let mut world = World {
            mode,
            members: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            now: 0,
        };
        for operation in &first {
            world.change(operation);
        }
        let mut controller = Controller::new(desired(&pins).unwrap(), &mut world);
        let changed = world.change(&last).into_iter().collect();
        let planned = controller.plan_changed(&world, &changed, &BTreeSet::new());
        assert_eq!(
            planned.map(|planned| planned.next),
            expected,
            "{mode:?}: {first:?}, {last:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn changed_nodes_are_planned_as_in_a_whole_plan(
        mode in prop::sample::select(MODES.to_vec()),
        pins in prop::collection::btree_map(0u8..9, 0u8..20, 0..4),
        history in histories(),
    ) {
        let Some(desired) = desired(&pins) else {
            return Err(TestCaseError::reject("the files are refused"));
        };
        let mut world = World { mode, members: BTreeMap::new(), quarantined: BTreeMap::new(), now: 0 };
        holds_in_history(&mut world, desired, &history);
    }
}
