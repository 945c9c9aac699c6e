//! ControllerEvent of `watch` and the operator as lines: for people, or an object for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::failure::Failure;
use super::progress::fault;
use super::{Format, Reached, output};
use crate::render::{Detail, Paint, count, diagnostics, findings_in_event, printable};
use ipam_cluster::Rollback;
use ipam_config::documents::Documents;
use ipam_controller::apply::Outcome;
use ipam_controller::{ControllerEvent, Waiting, WaitingChange};
use ipam_core::model::{Finding, Hazard, Severity, grouped_digits};
use ipam_desired::Activity;
use ipam_planner::plan::ChangeDocument;

/// Lines of one sort that are printed for people.
const LINES: usize = 10;

/// Pieces of news that may wait to be printed; with more of them, it is waited for who reads.
const WAITING: usize = 1_024;

/// Prints news in their order, until nobody reads them any more. Faults of files may be many: what
/// they look like is made in the printer's thread, beside everything else.
pub(super) struct Announcer {
    format: Format,
    printer: SyncSender<Said>,
    printed: JoinHandle<std::io::Result<()>>,
    nobody_listens: Arc<Notify>,
}

/// A piece of news, on its own.
enum Said {
    /// A line for people, and an object for machines.
    Line {
        text: String,
        object: Value,
        at: Timestamp,
    },
    /// Files with faults or remarks, for people.
    Files(Vec<Finding>, Documents),
    /// Files with faults, for machines.
    Faults {
        findings: Vec<Finding>,
        revision: Option<String>,
        at: Timestamp,
    },
}

impl Announcer {
    pub(super) fn new(format: Format) -> Announcer {
        let nobody_listens: Arc<Notify> = Arc::default();
        let (printer, said) = sync_channel(WAITING);
        let told = nobody_listens.clone();
        let printed = std::thread::spawn(move || {
            let printed = print(format, said);
            if printed.is_err() {
                told.notify_one();
            }
            printed
        });
        Announcer {
            format,
            printer,
            printed,
            nobody_listens,
        }
    }

    /// Told once when printing failed.
    pub(super) fn nobody_listens(&self) -> Arc<Notify> {
        self.nobody_listens.clone()
    }

    pub(super) fn on_event(&mut self, event: &ControllerEvent<'_>) {
        if let (
            Format::Human,
            ControllerEvent::Invalid(loaded) | ControllerEvent::InForce(loaded),
        ) = (self.format, event)
        {
            self.say(Said::Files(
                loaded.findings.clone(),
                loaded.documents.clone(),
            ));
        }
        let at = Timestamp::now();
        match (self.format, event) {
            (Format::Json, ControllerEvent::Invalid(loaded)) => {
                let (findings, revision) = (loaded.findings.clone(), loaded.revision.clone());
                self.say(Said::Faults {
                    findings,
                    revision,
                    at,
                });
            }
            (Format::Json, event) => {
                as_json(event).into_iter().for_each(|object| {
                    self.say(Said::Line {
                        text: String::new(),
                        object,
                        at,
                    })
                });
            }
            (Format::Human, event) => {
                let text = human(event);
                if !text.is_empty() {
                    self.say(Said::Line {
                        text,
                        object: Value::Null,
                        at,
                    });
                }
            }
        }
    }

    /// A printer that has ended has said why.
    fn say(&self, said: Said) {
        let _ = self.printer.send(said);
    }

    /// Says where machines may ask.
    pub(super) fn listening(&mut self, address: SocketAddr) {
        let object = json!({"event": "listening", "address": address.to_string()});
        self.say(Said::Line {
            text: format!("listening  {address}\n"),
            object,
            at: Timestamp::now(),
        });
    }

    /// Waits until all is printed.
    pub(super) fn finish(self) -> Result<Reached, Failure> {
        let Announcer {
            printer, printed, ..
        } = self;
        drop(printer);
        match printed.join() {
            Ok(printed) => Ok(printed.map(|()| Reached::Done)?),
            Err(_) => Err(Failure::Failed(
                "the program's output cannot be printed".to_owned(),
            )),
        }
    }
}

fn print(format: Format, said: Receiver<Said>) -> std::io::Result<()> {
    for said in said {
        match said {
            Said::Files(findings, documents) => {
                output::talk(&diagnostics(&findings, &documents, Detail::Short))
            }
            Said::Faults {
                findings,
                revision,
                at,
            } => {
                let mut object = findings_in_event(&findings);
                (object["event"], object["revision"]) = ("invalid".into(), revision.into());
                line(format, "", object, at)?;
            }
            Said::Line { text, object, at } => line(format, &text, object, at)?,
        }
    }
    Ok(())
}

fn line(format: Format, text: &str, mut object: Value, at: Timestamp) -> std::io::Result<()> {
    let at = format!("{at:.3}");
    match format {
        Format::Human => output::data(&format!("{at}  {text}")),
        Format::Json => {
            object["time"] = at.into();
            output::json_line(&object)
        }
    }
}

