//! Prints what was imported: files and remarks for people, or one JSON document.

use serde::Serialize;

use super::{Manager, Trial};
use crate::cli::failure::Failure;
use crate::cli::import::Arguments;
use crate::cli::import::existing::Existing;
use crate::cli::init::words::shell;
use crate::cli::new_files::{NewFile, print_differences};
use crate::cli::{Common, Format, output};
use crate::render::{Detail, Paint, human, printable};
use ipam_core::model::count;
use ipam_core::text::one_line;
use ipam_planner::import::foreign::{ForeignPools, Remark, RemarkKind};
use ipam_planner::plan::Summary;

/// Version of the JSON: the major part changes when a reader would misunderstand.
const FORMAT_VERSION: &str = "1.0";

/// Remarks that are printed without `--show-all`.
const TOLD: usize = 20;

/// Reasons of blocked nodes that are printed.
const BLOCKED: usize = 3;

pub(super) struct Report<'r> {
    pub(super) manager: Manager,
    pub(super) arguments: &'r Arguments,
    pub(super) found: &'r ForeignPools,
    pub(super) files: &'r [NewFile],
    pub(super) trial: Option<&'r Trial>,
    pub(super) existing: &'r Existing,
    pub(super) common: &'r Common,
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
    remarks: Vec<RemarkDocument<'r>>,
    /// Counts of the plan of these files, if there is a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'r Summary>,
}

#[derive(Serialize)]
struct FileDocument<'r> {
    path: String,
    text: &'r str,
}

#[derive(Serialize)]
struct RemarkDocument<'r> {
    kind: &'static str,
    name: &'static str,
    about: &'r str,
    text: &'r str,
}

impl Report<'_> {
    pub(super) fn show(&self) -> Result<(), Failure> {
        if let Some(trial) = self.trial {
            output::talk(&trial.diagnostics);
        }
        match self.arguments.output {
            Format::Json => output::json(&self.document())?,
            Format::Human => self.human()?,
        }
        Ok(())
    }

    fn document(&self) -> Document<'_> {
        let files = self.files.iter().map(|file| FileDocument {
            path: file.path.display().to_string(),
            text: &file.text,
        });
        let remarks = self.found.all_remarks().map(|remark| RemarkDocument {
            kind: remark.kind.as_str(),
            name: remark.name.as_str(),
            about: &remark.about,
            text: &remark.text,
        });
        Document {
            format_version: FORMAT_VERSION,
            directory: self.arguments.directory.display().to_string(),
            written: self.existing.allows(self.arguments),
            files: files.collect(),
            difference: self.existing.difference(),
            remarks: remarks.collect(),
            plan: self.trial.map(|trial| &trial.document.summary),
        }
    }

    fn human(&self) -> Result<(), Failure> {
        self.remarks();
        match self.existing {
            Existing::Different(differences) => print_differences(differences)?,
            Existing::Equal => output::data(&format!(
                "{} is what the import would write; nothing was written.\n",
                printable(&self.arguments.directory.display().to_string())
            ))?,
            Existing::None if self.arguments.dry_run => output::data(&self.texts())?,
            Existing::None => output::data(&self.written())?,
        }
        Ok(())
    }

    /// The remarks that a person has to know. The files have all of them.
    fn remarks(&self) {
        let is_told = |remark: &&Remark| remark.kind != RemarkKind::Inferred;
        let told: Vec<&Remark> = self.found.all_remarks().filter(is_told).collect();
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
        let mut text = "Wrote:\n".to_owned();
        for file in self.files {
            text += &format!("  {}\n", printable(&file.path.display().to_string()));
        }
        let directory = shell(&self.arguments.directory.to_string_lossy());
        let plan = format!("cilium-ipam plan {directory}{}", self.common.flags());
        text += &format!(
            "\n{}Next steps:\n  {}   # show the plan\n",
            self.headline(),
            printable(&plan)
        );
        if !self.found.announcements.is_empty() {
            text += &format!(
                "  Apply .cilium-ipam/announcements.yaml with kubectl when {} is gone.\n",
                self.manager.name()
            );
        }
        text
    }

    /// The first lines of the plan, and why nodes cannot get a block.
    fn headline(&self) -> String {
        let Some(trial) = self.trial else {
            return String::new();
        };
        let plan = human(&trial.document, self.common.detail());
        let first = plan.lines().take_while(|line| !line.is_empty());
        let blocked: Vec<_> = trial
            .blocked
            .iter()
            .take(BLOCKED)
            .map(|reason| printable(reason))
            .collect();
        let lines: String = first
            .chain(blocked.iter().map(AsRef::as_ref))
            .map(|line| format!("  {line}\n"))
            .collect();
        format!("The plan for this cluster:\n{lines}\n")
    }
}
