//! `snapshot`: writes the relevant objects of the cluster to a file, and only their relevant
//! fields.

use std::path::PathBuf;

use super::failure::Failure;
use super::files::output_file;
use super::plan_file::Inputs;
use super::{Common, ExitStatus, output};
use ipam_cluster::{Opening, replace_file, snapshot};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The file. Default: stdout.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    out: Option<PathBuf>,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    Inputs::of(common).check(&[("--out", arguments.out.as_deref())])?;
    let cluster = common.target(Opening::Read).await?;
    let list = snapshot(&cluster).await?;
    match &arguments.out {
        None => output::json(&list)?,
        Some(file) => {
            let text = serde_json::to_string_pretty(&list).map_err(std::io::Error::from)?;
            replace_file(file, &(text + "\n")).map_err(|error| {
                Failure::Failed(format!("{} cannot be written: {error}", file.display()))
            })?;
        }
    }
    Ok(ExitStatus::Done)
}
