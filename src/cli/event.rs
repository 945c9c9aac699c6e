//! Prints the events of `watch` and the operator: as lines for people, or as one JSON object per
//! line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::event_human::{UNKNOWN_RULES, hazard_text, human};
use super::failure::Failure;
use super::interruption::shutdown_signal;
use super::output::{self, Capped, fault};
use super::{ExitStatus, Format};
use crate::render::{Detail, diagnostics, findings_in_event, grouped};
use ipam_cluster::Rollback;
use ipam_config::documents::Documents;
use ipam_controller::apply::Outcome;
use ipam_controller::{ControllerEvent, Waiting, WaitingChange};
use ipam_core::model::Finding;
use ipam_desired::Activity;
use ipam_plan::plan::{ChangeDocument, VersionRules};

/// Size of the queue of the printer. If it is full, the controller waits for the reader.
const QUEUE: usize = 1_024;

/// Prints events in order, on a thread of its own, until the output is closed. That thread also
/// renders the faults of files, which can be many.
pub(super) struct EventPrinter {
    format: Format,
    detail: Detail,
    queue: SyncSender<Output>,
    printer: JoinHandle<std::io::Result<()>>,
    output_closed: Arc<Notify>,
}

/// An entry of the queue.
enum Output {
    /// A line for people, and an object for machines.
    Line {
        text: String,
        object: Value,
        at: Timestamp,
    },
    /// Files with findings, for people.
    Files(Vec<Finding>, Documents),
    /// Files with faults, for machines.
    Faults {
        findings: Vec<Finding>,
        revision: Option<String>,
        at: Timestamp,
    },
}

impl EventPrinter {
    pub(super) fn new(format: Format, detail: Detail) -> EventPrinter {
        let output_closed: Arc<Notify> = Arc::default();
        let (queue, outputs) = sync_channel(QUEUE);
        let closed = output_closed.clone();
        let printer = std::thread::spawn(move || {
            let printed = print(format, detail, outputs);
            if printed.is_err() {
                closed.notify_one();
            }
            printed
        });
        EventPrinter {
            format,
            detail,
            queue,
            printer,
            output_closed,
        }
    }

    /// Returns after a signal, or if printing fails.
    pub(super) fn ending(&self) -> impl Future<Output = ()> + Send + use<> {
        let output_closed = self.output_closed.clone();
        async move {
            tokio::select! {
                () = shutdown_signal() => {}
                () = output_closed.notified() => {}
            }
        }
    }

    pub(super) fn on_event(&mut self, event: &ControllerEvent<'_>) {
        let at = Timestamp::now();
        match self.format {
            Format::Json => self.send_object(event, at),
            _ => self.send_text(event, at),
        }
    }

    fn send_object(&self, event: &ControllerEvent<'_>, at: Timestamp) {
        if let ControllerEvent::Invalid(loaded) = event {
            self.send(Output::Faults {
                findings: loaded.findings.clone(),
                revision: loaded.revision.clone(),
                at,
            });
        } else if let Some(object) = as_json(event, self.detail) {
            self.send(Output::Line {
                text: String::new(),
                object,
                at,
            });
        }
    }

    fn send_text(&self, event: &ControllerEvent<'_>, at: Timestamp) {
        if let ControllerEvent::Invalid(loaded) | ControllerEvent::ConfigApplied(loaded) = event {
            self.send(Output::Files(
                loaded.findings.clone(),
                loaded.documents.clone(),
            ));
        }
        let text = human(event, self.detail);
        if !text.is_empty() {
            self.send(Output::Line {
                text,
                object: Value::Null,
                at,
            });
        }
    }

    /// Fails only if the printer has ended; [`EventPrinter::finish`] returns why.
    fn send(&self, output: Output) {
        let _ = self.queue.send(output);
    }

    /// Prints the address of a server, and what is there: `metrics` or `map`.
    pub(super) fn listening(&mut self, address: SocketAddr, serves: &str) {
        let address = address.to_string();
        let object = json!({"event": "listening", "address": address, "serves": serves});
        self.send(Output::Line {
            text: match serves {
                "map" => format!("listening  http://{address}/ with the map\n"),
                _ => format!("listening  {address}\n"),
            },
            object,
            at: Timestamp::now(),
        });
    }

