//! Whatever a plan shows as a change, an apply of it on the same world carries out; and so for the
//! plan that takes it back.
//!
//! The worlds have blocks in every field that shows one, two families, claims and quarantined blocks of
//! any node, and each write path of single nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::support::{Folder, cluster, pin, pool};
use ipam_cilium::observed::{Node, Observed, Reading};
use ipam_cluster::{FileCluster, Opening};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::apply::{Outcome, Stop};
use ipam_controller::{
    Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, check_documents,
    observe_and_plan,
};
use ipam_core::net::{Block, Family};
use ipam_planner::plan::{
    Change, NodeChange, Plan, PlanDocument, Staleness, node_changes, still_wanted,
};

/// Blocks of each family that pool `a` has.
const BLOCKS: u8 = 8;
/// One that reaches over two of them, which nodes may show.
const WIDE: u8 = BLOCKS;
/// One that has all of both pools, and more.
const AROUND: u8 = 9;
/// All of pool `b`: more blocks than one object keeps free by what no agent reads.
const WHOLE_POOL: u8 = 10;
/// One in no pool.
const OUTSIDE: u8 = 11;
/// Two of pool `b`, near its start and far from it.
const IN_B: [u8; 2] = [12, 13];
const NODES: usize = 6;

/// What a field shows of each family, by the number of the block.
type Shown = (Option<u8>, Option<u8>);

#[derive(Clone, Debug)]
struct NodeState {
    spec: Shown,
    newer: Shown,
    older: Shown,
    cilium_node: Option<(Shown, Owner)>,
    agent: Agent,
    /// Our `CiliumNodeConfig` of the node with this IPv4 block, in mode `NodeConfig`.
    config: Option<u8>,
}

/// What the CiliumNode shows of its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    Started,
    Unseen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Absent,
    Node,
    Predecessor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    ForNode,
    ForNodeBefore,
    ForCiliumNode,
    ForCreation,
    ForPredecessor,
    Resting,
    Rested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Spec {
        annotate: bool,
    },
    Annotation,
    OldAnnotation,
    NodeConfig,
    /// Cilium's operator leaves blocks to others.
    ClusterPool,
    /// It hands them out itself, and a person asks for the path by its name.
    BesideOperator,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    mode: Mode,
    pool_has_ipv6: bool,
    nodes: Vec<NodeState>,
    /// By the number of the block and its family (`true` is IPv6): the node, and what it is to it.
    spoken: BTreeMap<(u8, bool), (usize, Spoken)>,
    /// Node and IPv4 block.
    pins: BTreeMap<usize, u8>,
    excluded: BTreeSet<u8>,
}

fn ipv4(number: u8) -> String {
    match number {
        WIDE => "10.0.0.0/25".to_owned(),
        AROUND => "10.0.0.0/15".to_owned(),
        WHOLE_POOL => "10.1.0.0/20".to_owned(),
        OUTSIDE => "10.0.2.0/26".to_owned(),
        12 => "10.1.0.64/26".to_owned(),
        13 => "10.1.8.0/26".to_owned(),
        _ => format!("10.0.{}.{}/26", number / 4, number % 4 * 64),
    }
}

fn ipv6(number: u8) -> String {
    match number {
        WIDE => "fd00::/63".to_owned(),
        AROUND => "fd00::/55".to_owned(),
        WHOLE_POOL => "fd00:0:0:100::/58".to_owned(),
        OUTSIDE => "fd00:0:0:9::/64".to_owned(),
        12 => "fd00:0:0:101::/64".to_owned(),
        13 => "fd00:0:0:120::/64".to_owned(),
        _ => format!("fd00:0:0:{number}::/64"),
    }
}

fn block((number, is_ipv6): (u8, bool)) -> String {
    if is_ipv6 { ipv6(number) } else { ipv4(number) }
}

fn texts((first, second): Shown) -> Vec<String> {
    first
        .map(ipv4)
        .into_iter()
        .chain(second.map(ipv6))
        .collect()
}

