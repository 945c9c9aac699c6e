//! `apply`: carries out a plan, a fresh one after asking or a saved one as it was reviewed.

use std::io::{BufRead, IsTerminal};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::failure::Failure;
use super::progress::Progress;
use super::target::Target;
use super::{Common, Format, Reached, load_valid, output};
use crate::apply::{Outcome, Stop};
use crate::cluster::{ClusterError, Opening};
use crate::observed::Observed;
use crate::plan::{Change, Plan, PlanDocument, Staleness, still_wanted};
use crate::render::{Detail, Paint, count, diagnostics, human, printable};
use crate::run::{Applied, Loaded, apply_until_settled, observe_and_plan};

/// Carry out a plan.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy, or a plan that was saved with `plan --out FILE`.
    #[arg(value_name = "DIR|PLANFILE", default_value = "pools")]
    what: PathBuf,
    /// Do not ask.
    #[arg(long)]
    auto_approve: bool,
    /// Writes that are under way at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    parallelism: NonZeroUsize,
    /// Form of the result.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

/// The result as JSON.
#[derive(Serialize)]
struct Report {
    format_version: &'static str,
    applied: Vec<Line>,
    not_applied: Vec<Line>,
    unknown: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    kind: &'static str,
    name: String,
    after: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    let saved = saved_plan(&arguments.what)?;
    let directory =
        saved.as_ref().map_or_else(|| arguments.what.clone(), |saved| PathBuf::from(&saved.source.directory));
    if saved.is_some() && !directory.exists() {
        let (plan, directory) = (arguments.what.display(), directory.display());
        let message = format!("{plan} was made from `{directory}`, which is not here: run it where that directory is");
        return Err(Failure::Failed(message));
    }
    let loaded = load_valid(&directory)?;
    let cluster = common.target(Opening::Write).await?;
    let (observed, plan) = observe_and_plan(&cluster, &loaded).await?;
    let changes = match &saved {
        Some(saved) => saved_changes(saved, &plan, &observed)?,
        None => approved_changes(arguments, common, &loaded, plan, &directory)?,
    };
    if changes.is_empty() {
        return finish(arguments, &Applied::default(), None);
    }
    let (applied, failure) = send(arguments, &cluster, &loaded, changes).await;
    finish(arguments, &applied, failure)
}

/// A saved plan is a JSON object, whatever its name; anything else is a place with YAML files.
fn saved_plan(what: &Path) -> Result<Option<PlanDocument>, Failure> {
    let is_json = what.extension().is_some_and(|extension| extension == "json");
    if !what.is_file() && !is_json {
        return Ok(None);
    }
    let fault =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("{} cannot be applied: {error}", what.display()));
    let text = std::fs::read_to_string(what).map_err(|error| fault(&error))?;
    let is_yaml = what.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if is_yaml && !text.trim_start().starts_with('{') {
        return Ok(None);
    }
    PlanDocument::parse(&text).map(Some).map_err(|error| fault(&error))
}

fn saved_changes(saved: &PlanDocument, plan: &Plan, observed: &Observed) -> Result<Vec<Change>, Failure> {
    match still_wanted(saved, plan, observed) {
        Staleness::Stale(differences) => Err(Failure::Stale(differences)),
        Staleness::Current { changes, further, done } => {
            if done > 0 {
                output::warn(&format!("done already: {} of the saved plan", count(done, "change")));
            }
            if further > 0 {
                output::warn(&format!(
                    "not in the saved plan: {}; run plan again for more",
                    count(further, "further change")
                ));
            }
            Ok(changes)
        }
    }
}

