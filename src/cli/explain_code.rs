//! `explain CODE`, and `explain` without a subject: the pages of codes. Needs no file, no cluster and
//! no network.

use super::failure::Failure;
use super::{ExitStatus, Format, output};
use crate::render::{rule_list, rule_page};
use ipam_core::rules::{self, RulePage, markdown};

/// The page of a code. A diagnostic prints codes as `cilium-ipam::bad-cidr`.
pub(super) fn page(subject: &str) -> Option<&'static RulePage> {
    rules::page(subject.strip_prefix("cilium-ipam::").unwrap_or(subject))
}

pub(super) fn print(page: &RulePage, format: Format) -> Result<ExitStatus, Failure> {
    match format {
        Format::Json => output::json(page)?,
        Format::Markdown => output::data(&markdown::page(page))?,
        _ => output::human(&rule_page(page))?,
    }
    Ok(ExitStatus::Done)
}

/// Prints all codes; as JSON and as Markdown, with their pages.
pub(super) fn print_all(format: Format) -> Result<ExitStatus, Failure> {
    match format {
        Format::Json => output::json(&rules::pages().collect::<Vec<_>>())?,
        Format::Markdown => output::data(&markdown::all())?,
        _ => output::human(&rule_list(rules::families()))?,
    }
    Ok(ExitStatus::Done)
}
