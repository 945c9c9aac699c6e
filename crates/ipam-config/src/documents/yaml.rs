//! Parses text to documents. The limits allow a file of ten thousand pools and stop a YAML bomb.
//!
//! Knows nothing of our kinds.

use std::sync::Arc;

use serde_yaml::budget::BudgetBreach;
use serde_yaml::granit_parser::ErrorKind;
use serde_yaml::{
    Error, ExternalMessageSource, Location, MessageFormatter, Options, UserMessageFormatter,
};

use crate::documents::SourceFile;
use crate::documents::tree::{Document, Node, Spans};
use ipam_core::model::{Finding, Origin, Rule, Severity};

const SYNTAX: Rule = Rule("yaml-syntax");
const TOO_LARGE: Rule = Rule("yaml-too-large");

const SPLIT: &str = "split the file; it was skipped";
const ALIASES: &str = "write the values out instead of using aliases; this file was skipped";
const NESTING: &str = "reduce the nesting; documents have only a few levels";
const FIX: &str = "fix the YAML; this file was skipped";

/// Limits of one file. Memory grows with the number of nodes and with the values that aliases
/// repeat.
fn limits() -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_documents: 100_000,
            max_nodes: 1_000_000,
            max_events: 4_000_000,
            max_depth: 64,
            // The number of repetitions does not matter: `alias_limits` limits their size.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 200_000,
            max_replay_stack_depth: 16,
        },
        // YAML 1.2: only `true` and `false`. A node can have the name `n`, a label the value `no`.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Parses every document of a file. Fails with one finding if the file is not YAML.
pub(super) fn parse(file: &SourceFile) -> Result<Vec<Document>, Box<Finding>> {
    let spans = Arc::new(Spans::new(file));
    let roots: Vec<Node> = serde_yaml::from_multiple_with_options(&file.text, limits())
        .map_err(|error| Box::new(fault(file, &spans, &error)))?;
    Ok(roots
        .into_iter()
        .filter_map(|root| Document::new(root, &spans))
        .collect())
}

fn fault(file: &SourceFile, spans: &Spans, error: &Error) -> Finding {
    let origin = error
        .location()
        .filter(|location| *location != Location::UNKNOWN);
    let origin = origin.map_or_else(
        || Origin::whole_file(&file.path),
        |location| spans.origin(location),
    );
    let (rule, message, help) = explained(error);
    Finding::new(Severity::Error, rule, message)
        .at(&origin, "here")
        .help(help)
}

/// Rule, message and help. Replaces the parser's messages about its own options.
fn explained(error: &Error) -> (Rule, String, &'static str) {
    match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => explained(error),
        Error::Budget { breach, .. } => {
            let (what, help) = exceeded(breach);
            (TOO_LARGE, format!("the file has {what}"), help)
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => (
            TOO_LARGE,
            "the file repeats too much by aliases (`*name`)".to_owned(),
            ALIASES,
        ),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key
                .as_ref()
                .map_or_else(|| "a key".to_owned(), |key| format!("`{key}`"));
            (
                SYNTAX,
                format!("{key} is written twice in one mapping"),
                "keep one of the two",
            )
        }
        Error::UnknownAnchor { .. } => (
            SYNTAX,
            "an alias (`*name`) without its anchor (`&name`) before it".to_owned(),
            FIX,
        ),
        Error::ExternalMessage { source, .. } if is_nesting(source) => (
            TOO_LARGE,
            "the file has lists and mappings nested too deeply".to_owned(),
            NESTING,
        ),
        Error::InvalidScalar { .. } => (
            SYNTAX,
            "a value that does not fit its tag (`!!…`)".to_owned(),
            FIX,
        ),
        other => {
            let message = UserMessageFormatter.format_message(other);
            let message = message.lines().next().unwrap_or_default();
            (SYNTAX, format!("not readable as YAML: {message}"), FIX)
        }
    }
}

fn is_nesting(source: &ExternalMessageSource) -> bool {
    matches!(source, ExternalMessageSource::Parser(error) if matches!(error.kind(), ErrorKind::RecursionLimitExceeded))
}

fn exceeded(breach: &BudgetBreach) -> (&'static str, &'static str) {
    match breach {
        BudgetBreach::Depth { .. } => ("lists and mappings nested too deeply", NESTING),
        BudgetBreach::Documents { .. } => ("too many documents", SPLIT),
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::AliasAnchorRatio { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. }
        | BudgetBreach::MergeKeys { .. } => ("too many anchors, aliases or merge keys", ALIASES),
        _ => ("too many values", SPLIT),
    }
}
