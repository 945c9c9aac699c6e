//! The schedule of a migration: which nodes move where, by which steps, in which waves.
//!
//! Equal inputs give equal schedules. It must never write.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::document::{
    FORMAT_VERSION, Goal, KIND, LeftBehindDocument, MethodChoice, MigrationRequest,
    ScheduleDocument,
};
use super::drain::{self, DrainObstacle, Workloads};
use super::mode;
use super::record::{Method, Phase};
use super::stored_text::seconds;
use super::targets::{NewBlocks, remarks, targets, waves};
use ipam_cilium::observed::{FamilyUse, ModeSeen, Node, Observed, Protection};
use ipam_core::model::{IpamMode, NodeName, PerFamily, PoolName};
use ipam_core::net::Block;
use ipam_core::text::natural_order;
use ipam_desired::{AddressPairs, Desired};
use ipam_plan::plan::{Misplaced, MisplacedReason, plan};

/// Labels of nodes that run the control plane. The second one is older.
const CONTROL_PLANE_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// Whether a node runs the control plane. Such a node moves only if a person names it.
pub fn is_control_plane(node: &Node) -> bool {
    let mut labels = CONTROL_PLANE_LABELS.iter();
    labels.any(|label| node.labels.contains_key(*label))
}

/// About how long the steps of one node take beside the end of its Pods: the agent starts, and the
/// node gets ready.
const STEPS: SignedDuration = SignedDuration::from_secs(90);

/// The move of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMove {
    /// The node.
    pub node: NodeName,
    /// `metadata.uid` of the Node.
    pub uid: String,
    /// How it moves.
    pub method: Method,
    /// The pool of the new blocks.
    pub pool: PoolName,
    /// The blocks that it leaves.
    pub from: Vec<Block>,
    /// The blocks that it gets.
    pub to: Vec<Block>,
    /// Why it moves.
    pub reason: String,
    /// Its steps, in order.
    pub steps: Vec<Phase>,
    /// What may go wrong or is lost.
    pub risks: Vec<String>,
    /// Number of Pods that are evicted; absent if the Pods are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
    /// About how long it is cordoned, in seconds.
    #[serde(rename = "estimate_seconds", with = "seconds")]
    pub estimate: SignedDuration,
}

/// One wave of a migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// The failure domain; absent for nodes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The nodes, in order.
    pub nodes: Vec<NodeName>,
}

/// A node that should move and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    pub why: String,
    pub help: String,
}

/// Schedules a migration of the requested nodes to the files of `directory`.
pub fn schedule(
    desired: &Desired,
    observed: &Observed,
    workloads: &Workloads,
    request: &MigrationRequest,
    directory: &str,
) -> ScheduleDocument {
    let mut scheduler = Scheduler {
        desired,
        observed,
        workloads,
        request,
        moves: BTreeMap::new(),
        left_out: BTreeMap::new(),
    };
    match request.goal {
        Goal::Blocks => scheduler.misplaced(),
        Goal::ToKubernetes | Goal::ToClusterPool => scheduler.change_mode(),
    }
    scheduler.finish(directory)
}

pub(super) struct Scheduler<'s> {
    pub(super) desired: &'s Desired,
    pub(super) observed: &'s Observed,
    pub(super) workloads: &'s Workloads,
    pub(super) request: &'s MigrationRequest,
    pub(super) moves: BTreeMap<NodeName, NodeMove>,
    pub(super) left_out: BTreeMap<NodeName, LeftBehind>,
}

/// The pool and blocks that a moving node keeps, if any.
type Kept = Option<(PoolName, PerFamily<Block>)>;

