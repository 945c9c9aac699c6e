//! CiliumNodes without a Node: one finding for all of them, with the pools that their blocks fill.
//!
//! The lists of Nodes and CiliumNodes are consistent, so a joining node never appears here.

use std::collections::BTreeMap;

use super::{NAMED, finding, is_nearly_full, named, operator_errors};
use ipam_cilium::observed::{CiliumNode, ModeSeen, Observed, ObservedKind};
use ipam_core::model::{Finding, IpamMode, NodeName, Severity, count, grouped_digits};
use ipam_core::net::Family;
use ipam_core::text::joined;
use ipam_plan::capacity::Supply;
use ipam_plan::capacity::waiting::asks_for_more;

/// CiliumNodes without a Node, and the pools that are full or nearly full because of them.
pub(super) struct Orphans<'o> {
    nodes: Vec<&'o CiliumNode>,
    filled: Vec<Filled<'o>>,
}

/// A full pool that would have free blocks without the orphaned CiliumNodes.
struct Filled<'o> {
    /// A `CiliumPodIPPool`; `None` for the operator's cluster pool.
    pool: Option<&'o str>,
    family: Family,
    total: u128,
    used: u128,
    /// Number of blocks that only orphaned CiliumNodes keep.
    kept: u128,
    /// Nodes with a CiliumNode that wait for a block, sorted.
    waiting: Vec<&'o NodeName>,
}

impl<'o> Orphans<'o> {
    pub(super) fn of(observed: &'o Observed) -> Orphans<'o> {
        let is_orphan = |node: &&CiliumNode| !observed.nodes.contains_key(&node.name);
        let nodes = observed.cilium_nodes.values().map(|node| &**node);
        let nodes: Vec<&CiliumNode> = nodes.filter(is_orphan).collect();
        let filled = match nodes.is_empty() {
            true => Vec::new(),
            false => filled(observed),
        };
        Orphans { nodes, filled }
    }

    /// Whether [`Orphans::finding`] tells why the pool has few blocks or none.
    pub(super) fn fill(&self, pool: Option<&str>, family: Family) -> bool {
        let mut filled = self.filled.iter();
        filled.any(|filled| filled.pool == pool && filled.family == family)
    }

    /// Whether [`Orphans::finding`] tells why the node waits.
    pub(super) fn keep_from(&self, node: &NodeName) -> bool {
        let mut filled = self.filled.iter();
        filled.any(|filled| filled.waiting.binary_search(&node).is_ok())
    }

    pub(super) fn finding(&self, observed: &Observed) -> Option<Finding> {
        if self.nodes.is_empty() {
            return None;
        }
        let waits = self.filled.iter().any(|filled| !filled.waiting.is_empty());
        let severity = match waits {
            true => Severity::Error,
            false => Severity::Warning,
        };
        let subjects = self.nodes.iter().map(|node| operator_errors::subject(node));
        let finding = finding(severity, "orphan-cilium-node", self.message());
        let finding = finding.about_all(subjects);
        let line = |node: &&CiliumNode| {
            format!(
                "CiliumNode `{}`: {}",
                node.name,
                operator_errors::blocks_of(observed, node)
            )
        };
        Some(
            finding
                .seen(self.filled.iter().map(Filled::evidence))
                .seen(self.keepers())
                .seen(self.nodes.iter().map(line))
                .causes(match waits {
                    true => "the agents that wait start no Pods; every agent keeps a route to each of these CiliumNodes",
                    false => "their blocks stay in use, and every agent keeps a route to each of them",
                })
                .help(self.help()),
        )
    }

    fn message(&self) -> String {
        let nodes = match &self.nodes[..] {
            [only] => format!("CiliumNode `{}` has no Node", only.name),
            all => format!("{} have no Node", count(all.len(), "CiliumNode")),
        };
        let filled: Vec<String> = self.filled.iter().map(Filled::message).collect();
        match filled.is_empty() {
            true => nodes,
            false => format!("{nodes}: they keep {}", filled.join(", and ")),
        }
    }

    /// What keeps them from being collected, with the number of each.
    fn keepers(&self) -> Vec<String> {
        let mut keepers: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &self.nodes {
            let keeper = node.keeper.as_deref();
            let keeper = keeper.unwrap_or("nothing: Cilium's operator removes it within minutes");
            *keepers.entry(keeper).or_default() += 1;
        }
        let line = |(keeper, number): (&str, usize)| match self.nodes.len() {
            1 => format!("kept by {keeper}"),
            _ => format!("{} kept by {keeper}", grouped_digits(number)),
        };
        keepers.into_iter().map(line).collect()
    }

    fn help(&self) -> String {
        let names = self.nodes.iter().map(|node| node.name.as_str());
        let delete = match self.nodes.len() {
            1 => format!("if the machine is gone: kubectl delete ciliumnode {}", joined(names, " ")),
            ..=NAMED => format!(
                "if the machines are gone: kubectl delete ciliumnode {}",
                joined(names, " ")
            ),
            _ => "if the machines are gone, delete these CiliumNodes (`cilium-ipam doctor --show-all` lists them)".to_owned(),
        };
        // Some releases of the operator do not notice the deletion (cilium#17837).
        let restart = match self.filled.is_empty() {
            true => "",
            false => ", then restart cilium-operator",
        };
        // Kubernetes deletes an object whose owner is gone.
        let is_owned = self.nodes.iter().any(|node| node.owner.is_some());
        let collector = match is_owned {
            true => {
                ". The garbage collector of kube-controller-manager should have deleted them: see its log"
            }
            false => "",
        };
        format!("{delete}{restart}{collector}")
    }
}

impl Filled<'_> {
    fn name(&self) -> String {
        match self.pool {
            Some(pool) => format!("CiliumPodIPPool `{}`", pool.escape_debug()),
            None => "Cilium's cluster pool".to_owned(),
        }
    }

