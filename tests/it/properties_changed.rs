//! Plans for the nodes that changed since a whole plan, held against whole plans of the same
//! cluster, in every ipam mode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Folder, cluster, pin, pool};
use ipam_cilium::observed::{Observed, ObservedKind, Reader};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::{NodeName, Severity};
use ipam_core::net::Block;
use ipam_desired::Desired;
use ipam_planner::check;
use ipam_planner::plan::{
    Change, ChangedNodes, ChangedNodesPlan, NextWholePlan, Overview, Plan, PlannedState, Target,
    node_changes, plan,
};

/// Who gives blocks to nodes beside the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Kubernetes,
    /// Ipam `cluster-pool`, and an operator in another mode.
    ClusterPool,
    /// Ipam `cluster-pool`, and an operator that gives the blocks.
    OperatorGives,
    /// Ipam `cluster-pool`, and an operator that is scaled to zero.
    OperatorStopped,
    MultiPool,
}

const MODES: [Mode; 5] = [
    Mode::Kubernetes,
    Mode::ClusterPool,
    Mode::OperatorGives,
    Mode::OperatorStopped,
    Mode::MultiPool,
];

impl Mode {
    fn ipam(self) -> &'static str {
        match self {
            Mode::Kubernetes => "kubernetes",
            Mode::ClusterPool | Mode::OperatorGives | Mode::OperatorStopped => "cluster-pool",
            Mode::MultiPool => "multi-pool",
        }
    }

    fn settings(self) -> String {
        let ipam = self.ipam();
        format!(
            r#""ipam":"{ipam}","cluster-pool-ipv4-cidr":"10.0.0.0/22","cluster-pool-ipv4-mask-size":"28""#
        )
    }

    fn operator(self) -> String {
        let (ipam, replicas) = match self {
            Mode::ClusterPool | Mode::Kubernetes => ("kubernetes", 1),
            Mode::OperatorGives => ("cluster-pool", 1),
            Mode::OperatorStopped => ("cluster-pool", 0),
            Mode::MultiPool => ("multi-pool", 1),
        };
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "cilium-operator", "namespace": "kube-system", "generation": 1,
                "labels": {"io.cilium/app": "operator"}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [
                {"name": "cilium-operator", "image": "quay.io/cilium/operator-generic:v1.19.3", "args": [format!("--ipam={ipam}")]}]}}},
            "status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}})
        .to_string()
    }
}

/// Blocks 0 to 7 are of pool a, 8 to 15 of pool b, 16 to 19 of the fallback, and 32 of none. Block 33
/// is all of pool a and b.
fn block(number: u8) -> String {
    if number == 33 {
        return "10.0.0.0/24".to_owned();
    }
    let address = u32::from(number) * 16;
    format!("10.0.{}.{}/28", address / 256, address % 256)
}

/// An address in a block.
fn address(number: u8) -> String {
    let address = u32::from(number) * 16 + 5;
    format!("10.0.{}.{}", address / 256, address % 256)
}

fn documents(pins: &BTreeMap<u8, u8>) -> Documents {
    let mut documents = vec![
        pool(
            "a",
            "{cidrs: [10.0.0.0/25], blockSize: 28, nodeSelector: {matchLabels: {rack: a}}, reserved: [10.0.0.48/28]}",
        ),
        pool(
            "b",
            "{cidrs: [10.0.0.128/25], blockSize: 28, nodeSelector: {matchLabels: {rack: b}}}",
        ),
        pool(
            "fallback",
            "{cidrs: [10.0.1.0/26], blockSize: 28, priority: -1, nodeSelector: {matchExpressions: [{key: rack, operator: In, values: [a, c]}]}}",
        ),
    ];
    let pins = pins.iter();
    documents.extend(pins.map(|(node, number)| pin(&format!("n{node}"), &block(*number))));
    Documents {
        files: vec![SourceFile {
            path: "pools.yaml".into(),
            text: documents.join("---\n").into(),
        }],
    }
}

fn desired(pins: &BTreeMap<u8, u8>) -> Option<Desired> {
    let (desired, mut findings) = lower(&documents(pins));
    findings.extend(check::files(&desired));
    let is_valid = findings
        .iter()
        .all(|finding| finding.severity != Severity::Error);
    is_valid.then_some(desired)
}

