//! What a rule of the Policy sees. Only the names: the planner has the values.
//!
//! Examples of plans for the rules of the Policy.

use serde_json::{Map, Value};

use ipam_core::model::Origin;
use ipam_rules::{Fields, Shape};

/// Values of `action`: what a change does to its object.
pub const ACTIONS: &[&str] = &[
    "adopt", "assign", "create", "delete", "pin", "release", "update",
];

/// Keys of `edit` and `undo`: the field that a change sets.
pub const EDITS: &[&str] = &[
    "CiliumLoadBalancerIPPool",
    "CiliumNode",
    "CiliumNode.spec.ipam.podCIDRs",
    "CiliumNode.spec.ipam.podCIDRs, beside the operator",
    "CiliumNodeConfig.spec.defaults",
    "allowed_address_pairs",
    "metadata.annotations",
    "spec",
    "spec.podCIDRs",
];

const KINDS: &[&str] = &[
    "CiliumLoadBalancerIPPool",
    "CiliumNodeConfig",
    "CiliumPodIPPool",
    "Node",
    "Port",
    "Service",
];

/// The variables of an expression.
pub fn rule_variables() -> Fields {
    let labels = || ("labels", Shape::map(Shape::Scalar));
    let plan = Shape::fields([
        ("changes", Shape::list(change())),
        ("services", Shape::list(service())),
    ]);
    Fields::from([
        ("plan", plan),
        ("pools", Shape::list(pool())),
        ("nodes", Shape::map(Shape::fields([labels()]))),
    ])
}

fn texts() -> Shape {
    Shape::list(Shape::Scalar)
}

fn change() -> Shape {
    let edit = || Shape::Fields(EDITS.iter().map(|key| (*key, Shape::Any)).collect());
    Shape::fields([
        ("action", Shape::OneOf(ACTIONS)),
        ("kind", Shape::OneOf(KINDS)),
        ("name", Shape::Scalar),
        ("write_path", Shape::Scalar),
        ("before", texts()),
        ("after", texts()),
        ("pool", Shape::Scalar),
        ("failure_domain", Shape::Scalar),
        ("reason", Shape::Scalar),
        (
            "hazard",
            Shape::OneOf(&["none", "disruptive", "destructive"]),
        ),
        ("edit", edit()),
        ("undo", edit()),
        (
            "guard",
            Shape::fields([("uid", Shape::Scalar), ("resource_version", Shape::Scalar)]),
        ),
        ("origin", origin()),
        ("needs_approval", Shape::list(unapproved())),
        ("labels", Shape::map(Shape::Scalar)),
    ])
}

fn origin() -> Shape {
    Shape::fields([
        ("file", Shape::Scalar),
        ("line", Shape::Scalar),
        ("column", Shape::Scalar),
    ])
}

fn unapproved() -> Shape {
    Shape::fields([
        ("block", Shape::Scalar),
        ("source", Shape::Scalar),
        (
            "writer",
            Shape::fields([("manager", Shape::Scalar), ("time", Shape::Scalar)]),
        ),
        ("code", Shape::Scalar),
        ("reason", Shape::Scalar),
    ])
}

fn service() -> Shape {
    let loss = Shape::fields([
        ("address", Shape::Scalar),
        (
            "when",
            Shape::OneOf(&["now", "operator-restart", "upgrade"]),
        ),
        ("certainty", Shape::OneOf(&["certain", "possible"])),
        ("reason", Shape::Scalar),
        ("cause", Shape::Scalar),
    ]);
    Shape::fields([
        ("namespace", Shape::Scalar),
        ("name", Shape::Scalar),
        ("loses", Shape::list(loss)),
        ("gains", texts()),
        ("pending", texts()),
        ("certainty", Shape::OneOf(&["certain", "possible"])),
    ])
}

fn pool() -> Shape {
    Shape::fields([
        ("name", Shape::Scalar),
        ("cidrs", texts()),
        (
            "block_size",
            Shape::fields([("ipv4", Shape::Scalar), ("ipv6", Shape::Scalar)]),
        ),
        ("priority", Shape::Scalar),
        ("disabled", Shape::Scalar),
        ("when_full", Shape::OneOf(&["NextPool", "Wait"])),
        ("reserved", texts()),
        ("retiring", texts()),
        ("selector", Shape::Scalar),
    ])
}

/// A part of an example, with the fields that its author wrote.
pub type WrittenPart = Map<String, Value>;

/// An example of a plan, and what a rule must say of it.
#[derive(Clone, Debug)]
pub struct RuleCase {
    /// Name of the rule. There may be no such rule.
    pub rule: String,
    /// Name of the example, for people.
    pub name: Option<String>,
    pub expected: Expectation,
    /// Text that the message of the broken rule must contain.
    pub message: Option<String>,
    pub origin: Origin,
    /// With the names of the plan's JSON.
    pub changes: Vec<WrittenPart>,
    pub services: Vec<WrittenPart>,
    /// Pools of the example; `None` means the pools of the files.
    pub pools: Option<Vec<WrittenPart>>,
    /// Nodes of the example, by name.
    pub nodes: WrittenPart,
}

ipam_core::text_enum! {
    /// The result of a rule for a plan. The text is used in output and in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expectation {
        Holds = "holds",
        Broken = "broken",
        /// The rule cannot be evaluated.
        NoResult = "no-result",
    }
}
