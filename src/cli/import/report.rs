//! Writes and prints what was imported: files and remarks for people, or one JSON document.

use serde::Serialize;

use super::Arguments;
use super::existing::{self, Existing};
use super::foreign::Manager;
use super::settle::{Trial, broken};
use crate::cli::failure::Failure;
use crate::cli::init::words::shell;
use crate::cli::new_files::trial::first_lines;
use crate::cli::new_files::{
    FileDocument, NewFile, next_steps, print_differences, write_all, wrote,
};
use crate::cli::{Common, ExitStatus, Format, output};
use crate::render::{Detail, Paint, printable};
use ipam_core::model::count;
use ipam_core::text::one_line;
use ipam_import::import::Inferred;
use ipam_import::import::foreign::{ForeignPools, Remark, RemarkKind};
use ipam_plan::plan::{FindingDocument, Summary};

/// Version of the JSON: the major part changes when a reader would misunderstand.
const FORMAT_VERSION: &str = "1.0";

/// Limit of the remarks that are printed without `--show-all`.
const TOLD: usize = 20;

/// Limit of the reasons of blocked nodes that are printed.
const BLOCKED: usize = 3;

/// The source of the imported files.
#[derive(Clone, Copy)]
pub(super) enum Imported<'r> {
    Cluster(&'r Inferred),
    Foreign(Manager, &'r ForeignPools),
}

pub(super) struct Report<'r> {
    pub(super) arguments: &'r Arguments,
    pub(super) common: &'r Common,
    pub(super) imported: Imported<'r>,
    pub(super) files: &'r [NewFile],
    /// `None` without a cluster.
    pub(super) trial: Option<&'r Trial>,
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
    /// Of a running cluster, without `--from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<String>>,
    /// With `--from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    remarks: Option<Vec<RemarkDocument<'r>>>,
    /// Counts of the plan of these files, if there is a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'r Summary>,
    /// Of that plan, without `--from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<&'r Vec<FindingDocument>>,
}

#[derive(Serialize)]
struct RemarkDocument<'r> {
    kind: &'static str,
    name: &'static str,
    about: &'r str,
    text: &'r str,
}

impl<'r> From<&'r Remark> for RemarkDocument<'r> {
    fn from(remark: &'r Remark) -> RemarkDocument<'r> {
        RemarkDocument {
            kind: remark.kind.as_str(),
            name: remark.name.as_str(),
            about: &remark.about,
            text: &remark.text,
        }
    }
}

