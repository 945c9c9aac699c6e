//! Reads exported objects from files: YAML or JSON, any number of documents.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::failure::Failure;
use ipam_planner::import::foreign::{config_text, legacy_config};

/// The objects of all files. A ConfigMap of MetalLB also gives the objects that replaced it.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        objects.extend(parsed(&text).map_err(|error| unreadable(path, &error))?);
    }
    let mut configured = Vec::new();
    for text in objects.iter().flat_map(opened).filter_map(config_text) {
        let configs = parsed(text).map_err(|error| {
            Failure::Failed(format!("ConfigMap config: {error}; nothing was written"))
        })?;
        configured.extend(configs.iter().flat_map(legacy_config));
    }
    objects.extend(configured);
    Ok(objects)
}

/// The object, or the items of a List.
fn opened(object: &Value) -> impl Iterator<Item = &Value> {
    let items = object["items"].as_array();
    std::iter::once(object).chain(items.into_iter().flatten())
}

fn parsed(text: &str) -> Result<Vec<Value>, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(vec![value]);
    }
    // kubectl prints lists of any length. Depth and aliases keep their strict limits.
    let options = serde_yaml::options! {
        strict_booleans: true,
        budget: serde_yaml::budget! {
            max_documents: usize::MAX,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    };
    serde_yaml::from_multiple_with_options(text, options)
        .map_err(|error| format!("it is neither JSON nor YAML: {}", error.without_snippet()))
}

fn unreadable(path: &Path, error: &impl std::fmt::Display) -> Failure {
    Failure::Failed(format!(
        "{} cannot be read: {error}; nothing was written",
        path.display()
    ))
}
