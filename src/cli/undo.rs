//! `undo`: lists the undo plans of earlier applies, and applies one. The files stay as they are, so it
//! ends with what to do next.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::apply_saved::saved_plan;
use super::failure::Failure;
use super::show::{Column, print};
use super::{Common, ExitStatus, Format, apply, completions, output, undo_file};
use crate::render::{Detail, grouped_digits, printable};
use ipam_plan::plan::Intent;

/// The argument that lists the undo plans.
const LIST: &str = "list";

/// The argument for the newest undo plan.
pub(super) const LAST: &str = "last";

/// An undo plan in the list.
#[derive(Serialize)]
struct Row {
    file: String,
    /// Number of changes that it undoes.
    changes: usize,
    /// The directory of the files that were applied.
    directory: String,
}

const COLUMNS: [Column<Row>; 3] = [
    ("FILE", |row| row.file.clone()),
    ("CHANGES", |row| grouped_digits(row.changes)),
    ("DIRECTORY", |row| row.directory.clone()),
];

/// The command of `undo`: that of `apply`, for a file instead of a directory, and without flags for
/// plans of a pull request.
pub(super) fn adapted(command: clap::Command) -> clap::Command {
    const OF_REVIEWS: [&str; 9] = [
        "reviewed",
        "cluster_name",
        "merge_commit",
        "branch",
        "forge",
        "api_url",
        "repository",
        "token_file",
        "allow_plain_http",
    ];
    let without = |flag: clap::Arg| {
        let is_of_reviews = OF_REVIEWS.contains(&flag.get_id().as_str());
        let is_hidden = flag.is_hide_set() || is_of_reviews;
        flag.hide(is_hidden)
    };
    command.mut_args(without).mut_arg("what", |file| {
        file.value_name("FILE|last")
            .default_value(LIST)
            .hide_default_value(true)
            .add(completions::undo_plans())
            .help("An undo plan by its path, or by its name in the list; `last` is the newest. Default: list them")
    })
}

pub(super) async fn run(
    apply: &mut apply::Arguments,
    common: &Common,
) -> Result<ExitStatus, Failure> {
    let file = match apply.what.to_str() {
        Some(LIST) => return list(apply.output),
        Some(LAST) => undo_file::kept().pop().ok_or_else(no_undo_plan)?,
        _ => found(&apply.what),
    };
    apply.what = file;
    let directory = match saved_plan(&apply.what)? {
        Some(saved) if saved.intent == Intent::Undo => saved.source.directory,
        _ => {
            return Err(Failure::Failed(format!(
                "`{}` is not an undo plan; `cilium-ipam undo` lists them, and `cilium-ipam apply` applies files and other plans",
                printable(&apply.what.display().to_string())
            )));
        }
    };
    let status = apply::run(apply, common).await?;
    output::warn(&format!(
        "Now change the files in `{}`, too, or the next apply makes the same changes.",
        printable(&directory)
    ));
    Ok(status)
}

/// The file itself, or the undo plan of this name in the list.
fn found(file: &Path) -> PathBuf {
    let is_named = |kept: &PathBuf| kept.file_name() == Some(file.as_os_str());
    match file.exists() {
        true => file.to_owned(),
        false => (undo_file::kept().into_iter().find(is_named)).unwrap_or_else(|| file.to_owned()),
    }
}

fn no_undo_plan() -> Failure {
    Failure::Failed(format!(
        "there is no undo plan in {}; `apply` writes one there if a change can be undone, unless --undo-out names another file",
        undo_file::FOLDER
    ))
}

/// Prints the undo plans, the oldest first.
fn list(format: Format) -> Result<ExitStatus, Failure> {
    let mut rows = Vec::new();
    for file in undo_file::kept() {
        let plan = match saved_plan(&file) {
            Ok(Some(plan)) => plan,
            Ok(None) => continue,
            Err(error) => {
                let name = printable(&file.display().to_string()).to_string();
                output::warn(&format!(
                    "{name} cannot be read, and is left out: {}",
                    error.brief(Detail::Short)
                ));
                continue;
            }
        };
        rows.push(Row {
            file: file.display().to_string(),
            changes: plan.changes.len(),
            directory: plan.source.directory,
        });
    }
    let has_rows = !rows.is_empty();
    if !has_rows && format != Format::Json {
        return Err(no_undo_plan());
    }
    print(format, rows, |row| &row.file, &COLUMNS, &[])?;
    if has_rows {
        output::progress("To apply the newest undo plan: cilium-ipam undo last");
    }
    Ok(ExitStatus::Done)
}