fn approved_changes(
    arguments: &Arguments,
    common: &Common,
    loaded: &Loaded,
    plan: Plan,
    directory: &Path,
) -> Result<Vec<Change>, Failure> {
    let document = PlanDocument::new(&plan, &directory.to_string_lossy());
    output::talk(&diagnostics(&plan.findings, &loaded.documents));
    output::talk(&human(&document, Detail::Short));
    if plan.changes.is_empty() || arguments.auto_approve {
        return Ok(plan.changes);
    }
    if common.no_input || !std::io::stdin().is_terminal() {
        return Err(Failure::Failed(
            "nobody can be asked here, so nothing was written; use --auto-approve, or apply a saved plan".to_owned(),
        ));
    }
    output::talk(&format!("\n{} Only `yes` is a yes: ", Paint::Bold.on("Apply these changes?")));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == "yes" {
        Ok(plan.changes)
    } else {
        Err(Failure::Failed("not approved; nothing was written".to_owned()))
    }
}

async fn send(
    arguments: &Arguments,
    cluster: &Target,
    loaded: &Loaded,
    changes: Vec<Change>,
) -> (Applied, Option<ClusterError>) {
    let stop = Arc::new(Stop::default());
    let interrupted = stop.clone();
    let watcher = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            output::warn("\nstopping: writes that are under way are waited for");
            interrupted.request();
        }
    });
    let mut progress = Progress::new(changes.len());
    let result = apply_until_settled(cluster, loaded, changes, arguments.parallelism, &stop, &mut |event| {
        progress.event(&event)
    })
    .await;
    progress.finish();
    watcher.abort();
    result
}

fn finish(arguments: &Arguments, applied: &Applied, failure: Option<ClusterError>) -> Result<Reached, Failure> {
    let report = report(applied);
    let printed = match arguments.output {
        Format::Json => output::json(&report),
        Format::Human => output::data(&summary(&report)),
    };
    // What happened to the cluster matters more than who reads of it.
    match failure_of(applied, &report, failure) {
        Some(failure) => Err(failure),
        None => Ok(printed.map(|()| Reached::Done)?),
    }
}

fn failure_of(applied: &Applied, report: &Report, failure: Option<ClusterError>) -> Option<Failure> {
    let left = report.not_applied.len() + report.unknown.len();
    let message = format!("{} of {} not applied", left, count(applied.outcomes.len(), "change"));
    let all_beaten = applied.remaining().all(|(_, outcome)| matches!(outcome, Outcome::Superseded(_)));
    match (applied.applied(), failure) {
        (0, Some(error)) => Some(error.into()),
        (_, Some(error)) => Some(Failure::Partly(format!("{message}: {error}"))),
        (_, None) if left == 0 => None,
        (0, None) if all_beaten => Some(Failure::Beaten(message)),
        (0, None) if report.unknown.is_empty() => Some(Failure::Failed(message)),
        (_, None) => Some(Failure::Partly(message)),
    }
}

fn report(applied: &Applied) -> Report {
    let mut report =
        Report { format_version: "1.0", applied: Vec::new(), not_applied: Vec::new(), unknown: Vec::new() };
    for (change, outcome) in &applied.outcomes {
        let after = change.after.iter().map(ToString::to_string).collect();
        let line = |why: &str| Line { kind: "Node", name: change.node.to_string(), after, why: why.to_owned() };
        match outcome {
            Outcome::Applied => report.applied.push(line("")),
            Outcome::Superseded(why) => report.not_applied.push(line(&format!("superseded: {why}"))),
            Outcome::Refused(why) => report.not_applied.push(line(why)),
            Outcome::NotTried => report.not_applied.push(line("not tried, because applying stopped before")),
            Outcome::Unknown(why) => report.unknown.push(line(why)),
        }
    }
    report
}

fn summary(report: &Report) -> String {
    let Report { format_version: _, applied, not_applied, unknown } = report;
    let mut text = String::new();
    for (title, lines) in [("not applied", not_applied), ("unknown", unknown)] {
        for line in lines {
            text.push_str(&format!(
                "{} Node/{}  {}  {}\n",
                Paint::Red.on(title),
                line.name,
                line.after.join(" "),
                printable(&line.why)
            ));
        }
    }
    let counts = format!(
        "Applied {}; {} not applied, {} unknown.",
        count(applied.len(), "change"),
        not_applied.len(),
        unknown.len()
    );
    text + &Paint::Bold.on(&counts) + "\n"
}