    /// Waits until everything is printed.
    pub(super) fn finish(self) -> Result<ExitStatus, Failure> {
        let EventPrinter {
            format: _,
            detail: _,
            queue,
            printer,
            output_closed: _,
        } = self;
        drop(queue);
        match printer.join() {
            Ok(printed) => Ok(printed.map(|()| ExitStatus::Done)?),
            Err(_) => Err(Failure::Failed("the output cannot be printed".to_owned())),
        }
    }
}

fn print(format: Format, detail: Detail, outputs: Receiver<Output>) -> std::io::Result<()> {
    for entry in outputs {
        match entry {
            Output::Files(findings, documents) => {
                output::talk(&diagnostics(&findings, &documents, detail))
            }
            Output::Faults {
                findings,
                revision,
                at,
            } => {
                let mut object = findings_in_event(&findings);
                (object["event"], object["revision"]) = ("invalid".into(), revision.into());
                line(format, "", object, at)?;
            }
            Output::Line { text, object, at } => line(format, &text, object, at)?,
        }
    }
    Ok(())
}

fn line(format: Format, text: &str, mut object: Value, at: Timestamp) -> std::io::Result<()> {
    let at = format!("{at:.3}");
    match format {
        Format::Json => {
            object["time"] = at.into();
            output::json_line(&object)
        }
        _ => output::human(&format!("{at}  {text}")),
    }
}

