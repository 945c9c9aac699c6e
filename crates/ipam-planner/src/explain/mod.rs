//! Why a node has its block, who has an address, and which pool a Service may use: the whole way to
//! the decision, not only its end.
//!
//! Tells what was decided elsewhere, and decides nothing.

mod node;
mod range;
mod service;

use serde::Serialize;

use crate::plan::Plan;
use ipam_cilium::observed::Observed;
use ipam_core::model::{Labels, NodeName, Requirement, Selector, ServiceName};
use ipam_core::net::{Address, Block, Range};
use ipam_desired::Desired;

pub use node::{ConsideredPool, HeldBlock, NodeExplanation, Skipped};
pub use range::{RangeExplanation, Relation, Use};
pub use service::{ConsideredAddressPool, ServiceExplanation};

/// Version of the JSON: fields may be added within 1.
const FORMAT_VERSION: &str = "1.0";

/// What was asked about, and all that is known of it.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Explanation {
    /// A node.
    Node(NodeExplanation),
    /// An address or a CIDR.
    Range(RangeExplanation),
    /// A Service of type LoadBalancer.
    Service(ServiceExplanation),
}

/// One requirement of a selector, held against an object.
#[derive(Debug, Serialize)]
pub struct RequirementResult {
    /// As `kubectl -l` takes it.
    pub requirement: String,
    /// Whether the object meets it.
    pub met: bool,
    /// The label's value on the object.
    pub label: Option<String>,
}

/// Nothing of that name.
#[derive(Debug, thiserror::Error)]
#[error("`{subject}` is no node, no Service of type LoadBalancer, no address and no CIDR{nearest}")]
pub struct UnknownSubject {
    subject: String,
    nearest: String,
}

/// Explains a node by name, a Service as `namespace/name`, an address or a CIDR.
///
/// # Errors
/// Nothing of that name, with the nearest one.
pub fn explain(
    subject: &str,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> Result<Explanation, UnknownSubject> {
    let node = subject
        .parse::<NodeName>()
        .ok()
        .and_then(|name| observed.nodes.get(&name));
    if let Some(node) = node {
        return Ok(Explanation::Node(node::explain(
            node, desired, observed, plan,
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
    let service = subject
        .split_once('/')
        .map(|(namespace, name)| ServiceName::new(namespace, name));
    if let Some(service) = service.and_then(|name| observed.services.get(&name)) {
        return Ok(Explanation::Service(service::explain(service, observed)));
    }
    Err(UnknownSubject {
        subject: subject.escape_debug().to_string(),
        nearest: nearest(subject, observed),
    })
}

/// What is near, in words that fit behind the message.
fn nearest(subject: &str, observed: &Observed) -> String {
    const NEAR: f64 = 0.7;
    let of_name = observed
        .services
        .keys()
        .find(|service| service.name() == subject);
    if let Some(service) = of_name {
        return format!(
            "; a Service is asked for as `{}`",
            service.to_string().escape_debug()
        );
    }
    let nodes = observed.nodes.keys().map(ToString::to_string);
    let names = nodes.chain(observed.services.keys().map(ToString::to_string));
    let scored = names.map(|name| (strsim::jaro_winkler(&subject.to_lowercase(), &name), name));
    let best = scored
        .filter(|(score, _)| *score >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| format!("; did you mean `{}`?", name.escape_debug()))
        .unwrap_or_default()
}

/// Every requirement of a selector, held against labels.
fn requirements(selector: &Selector, labels: &Labels) -> Vec<RequirementResult> {
    let result = |requirement: &Requirement| RequirementResult {
        requirement: requirement.to_string(),
        met: requirement.matches(labels),
        label: labels.get(requirement.key()).cloned(),
    };
    selector.requirements().map(result).collect()
}