impl<'s> Scheduler<'s> {
    /// Moves the nodes whose blocks the files would not give them.
    fn misplaced(&mut self) {
        let method = match self.method() {
            Ok(method) => method,
            Err(why) => return self.leave_all(&why),
        };
        let plan = plan(self.desired, self.observed, Vec::new());
        let mut of_node: BTreeMap<NodeName, Vec<Misplaced>> = BTreeMap::new();
        for one in plan.misplaced {
            of_node.entry(one.node.clone()).or_default().push(one);
        }
        let mut movers: BTreeMap<NodeName, Kept> = BTreeMap::new();
        for (name, misplaced) in &of_node {
            if let Some(node) = self.eligible(name) {
                movers.insert(name.clone(), self.kept(node, misplaced));
            }
        }
        // Pins come first, and they are of the files.
        for (name, pin) in &self.desired.pins {
            let held = self
                .observed
                .nodes
                .get(name)
                .map(|node| self.observed.holds(node));
            let moves = held.is_some_and(|held| {
                pin.blocks.iter().any(|block| {
                    held.get(block.family())
                        .is_some_and(|held| held.block != *block)
                })
            });
            if moves && self.eligible(name).is_some() {
                movers.entry(name.clone()).or_insert(None);
            }
        }
        let mut given = targets(self.desired, self.observed, &movers);
        let mut unset = match method {
            Method::NodeConfig => drain::of_settings(self.desired, self.observed, &given),
            _ => BTreeMap::new(),
        };
        for name in movers.keys() {
            let reason = of_node.get(name).and_then(|all| all.first());
            let reason = reason.map_or_else(|| "a pin names another block".to_owned(), described);
            if let Some(LeftBehind { why, help }) = unset.remove(name) {
                self.leave(name, why, help);
                continue;
            }
            match given.remove(name) {
                Some(Ok(new)) => self.add(name, method, new, reason),
                Some(Err(blocked)) => self.leave(name, blocked.to_string(), blocked.unblock()),
                None => self.leave(name, "no plan gives it a block".to_owned(), String::new()),
            }
        }
    }

    /// How nodes of this cluster get other blocks.
    fn method(&self) -> Result<Method, LeftBehind> {
        if self.desired.policy.address_pairs == AddressPairs::PodCidrs {
            return Err(LeftBehind {
                why: "the Policy keeps allowed address pairs at Neutron, which `migrate` does not change, so the new block would not be let through".to_owned(),
                help: "re-create the nodes one by one, and run `cilium-ipam apply` after each".to_owned(),
            });
        }
        match (self.observed.cilium.mode(), self.request.method) {
            (ModeSeen::Known(IpamMode::ClusterPool), _) => Ok(Method::CiliumNode),
            (ModeSeen::Known(IpamMode::Kubernetes), MethodChoice::Auto) => Ok(Method::NodeConfig),
            (ModeSeen::Known(IpamMode::Kubernetes), MethodChoice::RecreateNode) => {
                Ok(Method::NodeObject)
            }
            (ModeSeen::Known(mode), _) => Err(LeftBehind {
                why: format!("in ipam `{mode}`, nodes are not moved one by one"),
                help: "`migrate` moves nodes in `cluster-pool` and `kubernetes`; in `multi-pool`, change the pools or the node labels".to_owned(),
            }),
            (ModeSeen::Unknown(_) | ModeSeen::NoSettings, _) => Err(LeftBehind {
                why: "the IPAM mode of Cilium is unknown".to_owned(),
                help: "make the ConfigMap `cilium-config` readable".to_owned(),
            }),
        }
    }

