//! Text to documents, within limits that a file of ten thousand pools stays below and a bomb does
//! not.

use std::sync::Arc;

use serde_yaml::budget::BudgetBreach;
use serde_yaml::granit_parser::ErrorKind;
use serde_yaml::{
    Error, ExternalMessageSource, Location, MessageFormatter, Options, UserMessageFormatter,
};

use crate::documents::SourceFile;
use crate::documents::tree::{Document, Node, Places};
use ipam_core::model::{Finding, Origin, Rule, Severity};

const SYNTAX: Rule = Rule("yaml-syntax");
const TOO_LARGE: Rule = Rule("yaml-too-large");

const SPLIT: &str = "split the file; nothing of it was read";
const ALIASES: &str =
    "write the values out instead of using aliases; nothing of this file was read";
const NESTING: &str = "mend the nesting; no document here is nested deeper than a few levels";
const MEND: &str = "mend the YAML; nothing of this file was read";

/// The limits count for the whole file. Memory grows with nodes and with what aliases repeat.
fn limits() -> Options {
    serde_yaml::options! {
        // YAML 1.2: only `true` and `false`. A node may be called `n`, and a zone `no`.
        strict_booleans: true,
        budget: serde_yaml::budget! {
            max_documents: 100_000,
            max_nodes: 1_000_000,
            max_events: 4_000_000,
            max_depth: 64,
            // How often an anchor is repeated does not matter: how much is repeated is limited
            // below.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 200_000,
            max_replay_stack_depth: 16,
        },
        // A node may be called `n`, a label may have the value `no`.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Every document of a file, or the one reason why it is not YAML.
pub(super) fn parse(file: &SourceFile) -> Result<Vec<Document>, Box<Finding>> {
    let places = Arc::new(Places::new(file));
    let roots: Vec<Node> = serde_yaml::from_multiple_with_options(&file.text, limits())
        .map_err(|error| Box::new(fault(file, &places, &error)))?;
    Ok(roots
        .into_iter()
        .filter_map(|root| Document::new(root, &places))
        .collect())
}

fn fault(file: &SourceFile, places: &Places, error: &Error) -> Finding {
    let origin = error
        .location()
        .filter(|location| *location != Location::UNKNOWN);
    let origin = origin.map_or_else(
        || Origin::whole_file(&file.path),
        |location| places.origin(location),
    );
    let (rule, message, help) = explained(error);
    Finding::new(Severity::Error, rule, message)
        .at(&origin, "here")
        .help(help)
}

/// In our words where the parser's are about its own options, in the parser's otherwise.
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
            MEND,
        ),
        Error::ExternalMessage { source, .. } if is_nesting(source) => (
            TOO_LARGE,
            "the file has lists and mappings nested too deeply".to_owned(),
            NESTING,
        ),
        Error::InvalidScalar { .. } => (
            SYNTAX,
            "a value that does not fit its tag (`!!…`)".to_owned(),
            MEND,
        ),
        other => {
            let message = UserMessageFormatter.format_message(other);
            let message = message.lines().next().unwrap_or_default();
            (SYNTAX, format!("not readable as YAML: {message}"), MEND)
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