fn rack(node: usize) -> &'static str {
    if node.is_multiple_of(2) { "a" } else { "b" }
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl World {
    pub(super) fn files(&self) -> Loaded {
        let path = match self.mode {
            Mode::Spec { .. } | Mode::ClusterPool => "auto",
            Mode::Annotation | Mode::OldAnnotation => "node-annotation",
            Mode::NodeConfig => "node-config",
            Mode::BesideOperator => "cilium-node",
        };
        let excluded: Vec<String> = self.excluded.iter().map(|number| ipv4(*number)).collect();
        let policy = format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {{name: p}}\nspec: {{writePath: {path}, quarantine: 1h, excluded: [{}], limits: {{disruptive: {{percent: 100}}}}}}\n",
            excluded.join(", ")
        );
        let b = "nodeSelector: {matchLabels: {rack: b}}";
        let (a, b) = match self.pool_has_ipv6 {
            true => (
                "{cidrs: [10.0.0.0/23, \"fd00::/61\"], blockSize: {ipv4: 26, ipv6: 64}}".to_owned(),
                format!(
                    "{{cidrs: [10.1.0.0/20, \"fd00:0:0:100::/58\"], blockSize: {{ipv4: 26, ipv6: 64}}, {b}}}"
                ),
            ),
            false => (
                "{cidrs: [10.0.0.0/23], blockSize: 26}".to_owned(),
                format!("{{cidrs: [10.1.0.0/20], blockSize: 26, {b}}}"),
            ),
        };
        let pins = self
            .pins
            .iter()
            .map(|(node, number)| pin(&name(*node), &ipv4(*number)));
        let text = [policy, pool("a", &a), pool("b", &b)]
            .into_iter()
            .chain(pins)
            .collect::<Vec<_>>()
            .join("---\n");
        check_documents(
            Documents {
                files: vec![SourceFile {
                    path: "pools.yaml".into(),
                    text: text.into(),
                }],
            },
            Vec::new(),
        )
    }

    pub(super) fn objects(&self) -> String {
        let annotate = matches!(self.mode, Mode::Spec { annotate: true } | Mode::Annotation);
        let is_cluster_pool = matches!(self.mode, Mode::ClusterPool | Mode::BesideOperator);
        let mode = if is_cluster_pool {
            "cluster-pool"
        } else {
            "kubernetes"
        };
        let settings = format!(
            r#""ipam":"{mode}","annotate-k8s-node":"{annotate}","enable-ipv6":"{}","cluster-pool-ipv4-cidr":"10.0.0.0/15","cluster-pool-ipv4-mask-size":"26","cluster-pool-ipv6-cidr":"fd00::/55","cluster-pool-ipv6-mask-size":"64""#,
            self.pool_has_ipv6
        );
        let version = if self.mode == Mode::OldAnnotation {
            "1.12.3"
        } else {
            "1.19.3"
        };
        let mut items = vec![self.operator(), self.claims()];
        for (index, node) in self.nodes.iter().enumerate() {
            items.push(node.node(index));
            items.extend(node.cilium_node(index));
            if self.mode == Mode::NodeConfig {
                items.extend(node.node_config(index));
            }
        }
        cluster(version, &settings, &items)
    }

    fn operator(&self) -> String {
        let mode = if self.mode == Mode::BesideOperator {
            "cluster-pool"
        } else {
            "kubernetes"
        };
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cilium-operator", "namespace": "kube-system",
            "labels": {"io.cilium/app": "operator"}}, "spec": {"replicas": 1, "template": {"spec": {"containers":
            [{"name": "cilium-operator", "args": [format!("--ipam={mode}")]}]}}}, "status": {}})
        .to_string()
    }

    fn claims(&self) -> String {
        let (mut claims, mut quarantined) = (Vec::new(), Vec::new());
        for (spoken_block, (node, spoken)) in &self.spoken {
            let (block, node) = (block(*spoken_block), name(*node));
            let claim = |uid: &str, version: &str| {
                let uid = format!("{uid}-{node}");
                json!({"block": block, "node": node, "uid": uid, "resource_version": version})
            };
            let rest = |until: &str| json!({"block": block, "node": node, "free_at": until});
            match spoken {
                Spoken::ForNode => claims.push(claim("uid", "7")),
                Spoken::ForNodeBefore => claims.push(claim("uid", "6")),
                Spoken::ForCiliumNode => claims.push(claim("cilium", "7")),
                Spoken::ForCreation => {
                    claims
                        .push(json!({"block": block, "node": node, "uid": format!("uid-{node}")}));
                }
                Spoken::ForPredecessor => claims.push(claim("older", "7")),
                Spoken::Resting => quarantined.push(rest("2999-01-01T00:00:00Z")),
                Spoken::Rested => quarantined.push(rest("2020-01-01T00:00:00Z")),
            }
        }
        let text = json!({"format_version": "1.0", "claims": claims, "quarantined": quarantined})
            .to_string();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-ipam-claims", "namespace": "kube-system",
            "uid": "c", "resourceVersion": "5"}, "data": {"claims.json": text}})
        .to_string()
    }
}

