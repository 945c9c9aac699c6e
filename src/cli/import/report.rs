//! Prints what was imported: files and notes for people, or one JSON document.

use serde::Serialize;

use super::Arguments;
use super::existing::Existing;
use super::settle::Settled;
use crate::cli::failure::Failure;
use crate::cli::init::words::shell;
use crate::cli::new_files::print_differences;
use crate::cli::{Common, Format, output};
use crate::render::{Paint, human, printable};
use ipam_planner::plan::{FindingDocument, Summary};

/// Version of the JSON: the major part changes when a reader would misunderstand.
const FORMAT_VERSION: &str = "1.0";

/// Reasons of blocked nodes that are printed.
const TOLD: usize = 3;

pub(super) struct Report<'r> {
    arguments: &'r Arguments,
    settled: &'r Settled,
    existing: &'r Existing,
    common: &'r Common,
}

#[derive(Serialize)]
struct Document<'r> {
    format_version: &'static str,
    directory: String,
    /// Whether the files were written.
    written: bool,
    files: Vec<FileDocument<'r>>,
    /// The difference to the files that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    notes: Vec<String>,
    /// Counts of the plan of these files.
    plan: &'r Summary,
    findings: &'r [FindingDocument],
}

#[derive(Serialize)]
struct FileDocument<'r> {
    path: String,
    text: &'r str,
}

impl<'r> Report<'r> {
    pub(super) fn new(
        arguments: &'r Arguments,
        settled: &'r Settled,
        existing: &'r Existing,
        common: &'r Common,
    ) -> Report<'r> {
        Report {
            arguments,
            settled,
            existing,
            common,
        }
    }

    pub(super) fn show(&self) -> Result<(), Failure> {
        output::talk(&self.settled.diagnostics);
        match self.arguments.output {
            Format::Json => output::json(&self.document())?,
            Format::Human => self.human()?,
        }
        Ok(())
    }

    fn document(&self) -> Document<'_> {
        let files = self.settled.files.iter().map(|file| FileDocument {
            path: file.path.display().to_string(),
            text: &file.text,
        });
        Document {
            format_version: FORMAT_VERSION,
            directory: self.arguments.directory.display().to_string(),
            written: self.existing.allows(self.arguments),
            files: files.collect(),
            difference: self.existing.difference(),
            notes: self.notes(),
            plan: &self.settled.document.summary,
            findings: &self.settled.document.findings,
        }
    }

    fn notes(&self) -> Vec<String> {
        let remarks = self
            .settled
            .inferred
            .remarks
            .iter()
            .map(ToString::to_string);
        let blocked = self.settled.blocked.iter().take(TOLD).cloned();
        remarks.chain(blocked).collect()
    }

    fn human(&self) -> Result<(), Failure> {
        for note in self.notes() {
            output::warn(&format!(
                "{}: {}",
                Paint::Yellow.on("note"),
                printable(&note)
            ));
        }
        match self.existing {
            Existing::Different(differences) => print_differences(differences)?,
            Existing::Equal => output::data(&format!(
                "{} is what the cluster's import would write; nothing was written.\n",
                printable(&self.arguments.directory.display().to_string())
            ))?,
            Existing::None if self.arguments.dry_run => output::data(&self.texts())?,
            Existing::None => output::data(&self.written())?,
        }
        Ok(())
    }

    fn texts(&self) -> String {
        let files = self.settled.files.iter();
        let text = files.map(|file| format!("==> {} <==\n{}\n", file.path.display(), file.text));
        text.collect::<String>() + &self.headline()
    }

    fn written(&self) -> String {
        let mut text = "Wrote:\n".to_owned();
        for file in &self.settled.files {
            text += &format!("  {}\n", printable(&file.path.display().to_string()));
        }
        let directory = shell(&self.arguments.directory.to_string_lossy());
        let flags = self.common.flags();
        text += &format!("\n{}\nNext steps:\n", self.headline());
        let plan = format!("cilium-ipam plan {directory}{flags}");
        let again = format!("cilium-ipam import {directory}{flags}");
        let width = plan.len().max(again.len());
        text += &format!(
            "  {}   # show the plan\n",
            printable(&format!("{plan:width$}"))
        );
        text += &format!(
            "  {}   # show what differs later\n",
            printable(&format!("{again:width$}"))
        );
        text
    }

    /// The first lines of the plan.
    fn headline(&self) -> String {
        let plan = human(&self.settled.document, self.common.detail());
        let first = plan.lines().take_while(|line| !line.is_empty());
        let first: String = first.map(|line| format!("  {line}\n")).collect();
        format!("The plan for this cluster:\n{first}")
    }
}
