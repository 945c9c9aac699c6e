//! `history`: who asked for an address or a pin, and who had an address when, from the Git history of
//! the directory.

use std::path::PathBuf;

use clap::ValueHint;
use jiff::Timestamp;

use super::completions;
use super::failure::Failure;
use super::files::date;
use super::{Common, ExitStatus, Format, output};
use crate::render;
use ipam_config::documents::Documents;
use ipam_controller::history::{HistoryQuestion, Period, history};
use ipam_doctor::history::Subject;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// An address; a CIDR; a node by its name, also as `node/NAME`; a Service as NAMESPACE/NAME; or a
    /// pool as `pool/NAME`.
    #[arg(value_name = "NODE|SERVICE|ADDRESS|CIDR", add = completions::objects())]
    subject: String,
    /// The directory of pools, pins and policy. It need not exist today.
    #[arg(value_name = "DIR", default_value = "pools", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// The Git revision with which the history ends.
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    revision: String,
    /// The file of recorded states of the cluster, as `snapshot --out` writes it. Default:
    /// `cluster.json` at the top of the repository.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Also read this report of an apply, as `apply --report-out` writes it, or all of them in this
    /// folder. Repeatable.
    #[arg(long, value_name = "FILE|FOLDER")]
    applied: Vec<PathBuf>,
    /// Show only what lasted at this time or later, such as `2026-03-01`, which is in UTC, or
    /// `2026-03-01T08:00:00+01:00`.
    #[arg(long, value_name = "DATE", value_parser = date)]
    since: Option<Timestamp>,
    /// Show only what began at this time or earlier.
    #[arg(long, value_name = "DATE", value_parser = date)]
    until: Option<Timestamp>,
    /// Output format.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let Ok(subject) = arguments.subject.parse::<Subject>();
    let question = HistoryQuestion {
        subject,
        directory: arguments.directory.clone(),
        revision: arguments.revision.clone(),
        snapshot: arguments.snapshot.clone(),
        applied: arguments.applied.clone(),
        period: Period {
            since: arguments.since,
            until: arguments.until,
        },
    };
    let found = tokio::task::spawn_blocking(move || history(&question)).await;
    let document = found.or_else(Failure::from_panic)?.map_err(|finding| {
        let diagnostics = render::diagnostics(&[*finding], &Documents::default(), common.detail());
        Failure::NoHistory(diagnostics)
    })?;
    match arguments.output {
        Format::Json => output::json(&document)?,
        _ => output::human(&render::history(&document, common.detail()))?,
    }
    Ok(ExitStatus::Done)
}