impl NodeState {
    fn node(&self, index: usize) -> String {
        let name = name(index);
        let mut annotations = Map::new();
        for ((first, second), keys) in [
            (
                self.newer,
                [
                    "network.cilium.io/ipv4-pod-cidr",
                    "network.cilium.io/ipv6-pod-cidr",
                ],
            ),
            (
                self.older,
                [
                    "io.cilium.network.ipv4-pod-cidr",
                    "io.cilium.network.ipv6-pod-cidr",
                ],
            ),
        ] {
            annotations.extend(first.map(|number| (keys[0].to_owned(), json!(ipv4(number)))));
            annotations.extend(second.map(|number| (keys[1].to_owned(), json!(ipv6(number)))));
        }
        let blocks = texts(self.spec);
        let spec = blocks.first().map_or(
            json!({}),
            |first| json!({"podCIDR": first, "podCIDRs": blocks}),
        );
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"kubernetes.io/hostname": name, "rack": rack(index)}, "annotations": annotations},
            "spec": spec})
        .to_string()
    }

    fn node_config(&self, index: usize) -> Option<String> {
        let (block, name) = (ipv4(self.config?), name(index));
        let owner =
            json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-{name}")});
        let metadata = json!({"name": format!("cilium-ipam-{name}"), "namespace": "kube-system", "uid": format!("config-{name}"),
            "resourceVersion": "7", "labels": {"app.kubernetes.io/managed-by": "cilium-ipam"}, "ownerReferences": [owner]});
        let selector = json!({"matchLabels": {"kubernetes.io/hostname": name}});
        let spec = json!({"nodeSelector": selector, "defaults": {"ipv4-range": block}});
        Some(
            json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": metadata, "spec": spec}).to_string(),
        )
    }

    fn cilium_node(&self, index: usize) -> Option<String> {
        let (shown, owner) = self.cilium_node?;
        let name = name(index);
        let mut metadata =
            json!({"name": name, "uid": format!("cilium-{name}"), "resourceVersion": "7"});
        let uid = match owner {
            Owner::Absent => None,
            Owner::Node => Some(format!("uid-{name}")),
            Owner::Predecessor => Some(format!("older-{name}")),
        };
        if let Some(uid) = uid {
            metadata["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]);
        }
        let mut spec = json!({"ipam": {"podCIDRs": texts(shown)}});
        if self.agent == Agent::Started {
            spec["addresses"] = json!([{"ip": "192.0.2.1", "type": "InternalIP"}]);
        }
        Some(
            json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata, "spec": spec}).to_string(),
        )
    }
}

fn shown() -> impl Strategy<Value = Shown> {
    let in_a = (0..BLOCKS).prop_map(Some);
    let others = prop::sample::select(vec![WIDE, AROUND, WHOLE_POOL, OUTSIDE, IN_B[0], IN_B[1]])
        .prop_map(Some);
    let number = || prop_oneof![12 => Just(None), 5 => in_a.clone(), 3 => others.clone()];
    (number(), number())
}

