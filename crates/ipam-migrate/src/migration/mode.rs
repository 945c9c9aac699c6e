//! A whole cluster changes its IPAM mode, node by node, and no node changes its block.
//!
//! One `CiliumNodeConfig` for each node sets `ipam` before its agent restarts. `cilium-config` and
//! the operator follow when all nodes have changed. Cilium calls a change of mode on a live cluster
//! unsupported (`Documentation/network/concepts/ipam/index.rst` @ 1.20), so every step is verified.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Goal;
use super::record::Method;
use super::schedule::{LeftBehind, Scheduler};
use super::seen::MIGRATION_ANNOTATION;
use ipam_cilium::observed::{ModeSeen, Node, Observed};
use ipam_core::model::{IpamMode, NodeName, PoolName};
use ipam_core::net::Block;
use ipam_plan::allocators::{OtherAllocator, described, fix};
use ipam_plan::plan::{HOSTNAME_LABEL, pools_of};

fn hostname_of(node: &Node) -> Option<&str> {
    node.labels.get(HOSTNAME_LABEL).map(String::as_str)
}

/// The number of nodes with each hostname. A setting for one node selects it by this label.
fn nodes_by_hostname(observed: &Observed) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    let hostnames = observed.nodes.values().filter_map(|node| hostname_of(node));
    for hostname in hostnames {
        *counts.entry(hostname).or_default() += 1;
    }
    counts
}

/// Commands for the user to run after these moves, and what must be done before them. `others` nodes
/// keep the old mode.
pub(super) fn after(observed: &Observed, methods: &BTreeSet<Method>, others: usize) -> Vec<String> {
    let mode = if methods.contains(&Method::ToKubernetes) {
        IpamMode::Kubernetes
    } else if methods.contains(&Method::ToClusterPool) {
        IpamMode::ClusterPool
    } else {
        return Vec::new();
    };
    if others > 0 {
        let first =
            format!("# change the mode of the other nodes first: {others} keep the old one");
        return vec![first];
    }
    let namespace = observed
        .cilium
        .namespace
        .as_deref()
        .unwrap_or("kube-system");
    let version = observed.cilium.version.map(|(version, _)| version);
    let version = version.map(|version| format!(" --version {version}"));
    let ranges = match mode {
        IpamMode::ClusterPool => {
            " --set ipam.operator.clusterPoolIPv4PodCIDRList=CIDRS --set ipam.operator.clusterPoolIPv4MaskSize=SIZE"
        }
        _ => "",
    };
    vec![
        format!(
            "helm upgrade cilium cilium/cilium{} -n {namespace} --reuse-values --set ipam.mode={mode}{ranges}",
            version.unwrap_or_default()
        ),
        format!("kubectl -n {namespace} rollout restart deployment/cilium-operator"),
        format!(
            "kubectl -n {namespace} delete ciliumnodeconfigs.cilium.io -l {MIGRATION_ANNOTATION}"
        ),
    ]
}

impl Scheduler<'_> {
    /// Every node changes to the wanted mode.
    pub(super) fn change_mode(&mut self) {
        let (from, method) = match self.request.goal {
            Goal::ToClusterPool => (IpamMode::Kubernetes, Method::ToClusterPool),
            Goal::ToKubernetes | Goal::Blocks => (IpamMode::ClusterPool, Method::ToKubernetes),
        };
        if let Some(left) = self.mode_obstacle(from) {
            return self.leave_all(&left);
        }
        let names: Vec<NodeName> = self.observed.nodes.keys().cloned().collect();
        let hostnames = nodes_by_hostname(self.observed);
        let shown = self.observed.cilium_nodes.values();
        let shown = shown.flat_map(|cilium_node| cilium_node.pod_cidrs.iter().copied());
        let pools = pools_of(self.desired, shown);
        for name in names {
            let Some(node) = self.eligible(&name).cloned() else {
                continue;
            };
            if hostname_of(&node).is_none_or(|hostname| hostnames.get(hostname) != Some(&1)) {
                let why = format!("no label {HOSTNAME_LABEL} selects it alone");
                self.leave(&name, why, "label the node".to_owned());
                continue;
            }
            match self.kept_blocks(&node, method) {
                Ok(blocks) => self.keep(&node, method, blocks, &pools),
                Err(LeftBehind { why, help }) => self.leave(&name, why, help),
            }
        }
    }

    fn mode_obstacle(&self, from: IpamMode) -> Option<LeftBehind> {
        let left = |why: String, help: &str| {
            Some(LeftBehind {
                why,
                help: help.to_owned(),
            })
        };
        let cilium = &self.observed.cilium;
        if cilium.mode() != ModeSeen::Known(from) {
            return left(
                format!("cilium-config does not set ipam `{from}`"),
                "`migrate` changes only `cluster-pool` to `kubernetes` and back; Cilium has no conversion from `multi-pool`",
            );
        }
        if self.observed.node_config_api().is_none() {
            return left(
                "the server does not serve CiliumNodeConfigs, which set the mode of one node"
                    .to_owned(),
                "Cilium 1.13 and later have them",
            );
        }
        if let Some(why) = cilium.overriding_is_off("ipam") {
            return left(why, "allow `ipam` to be overridden by CiliumNodeConfigs");
        }
        let rival = OtherAllocator::of(self.observed, &self.desired.policy).active()?;
        Some(LeftBehind {
            why: format!("{} and assigns blocks to Nodes itself", described(rival)),
            help: fix(rival),
        })
    }

    /// The blocks of the node's agent, if an agent in the other mode can read them, too.
    fn kept_blocks(&self, node: &Node, method: Method) -> Result<Vec<Block>, LeftBehind> {
        let left = |why: &str, help: &str| LeftBehind {
            why: why.to_owned(),
            help: help.to_owned(),
        };
        let cilium_node = self.observed.cilium_nodes.get(&node.name);
        let shown: Vec<Block> = cilium_node
            .map(|cilium_node| cilium_node.pod_cidrs.clone())
            .unwrap_or_default();
        if shown.is_empty() {
            return Err(left(
                "its CiliumNode shows no block",
                "start its agent first",
            ));
        }
        let spec: Vec<Block> = node.spec.iter().copied().collect();
        let is_same = shown.len() == spec.len() && spec.iter().all(|block| shown.contains(block));
        match method {
            Method::ToKubernetes if !spec.is_empty() && !is_same => Err(left(
                "its spec.podCIDRs has other blocks, and can be written only once",
                "move the node to these blocks first, or re-create the Node",
            )),
            _ => Ok(shown),
        }
    }

    fn keep(
        &mut self,
        node: &Node,
        method: Method,
        blocks: Vec<Block>,
        pools: &BTreeMap<Block, PoolName>,
    ) {
        let pool = blocks.first().and_then(|block| pools.get(block)).cloned();
        let Some(pool) = pool else {
            let help = "add its block to a pool: cilium-ipam import".to_owned();
            return self.leave(&node.name, "its block lies in no pool".to_owned(), help);
        };
        let reason = format!("ipam becomes `{}`", self.request.goal);
        let both = (blocks.clone(), blocks);
        if let Ok(moved) = self.node_move(node, method, both, pool, reason) {
            self.moves.insert(node.name.clone(), moved);
        }
    }
}
