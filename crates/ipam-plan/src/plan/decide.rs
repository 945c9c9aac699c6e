//! From the desired and the observed state to the plan.

use super::allocation::{Allocator, NodePools, given};
use super::blocked::CommonObstacle;
use super::candidates::{self, Candidates, foreign, supply};
use super::change::{Change, NodeChange, Target};
use super::file_blocks::{self, FileBlocks};
use super::kept_addresses::KeptAddresses;
use super::misplaced::{self, Placement};
use super::node_planner::{NodePlanner, Pinned};
use super::owners::AddressOwners;
use super::{Plan, digest, drift, lb, pod_pools, ports};
use crate::check;
use crate::openstack::{Overlapping, SubnetOverlap, SubnetPools};
use ipam_cilium::observed::{Node, Observed, Reading};
use ipam_core::alloc::{Outcome, Supply};
use ipam_core::claims::Claims;
use ipam_core::model::{Finding, NodeName, PoolName};
use ipam_core::net::{Block, RangeIndex};
use ipam_core::text::natural_order;
use ipam_desired::Desired;

/// Plans from the files and the cluster. `file_findings` are the findings about the files; the
/// caller must not call this with an error among them.
pub fn plan(desired: &Desired, observed: &Observed, file_findings: Vec<Finding>) -> Plan {
    let claims = observed.live_claims(desired.policy.quarantine);
    let mut planner = Planner::new(desired, observed, &claims);
    planner.plan.findings = check::files_in_cluster(file_findings, desired, observed);
    planner
        .plan
        .findings
        .extend(check::cluster(desired, observed));
    planner.nodes();
    planner.load_balancing();
    planner.ports();
    planner.finish()
}

/// The order in which nodes' changes are shown and sent. Those that a person must approve come
/// first, so that an output with a limited number of changes always shows them.
fn by_approval_and_pool(change: &Change) -> Option<(bool, Option<PoolName>, NodeName)> {
    change.as_node().map(|change| {
        let is_approved = change.needs_approval.is_empty();
        (is_approved, change.pool.clone(), change.node.clone())
    })
}

/// The first subnet that keeps a node from a block: the block would overlap it, or a better pool is
/// full because of it.
fn over_subnet<'o, 'd>(
    change: &NodeChange,
    overlaps: &'o [SubnetOverlap<'d>],
) -> Option<&'o SubnetOverlap<'d>> {
    let is_over = |overlap: &&SubnetOverlap<'_>| match overlap.other {
        Overlapping::Pool(name) => {
            let mut blocks = change.after.iter();
            candidates::full_pools(change).any(|full| full == name)
                || blocks.any(|block| block.overlaps(overlap.range))
        }
        Overlapping::AddressPool(_) => false,
    };
    overlaps.iter().find(is_over)
}

/// Oldest first, then by name, `n2` before `n10`: a later node never takes what an earlier one would have got.
fn nodes_in_order(observed: &Observed) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = observed.nodes.values().map(AsRef::as_ref).collect();
    nodes.sort_by(|a, b| {
        let by_name = || natural_order(a.name.as_str(), b.name.as_str());
        a.created.cmp(&b.created).then_with(by_name)
    });
    nodes
}

struct Planner<'p> {
    desired: &'p Desired,
    observed: &'p Observed,
    claims: &'p Claims,
    supply: Supply,
    plan: Plan,
}