/// The object of an event; `None` if it is not printed.
pub(super) fn as_json(event: &ControllerEvent<'_>, detail: Detail) -> Option<Value> {
    Some(match event {
        ControllerEvent::ConfigApplied(loaded) => {
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
        ControllerEvent::Waiting(waiting) => waiting_as_json(waiting, detail),
        ControllerEvent::Undone(target, pause) => {
            json!({"event": "undone", "kind": target.kind(), "name": target.name(), "left_alone_seconds": pause.as_secs()})
        }
        // The printer's thread builds the object of `Invalid`.
        ControllerEvent::Invalid(_)
        | ControllerEvent::Planned(_)
        | ControllerEvent::Sending(_)
        | ControllerEvent::Conflict(_) => return None,
        ControllerEvent::RolledBack(rollback) => rollback_as_json(rollback),
        ControllerEvent::Unhealthy(why) => json!({"event": "trouble", "why": why.text}),
        ControllerEvent::Recovered => json!({"event": "recovered"}),
        ControllerEvent::Leading => json!({"event": "leads"}),
        ControllerEvent::Standby(why) => json!({"event": "stands-by", "why": why}),
    })
}

/// The lists are capped; `…_count` are the exact numbers.
fn waiting_as_json(waiting: &Waiting, detail: Detail) -> Value {
    let Waiting {
        nodes,
        activity,
        for_a_person,
        refusals,
        warnings,
        blocked,
    } = waiting;
    let waits = for_a_person.iter().map(|change| {
        let WaitingChange {
            target,
            hazard,
            needs_approval,
            rules,
        } = change;
        let hazard = match rules {
            VersionRules::Known => hazard_text(*hazard, *activity),
            VersionRules::Unknown => UNKNOWN_RULES,
        };
        let mut object = json!({"kind": target.kind(), "name": target.name(), "hazard": hazard});
        if !needs_approval.is_empty() {
            let blocks: Vec<String> = needs_approval.iter().map(ToString::to_string).collect();
            object["needs_approval"] = blocks.into();
        }
        object
    });
    let waits: Vec<Value> = waits.collect();
    let blocked_objects: Vec<Value> = blocked
        .iter()
        .map(|(target, reason)| {
            json!({"kind": target.kind(), "name": target.name(), "reason": reason})
        })
        .collect();
    let refusal_objects = refusals
        .iter()
        .map(|refusal| json!({"rule": refusal.rule.0, "message": refusal.message}));
    json!({
        "event": "seen",
        "nodes": nodes,
        "paused": *activity == Activity::Paused,
        "warnings": warnings.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect::<Vec<_>>(),
        "waiting": first_of_each(&waits, |one| one["hazard"].to_string(), detail),
        "waiting_count": for_a_person.len(),
        "refusals": Capped::new(refusal_objects, detail).shown,
        "refusal_count": refusals.len(),
        "blocked": first_of_each(&blocked_objects, |one| one["reason"].to_string(), detail),
        "blocked_count": blocked.len(),
    })
}

/// The first entries of each of the first causes.
fn first_of_each(
    entries: &[Value],
    cause: impl Fn(&Value) -> String,
    detail: Detail,
) -> Vec<Value> {
    let causes = Capped::new(grouped(entries.iter().map(|one| (cause(one), one))), detail);
    let shown = causes
        .shown
        .into_iter()
        .flat_map(|(_, entries)| Capped::new(entries, detail).shown);
    shown.cloned().collect()
}

fn rollback_as_json(rollback: &Rollback) -> Value {
    let Rollback {
        from,
        to,
        forgotten,
    } = rollback;
    let quarantined: Vec<Value> = forgotten
        .iter()
        .map(|(block, node)| json!({"block": block.to_string(), "node": node.to_string()}))
        .collect();
    json!({"event": "rolled-back", "from": from, "to": to, "quarantined": quarantined})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_config::documents::SourceFile;
    use ipam_controller::check_documents;

    /// A printer that prints nothing, and its queue.
    fn silent(format: Format) -> (EventPrinter, Receiver<Output>) {
        let (queue, outputs) = sync_channel(QUEUE);
        (
            EventPrinter {
                format,
                detail: Detail::Short,
                queue,
                printer: std::thread::spawn(|| Ok(())),
                output_closed: Arc::default(),
            },
            outputs,
        )
    }

    #[test]
    fn faults_are_handed_over_as_they_are() {
        let file = SourceFile {
            path: "a.yaml".into(),
            text: "apiVersion: cilium-ipam.io/v1alpha1\nkind: Pool\n---\n"
                .repeat(1_000)
                .into(),
        };
        let loaded = check_documents(Documents { files: vec![file] }, Vec::new());
        let (mut human, outputs) = silent(Format::Human);
        human.on_event(&ControllerEvent::Invalid(&loaded));
        assert!(
            matches!(outputs.try_recv(), Ok(Output::Files(findings, _)) if findings == loaded.findings)
        );
        assert!(
            matches!(outputs.try_recv(), Ok(Output::Line { text, .. }) if text.contains("1,000 faults"))
        );
        let (mut json, outputs) = silent(Format::Json);
        json.on_event(&ControllerEvent::Invalid(&loaded));
        assert!(
            matches!(outputs.try_recv(), Ok(Output::Faults { findings, .. }) if findings == loaded.findings)
        );
    }
}

#[cfg(test)]
mod event_json_tests {
    use super::*;
    use ipam_plan::plan::Target;

    fn waiting() -> Waiting {
        let target = |number: usize| Target::Node(format!("n{number}").parse().unwrap());
        let blocked = |number| (target(number), "the pool is full".to_owned());
        let mut blocked: Vec<_> = (0..2_000).map(blocked).collect();
        blocked.push((target(2_000), "another reason".to_owned()));
        Waiting {
            nodes: 2_001,
            activity: Activity::Active,
            for_a_person: (0..2_000)
                .map(|number| WaitingChange {
                    target: target(number),
                    hazard: ipam_core::model::Hazard::Disruptive,
                    needs_approval: Vec::new(),
                    rules: VersionRules::Known,
                })
                .collect(),
            refusals: Vec::new(),
            warnings: Vec::new(),
            blocked,
        }
    }

    #[test]
    fn a_line_is_short_however_many_nodes_have_one_cause() {
        let event = ControllerEvent::Waiting(&waiting());
        let object = as_json(&event, Detail::Short).unwrap();
        let length = |name: &str| object[name].as_array().unwrap().len();
        assert_eq!((length("waiting"), length("blocked")), (10, 11));
        assert_eq!(object["waiting_count"], 2_000);
        assert_eq!(object["blocked_count"], 2_001);
        assert_eq!(object["blocked"][10]["reason"], "another reason");
        let full = as_json(&event, Detail::Full).unwrap();
        assert_eq!(full["blocked"].as_array().unwrap().len(), 2_001);
    }

    #[test]
    fn people_read_one_line_for_one_cause() {
        let text =
            crate::cli::event_human::human(&ControllerEvent::Waiting(&waiting()), Detail::Short);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.contains("Node/n9 … and 1,990 more  the pool is full"),
            "{text}"
        );
        assert!(
            text.contains("blocked   Node/n2000  another reason"),
            "{text}"
        );
    }
}