/// The pools and settings that the files ask for in ipam `multi-pool`, as `apply` writes them.
fn pod_pools() -> &'static [Value] {
    static OBJECTS: OnceLock<Vec<Value>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let mode = Mode::MultiPool;
        let objects = cluster("1.19.3", &mode.settings(), &[mode.operator()]);
        let files = documents(&BTreeMap::new()).files;
        let folder = Folder::new(&[("pools/a.yaml", &files[0].text), ("cluster.json", &objects)]);
        folder
            .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
            .expect(0);
        let written: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
        let items = written["items"].as_array().unwrap().iter();
        let ours = items.filter(|item| {
            matches!(
                item["kind"].as_str(),
                Some("CiliumPodIPPool" | "CiliumNodeConfig")
            )
        });
        let ours: Vec<Value> = ours.cloned().collect();
        assert_eq!(ours.len(), 6, "three pools and three choices");
        ours
    })
}

/// All objects beside nodes.
fn fixed_objects(mode: Mode) -> &'static [(ObservedKind, String)] {
    static OBJECTS: [OnceLock<Vec<(ObservedKind, String)>>; MODES.len()] =
        [const { OnceLock::new() }; MODES.len()];
    OBJECTS[mode as usize].get_or_init(|| {
        let objects = cluster("1.19.3", &mode.settings(), &[mode.operator()]);
        let objects: Value = serde_json::from_str(&objects).unwrap();
        let mut items = objects["items"].as_array().unwrap().clone();
        if mode == Mode::MultiPool {
            items.extend(pod_pools().iter().cloned());
        }
        let known = items.iter().filter_map(|item| {
            let kind = match item["kind"].as_str().unwrap() {
                "ConfigMap" => ObservedKind::CiliumConfig,
                "DaemonSet" => ObservedKind::CiliumDaemonSet,
                "Deployment" => ObservedKind::CiliumOperator,
                "ServiceCIDR" => ObservedKind::ServiceCidr,
                "CiliumPodIPPool" => ObservedKind::PodIpPool,
                "CiliumNodeConfig" => ObservedKind::CiliumNodeConfig,
                _ => return None,
            };
            Some((kind, item.to_string()))
        });
        known.collect()
    })
}

/// The Node and the CiliumNode of one name.
#[derive(Clone, Debug, Default)]
struct Member {
    /// The rack, and the number of the block that an address of the machine lies in.
    node: Option<(char, Option<u8>)>,
    in_spec: Option<u8>,
    /// Whether there is a CiliumNode, and its block.
    cilium_node: Option<Option<u8>>,
    version: u32,
}

#[derive(Clone, Debug)]
struct World {
    mode: Mode,
    members: BTreeMap<u8, Member>,
    /// Quarantined blocks: the node and the second at which they are free.
    quarantined: BTreeMap<u8, (u8, i64)>,
    now: i64,
}

#[derive(Clone, Debug)]
enum Operation {
    Join(u8, char, Option<u8>),
    Leave(u8),
    LeaveCiliumNode(u8),
    Relabel(u8, char),
    /// Another writer shows a block.
    ShowInSpec(u8, u8),
    ShowInCiliumNode(u8, Option<u8>),
    Quarantine(u8, u8, i64),
    Wait(i64),
}

impl World {
    /// Returns the name that it changes, if it changes something.
    fn change(&mut self, operation: &Operation) -> Option<u8> {
        let name = match *operation {
            Operation::Join(name, ..)
            | Operation::Leave(name)
            | Operation::LeaveCiliumNode(name)
            | Operation::Relabel(name, _)
            | Operation::ShowInSpec(name, _)
            | Operation::ShowInCiliumNode(name, _) => name,
            Operation::Quarantine(number, node, until) => {
                self.quarantined.insert(number, (node, self.now + until));
                return None;
            }
            Operation::Wait(seconds) => {
                self.now += seconds;
                return None;
            }
        };
        let is_multi_pool = self.mode == Mode::MultiPool;
        let member = self.members.entry(name).or_default();
        match *operation {
            Operation::Join(_, rack, machine) if member.node.is_none() => {
                (member.node, member.in_spec) = (Some((rack, machine)), None);
            }
            Operation::Leave(_) => (member.node, member.in_spec) = (None, None),
            Operation::LeaveCiliumNode(_) => member.cilium_node = None,
            Operation::Relabel(_, rack) => {
                member.node = member.node.map(|(_, machine)| (rack, machine));
            }
            Operation::ShowInSpec(_, number) if member.node.is_some() && !is_multi_pool => {
                member.in_spec.get_or_insert(number);
            }
            Operation::ShowInCiliumNode(_, number) => member.cilium_node = Some(number),
            _ => return None,
        }
        member.version += 1;
        Some(name)
    }