impl<'p> Planner<'p> {
    fn new(desired: &'p Desired, observed: &'p Observed, claims: &'p Claims) -> Planner<'p> {
        Planner {
            desired,
            observed,
            claims,
            supply: supply(desired),
            plan: Plan::default(),
        }
    }

    fn nodes(&mut self) {
        match pod_pools::are_used(self.observed, self.desired.policy.write_path) {
            true => self.pod_pools(),
            false => self.blocks_of_nodes(),
        }
    }

    /// Allocates a block for each node, and plans the writes of the blocks.
    fn blocks_of_nodes(&mut self) {
        let kept_addresses = KeptAddresses::new(self.observed, &self.supply);
        self.plan.findings.extend(kept_addresses.findings());
        let owners = AddressOwners::new(
            self.observed,
            &kept_addresses,
            &foreign(self.desired, self.observed, &kept_addresses),
            self.claims,
        );
        let mut candidates = Candidates::new(self.desired, &self.supply);
        let nodes: Vec<NodePools<'_>> = nodes_in_order(self.observed)
            .into_iter()
            .map(|node| NodePools {
                node,
                candidates: candidates.of(node),
                pinned: self.pinned(node, &owners),
            })
            .collect();
        self.plan.findings.extend(candidates.ties(self.desired));
        let allocator = Allocator {
            desired: self.desired,
            observed: self.observed,
            claims: self.claims,
            owners: &owners,
            kept_addresses: &kept_addresses,
        };
        let (outcomes, exhausted) = allocator.allocate(&mut self.supply, &nodes);
        self.plan.findings.extend(exhausted);
        let given = RangeIndex::new(given(&nodes, &outcomes));
        self.decide(&nodes, &owners, given, outcomes);
    }

    /// Ipam `multi-pool`: Cilium's operator gives nodes blocks of pools on demand.
    fn pod_pools(&mut self) {
        pod_pools::plan(self.desired, self.observed, &mut self.plan);
        let nodes = self
            .observed
            .nodes
            .keys()
            .filter(|name| !self.desired.pins.contains_key(*name));
        let files = FileBlocks::new(self.desired);
        let kept_addresses = KeptAddresses::new(self.observed, &self.supply);
        let foreign = foreign(self.desired, self.observed, &kept_addresses);
        let foreign = RangeIndex::new(foreign.into_iter().map(|range| (range, ())));
        let of_node = |node| misplaced::of_pod_pools(&files, &foreign, self.observed, node);
        let misplaced: Vec<_> = self
            .observed
            .nodes
            .values()
            .filter(|_| !self.desired.leaves_nodes_to_others())
            .flat_map(|node| of_node(node))
            .collect();
        self.plan.misplaced.extend(misplaced);
        self.plan.unchanged.extend(nodes.cloned().map(Target::Node));
    }

    fn pinned(&self, node: &Node, owners: &AddressOwners<'_>) -> Option<Pinned> {
        let pin = self.desired.pins.get(&node.name)?;
        let outcome = file_blocks::outcome(
            pin,
            &self.observed.holds(node),
            self.desired,
            self.observed,
            owners,
        );
        Some(Pinned {
            outcome,
            origin: pin.origin.clone(),
            pool: pin.pool.clone(),
        })
    }

    fn decide(
        &mut self,
        nodes: &[NodePools<'_>],
        owners: &AddressOwners<'_>,
        given: RangeIndex<&NodeName>,
        outcomes: Vec<Outcome>,
    ) {
        if self.desired.leaves_nodes_to_others() {
            let nodes = nodes.iter().map(|pools| pools.node.name.clone());
            self.plan.unchanged.extend(nodes.map(Target::Node));
            return;
        }
        let files = FileBlocks::new(self.desired);
        let changes = NodePlanner::new(
            self.desired,
            self.observed,
            &self.supply,
            owners,
            &files,
            given,
        );
        let mut placement =
            Placement::new(self.desired, self.observed, &self.supply, &files, owners);
        let subnets = SubnetPools::resolve(self.desired, self.observed);
        let overlaps = subnets.overlaps();
        for (pools, outcome) in nodes.iter().zip(outcomes) {
            let NodePools {
                node,
                candidates,
                pinned,
            } = pools;
            drift::of_node(
                self.observed,
                node,
                self.desired.pins.get(&node.name),
                &mut self.plan.drift,
            );
            let misplaced = placement.of_node(node, candidates);
            let decided = match (
                changes.of(node, pinned.as_ref(), outcome),
                subnets.unresolved(),
            ) {
                // The block may lie in a subnet that could not be read.
                (Ok(Some(change)), Some(unresolved)) if self.makes_real(node, &change) => {
                    Err(unresolved.clone().into())
                }
                (Ok(Some(change)), None) => match over_subnet(&change, &overlaps) {
                    Some(overlap) => Err(CommonObstacle::NeutronOverlap(overlap.message()).into()),
                    None => Ok(Some(change)),
                },
                (decided, _) => decided,
            };
            self.plan.record(
                Target::Node(node.name.clone()),
                pinned.as_ref().map(|pinned| &pinned.origin),
                decided,
            );
            self.plan.misplaced.extend(misplaced);
        }
    }

    /// Whether the change brings a block into use. A field that Cilium does not read may show it
    /// already.
    fn makes_real(&self, node: &Node, change: &NodeChange) -> bool {
        let held = self.observed.holds(node);
        let is_in_use = |block: &Block| {
            held.iter()
                .any(|one| one.block == *block && one.reading == Reading::Read)
        };
        change.after.iter().any(|block| !is_in_use(block))
    }

    /// Pools and pins of Services go first, so that the cluster has changed least when they are
    /// sent.
    fn load_balancing(&mut self) {
        self.plan.changes.sort_by_cached_key(by_approval_and_pool);
        let of_nodes = std::mem::take(&mut self.plan.changes);
        let mut part = lb::plan(self.desired, self.observed);
        self.plan.effects = std::mem::take(&mut part.effects);
        self.plan.append(part);
        self.plan.changes.extend(of_nodes);
    }

    /// Ports go last: they follow the blocks that nodes hold or get.
    fn ports(&mut self) {
        if let Some(findings) = ports::unplanned(self.desired, self.observed) {
            self.plan.findings.extend(findings);
            return;
        }
        let kept_addresses = KeptAddresses::new(self.observed, &supply(self.desired));
        let foreign = foreign(self.desired, self.observed, &kept_addresses);
        let owners = AddressOwners::new(self.observed, &kept_addresses, &foreign, self.claims);
        let part = ports::plan(self.desired, self.observed, &owners, &self.plan.changes);
        self.plan.append(part);
    }

    fn finish(mut self) -> Plan {
        let fell_over = candidates::findings(&self.plan.changes, self.desired);
        self.plan.findings.extend(fell_over);
        self.plan.findings.sort();
        self.plan.findings.dedup();
        self.plan.blocked.sort_by(|a, b| a.target.cmp(&b.target));
        self.plan.misplaced.sort();
        self.plan.drift.sort();
        self.plan.unchanged.sort();
        self.plan.judge(self.desired, self.observed);
        self.plan.desired_digest = digest::of_desired(self.desired);
        self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::update;
    use super::*;

    #[test]
    fn changes_that_need_approval_come_first() {
        let mut changes = [("n1", false), ("n2", true), ("n3", false)]
            .map(|(node, needs_approval)| Change::Node(Box::new(update(node, needs_approval))));
        changes.sort_by_cached_key(by_approval_and_pool);
        let names = changes.map(|change| change.target().name());
        assert_eq!(names, ["n2", "n1", "n3"]);
    }
}
