//! `watch`: keeps a cluster as the files say, and tells what it does, a line for each thing.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::apply::holder;
use super::failure::Failure;
use super::progress::fault;
use super::rails::Rails;
use super::target::Target;
use super::{Common, Format, Reached, output, valid};
use crate::apply::Outcome;
use crate::cluster::Opening;
use crate::model::Hazard;
use crate::plan::ChangeDocument;
use crate::render::{Paint, count, diagnostics, printable};
use crate::run::{News, Waiting, Watch, load, watch};
use crate::source::DirectoryEvents;

/// Keep a cluster as the files say.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy.
    #[arg(value_name = "DIR", default_value = "pools")]
    directory: PathBuf,
    /// How often it is planned when nothing happens, at least `1s`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    interval: Duration,
    /// Writes that are under way at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    parallelism: NonZeroUsize,
    #[command(flatten)]
    rails: Rails,
    /// Form of the lines; `json` is an object for each.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    let (directory, rails) = (arguments.directory.clone(), arguments.rails.clone());
    let load = move || {
        let mut loaded = load(&directory);
        rails.amend(&mut loaded.desired.policy);
        loaded
    };
    // Before they are read, so that nothing is missed.
    let events = DirectoryEvents::new(&arguments.directory);
    let first = valid(load())?;
    let Target::Live(cluster) = common.target(Opening::Read).await? else {
        let message = "a cluster in a file tells nobody what happens to it; use apply, or watch an API server";
        return Err(Failure::Failed(message.to_owned()));
    };
    let watching = Watch {
        load: Arc::new(load),
        events,
        waivers: arguments.rails.waivers(),
        interval: arguments.interval,
        parallelism: arguments.parallelism,
        holder: holder(),
    };
    let (mut gone, nobody_listens) = (None, Notify::new());
    let mut on_news = |news: News<'_>| {
        if let Err(error) = tell(arguments.output, &news) {
            gone.get_or_insert(error);
            nobody_listens.notify_one();
        }
    };
    let ending = async {
        tokio::select! {
            () = asked_to_end() => {}
            () = nobody_listens.notified() => {}
        }
    };
    watch(cluster, watching, first, ending, &mut on_news).await;
    match gone {
        Some(error) => Err(error.into()),
        None => Ok(Reached::Done),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let long_enough = Duration::try_from(duration).ok().filter(|duration| *duration >= Duration::from_secs(1));
    long_enough.ok_or_else(|| "it must be at least 1s".to_owned())
}

/// SIGINT or SIGTERM, as a terminal and a kubelet send them.
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

fn tell(format: Format, news: &News<'_>) -> std::io::Result<()> {
    if let News::Invalid(loaded) | News::InForce(loaded) = news {
        output::talk(&diagnostics(&loaded.findings, &loaded.documents));
    }
    let now = format!("{:.3}", Timestamp::now());
    match format {
        Format::Human => output::data(&human(&now, news)),
        Format::Json => {
            let mut line = as_json(news);
            line["time"] = now.into();
            output::json_line(&line)
        }
    }
}

fn human(now: &str, news: &News<'_>) -> String {
    let line = |word: String, what: &str| format!("{now}  {word}  {what}\n");
    match news {
        News::InForce(loaded) => line(Paint::Bold.on("in force"), &count(loaded.documents.files.len(), "file")),
        News::Invalid(loaded) => {
            let faults = loaded.findings.iter().filter(|finding| finding.severity == crate::model::Severity::Error);
            let what = format!("{}; the last good files stay in force", count(faults.count(), "fault"));
            line(Paint::Red.on("invalid"), &what)
        }
        News::Finished(change, outcome) => {
            let ChangeDocument { kind, name, after, .. } = ChangeDocument::from(*change);
            let object = format!("{kind}/{name}");
            match outcome {
                Outcome::Applied if after.is_empty() => line(Paint::Green.on("taken away"), &printable(&object)),
                Outcome::Applied => {
                    line(Paint::Green.on("written"), &printable(&format!("{object}  {}", after.join(" "))))
                }
                other => line(
                    Paint::Red.on("not written"),
                    &printable(&format!("{object}  {}", fault(other).unwrap_or_default())),
                ),
            }
        }
        News::Waiting(waiting) => human_waiting(now, waiting),
        News::Undone(target, pause) => {
            let what = format!("{target}: somebody undoes what is written; left alone for {} s", pause.as_secs());
            line(Paint::Red.on("undone"), &printable(&what))
        }
        News::Trouble(why) => line(Paint::Red.on("trouble"), &printable(why)),
        News::Recovered => line(Paint::Green.on("recovered"), ""),
    }
}

fn human_waiting(now: &str, waiting: &Waiting) -> String {
    let Waiting { nodes, for_a_person, refusals, blocked } = waiting;
    let (waits, blocks) = (count(for_a_person.len(), "change"), blocked.len());
    let mut text = format!("{now}  seen  {}, {waits} for a person, {blocks} blocked\n", count(*nodes, "node"));
    let mut line = |what: String| text.push_str(&format!("    {}\n", printable(&what)));
    for (target, hazard) in for_a_person {
        line(format!("waits     {target}  {}", hazard_text(*hazard)));
    }
    for refusal in refusals {
        line(format!("refused   {}; {}", refusal.message, refusal.help));
    }
    for (target, reason) in blocked {
        line(format!("blocked   {target}  {reason}"));
    }
    text
}

fn hazard_text(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::None => "stands behind what waits",
        Hazard::Disruptive => "disruptive",
        Hazard::Destructive => "destructive",
    }
}

fn as_json(news: &News<'_>) -> Value {
    match news {
        News::InForce(loaded) => json!({"event": "in-force", "files": loaded.documents.files.len()}),
        News::Invalid(loaded) => {
            let rules: Vec<&str> = loaded.findings.iter().map(|finding| finding.rule.0).collect();
            json!({"event": "invalid", "rules": rules})
        }
        News::Finished(change, outcome) => {
            let ChangeDocument { kind, name, action, after, .. } = ChangeDocument::from(*change);
            let event = if **outcome == Outcome::Applied { "written" } else { "not-written" };
            json!({"event": event, "kind": kind, "name": name, "action": action, "after": after, "why": fault(outcome).unwrap_or_default()})
        }
        News::Waiting(Waiting { nodes, for_a_person, refusals, blocked }) => {
            let waits = for_a_person.iter().map(
                |(target, hazard)| json!({"kind": target.kind(), "name": target.name(), "hazard": hazard_text(*hazard)}),
            );
            let blocked = blocked
                .iter()
                .map(|(target, reason)| json!({"kind": target.kind(), "name": target.name(), "reason": reason}));
            let refusals = refusals.iter().map(|refusal| json!({"rule": refusal.rule.0, "message": refusal.message}));
            json!({
                "event": "seen", "nodes": nodes, "waiting": waits.collect::<Vec<_>>(),
                "refusals": refusals.collect::<Vec<_>>(), "blocked": blocked.collect::<Vec<_>>(),
            })
        }
        News::Undone(target, pause) => {
            json!({"event": "undone", "kind": target.kind(), "name": target.name(), "left_alone_seconds": pause.as_secs()})
        }
        News::Trouble(why) => json!({"event": "trouble", "why": why}),
        News::Recovered => json!({"event": "recovered"}),
    }
}
