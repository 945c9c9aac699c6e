//! Output for people and programs: the plan, tables and diagnostics as text. Returns text; never
//! prints and never decides.

mod capacity;
mod causes;
mod comment;
mod comment_apply;
mod comment_disruptive;
mod comment_domains;
mod comment_refusals;
mod comment_risks;
mod comment_services;
mod comment_verdict;
mod diagnostic;
mod examination;
mod examination_markdown;
mod excerpt;
mod explanation;
mod finding_formats;
mod headlines;
mod history;
mod human;
pub mod map;
mod markdown;
mod markdown_page;
mod markup;
mod migration;
mod migration_status;
mod migration_status_text;
mod model;
mod phrase;
mod plan_causes;
mod plan_sections;
mod plan_services;
mod policy_test;
mod report;
mod simulation;
mod terminal;
mod text;
mod upgrade;
mod wrap;

use ipam_plan::plan::{EditDocument, PlanDocument};

pub use capacity::{Columns, capacity, capacity_markdown};
pub(crate) use causes::grouped;
pub use comment::{Circumstances, Occasion, Unattended, comment, comment_on_findings, plan_report};
pub use comment_apply::{LeftChange, Verdict, apply_comment, drift_is_gone, drift_issue};
pub use comment_verdict::Check;
pub use diagnostic::diagnostics;
pub use examination::{ExaminationDocument, examination, sarif};
pub use examination_markdown::examination_markdown;
pub use explanation::explanation;
pub use finding_formats::{
    FindingDocuments, OmittedDocument, annotations, finding_documents, findings_in_event, junit,
};
pub use history::history;
pub use human::{Detail, SHOWN_DIGITS, human};
pub(crate) use human::{limit, named};
pub use ipam_core::text::{by_name, natural_order};
pub use markdown::{markdown, markdown_findings};
pub use markdown_page::PageLimit;
pub use migration::{migration, migration_markdown};
pub use migration_status::MigrationStatus;
pub use migration_status_text::migration_status;
pub use policy_test::{PolicyTestDocument, policy_test, policy_test_junit};
pub use report::{ReportHeader, report};
pub use simulation::{simulation, simulation_markdown};
pub use text::{
    Paint, count, grouped_digits, log_text, printable, rule_list, rule_page, sanitized_json, table,
};
pub use upgrade::{upgrade, upgrade_markdown};
pub use wrap::{terminal_width, wrapped};

/// Why some changes of a plan cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irreversible {
    /// The API server accepts the field only once.
    WriteOnce,
    /// Fields are deleted that the files do not have.
    Deleted,
    /// Agents use what is written.
    InUse,
}

impl Irreversible {
    pub fn of(plan: &PlanDocument) -> Irreversible {
        let irreversible = plan.changes.iter().filter(|change| change.undo.is_none());
        let all = |is_it: fn(&EditDocument) -> bool| {
            irreversible.clone().all(|change| is_it(&change.edit))
        };
        if all(|edit| matches!(edit, EditDocument::NodeSpec(_))) {
            Irreversible::WriteOnce
        } else if all(|edit| matches!(edit, EditDocument::PodPool(_))) {
            Irreversible::Deleted
        } else {
            Irreversible::InUse
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Irreversible::WriteOnce => "spec.podCIDRs is write-once",
            Irreversible::Deleted => "they delete fields that the files do not have",
            Irreversible::InUse => "agents use the fields that they write",
        }
    }
}
