//! A plan in numbers: how full each pool is, the progress of each pin, and the counts of findings.
//! Small and owned.

use std::collections::{BTreeMap, BTreeSet};

use strum::VariantNames;

use crate::capacity::{Capacity, Supplier};
use crate::check::shared_slots;
use crate::plan::{BlockCounts, Change, MisplacedReason, Plan, Target};
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, PoolName, Rule, ServiceName, Severity};
use ipam_core::net::Family;
use ipam_desired::Desired;

/// The numbers of a plan.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Each pool that the files ask for.
    pub pools: BTreeMap<PoolName, PoolOverview>,
    /// The progress of each pin of a node.
    pub pins: BTreeMap<NodeName, Progress>,
    /// The progress of each pin of a Service.
    pub service_pins: BTreeMap<ServiceName, Progress>,
    /// Number of observed nodes.
    pub nodes: usize,
    /// Number of nodes whose Neutron ports are not known.
    pub nodes_with_unread_ports: usize,
    /// Blocked changes, with the reason.
    pub blocked: BTreeMap<Target, String>,
    /// Limits and protections that refuse the plan, each with the fix.
    pub refusals: Vec<String>,
    /// Number of nodes that lose blocks at the next start of Cilium's operator, at most.
    pub nodes_losing_blocks: usize,
    /// Why nodes lose blocks at the next start of Cilium's operator, with the fix.
    pub block_removals: Vec<String>,
    /// Number of findings of each rule.
    pub findings: BTreeMap<(Severity, Rule), usize>,
    /// Number of nodes with a misplaced block, by the code of the reason, zeros included.
    pub misplaced: BTreeMap<&'static str, usize>,
}

/// A pool in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOverview {
    /// Number of nodes that have a block of the pool.
    pub nodes: usize,
    /// Counts of the pool's blocks, by family.
    pub blocks: BTreeMap<Family, BlockCounts>,
    /// The finding about missing blocks, if the pool has too few.
    pub exhausted: Option<String>,
    /// Nodes with a block of it that the files would not give them today, by reason.
    pub misplaced: BTreeMap<String, usize>,
}

impl PoolOverview {
    /// Whether no block of the pool is held or pinned.
    pub fn is_unused(&self) -> bool {
        self.nodes == 0 && self.blocks.values().all(|counts| counts.used == 0)
    }
}

/// The progress of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The cluster shows the pinned addresses.
    Done,
    /// A change is planned, or waits for approval.
    Pending,
    /// The change is blocked, with the reason.
    Blocked(String),
    /// The node or Service does not exist.
    Absent,
}

impl Overview {
    /// The overview of a plan that was made from these inputs. `capacity` is that of the same inputs.
    pub fn of(
        plan: &Plan,
        desired: &Desired,
        observed: &Observed,
        capacity: &Capacity,
    ) -> Overview {
        let blocked: BTreeMap<Target, String> = plan
            .blocked
            .iter()
            .map(|one| (one.target.clone(), one.reason.to_string()))
            .collect();
        let pending: BTreeSet<Target> = plan.changes.iter().map(Change::target).collect();
        let progress = |target: Target, is_there: bool| match blocked.get(&target) {
            Some(why) => Progress::Blocked(why.clone()),
            None if pending.contains(&target) => Progress::Pending,
            None if is_there => Progress::Done,
            None => Progress::Absent,
        };
        let pin = |node: &NodeName| {
            progress(
                Target::Node(node.clone()),
                observed.nodes.contains_key(node),
            )
        };
        let service_pin = |name: &ServiceName| {
            progress(
                Target::Service(name.clone()),
                observed.services.contains_key(name),
            )
        };
        let mut findings: BTreeMap<(Severity, Rule), usize> = BTreeMap::new();
        for finding in &plan.findings {
            *findings
                .entry((finding.severity, finding.rule))
                .or_default() += 1;
        }
        Overview {
            pools: pools(plan, desired, capacity),
            pins: desired
                .pins
                .keys()
                .map(|node| (node.clone(), pin(node)))
                .collect(),
            service_pins: desired
                .service_pins
                .keys()
                .map(|name| (name.clone(), service_pin(name)))
                .collect(),
            nodes: observed.nodes.len(),
            nodes_with_unread_ports: observed.nodes_with_unread_ports(),
            nodes_losing_blocks: shared_slots::nodes_losing_blocks(observed),
            block_removals: shared_slots::sentences(&plan.findings),
            refusals: plan
                .refusals
                .iter()
                .map(|one| format!("{}; {}", one.message, one.help))
                .collect(),
            misplaced: misplaced(plan),
            findings,
            blocked,
        }
    }
}

fn misplaced(plan: &Plan) -> BTreeMap<&'static str, usize> {
    let mut by_code: BTreeMap<&'static str, usize> = MisplacedReason::VARIANTS
        .iter()
        .map(|code| (*code, 0))
        .collect();
    let nodes: BTreeSet<(&'static str, &NodeName)> = plan
        .misplaced
        .iter()
        .map(|one| (one.reason.code(), &one.node))
        .collect();
    for (code, _) in nodes {
        *by_code.entry(code).or_default() += 1;
    }
    by_code
}

fn pools(plan: &Plan, desired: &Desired, capacity: &Capacity) -> BTreeMap<PoolName, PoolOverview> {
    let mut pools: BTreeMap<PoolName, PoolOverview> = desired
        .pools
        .keys()
        .map(|name| (name.clone(), PoolOverview::default()))
        .collect();
    let mut holders: BTreeMap<&PoolName, BTreeSet<&NodeName>> = BTreeMap::new();
    for row in &capacity.rows {
        if let Supplier::Pool(name) = &row.of {
            let pool = pools.entry(name.clone()).or_default();
            pool.blocks.insert(row.family, row.counts);
            holders.entry(name).or_default().extend(&row.holders);
        }
    }
    for (name, nodes) in holders {
        pools.entry(name.clone()).or_default().nodes = nodes.len();
    }
    for one in &plan.misplaced {
        let pool = one.pool.as_ref().and_then(|name| pools.get_mut(name));
        pool.into_iter()
            .for_each(|pool| *pool.misplaced.entry(one.reason.to_string()).or_default() += 1);
    }
    for finding in plan
        .findings
        .iter()
        .filter(|finding| finding.rule == Rule("pool-exhausted"))
    {
        let about = finding
            .subject
            .as_ref()
            .and_then(|subject| subject.name.parse::<PoolName>().ok());
        if let Some(pool) = about.and_then(|name| pools.get_mut(&name)) {
            pool.exhausted
                .get_or_insert_with(|| finding.message.clone());
        }
    }
    pools
}