    /// The node, if it may be moved. Otherwise it is left behind with the reason.
    pub(super) fn eligible(&mut self, name: &NodeName) -> Option<&'s Node> {
        if !self.request.nodes.is_empty() && !self.request.nodes.contains(name) {
            return None;
        }
        let observed: &'s Observed = self.observed;
        let node: &'s Node = observed.nodes.get(name)?;
        let is_control_plane = is_control_plane(node);
        let is_protected = self.desired.policy.protected.nodes.contains(name)
            || node.protection == Protection::Protected;
        if is_protected {
            self.leave(
                name,
                "it is protected".to_owned(),
                "remove the protection".to_owned(),
            );
        } else if is_control_plane && !self.request.nodes.contains(name) {
            let help = format!("name it: --node {name}");
            self.leave(name, "it runs the control plane".to_owned(), help);
        } else if let Some(migration) = self.migration_of(node) {
            let why = format!("migration {} moves it already", migration.escape_debug());
            self.leave(
                name,
                why,
                "finish it: cilium-ipam migrate status".to_owned(),
            );
        } else {
            return Some(node);
        }
        None
    }

    /// The blocks that a node keeps: of a family that is not misplaced, if its pool gives the other
    /// family too.
    fn kept(&self, node: &Node, misplaced: &[Misplaced]) -> Kept {
        let moved = |block: &Block| misplaced.iter().any(|one| one.block == *block);
        let held = self.observed.holds(node);
        let kept: PerFamily<Block> = held
            .iter()
            .map(|holding| holding.block)
            .filter(|block| !moved(block))
            .collect();
        let block = kept.iter().next()?;
        let pool = self
            .desired
            .pools
            .values()
            .find(|pool| pool.contains(*block))?;
        let is_pair = misplaced
            .iter()
            .any(|one| matches!(one.reason, MisplacedReason::DualStackSplit(_)));
        let gives_all = misplaced
            .iter()
            .all(|one| pool.block_size.get(one.block.family()).is_some());
        (gives_all && !is_pair).then(|| (pool.name.clone(), kept))
    }

    fn add(&mut self, name: &NodeName, method: Method, new: NewBlocks, reason: String) {
        let Some(node) = self.observed.nodes.get(name) else {
            return;
        };
        let held = self.observed.holds(node);
        // The agent shows no block of a family that it does not use.
        let is_used = |block: &Block| self.observed.cilium.use_of(block.family()) != FamilyUse::Off;
        let held = held.iter().map(|holding| holding.block);
        let from: Vec<Block> = held.filter(is_used).collect();
        let to: Vec<Block> = new.blocks.iter().copied().collect();
        if let Some(LeftBehind { why, help }) = drain::of(
            self.observed,
            &self.desired.policy,
            name,
            method,
            &from,
            &new,
        ) {
            return self.leave(name, why, help);
        }
        let moved = self.node_move(node, method, (from, to), new.pool, reason);
        match moved {
            Ok(moved) => drop(self.moves.insert(name.clone(), moved)),
            Err(obstacles) => {
                let LeftBehind { why, help } = drain::of_drain(&obstacles);
                self.leave(name, why, help);
            }
        }
    }

    pub(super) fn node_move(
        &self,
        node: &Node,
        method: Method,
        (from, to): (Vec<Block>, Vec<Block>),
        pool: PoolName,
        reason: String,
    ) -> Result<NodeMove, Vec<DrainObstacle>> {
        let pods = self.workloads.of(&node.name);
        let is_known = self.workloads.are_known();
        let leaving = match method.renumbers() {
            true => self.request.drain.leaving(pods)?,
            false => Vec::new(),
        };
        let grace = leaving
            .iter()
            .map(|pod| pod.grace)
            .max()
            .unwrap_or_default();
        Ok(NodeMove {
            node: node.name.clone(),
            uid: node.uid.clone(),
            method,
            pool,
            from,
            to,
            reason,
            steps: method.phases().to_vec(),
            risks: drain::risks(
                method,
                self.observed.block_allocator(node),
                &leaving,
                self.workloads,
            ),
            pods: is_known.then_some(leaving.len()),
            estimate: STEPS.saturating_add(grace),
        })
    }

    /// Id of the migration that moves the node, or still has to.
    fn migration_of(&self, node: &'s Node) -> Option<&'s str> {
        let unfinished = self.observed.migration_of(&node.name);
        let marked = node.migration.as_deref();
        marked.or(unfinished.map(|unfinished| unfinished.id.as_str()))
    }

    pub(super) fn leave(&mut self, name: &NodeName, why: String, help: String) {
        self.left_out.insert(name.clone(), LeftBehind { why, help });
    }

    fn finish(self, directory: &str) -> ScheduleDocument {
        let Scheduler {
            desired,
            observed,
            workloads,
            request,
            mut moves,
            left_out,
        } = self;
        let methods: BTreeSet<Method> = moves.values().map(|one| one.method).collect();
        let after = mode::after(observed, &methods, observed.nodes.len() - moves.len());
        let waves = waves(observed, &desired.policy.failure_domain, moves.keys());
        let remarks = remarks(desired, observed, workloads, &moves);
        let in_waves = waves.iter().flat_map(|wave| &wave.nodes);
        let moves: Vec<NodeMove> = in_waves.filter_map(|node| moves.remove(node)).collect();
        let left_out = left_out.into_iter();
        let mut left_out: Vec<_> = left_out
            .map(|(node, LeftBehind { why, help })| LeftBehindDocument {
                node: node.to_string(),
                why,
                help,
            })
            .collect();
        left_out.sort_by(|a, b| natural_order(&a.node, &b.node));
        let document = ScheduleDocument {
            kind: KIND.to_owned(),
            format_version: FORMAT_VERSION.to_owned(),
            digest: String::new(),
            directory: directory.to_owned(),
            revision: None,
            request: request.clone(),
            max_unavailable: desired.policy.migration.max_unavailable.get(),
            waves,
            moves,
            left_out,
            after,
            remarks,
            estimate_seconds: 0,
        };
        ScheduleDocument {
            estimate_seconds: document.seconds_left(|_| false),
            ..document
        }
        .digested()
    }

    pub(super) fn leave_all(&mut self, why: &LeftBehind) {
        let names = self.observed.nodes.keys();
        self.left_out
            .extend(names.map(|name| (name.clone(), why.clone())));
    }
}

fn described(misplaced: &Misplaced) -> String {
    format!("{}: {}", misplaced.block, misplaced.reason)
}
