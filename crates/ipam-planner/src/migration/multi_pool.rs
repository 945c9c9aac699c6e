//! A whole cluster changes from ipam `cluster-pool` to `multi-pool`, node by node: each node moves
//! to a block of the pool that the files give it, and takes further ones of that pool on demand.
//!
//! Agents first, the operator last. Each CiliumNode keeps `spec.ipam.podCIDRs` beside
//! `spec.ipam.pools.allocated`: an operator of either mode reads one field, leaves the other, and
//! gives neither block to another node (`operator/pkg/ipam/allocator/{podcidr,multipool}` @ 1.20).
//! So each node can go back. The node is drained, because its Pods' addresses were recorded for
//! another pool (`daemon/cmd/endpoint_restore.go` allocateIPsLocked @ 1.20).
//!
//! Cilium's own migration moves all blocks into one pool, and has no way back.

use std::collections::BTreeMap;

use super::mode::{Around, Hostnames, setting_obstacle};
use super::record::Method;
use super::schedule::{LeftBehind, Scheduler};
use super::seen::MIGRATION_ANNOTATION;
use super::targets::{NewBlocks, targets};
use crate::plan::{PodPoolChange, PodPoolObject, Target, plan_pod_pools};
use ipam_cilium::observed::{BlockAllocator, DEFAULT_POOL_SETTING, Node, Observed, SeenPodPool};
use ipam_core::model::{IpamMode, NodeName, PoolName};
use ipam_core::net::Block;
use ipam_desired::{AddressPairs, Desired};

/// The first minor release, and its patch level, for which Cilium documents the change
/// (`Documentation/network/concepts/ipam/index.rst` @ 1.20).
const SINCE: (u16, u16) = (20, 0);

/// What a `CiliumPodIPPool` needs before a node can use it.
type PoolState = Result<Option<PodPoolChange>, LeftBehind>;

/// The `CiliumPodIPPool` of each pool of the files: the change that makes it so, or why it cannot be.
fn pod_pools(desired: &Desired, observed: &Observed) -> BTreeMap<PoolName, PoolState> {
    let mut imagined = observed.clone();
    imagined.cilium.mode_override = Some(IpamMode::MultiPool);
    let plan = plan_pod_pools(desired, &imagined);
    let mut pools: BTreeMap<PoolName, PoolState> = BTreeMap::new();
    for name in desired.pools.keys() {
        pools.insert(name.clone(), Ok(None));
    }
    for blocked in plan.blocked {
        if let Target::PodPool(name) = &blocked.target
            && let Ok(name) = name.parse()
        {
            let left = LeftBehind {
                why: format!("CiliumPodIPPool `{name}`: {}", blocked.reason),
                help: blocked.reason.unblock(),
            };
            pools.insert(name, Err(left));
        }
    }
    for change in plan.changes {
        if let PodPoolObject::Pool(..) = change.object {
            let state = match &change.before {
                None => Ok(Some(change.clone())),
                Some(_) => Err(LeftBehind {
                    why: format!(
                        "CiliumPodIPPool `{}` exists, and is not what the files say",
                        change.pool
                    ),
                    help: "make both the same, or delete it".to_owned(),
                }),
            };
            pools.insert(change.pool, state);
        }
    }
    pools
}

/// The change that creates the `CiliumPodIPPool` of a pool; `None` if it exists.
///
/// # Errors
/// Fails if it cannot be created, or is not what the files say.
pub fn pod_pool(
    desired: &Desired,
    observed: &Observed,
    pool: &PoolName,
) -> Result<Option<PodPoolChange>, String> {
    let seen = observed.pod_pools.get(pool.as_str());
    if seen.is_some_and(SeenPodPool::is_ours) {
        return Ok(None);
    }
    let state = pod_pools(desired, observed).remove(pool);
    match state {
        Some(state) => state.map_err(|LeftBehind { why, help }| format!("{why}; {help}")),
        None => Err(format!("the files have no pool `{pool}`")),
    }
}

/// What a person must do after these moves.
pub(super) fn around<'n>(
    observed: &'n Observed,
    moves: impl Iterator<Item = &'n NodeName>,
) -> Around {
    let changed = observed.nodes.keys();
    let changed = changed.filter(|name| takes_from_pools(observed, name));
    let others = observed.nodes.len() - changed.chain(moves).count();
    if observed.is_multi_pool() {
        return Around::default();
    }
    if others > 0 {
        let first =
            format!("# change the mode of the other nodes first: {others} keep the old one");
        return Around { after: vec![first] };
    }
    let cilium = &observed.cilium;
    let namespace = cilium.namespace.as_deref().unwrap_or("kube-system");
    let version = cilium.version.map(|(version, _)| version);
    let version = version.map(|version| format!(" --version {version}"));
    let version = version.unwrap_or_default();
    Around {
        after: vec![
            format!(
                "helm upgrade cilium cilium/cilium{version} -n {namespace} --reuse-values --set ipam.mode=multi-pool --set rollOutCiliumPods=false"
            ),
            format!("kubectl -n {namespace} rollout restart deployment/cilium-operator"),
            "cilium-ipam apply # a setting for each pool".to_owned(),
            format!(
                "kubectl -n {namespace} delete ciliumnodeconfigs.cilium.io -l {MIGRATION_ANNOTATION}"
            ),
            "kubectl get ciliumnodes -o name | xargs -I NODE kubectl patch NODE --type merge -p '{\"spec\":{\"ipam\":{\"podCIDRs\":null}}}' # no way back after this".to_owned(),
        ],
    }
}

