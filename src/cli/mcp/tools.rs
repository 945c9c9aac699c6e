//! The questions that an assistant can ask, and their arguments. Must never know their answers.

use rmcp::ErrorData;
use rmcp::handler::server::tool::schema_for_input;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use ipam_core::model::Labels;

/// Longest error of the protocol, in bytes.
const LONGEST_ERROR: usize = 500;

/// A question of an assistant, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Plan(PlanQuestion),
    Simulate(SimulateQuestion),
    Capacity,
    Doctor,
    Explain(ExplainQuestion),
    Map(MapQuestion),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanQuestion {
    /// Limit the plan to these objects: `node/NAME`, `pool/NAME`, `service/NAMESPACE/NAME` or
    /// `label:SELECTOR`. Without them, the whole plan.
    #[serde(default)]
    pub(super) targets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SimulateQuestion {
    /// Files that are added, or that replace the file of the same path.
    #[serde(default)]
    pub(super) files: Vec<SimulatedFile>,
    /// As for `plan`; only without `add` and `remove`.
    #[serde(default)]
    pub(super) targets: Vec<String>,
    /// Groups of nodes that join.
    #[serde(default)]
    pub(super) add: Vec<SimulatedNodes>,
    /// A label selector, such as `rack=r7`: these nodes leave first.
    pub(super) remove: Option<String>,
    /// The number of Pods that new nodes accept. Default: that of most nodes.
    pub(super) max_pods: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SimulatedNodes {
    pub(super) count: u32,
    #[serde(default)]
    pub(super) labels: Labels,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SimulatedFile {
    /// Path in the directory, such as `racks/a.yaml`.
    pub(super) path: String,
    /// The YAML text. An empty one takes the file away.
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuestion {
    /// A node or a pool by its name, also as `node/NAME` or `pool/NAME`; an address; a CIDR; or a
    /// Service as `NAMESPACE/NAME`.
    pub(super) subject: String,
    /// Another Service as `NAMESPACE/NAME`: whether the two share an address.
    pub(super) with: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MapQuestion {
    /// A CIDR, an address, or a range: `10.4.0.0/16`, `10.4.0.7`, `10.4.0.0-10.4.0.99`.
    pub(super) area: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// All tools of the server. No tool writes to the cluster or to files.
pub(super) fn all() -> Vec<Tool> {
    [
        tool::<PlanQuestion>(
            "plan",
            "Show what would change in the cluster if the files were applied now, with reasons, risks and what is blocked.",
        ),
        tool::<SimulateQuestion>(
            "simulate",
            "Show what would change if these files were added or replaced, or which blocks joining nodes would get: the first node without a block, the free blocks left, and the CIDR to add. Nothing is written.",
        ),
        tool::<NoArguments>(
            "capacity",
            "Show how full every pool and range is, which nodes have no block and why, and how long the rest lasts.",
        ),
        tool::<NoArguments>(
            "doctor",
            "Find problems of the cluster's addresses: duplicates, misplaced or missing blocks, announcements that do not work.",
        ),
        tool::<ExplainQuestion>(
            "explain",
            "Explain why a node, pool, address, CIDR or Service has its addresses: every pool that was considered, and the rule that decided.",
        ),
        tool::<MapQuestion>(
            "map",
            "List what lies in a part of the address space: ranges of pools, blocks of nodes, Service addresses, reserved and pinned blocks, now and after the plan.",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn tool<Q: JsonSchema + 'static>(name: &'static str, about: &'static str) -> Option<Tool> {
    // Every question is an object, so its schema is valid for a tool's input.
    let schema = schema_for_input::<Q>().ok()?;
    let reads = ToolAnnotations::new()
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Some(Tool::new(name, about, schema).with_annotations(reads))
}

impl Question {
    /// # Errors
    /// Fails if there is no such tool, or its arguments are wrong.
    pub(super) fn parse(name: &str, arguments: Option<JsonObject>) -> Result<Question, ErrorData> {
        let arguments = Value::Object(arguments.unwrap_or_default());
        Ok(match name {
            "plan" => Question::Plan(parsed(arguments)?),
            "simulate" => Question::Simulate(parsed(arguments)?),
            "capacity" => parsed(arguments).map(|NoArguments {}| Question::Capacity)?,
            "doctor" => parsed(arguments).map(|NoArguments {}| Question::Doctor)?,
            "explain" => Question::Explain(parsed(arguments)?),
            "map" => Question::Map(parsed(arguments)?),
            _ => {
                return Err(invalid(format!(
                    "there is no tool `{}`",
                    name.escape_debug()
                )));
            }
        })
    }
}

fn parsed<Q: DeserializeOwned>(arguments: Value) -> Result<Q, ErrorData> {
    serde_json::from_value(arguments).map_err(|error| invalid(format!("the arguments: {error}")))
}

/// Errors quote what the assistant sent.
fn invalid(mut message: String) -> ErrorData {
    if message.len() > LONGEST_ERROR {
        message.truncate(message.floor_char_boundary(LONGEST_ERROR));
        message.push('…');
    }
    ErrorData::invalid_params(message, None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_tool_reads_only_and_can_be_asked() {
        let all = all();
        assert_eq!(all.len(), 6);
        for tool in all {
            let hints = tool.annotations.unwrap();
            assert_eq!(hints.read_only_hint, Some(true), "{}", tool.name);
            let required = tool.input_schema.get("required").cloned();
            let needs_none = required.is_none_or(|names| names == json!([]));
            let asked = Question::parse(&tool.name, None);
            assert_eq!(asked.is_ok(), needs_none, "{}: {asked:?}", tool.name);
            let unknown = json!({"apply": true}).as_object().cloned();
            assert!(Question::parse(&tool.name, unknown).is_err());
        }
        assert!(Question::parse("apply", None).is_err());
        let long = Question::parse(&"ä".repeat(9_000), None).unwrap_err();
        assert!(long.message.len() < LONGEST_ERROR + 10, "{}", long.message);
    }
}