fn human(event: &ControllerEvent<'_>) -> String {
    let line = |word: String, what: &str| format!("{word}  {what}\n");
    match event {
        ControllerEvent::InForce(loaded) => {
            let of = loaded
                .revision
                .as_ref()
                .map(|commit| format!(" of commit {commit}"))
                .unwrap_or_default();
            line(
                Paint::Bold.on("in force"),
                &format!("{}{of}", count(loaded.documents.files.len(), "file")),
            )
        }
        ControllerEvent::Invalid(loaded) => {
            let faults = loaded
                .findings
                .iter()
                .filter(|finding| finding.severity == Severity::Error);
            let what = format!(
                "{}; the last good files stay in force",
                count(faults.count(), "fault")
            );
            line(Paint::Red.on("invalid"), &what)
        }
        ControllerEvent::Finished {
            change, outcome, ..
        } => {
            let change = ChangeDocument::from(*change);
            let (object, after) = (format!("{}/{}", change.kind, change.name), change.comes());
            match outcome {
                Outcome::Applied if after.is_empty() => {
                    line(Paint::Green.on("taken away"), &printable(&object))
                }
                Outcome::Applied => line(
                    Paint::Green.on("written"),
                    &printable(&format!("{object}  {after}")),
                ),
                other => line(
                    Paint::Red.on("not written"),
                    &printable(&format!("{object}  {}", fault(other).unwrap_or_default())),
                ),
            }
        }
        ControllerEvent::Waiting(waiting) => human_waiting(waiting),
        ControllerEvent::Planned(_)
        | ControllerEvent::Sending(_)
        | ControllerEvent::Nodes(_)
        | ControllerEvent::Conflict(_) => String::new(),
        ControllerEvent::Undone(target, pause) => {
            let what = format!(
                "{target}: somebody undoes what is written; left alone for {} s",
                pause.as_secs()
            );
            line(Paint::Red.on("undone"), &printable(&what))
        }
        ControllerEvent::RolledBack(rollback) => {
            line(Paint::Red.on("rolled back"), &rollback_text(rollback))
        }
        ControllerEvent::Trouble(why) => line(Paint::Red.on("trouble"), &printable(why)),
        ControllerEvent::Recovered => line(Paint::Green.on("recovered"), ""),
        ControllerEvent::Leads => line(Paint::Bold.on("leads"), ""),
        ControllerEvent::StandsBy(why) => line("stands by".to_owned(), &printable(why)),
    }
}

fn rollback_text(rollback: &Rollback) -> String {
    let Rollback {
        from,
        to,
        forgotten,
    } = rollback;
    let blocks = count(forgotten.len(), "block");
    format!(
        "the cluster went back from resourceVersion {from} to {to}; {blocks} that it forgot are quarantined for their nodes"
    )
}

fn human_waiting(waiting: &Waiting) -> String {
    let Waiting {
        nodes,
        activity,
        for_a_person,
        refusals,
        blocked,
    } = waiting;
    let (waits, blocks) = (
        count(for_a_person.len(), "change"),
        grouped_digits(blocked.len()),
    );
    let paused = if *activity == Activity::Paused {
        ", paused"
    } else {
        ""
    };
    let mut text = format!(
        "seen  {}, {waits} for a person, {blocks} blocked{paused}\n",
        count(*nodes, "node")
    );
    let waits = for_a_person.iter().map(|change| {
        format!(
            "waits     {}  {}",
            change.target,
            why_waits(change, *activity)
        )
    });
    lines(&mut text, waits);
    lines(
        &mut text,
        refusals
            .iter()
            .map(|refusal| format!("refused   {}; {}", refusal.message, refusal.help)),
    );
    lines(
        &mut text,
        blocked
            .iter()
            .map(|(target, reason)| format!("blocked   {target}  {reason}")),
    );
    text
}

/// The first few of these lines, and how many more there are.
fn lines(text: &mut String, lines: impl ExactSizeIterator<Item = String>) {
    let more = lines.len().saturating_sub(LINES);
    lines
        .take(LINES)
        .for_each(|line| text.push_str(&format!("    {}\n", printable(&line))));
    if more > 0 {
        text.push_str(&format!(
            "    … and {} more; `cilium-ipam plan --full` shows all\n",
            grouped_digits(more)
        ));
    }
}

fn why_waits(change: &WaitingChange, activity: Activity) -> String {
    let hazard = hazard_text(change.hazard, activity);
    match change.needs_approval.as_slice() {
        [] => hazard.to_owned(),
        blocks => {
            let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
            format!("needs the approval of a person: {}", blocks.join("; "))
        }
    }
}

