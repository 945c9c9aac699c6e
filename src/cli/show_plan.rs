//! `show plan`: prints a saved plan or an undo plan. Reads neither the cluster nor the directory.

use std::path::PathBuf;

use super::failure::Failure;
use super::plan::page;
use super::{Common, ExitStatus, Format, completions, foreign_commands, output, plan_file};
use crate::render::human;

/// A plan file.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// A plan that `plan --out FILE` saved, or an undo plan that an apply wrote.
    #[arg(value_name = "PLANFILE", add = completions::directories_and_plans())]
    file: PathBuf,
    /// Output format.
    #[arg(long, short, value_parser = Format::report(), default_value = "human")]
    output: Format,
}

pub(super) fn run(flags: &Flags, common: &Common) -> Result<ExitStatus, Failure> {
    let Flags { file, output } = flags;
    if file.extension().is_none() && !file.exists() {
        let name = file.display().to_string();
        let advice = foreign_commands::advice(&["get", &name]).unwrap_or_else(|| {
            "the tables are `show pools`, `show nodes` and `show lb`".to_owned()
        });
        return Err(Failure::Failed(format!(
            "there is no plan file `{name}`; {advice}"
        )));
    }
    let plan = plan_file::read(file)?;
    match output {
        Format::Json => output::json(&plan)?,
        Format::Markdown | Format::Html => page(*output, &plan, None, None, common)?,
        _ => {
            let text = human(&plan, common.detail());
            output::human(&format!("{}\n{text}", plan_file::introduction(file, &plan)))?;
        }
    }
    Ok(ExitStatus::Done)
}
