//! Explains why a node has its block, who uses an address, what a pool has left and for whom, and
//! which pool serves a Service: every step of the decision, not only its result. Reports decisions
//! of other modules, and never decides.

mod answers;
mod node;
mod range;
mod requested_addresses;
mod service;

use std::collections::BTreeMap;

use serde::Serialize;

use ipam_cilium::observed::{Node, Observed};
use ipam_core::alloc::{PassedOverPool, WhenFull};
use ipam_core::model::{Labels, NodeName, Origin, PoolName, Requirement, Selector, ServiceName};
use ipam_core::net::{Address, Block, Range};
use ipam_core::text::{joined, most_similar};
use ipam_desired::{Desired, Pool, PoolState};
use ipam_plan::plan::NodeObstacle::NodePoolsExhausted;
use ipam_plan::plan::{
    BlockedReason, NodeChange, Plan, RangeUse, Reason, Selected, Target, node_changes, range_use,
};

pub use answers::SharingExplanation;
pub use node::{ConsideredPool, HeldBlock, NodeExplanation, Skipped};
pub use range::{RangeExplanation, Relation, Use};
pub use service::{ConsideredAddressPool, ServiceExplanation};

/// Version of the JSON: fields may be added within 1.
const FORMAT_VERSION: &str = "1.0";

/// An explanation of one subject.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Explanation {
    Node(NodeExplanation),
    Pool(PoolExplanation),
    Range(RangeExplanation),
    Service(ServiceExplanation),
    Sharing(SharingExplanation),
}

impl Explanation {
    /// Whether the subject is a Service, or addresses that only Services use.
    pub fn is_about_services(&self) -> bool {
        match self {
            Explanation::Service(_) | Explanation::Sharing(_) => true,
            Explanation::Range(range) => range.is_about_services(),
            Explanation::Node(_) | Explanation::Pool(_) => false,
        }
    }
}

/// One requirement of a selector, and whether an object meets it.
#[derive(Debug, Serialize)]
pub struct RequirementResult {
    /// In the syntax of `kubectl -l`.
    pub requirement: String,
    pub met: bool,
    /// The label's value on the object.
    pub label: Option<String>,
}

/// The subject is not in the cluster.
#[derive(Debug, thiserror::Error)]
pub enum UnknownSubject {
    /// The subject is neither in the cluster nor in the files.
    #[error(
        "unknown subject `{subject}`: expected a node, a pool, a Service of type LoadBalancer, an address or a CIDR{nearest}"
    )]
    Nowhere { subject: String, nearest: String },
    /// The subject is not in the cluster, and the files have a pin for it.
    #[error(
        "{what} `{subject}` is not in the cluster; {origin} pins it to {to}, which takes effect when it is there"
    )]
    OnlyPinned {
        what: &'static str,
        subject: String,
        origin: Origin,
        to: String,
    },
}

