//! `show plan`: a saved plan or an undo plan as it lies in a file. It reads neither the cluster nor
//! the directory.

use std::path::PathBuf;

use super::failure::Failure;
use super::plan::PlanFormat;
use super::{Common, Reached, output, plan_file};
use crate::render::{human, markdown};

/// A plan file.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// A plan that was saved with `plan --out FILE`, or an undo plan that an apply wrote.
    #[arg(value_name = "PLANFILE")]
    file: PathBuf,
    /// Form of the plan.
    #[arg(long, short, value_enum, default_value = "human")]
    output: PlanFormat,
}

pub(super) fn run(flags: &Flags, common: &Common) -> Result<Reached, Failure> {
    let Flags { file, output } = flags;
    if file.extension().is_none() && !file.exists() {
        let name = file.display();
        return Err(Failure::Failed(format!(
            "there is no plan file `{name}`; the tables are `show pools`, `show nodes` and `show lb`"
        )));
    }
    let plan = plan_file::read(file)?;
    match output {
        PlanFormat::Json => output::json(&plan)?,
        PlanFormat::Markdown => output::data(&markdown(&plan, common.detail()))?,
        PlanFormat::Human => {
            let text = human(&plan, common.detail());
            output::data(&format!("{}\n{text}", plan_file::introduction(file, &plan)))?;
        }
    }
    Ok(Reached::Done)
}
