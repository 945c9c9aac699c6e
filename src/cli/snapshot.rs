//! `snapshot`: the cluster in a file, with nothing in it that the tool does not need.

use std::path::PathBuf;

use super::failure::Failure;
use super::files::output_file;
use super::{Common, Reached, output};
use ipam_cluster::{Opening, replace_file, snapshot};

/// Write the cluster, as far as it matters here, into a file that --cluster reads.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The file; stdout when absent.
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    out: Option<PathBuf>,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
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
    Ok(Reached::Done)
}
