//! Examples of plans for the rules of the Policy. Only `policy test` reads them.

use serde_json::{Map, Value};

use ipam_core::model::Origin;

/// A part of an example, with the fields that its author wrote.
pub type WrittenPart = Map<String, Value>;

/// An example of a plan, and what a rule must say of it.
#[derive(Clone, Debug)]
pub struct RuleCase {
    /// Name of the rule. There may be no such rule.
    pub rule: String,
    /// For people.
    pub name: Option<String>,
    pub expected: Expectation,
    /// Text that the message of the broken rule must contain.
    pub message: Option<String>,
    pub origin: Origin,
    /// With the names of the plan's JSON.
    pub changes: Vec<WrittenPart>,
    pub services: Vec<WrittenPart>,
    /// `None` for those of the files.
    pub pools: Option<Vec<WrittenPart>>,
    /// By name.
    pub nodes: WrittenPart,
}

ipam_core::text_enum! {
    /// What a rule says of a plan. The text is printed and stands in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expectation {
        Holds = "holds",
        Broken = "broken",
        /// It cannot be evaluated.
        NoResult = "no-result",
    }
}