impl Report<'_> {
    /// Writes the files if the directory has none, and prints what was done.
    pub(super) fn finish(&self) -> Result<ExitStatus, Failure> {
        let directory = &self.arguments.directory;
        let existing = existing::compare(directory, self.files, self.common.detail())?;
        if existing.allows(self.arguments) {
            write_all(self.files)?;
        }
        if let Some(trial) = self.trial {
            output::talk(&trial.diagnostics);
        }
        match self.arguments.output {
            Format::Json => output::json(&self.document(&existing))?,
            _ => self.human(&existing)?,
        }
        let errors = self.trial.map_or(0, |trial| trial.document.summary.errors);
        let is_broken = match self.imported {
            Imported::Cluster(inferred) => !inferred.broken.is_empty(),
            Imported::Foreign(..) => false,
        };
        match existing {
            Existing::Different(_) => Err(Failure::Failed(self.differs())),
            Existing::None | Existing::Equal if errors > 0 || is_broken => Ok(ExitStatus::Findings),
            Existing::None | Existing::Equal => Ok(ExitStatus::Done),
        }
    }

    fn name(&self) -> &'static str {
        match self.imported {
            Imported::Cluster(_) => "the cluster's import",
            Imported::Foreign(..) => "the import",
        }
    }

    fn differs(&self) -> String {
        let advice = match self.imported {
            Imported::Cluster(_) => "To import anew, name another directory",
            Imported::Foreign(..) => "Name another directory, such as a new one below it",
        };
        format!(
            "{} differs from {}; nothing was written. {advice}",
            self.arguments.directory.display(),
            self.name()
        )
    }

    fn document(&self, existing: &Existing) -> Document<'_> {
        let plan = self.trial.map(|trial| &trial.document);
        let (notes, remarks, findings) = match self.imported {
            Imported::Cluster(inferred) => (
                Some(self.notes(inferred)),
                None,
                plan.map(|plan| &plan.findings),
            ),
            Imported::Foreign(_, found) => {
                let remarks = found.all_remarks().map(RemarkDocument::from);
                (None, Some(remarks.collect()), None)
            }
        };
        Document {
            format_version: FORMAT_VERSION,
            directory: self.arguments.directory.display().to_string(),
            written: existing.allows(self.arguments),
            files: self.files.iter().map(FileDocument::from).collect(),
            difference: existing.difference(),
            notes,
            remarks,
            plan: plan.map(|plan| &plan.summary),
            findings,
        }
    }

    fn human(&self, existing: &Existing) -> Result<(), Failure> {
        match self.imported {
            Imported::Cluster(inferred) => {
                self.notes(inferred)
                    .iter()
                    .for_each(|note| output::note(note));
            }
            Imported::Foreign(_, found) => self.remarks(found),
        }
        match existing {
            Existing::Different(differences) => print_differences(differences)?,
            Existing::Equal => output::human(&format!(
                "{} is what {} would write; nothing was written.\n",
                printable(&self.arguments.directory.display().to_string()),
                self.name()
            ))?,
            Existing::None if self.arguments.dry_run => output::data(&self.texts())?,
            Existing::None => output::human(&self.written())?,
        }
        Ok(())
    }

    fn notes(&self, inferred: &Inferred) -> Vec<String> {
        let remarks = inferred.remarks.iter().map(ToString::to_string);
        let broken = broken(inferred);
        let blocked = self.trial.iter().flat_map(|trial| &trial.blocked);
        remarks
            .chain(broken)
            .chain(blocked.take(BLOCKED).cloned())
            .collect()
    }

    /// The remarks that a person has to know. The files have all of them.
    fn remarks(&self, found: &ForeignPools) {
        let is_told = |remark: &&Remark| remark.kind != RemarkKind::Inferred;
        let told: Vec<&Remark> = found.all_remarks().filter(is_told).collect();
        let shown = match self.common.detail() {
            Detail::Short => TOLD,
            Detail::Full => told.len(),
        };
        for remark in told.iter().take(shown) {
            let word = match remark.kind {
                RemarkKind::Inferred => "note",
                RemarkKind::ToDo => "to do",
                RemarkKind::LeftOut => "left out",
            };
            let text = format!("{}: {}", remark.about, remark.text);
            output::warn(&format!("{}: {}", Paint::Yellow.on(word), one_line(&text)));
        }
        if told.len() > shown {
            output::warn(&format!(
                "… and {}; --show-all shows all",
                count(told.len() - shown, "more remark")
            ));
        }
    }

    fn texts(&self) -> String {
        let files = self.files.iter();
        let text = files.map(|file| format!("==> {} <==\n{}\n", file.path.display(), file.text));
        text.collect::<String>() + &self.headline()
    }

    fn written(&self) -> String {
        let directory = shell(&self.arguments.directory.to_string_lossy());
        let flags = self.common.flags();
        let plan = format!("cilium-ipam plan {directory}{flags}");
        let plan = (plan, "show the plan");
        let steps = match self.imported {
            Imported::Cluster(_) => {
                let again = format!("cilium-ipam import {directory}{flags}");
                let steps = next_steps(&[plan, (again, "show what differs later")]);
                format!("\n{steps}")
            }
            Imported::Foreign(manager, found) => {
                let mut steps = next_steps(&[plan]);
                if !found.announcements.is_empty() {
                    steps += &format!(
                        "  Apply .cilium-ipam/announcements.yaml with kubectl when {} is gone.\n",
                        manager.name()
                    );
                }
                steps
            }
        };
        format!("{}\n{}{steps}", wrote(self.files), self.headline())
    }

    /// The first lines of the plan; of another manager, also why nodes cannot get a block.
    fn headline(&self) -> String {
        let Some(trial) = self.trial else {
            return String::new();
        };
        let lines = first_lines(&trial.document, self.common.detail());
        let mut text = format!("The plan for this cluster:\n{lines}");
        if let Imported::Foreign(..) = self.imported {
            for reason in trial.blocked.iter().take(BLOCKED) {
                text += &format!("  {}\n", printable(reason));
            }
            text.push('\n');
        }
        text
    }
}