pub(super) fn worlds() -> impl Strategy<Value = World> {
    let owners = prop::sample::select(vec![Owner::Absent, Owner::Node, Owner::Predecessor]);
    let node = (
        shown(),
        shown(),
        shown(),
        prop::option::of((shown(), owners)),
        prop::sample::select(vec![Agent::Started, Agent::Unseen]),
        prop::option::of(0..BLOCKS),
    );
    let node = node.prop_map(
        |(spec, newer, older, cilium_node, agent, config)| NodeState {
            spec,
            newer,
            older,
            cilium_node,
            agent,
            config,
        },
    );
    let modes = prop::sample::select(vec![
        Mode::Spec { annotate: false },
        Mode::Spec { annotate: true },
        Mode::Annotation,
        Mode::OldAnnotation,
        Mode::NodeConfig,
        Mode::ClusterPool,
        Mode::BesideOperator,
    ]);
    let spoken = prop::sample::select(vec![
        Spoken::ForNode,
        Spoken::ForNodeBefore,
        Spoken::ForCiliumNode,
        Spoken::ForCreation,
        Spoken::ForPredecessor,
        Spoken::Resting,
        Spoken::Rested,
    ]);
    // Of one node more than there are: it is gone.
    let spoken = prop::collection::btree_map((0..BLOCKS, any::<bool>()), (0..=NODES, spoken), 0..6);
    let pins = prop::collection::btree_map(0..NODES, 0..BLOCKS, 0..3);
    let excluded = prop::collection::btree_set(0..BLOCKS, 0..2);
    let parts = (
        modes,
        any::<bool>(),
        prop::collection::vec(node, 1..=NODES),
        spoken,
        pins,
        excluded,
    );
    parts.prop_map(
        |(mode, pool_has_ipv6, nodes, spoken, pins, excluded)| World {
            mode,
            pool_has_ipv6,
            nodes,
            spoken,
            pins,
            excluded,
        },
    )
}

/// An apply with no other beside it.
pub(super) struct Run {
    pub(super) observed: Observed,
    plan: Plan,
    pub(super) changes: Vec<Change>,
    pub(super) undo: PlanDocument,
    /// What was not applied, and why.
    left: Vec<String>,
}

/// Plans and applies what the files ask for, or what an undo plan takes back.
pub(super) fn apply(folder: &Folder, loaded: &Loaded, saved: Option<&PlanDocument>) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Without a lock: programs that other tests start at this moment would inherit it until they
    // run.
    let cluster = FileCluster::open(&folder.join("cluster.json"), Opening::Read).unwrap();
    let waivers = BTreeSet::new();
    let job = Job::saved(loaded, saved, &waivers);
    let (observed, plan) = runtime.block_on(observe_and_plan(&cluster, &job)).unwrap();
    let changes = match saved.map(|saved| still_wanted(saved, &plan, &observed)) {
        Some(Staleness::Current { changes, .. }) => changes,
        Some(Staleness::Stale(_)) => Vec::new(),
        None => plan.changes.clone(),
    };
    let of_nodes: Vec<&NodeChange> = node_changes(&changes).collect();
    let undo = PlanDocument::undoing(&of_nodes, "pools", &loaded.desired, &observed);
    let stop = Stop::default();
    let parallelism = NonZeroUsize::MIN;
    let on_conflict = OnConflict::Replan;
    let mut sending = Sending {
        batch: parallelism,
        limit: parallelism.into(),
        on_conflict,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let sent = apply_until_settled(
        &cluster,
        &NoPorts,
        &job,
        observed.clone(),
        changes.clone(),
        &mut sending,
    );
    let (applied, failure) = runtime.block_on(sent);
    let left = applied
        .outcomes
        .iter()
        .filter(|(_, outcome)| *outcome != Outcome::Applied);
    let left = left.map(|(change, outcome)| format!("{}: {outcome:?}", change.target()));
    let left = left.chain(failure.map(|error| error.to_string())).collect();
    Run {
        observed,
        plan,
        changes,
        undo,
        left,
    }
}

/// What agents take their blocks from, by node.
fn real(observed: &Observed) -> Vec<(String, Block)> {
    let held = |node: &Arc<Node>| -> Vec<(String, Block)> {
        let read = observed.holds(node);
        let read = read
            .iter()
            .filter(|holding| holding.reading == Reading::Read);
        read.map(|holding| (node.name.to_string(), holding.block))
            .collect()
    };
    observed.nodes.values().flat_map(held).collect()
}

fn shared(holders: &[(String, Block)]) -> BTreeSet<(String, String, String)> {
    let pairs = holders
        .iter()
        .enumerate()
        .flat_map(|(place, one)| holders[place + 1..].iter().map(move |two| (one, two)));
    let overlapping = pairs.filter(|(one, two)| one.0 != two.0 && one.1.overlaps(two.1));
    overlapping
        .map(|(one, two)| (one.0.clone(), two.0.clone(), format!("{} {}", one.1, two.1)))
        .collect()
}