/// Whether the agent of the node runs in ipam `multi-pool` although `cilium-config` does not set it.
fn takes_from_pools(observed: &Observed, name: &NodeName) -> bool {
    let cilium_node = observed.cilium_nodes.get(name);
    let requests = cilium_node.is_some_and(|cilium_node| !cilium_node.requested.is_empty());
    requests && !observed.is_multi_pool()
}

impl Scheduler<'_> {
    pub(super) fn takes_from_pools(&self, name: &NodeName) -> bool {
        takes_from_pools(self.observed, name)
    }

    /// Every node moves to the pool that the files give it.
    pub(super) fn change_to_pools(&mut self) {
        if let Some(left) = self.obstacle_to_pools() {
            return self.leave_all(&left);
        }
        let hostnames = Hostnames::new(self.observed);
        let mut movers = BTreeMap::new();
        for name in self.observed.nodes.keys() {
            // A node that has changed already is not left behind.
            if takes_from_pools(self.observed, name) {
                continue;
            }
            let Some(node) = self.eligible(name) else {
                continue;
            };
            match hostnames.obstacle(node) {
                Some(LeftBehind { why, help }) => self.leave(name, why, help),
                None => drop(movers.insert(name.clone(), None)),
            }
        }
        let mut given = targets(self.desired, &as_external(self.observed), &movers);
        let pools = pod_pools(self.desired, self.observed);
        for name in movers.keys() {
            match given.remove(name) {
                Some(Ok(new)) => match self.obstacle_to_pool(name, &new, &pools) {
                    Some(LeftBehind { why, help }) => self.leave(name, why, help),
                    None => {
                        let reason = format!("ipam becomes `{}`", self.wish.goal);
                        self.add(name, Method::ToMultiPool, new, reason);
                    }
                },
                Some(Err(blocked)) => self.leave(name, blocked.to_string(), blocked.unblock()),
                None => self.leave(name, "no plan gives it a block".to_owned(), String::new()),
            }
        }
    }

    fn obstacle_to_pools(&self) -> Option<LeftBehind> {
        let left = |why: String, help: &str| {
            Some(LeftBehind {
                why,
                help: help.to_owned(),
            })
        };
        let cilium = &self.observed.cilium;
        if let Some(left) = setting_obstacle(self.observed, IpamMode::ClusterPool) {
            return Some(left);
        }
        match cilium.version {
            Some((version, _)) if version.is_at_least(SINCE.0, SINCE.1) => {}
            Some((version, _)) => {
                return left(
                    format!(
                        "Cilium {version} does not support the change, and 1.20 is the first that does"
                    ),
                    "upgrade Cilium first: cilium-ipam upgrade --to 1.20",
                );
            }
            None => {
                return left(
                    "the version of Cilium is unknown, and 1.20 is the first that supports the change".to_owned(),
                    "let the label or the image of the DaemonSet `cilium` show it",
                );
            }
        }
        if let Some(why) = cilium.overriding_is_off(DEFAULT_POOL_SETTING) {
            let help =
                format!("allow `{DEFAULT_POOL_SETTING}` to be overridden by CiliumNodeConfigs");
            return left(why, &help);
        }
        if self.desired.policy.address_pairs == AddressPairs::PodCidrs {
            return left(
                "the Policy keeps allowed address pairs at Neutron, which `migrate` does not change".to_owned(),
                "let Neutron pass the new pools first, and remove `addressPairs` from the Policy",
            );
        }
        None
    }

    fn obstacle_to_pool(
        &self,
        name: &NodeName,
        new: &NewBlocks,
        pools: &BTreeMap<PoolName, PoolState>,
    ) -> Option<LeftBehind> {
        if let Some(Err(left)) = pools.get(&new.pool) {
            return Some(left.clone());
        }
        let node: &Node = self.observed.nodes.get(name)?;
        if self.observed.block_allocator(node) == BlockAllocator::External {
            return None;
        }
        // The operator does not know what pools gave to nodes, and serves those that join.
        let is_taken = |range: &Block| new.blocks.iter().any(|block| block.overlaps(*range));
        let families = new.blocks.iter().map(|block| block.family());
        let mut ranges = families.flat_map(|family| self.observed.operator_ranges(family));
        let range = ranges.find(is_taken)?;
        Some(LeftBehind {
            why: format!(
                "pool {} lies in {range}, of which Cilium's operator gives blocks to nodes that join",
                new.pool
            ),
            help: "give the pool ranges outside of the operator's `cluster-pool` ranges".to_owned(),
        })
    }
}

/// The cluster in which the files alone decide about blocks.
fn as_external(observed: &Observed) -> Observed {
    let mut imagined = observed.clone();
    imagined.cilium.mode_override = Some(IpamMode::Kubernetes);
    imagined.allocators.clear();
    imagined
}