    fn objects(&self, name: u8) -> Vec<(ObservedKind, Value)> {
        let Some(member) = self.members.get(&name) else {
            return Vec::new();
        };
        let version = member.version.to_string();
        let metadata = json!({"name": format!("n{name}"), "uid": format!("uid-{name}"), "resourceVersion": version});
        let mut objects = Vec::new();
        if let Some((rack, machine)) = member.node {
            let mut metadata = metadata.clone();
            metadata["labels"] = json!({"rack": rack.to_string()});
            metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            let cidrs: Vec<String> = member.in_spec.map(block).into_iter().collect();
            let machine =
                machine.map(|number| json!({"type": "InternalIP", "address": address(number)}));
            let machine: Vec<Value> = machine.into_iter().collect();
            objects.push((
                ObservedKind::Node,
                json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata,
                "spec": {"podCIDRs": cidrs}, "status": {"addresses": machine}}),
            ));
        }
        if let Some(cidr) = member.cilium_node {
            let cidrs: Vec<String> = cidr.map(block).into_iter().collect();
            let pool = if cidr.is_some_and(|number| number < 8) {
                "a"
            } else {
                "b"
            };
            let ipam = match self.mode {
                Mode::MultiPool => {
                    json!({"pools": {"allocated": [{"pool": pool, "cidrs": cidrs}]}})
                }
                _ => json!({"podCIDRs": cidrs}),
            };
            objects.push((
                ObservedKind::CiliumNode,
                json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
                "metadata": metadata, "spec": {"ipam": ipam}}),
            ));
        }
        objects
    }

    fn claims(&self) -> Value {
        let at = |second: i64| jiff::Timestamp::from_second(second).unwrap().to_string();
        let quarantined = self.quarantined.iter().map(|(number, (node, until))| {
            json!({"block": block(*number), "node": format!("n{node}"), "free_at": at(*until)})
        });
        let claims = json!({"format_version": "1.0", "claims": [], "resting": quarantined.collect::<Vec<_>>()});
        json!({"metadata": {"uid": "c", "resourceVersion": "1"}, "data": {"claims.json": claims.to_string()}})
    }

    /// The Nodes and CiliumNodes of these names, and the claims.
    fn seen(&self, names: &BTreeSet<u8>, mut reader: Reader) -> Observed {
        for (kind, object) in names.iter().flat_map(|name| self.objects(*name)) {
            reader.object(kind, &object.to_string()).unwrap();
        }
        reader
            .object(ObservedKind::Claims, &self.claims().to_string())
            .unwrap();
        reader.finish(jiff::Timestamp::from_second(self.now).unwrap())
    }

    fn observed(&self, tombstones: &BTreeSet<Block>) -> Observed {
        let mut reader = Reader::default();
        for (kind, object) in fixed_objects(self.mode) {
            reader.object(*kind, object).unwrap();
        }
        let mut observed = self.seen(&self.members.keys().copied().collect(), reader);
        observed.tombstones.clone_from(tombstones);
        observed
    }

    /// Writes what a plan gives to new nodes.
    fn write(&mut self, changes: &[Change]) -> BTreeSet<u8> {
        let given = node_changes(changes);
        let given: Vec<(u8, Block)> = given
            .map(|change| (number(&change.node), change.after[0]))
            .collect();
        for (name, after) in &given {
            let is_it = |number: &u8| block(*number) == after.to_string();
            let number = (0..64).find(is_it).unwrap();
            let mode = self.mode;
            let member = self.members.get_mut(name).unwrap();
            member.version += 1;
            match mode {
                Mode::Kubernetes => member.in_spec = Some(number),
                _ => member.cilium_node = Some(Some(number)),
            }
        }
        given.into_iter().map(|(name, _)| name).collect()
    }

    fn shown(&self) -> BTreeSet<u8> {
        let members = self.members.values();
        members
            .flat_map(|member| [member.in_spec, member.cilium_node.flatten()])
            .flatten()
            .collect()
    }
}

fn number(name: &NodeName) -> u8 {
    name.as_str()[1..].parse().unwrap()
}

fn names(numbers: &BTreeSet<u8>) -> BTreeSet<NodeName> {
    numbers
        .iter()
        .map(|number| format!("n{number}").parse().unwrap())
        .collect()
}

/// A controller: it plans for changed nodes where it can, and as a whole where it must.
struct Controller {
    desired: Desired,
    known: Option<PlannedState>,
    overview: Overview,
    blocked: BTreeMap<Target, String>,
}