impl World {
    /// Whether the files give a node this block, in the words of the documentation.
    fn gives(&self, node: &str, block: Block) -> bool {
        let index: usize = node[1..].parse().unwrap();
        let is = |text: String| text.parse::<Block>().unwrap() == block;
        if self
            .pins
            .get(&index)
            .is_some_and(|number| is(ipv4(*number)))
        {
            return true;
        }
        let is_pinned = self
            .pins
            .iter()
            .any(|(other, number)| *other != index && is(ipv4(*number)));
        let is_excluded = self.excluded.iter().any(|number| is(ipv4(*number)));
        let lies_in = |range: &str| {
            range
                .parse::<Block>()
                .unwrap()
                .range()
                .contains(&block.range())
        };
        let is_of = |ipv4: &str, ipv6: &str| match block.family() {
            Family::Ipv4 => lies_in(ipv4) && block.prefix_len() == 26,
            Family::Ipv6 => self.pool_has_ipv6 && lies_in(ipv6) && block.prefix_len() == 64,
        };
        let in_a = is_of("10.0.0.0/23", "fd00::/61");
        let in_b = is_of("10.1.0.0/20", "fd00:0:0:100::/58");
        // A pin is into pool `a`.
        let takes_b = rack(index) == "b" && !self.pins.contains_key(&index);
        !is_pinned && !is_excluded && (in_a || (in_b && takes_b))
    }
}

/// `cargo xtask prove properties` asks for more.
pub(super) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_a_plan_shows_is_applied_and_so_is_its_undo(world in worlds()) {
        let loaded = world.files();
        prop_assume!(!loaded.has_errors());
        let folder = Folder::new(&[("cluster.json", &world.objects())]);
        let first = apply(&folder, &loaded, None);
        prop_assert_eq!(first.left, Vec::<String>::new());
        prop_assert_eq!(first.plan.changes, first.changes);
        // Writes end claims, so there may be more to give.
        let again = apply(&folder, &loaded, None);
        prop_assert_eq!(again.left, Vec::<String>::new());
        let undone = apply(&folder, &loaded, Some(&first.undo));
        prop_assert_eq!(undone.left, Vec::<String>::new());
        prop_assert_eq!(undone.plan.changes, undone.changes, "what an undo plan shows is what it does");
    }

    #[test]
    fn no_agent_comes_to_share_addresses_with_another(world in worlds()) {
        let loaded = world.files();
        prop_assume!(!loaded.has_errors());
        let folder = Folder::new(&[("cluster.json", &world.objects())]);
        let first = apply(&folder, &loaded, None);
        for change in node_changes(&first.plan.changes) {
            for new in change.new_blocks() {
                // Of what shows more than its bound, the pools give to others.
                let wide = |block: &Block| [AROUND, WHOLE_POOL].iter().any(|n| [ipv4(*n), ipv6(*n)].contains(&block.to_string()));
                let rival = first.observed.shown_blocks().find(|(other, block)| **other != change.node && block.overlaps(new) && !wide(block));
                prop_assert_eq!(rival, None, "{}: {}", change.node, new);
            }
        }
        let second = apply(&folder, &loaded, None);
        let (before, after) = (shared(&real(&first.observed)), shared(&real(&second.observed)));
        prop_assert_eq!(after.difference(&before).collect::<Vec<_>>(), Vec::<&(String, String, String)>::new());
    }

    #[test]
    fn what_nobody_has_to_approve_the_files_give(world in worlds()) {
        let loaded = world.files();
        prop_assume!(!loaded.has_errors());
        let folder = Folder::new(&[("cluster.json", &world.objects())]);
        let first = apply(&folder, &loaded, None);
        for change in node_changes(&first.plan.changes).filter(|change| change.needs_approval.is_empty()) {
            let node = &first.observed.nodes[&change.node];
            let is_trusted = |block: &Block| node.spec.get(block.family()) == Some(block) || first.observed.set_range(node, block.family()) == Some(*block);
            for new in change.new_blocks().into_iter().filter(|block| !is_trusted(block)) {
                prop_assert!(world.gives(change.node.as_str(), new), "{}: {}", change.node, new);
            }
        }
        let is_green = PlanDocument::new(&first.plan, "pools").summary.is_as_the_files_say();
        for node in first.observed.nodes.values().filter(|_| is_green) {
            for holding in first.observed.holds(node).iter() {
                let is_used = world.pool_has_ipv6 || holding.block.family() == Family::Ipv4;
                prop_assert!(!is_used || world.gives(node.name.as_str(), holding.block), "{}: {}", node.name, holding.block);
            }
        }
    }
}
