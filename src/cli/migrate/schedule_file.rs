//! The argument `DIR|FILE` of `migrate apply`: a directory, or a schedule that `migrate plan --out`
//! saved.

use std::io::Read;
use std::path::Path;

use super::super::failure::Failure;
use ipam_cluster::open_regular;
use ipam_planner::migration::{ScheduleDocument, ScheduleFileError};

/// The saved schedule, or `None` if `what` is a directory.
///
/// # Errors
/// Fails if the file is unreadable, edited, or another format.
pub(super) fn saved_schedule(what: &Path) -> Result<Option<ScheduleDocument>, Failure> {
    let is_json = what
        .extension()
        .is_some_and(|extension| extension == "json");
    if !what.is_file() && !is_json {
        return Ok(None);
    }
    let fault = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "{} cannot be used: {error}; `migrate plan --out FILE` writes such a file",
            what.display()
        ))
    };
    let mut text = String::new();
    open_regular(what)
        .and_then(|mut opened| opened.read_to_string(&mut text))
        .map_err(|error| fault(&error))?;
    match ScheduleDocument::read(&text) {
        Ok(document) => Ok(Some(document)),
        Err(ScheduleFileError::Kind(kind)) if kind.is_empty() => {
            Err(fault(&"it is not the schedule of a migration"))
        }
        Err(error) => Err(fault(&error)),
    }
}