    fn message(&self) -> String {
        let [kept, total] = [self.kept, self.total].map(grouped_digits);
        let left = match self.total - self.used {
            0 => "is full".to_owned(),
            left => format!("has {} left", grouped_digits(left)),
        };
        let (family, name) = (self.family, self.name());
        let waiting = match &self.waiting[..] {
            [] => String::new(),
            [_] => format!(": {} waits for one", named(&self.waiting)),
            _ => format!(": {} wait for one", named(&self.waiting)),
        };
        format!("{kept} of the {total} {family} blocks of {name}, which {left}{waiting}")
    }

    fn evidence(&self) -> String {
        let [kept, total, used] = [self.kept, self.total, self.used].map(grouped_digits);
        format!(
            "{}: {used} of {total} {} blocks used, {kept} of them by CiliumNodes without a Node",
            self.name(),
            self.family
        )
    }
}

fn filled(observed: &Observed) -> Vec<Filled<'_>> {
    match observed.cilium.mode() {
        ModeSeen::Known(IpamMode::ClusterPool) => {
            let families = Family::BOTH.into_iter();
            families
                .filter_map(|family| of_cluster_pool(observed, family))
                .collect()
        }
        ModeSeen::Known(IpamMode::MultiPool)
            if observed.blind_spot(ObservedKind::PodIpPool).is_none() =>
        {
            of_pod_pools(observed)
        }
        ModeSeen::Known(_) | ModeSeen::Unknown(_) | ModeSeen::NoSettings => Vec::new(),
    }
}

fn of_cluster_pool(observed: &Observed, family: Family) -> Option<Filled<'_>> {
    let supply = Supply::of_cluster_pool(observed, family).ok()??;
    let waits = |node: &&CiliumNode| !node.pod_cidrs.iter().any(|block| block.family() == family);
    Filled::of(observed, None, &supply, waits)
}

fn of_pod_pools(observed: &Observed) -> Vec<Filled<'_>> {
    let held = observed.allocated_of_pools();
    let mut filled = Vec::new();
    for (name, pool) in &observed.pod_pools {
        let blocks = held
            .get(name.as_str())
            .map(Vec::as_slice)
            .unwrap_or_default();
        for family in Family::BOTH {
            let Some(ranges) = pool.ranges.get(family) else {
                continue;
            };
            let waits = |node: &&CiliumNode| asks_for_more(node, name, family);
            let supply = Supply::of_pod_pool((name, pool), ranges, blocks);
            filled.extend(Filled::of(observed, Some(name), &supply, waits));
        }
    }
    filled
}

impl<'o> Filled<'o> {
    /// `None` if the pool has room, or would have none without these CiliumNodes either.
    fn of(
        observed: &'o Observed,
        pool: Option<&'o str>,
        supply: &Supply<'_>,
        waits: impl Fn(&&'o CiliumNode) -> bool,
    ) -> Option<Filled<'o>> {
        let lived = supply.used_by(|name| observed.nodes.contains_key(name));
        let (total, used) = (supply.counts().total, supply.used_by(|_| true));
        let is_near = |used: u128| is_nearly_full(used, total);
        let is_cause =
            total > 0 && used > lived && (used == total || is_near(used) && !is_near(lived));
        is_cause.then(|| {
            let nodes = observed.cilium_nodes.values().map(|node| &**node);
            let nodes = nodes.filter(|node| observed.nodes.contains_key(&node.name));
            let waiting = nodes.filter(|node| used == total && waits(node));
            Filled {
                pool,
                family: supply.family(),
                total,
                used,
                kept: used - lived,
                waiting: waiting.map(|node| &node.name).collect(),
            }
        })
    }
}
