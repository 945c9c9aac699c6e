//! What people and programs read: the plan, tables and diagnostics as text. Gives text, prints
//! nothing, decides nothing.

mod causes;
mod diagnostic;
mod examination;
mod excerpt;
mod explanation;
mod findings;
mod headlines;
mod human;
mod human_lb;
mod human_misplaced;
mod human_pod_pools;
mod human_ports;
mod junit;
mod log_command;
mod manifest_diff;
mod markdown;
mod markdown_waiting;
mod markup;
mod table;
mod text;
mod told;

use ipam_planner::plan::PlanDocument;

pub use diagnostic::diagnostics;
pub use examination::{ExaminationDocument, examination, sarif};
pub use explanation::explanation;
pub use human::{Detail, human};
pub use junit::junit;
pub use log_command::log_text;
pub use markdown::{markdown, markdown_findings};
pub use table::table;
pub use text::{Paint, count, harmless_json, printable};
pub use told::{FindingDocuments, OmittedDocument, finding_documents, findings_in_event};

/// Why some of its changes cannot be taken back.
pub fn why_irreversible(plan: &PlanDocument) -> &'static str {
    let irreversible = plan.changes.iter().filter(|change| change.undo.is_none());
    let all = |path: &str| irreversible.clone().all(|change| change.write_path == path);
    match (all("node-spec"), all("pod-ip-pool")) {
        (true, _) => "spec.podCIDRs is write-once",
        (_, true) => "they are as the files say, so change the files back",
        (false, false) => "an agent may start on what they write",
    }
}