fn hazard_text(hazard: Hazard, activity: Activity) -> &'static str {
    match hazard {
        Hazard::None if activity == Activity::Paused => "paused",
        Hazard::None => "stands behind what waits",
        Hazard::Disruptive => "disruptive",
        Hazard::Destructive => "destructive",
    }
}

/// `None` where it is not for people.
fn as_json(event: &ControllerEvent<'_>) -> Option<Value> {
    Some(match event {
        ControllerEvent::InForce(loaded) => {
            json!({"event": "in-force", "files": loaded.documents.files.len(), "revision": loaded.revision})
        }
        ControllerEvent::Finished {
            change,
            outcome,
            waited,
        } => {
            let ChangeDocument {
                kind,
                name,
                action,
                after,
                ..
            } = ChangeDocument::from(*change);
            let event = if **outcome == Outcome::Applied {
                "written"
            } else {
                "not-written"
            };
            json!({"event": event, "kind": kind, "name": name, "action": action, "after": after, "why": fault(outcome).unwrap_or_default(), "waited_seconds": waited.as_secs_f64()})
        }
        ControllerEvent::Waiting(waiting) => waiting_as_json(waiting),
        ControllerEvent::Undone(target, pause) => {
            json!({"event": "undone", "kind": target.kind(), "name": target.name(), "left_alone_seconds": pause.as_secs()})
        }
        // The printer makes those of faults.
        ControllerEvent::Invalid(_)
        | ControllerEvent::Planned(_)
        | ControllerEvent::Sending(_)
        | ControllerEvent::Nodes(_)
        | ControllerEvent::Conflict(_) => return None,
        ControllerEvent::RolledBack(rollback) => rollback_as_json(rollback),
        ControllerEvent::Trouble(why) => json!({"event": "trouble", "why": why}),
        ControllerEvent::Recovered => json!({"event": "recovered"}),
        ControllerEvent::Leads => json!({"event": "leads"}),
        ControllerEvent::StandsBy(why) => json!({"event": "stands-by", "why": why}),
    })
}

fn waiting_as_json(waiting: &Waiting) -> Value {
    let Waiting {
        nodes,
        activity,
        for_a_person,
        refusals,
        blocked,
    } = waiting;
    let waits = for_a_person.iter().map(|change| {
        let WaitingChange {
            target,
            hazard,
            needs_approval,
        } = change;
        let hazard = hazard_text(*hazard, *activity);
        let mut object = json!({"kind": target.kind(), "name": target.name(), "hazard": hazard});
        if !needs_approval.is_empty() {
            let blocks: Vec<String> = needs_approval.iter().map(ToString::to_string).collect();
            object["needs_approval"] = blocks.into();
        }
        object
    });
    let blocked = blocked.iter().map(
        |(target, reason)| json!({"kind": target.kind(), "name": target.name(), "reason": reason}),
    );
    let refusals = refusals
        .iter()
        .map(|refusal| json!({"rule": refusal.rule.0, "message": refusal.message}));
    json!({
        "event": "seen", "nodes": nodes, "paused": *activity == Activity::Paused, "waiting": waits.collect::<Vec<_>>(),
        "refusals": refusals.collect::<Vec<_>>(), "blocked": blocked.collect::<Vec<_>>(),
    })
}

fn rollback_as_json(rollback: &Rollback) -> Value {
    let Rollback {
        from,
        to,
        forgotten,
    } = rollback;
    let forgotten = forgotten
        .iter()
        .map(|(block, node)| json!({"block": block.to_string(), "node": node.to_string()}));
    json!({"event": "rolled-back", "from": from, "to": to, "quarantined": forgotten.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_config::documents::SourceFile;
    use ipam_controller::understand;

    /// One whose news nobody prints.
    fn silent(format: Format) -> (Announcer, Receiver<Said>) {
        let (printer, said) = sync_channel(WAITING);
        (
            Announcer {
                format,
                printer,
                printed: std::thread::spawn(|| Ok(())),
                nobody_listens: Arc::default(),
            },
            said,
        )
    }

    #[test]
    fn faults_are_handed_over_as_they_are() {
        let file = SourceFile {
            path: "a.yaml".into(),
            text: "a: 1\n---\n".repeat(1_000).into(),
        };
        let loaded = understand(Documents { files: vec![file] }, Vec::new());
        let (mut human, said) = silent(Format::Human);
        human.on_event(&ControllerEvent::Invalid(&loaded));
        assert!(
            matches!(said.try_recv(), Ok(Said::Files(findings, _)) if findings == loaded.findings)
        );
        assert!(
            matches!(said.try_recv(), Ok(Said::Line { text, .. }) if text.contains("1,000 faults"))
        );
        let (mut json, said) = silent(Format::Json);
        json.on_event(&ControllerEvent::Invalid(&loaded));
        assert!(
            matches!(said.try_recv(), Ok(Said::Faults { findings, .. }) if findings == loaded.findings)
        );
    }
}