/// Explains a node or a pool by name, a Service as `namespace/name`, an address or a CIDR.
/// `node/NAME`, `pool/NAME` and `service/NAMESPACE/NAME` are unambiguous; a node comes before a pool.
///
/// # Errors
/// Fails if the subject is unknown, with the nearest name.
pub fn explain(
    subject: &str,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> Result<Explanation, UnknownSubject> {
    // `node/a` is also Service `a` of a namespace `node`, so an unknown node is tried as a Service below.
    let named = subject.parse::<Selected>().ok();
    let node = match &named {
        Some(Selected::Node(name)) => Some(name.clone()),
        Some(_) => None,
        None => subject.parse::<NodeName>().ok(),
    };
    if let Some(node) = node.as_ref().and_then(|name| observed.nodes.get(name)) {
        return Ok(Explanation::Node(node::explain(
            node, desired, observed, plan,
        )));
    }
    let pool = match &named {
        Some(Selected::Pool(name)) => Some(name.as_str()),
        Some(_) => None,
        None => Some(subject),
    };
    let pool = pool.and_then(|name| name.parse::<PoolName>().ok());
    if let Some(pool) = pool.and_then(|name| desired.pools.get(&name)) {
        return Ok(Explanation::Pool(explain_pool(
            pool, desired, observed, plan,
        )));
    }
    if let Ok(address) = subject.parse::<Address>() {
        return Ok(Explanation::Range(range::explain(
            subject,
            Range::from(address),
            desired,
            observed,
            plan,
        )));
    }
    if let Ok(block) = Block::lenient(subject) {
        return Ok(Explanation::Range(range::explain(
            subject,
            block.range(),
            desired,
            observed,
            plan,
        )));
    }
    let service = match named {
        Some(Selected::Service(name)) => Some(name),
        Some(_) | None => subject
            .split_once('/')
            .map(|(namespace, name)| ServiceName::new(namespace, name)),
    };
    let of_cluster = service
        .as_ref()
        .and_then(|name| observed.services.get(name));
    if let Some(service) = of_cluster {
        return Ok(Explanation::Service(service::explain(
            service, desired, observed, plan,
        )));
    }
    let pinned = node.and_then(|name| pinned_node(&name, desired));
    let pinned = pinned.or_else(|| service.and_then(|name| pinned_service(&name, desired)));
    Err(pinned.unwrap_or_else(|| UnknownSubject::Nowhere {
        subject: subject.escape_debug().to_string(),
        nearest: nearest(subject, desired, observed),
    }))
}

fn pinned_node(name: &NodeName, desired: &Desired) -> Option<UnknownSubject> {
    let pin = desired.pins.get(name)?;
    Some(UnknownSubject::OnlyPinned {
        what: "node",
        subject: name.to_string(),
        origin: pin.origin.clone(),
        to: joined(pin.blocks.iter(), " and "),
    })
}

fn pinned_service(name: &ServiceName, desired: &Desired) -> Option<UnknownSubject> {
    let pin = desired.service_pins.get(name)?;
    Some(UnknownSubject::OnlyPinned {
        what: "Service",
        subject: name.to_string().escape_debug().to_string(),
        origin: pin.origin.clone(),
        to: service::target(&pin.to),
    })
}

/// Explains why two Services share an address, or why they cannot.
///
/// # Errors
/// Fails if one of them is unknown, with the nearest name.
pub fn explain_sharing(
    one: &ServiceName,
    other: &ServiceName,
    desired: &Desired,
    observed: &Observed,
) -> Result<Explanation, UnknownSubject> {
    let find = |name: &ServiceName| {
        let pinned = || pinned_service(name, desired);
        let nowhere = || UnknownSubject::Nowhere {
            subject: name.to_string().escape_debug().to_string(),
            nearest: nearest(&name.to_string(), desired, observed),
        };
        let service = observed.services.get(name);
        service.ok_or_else(|| pinned().unwrap_or_else(nowhere))
    };
    let explanation = answers::explain_sharing(find(one)?, find(other)?, observed);
    Ok(Explanation::Sharing(explanation))
}

/// The nearest name, as the end of the message.
fn nearest(subject: &str, desired: &Desired, observed: &Observed) -> String {
    let of_name = observed
        .services
        .keys()
        .find(|service| service.name() == subject);
    if let Some(service) = of_name {
        return format!(
            "; name a Service as `{}`",
            service.to_string().escape_debug()
        );
    }
    let named = subject.split_once('/').filter(|(kind, _)| *kind == "pool");
    let (kind, name) = named.unwrap_or(("", subject));
    let services: Vec<String> = observed.services.keys().map(ToString::to_string).collect();
    let others = observed.nodes.keys().map(NodeName::as_str);
    let others = others.chain(services.iter().map(String::as_str));
    let pools = desired.pools.keys().map(PoolName::as_str);
    let similar = most_similar(
        name,
        pools.clone().chain(others.filter(|_| kind.is_empty())),
    );
    let is_pool = |name: &str| pools.clone().any(|pool| pool == name);
    match similar {
        None => String::new(),
        Some(name) if is_pool(name) => format!("; did you mean `pool/{name}`?"),
        Some(name) => format!("; did you mean `{}`?", name.escape_debug()),
    }
}

fn requirements(selector: &Selector, labels: &Labels) -> Vec<RequirementResult> {
    let result = |requirement: &Requirement| RequirementResult {
        requirement: requirement.to_string(),
        met: requirement.matches(labels),
        label: labels.get(requirement.key()).cloned(),
    };
    selector.requirements().map(result).collect()
}

/// Limit of the free blocks that are listed of each range.
const NEXT: usize = 5;

/// Explanation of a pool of blocks.
#[derive(Debug, Serialize)]
pub struct PoolExplanation {
    format_version: &'static str,
    pub pool: String,
    /// `file:line` of the pool.
    pub origin: String,
    /// The higher priority wins.
    pub priority: i32,
    /// In the syntax of `kubectl -l`.
    pub selector: String,
    /// A disabled pool gives no blocks.
    pub disabled: bool,
    /// `NextPool` or `Wait`.
    pub when_full: WhenFull,
    /// In the order of use.
    pub ranges: Vec<ExplainedRange>,
    /// Nodes that the selector matches, or that hold a block of the pool.
    pub nodes: Vec<PoolNode>,
    /// Number of the other nodes.
    pub other_nodes: usize,
}

/// A range of a pool. Counts are blocks.
#[derive(Debug, Serialize)]
pub struct ExplainedRange {
    pub range: String,
    pub total: u128,
    /// Held by nodes or pinned.
    pub used: u128,
    /// Reserved, excluded, claimed, quarantined, or used by something else.
    pub reserved: u128,
    pub free: u128,
    /// The lowest free blocks.
    pub next: Vec<String>,
}

/// A node, evaluated for the pool.
#[derive(Debug, Serialize)]
pub struct PoolNode {
    pub node: String,
    /// The node's blocks from this pool.
    pub holds: Vec<String>,
    /// The result for this pool.
    pub verdict: String,
    pub requirements: Vec<RequirementResult>,
}

pub(super) fn explain_pool(
    pool: &Pool,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> PoolExplanation {
    let changes: BTreeMap<&NodeName, &NodeChange> = node_changes(&plan.changes)
        .map(|change| (&change.node, change))
        .collect();
    let passed_over = passed_over(plan);
    let all = observed.nodes.values();
    let nodes: Vec<PoolNode> = all
        .filter_map(|node| {
            let change = changes.get(&node.name).copied();
            let passed_over = passed_over.get(&node.name).copied().unwrap_or_default();
            of_node(pool, node, observed, change, passed_over)
        })
        .collect();
    PoolExplanation {
        format_version: FORMAT_VERSION,
        pool: pool.name.to_string(),
        origin: pool.origin.to_string(),
        priority: pool.priority,
        selector: pool.selector.to_string(),
        disabled: pool.state == PoolState::Disabled,
        when_full: pool.when_full,
        ranges: range_use(desired, observed, &pool.name, NEXT)
            .iter()
            .map(of_range)
            .collect(),
        other_nodes: observed.nodes.len() - nodes.len(),
        nodes,
    }
}

fn of_range(range_use: &RangeUse) -> ExplainedRange {
    let RangeUse {
        range,
        total,
        used,
        free,
        next,
    } = range_use;
    ExplainedRange {
        range: range.to_string(),
        total: *total,
        used: *used,
        reserved: total - used - free,
        free: *free,
        next: next.iter().map(ToString::to_string).collect(),
    }
}

/// The pools that cannot serve each node, by its planned change or by why it waits.
fn passed_over(plan: &Plan) -> BTreeMap<&NodeName, &[PassedOverPool]> {
    let mut passed_over: BTreeMap<&NodeName, &[PassedOverPool]> = BTreeMap::new();
    for change in node_changes(&plan.changes) {
        if let Reason::LowestFree { passed_over: pools } = &change.reason {
            passed_over.insert(&change.node, pools);
        }
    }
    for blocked in &plan.blocked {
        if let Target::Node(node) = &blocked.target
            && let BlockedReason::Node(NodePoolsExhausted {
                passed_over: pools, ..
            }) = &blocked.reason
        {
            passed_over.insert(node, pools);
        }
    }
    passed_over
}

/// `None` for a node that has nothing to do with the pool.
fn of_node(
    pool: &Pool,
    node: &Node,
    observed: &Observed,
    change: Option<&NodeChange>,
    passed_over: &[PassedOverPool],
) -> Option<PoolNode> {
    let held = observed.holds(node);
    let of_pool = held.iter().filter(|holding| pool.contains(holding.block));
    let holds: Vec<String> = of_pool.map(|holding| holding.block.to_string()).collect();
    let is_selected = pool.selector.matches(&node.labels);
    if holds.is_empty() && !is_selected {
        return None;
    }
    let chosen = change.and_then(|change| change.pool.as_ref());
    let gives = chosen == Some(&pool.name);
    let verdict = match (gives, is_selected, held.is_empty()) {
        (false, true, false) if holds.is_empty() => {
            "selects it, and it has a block of another pool".to_owned()
        }
        (false, true, false) => "selects it, and it keeps its block".to_owned(),
        (false, false, _) => "does not select it, and it keeps its block".to_owned(),
        (true, _, _) | (false, true, true) => {
            node::considered(pool, node, chosen, passed_over).verdict
        }
    };
    Some(PoolNode {
        node: node.name.to_string(),
        holds,
        verdict,
        requirements: requirements(&pool.selector, &node.labels),
    })
}
