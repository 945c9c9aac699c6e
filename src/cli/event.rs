//! Prints the events of `watch` and the operator: as lines for people, or as one JSON object per
//! line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::event_human::human;
use super::event_json::as_json;
use super::failure::Failure;
use super::{ExitStatus, Format, output};
use crate::render::{Detail, diagnostics, findings_in_event};
use ipam_config::documents::Documents;
use ipam_controller::ControllerEvent;
use ipam_core::model::Finding;

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

    /// Is notified once if printing fails.
    pub(super) fn output_closed(&self) -> Arc<Notify> {
        self.output_closed.clone()
    }

    pub(super) fn on_event(&mut self, event: &ControllerEvent<'_>) {
        let at = Timestamp::now();
        match self.format {
            Format::Json => self.send_object(event, at),
            Format::Human => self.send_text(event, at),
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
            Err(_) => Err(Failure::Failed(
                "the program's output cannot be printed".to_owned(),
            )),
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
        Format::Human => output::data(&format!("{at}  {text}")),
        Format::Json => {
            object["time"] = at.into();
            output::json_line(&object)
        }
    }
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
            text: "a: 1\n---\n".repeat(1_000).into(),
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