fn blocked(plan: &Plan) -> BTreeMap<Target, String> {
    let blocked = plan.blocked.iter();
    blocked
        .map(|one| (one.target.clone(), one.reason.to_string()))
        .collect()
}

impl Controller {
    fn new(desired: Desired, world: &mut World) -> Controller {
        let mut controller = Controller {
            desired,
            known: None,
            overview: Overview::default(),
            blocked: BTreeMap::new(),
        };
        controller.plan_as_a_whole(world, &BTreeSet::new());
        controller
    }

    /// Returns the nodes that it writes.
    fn plan_as_a_whole(&mut self, world: &mut World, tombstones: &BTreeSet<Block>) -> BTreeSet<u8> {
        let observed = world.observed(tombstones);
        let plan = plan(&self.desired, &observed, Vec::new());
        self.known = PlannedState::after(&plan, &self.desired, &observed);
        self.overview = Overview::of(&plan, &self.desired, &observed);
        self.blocked = blocked(&plan);
        let new: Vec<Change> = plan
            .changes
            .into_iter()
            .filter(Change::gives_to_a_new_node)
            .collect();
        node_changes(&new).for_each(|change| self.overview.note(change));
        if let Some(known) = &mut self.known {
            known.written(node_changes(&new));
        }
        world.write(&new)
    }

    fn plan_changed(
        &mut self,
        world: &World,
        changed: &BTreeSet<u8>,
        tombstones: &BTreeSet<Block>,
    ) -> Option<ChangedNodesPlan> {
        let changed = ChangedNodes {
            names: names(changed),
            seen: Observed {
                tombstones: tombstones.clone(),
                ..world.seen(changed, Reader::default())
            },
        };
        let planned = self.known.as_mut()?.plan_changed(changed)?;
        self.overview.update(&planned.update);
        for (node, reason) in &planned.update.blocked {
            let target = Target::Node(node.clone());
            match reason {
                Some(reason) => self.blocked.insert(target, reason.clone()),
                None => self.blocked.remove(&target),
            };
        }
        Some(planned)
    }

    /// Holds the plan for changed nodes against the whole plan.
    fn compare(
        &self,
        world: &World,
        planned: &ChangedNodesPlan,
        changed: &BTreeSet<u8>,
        tombstones: &BTreeSet<Block>,
        due: Option<u8>,
    ) {
        let whole = plan(&self.desired, &world.observed(tombstones), Vec::new());
        let is_changed = |change: &&Change| matches!(change.target(), Target::Node(name) if changed.contains(&number(&name)));
        let (of_these, of_others): (Vec<&Change>, Vec<&Change>) =
            whole.changes.iter().partition(is_changed);
        assert_eq!(planned.changes.iter().collect::<Vec<_>>(), of_these);
        if due.is_none() {
            let new = of_others
                .into_iter()
                .filter(|change| change.gives_to_a_new_node());
            assert_eq!(new.collect::<Vec<_>>(), Vec::<&Change>::new(), "others");
            let whole = blocked(&whole);
            assert!(
                self.blocked.keys().eq(whole.keys()),
                "{:?}, {whole:?}",
                self.blocked
            );
            // In a whole plan, nodes that the operator serves still use up the pools.
            let is_told = world.mode != Mode::OperatorGives;
            for (node, reason) in planned.update.blocked.iter().filter(|_| is_told) {
                assert_eq!(reason.as_ref(), whole.get(&Target::Node(node.clone())));
            }
        }
    }

    /// Holds the numbers against those of a whole plan.
    fn compare_overview(&self, world: &World, tombstones: &BTreeSet<Block>) {
        let observed = world.observed(tombstones);
        let plan = plan(&self.desired, &observed, Vec::new());
        let expected = Overview::of(&plan, &self.desired, &observed);
        let is_pending = plan
            .changes
            .iter()
            .any(|change| !change.gives_to_a_new_node());
        let numbers = |overview: &Overview| {
            let mut pools = overview.pools.clone();
            // The report of the whole plan stays.
            pools.values_mut().for_each(|pool| pool.exhausted = None);
            if is_pending {
                // Planned blocks that wait for a person count as reserved, not as free.
                pools.values_mut().for_each(|pool| pool.blocks.clear());
            }
            let Overview {
                nodes,
                pins,
                misplaced,
                ..
            } = overview.clone();
            (nodes, pools, pins, misplaced)
        };
        assert_eq!(numbers(&self.overview), numbers(&expected));
    }
}

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
