//! A directory of YAML files: reading, checking, planning and printing.

use crate::safe_text::{assert_harmless, assert_harmless_but_colours};
use crate::{fixtures, plan_invariants};
use cilium_ipam::render::{Detail, PageLimit, diagnostics, finding_documents, markdown_findings};
use ipam_cilium::observed::Observed;
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::{Loaded, check_documents};
use ipam_core::model::{Finding, Origin};
use ipam_desired::Desired;
use ipam_plan::plan::{PlanDocument, plan};

/// Between two files. YAML does not allow a form feed anywhere, so nothing is lost by it.
const SEPARATOR: char = '\u{c}';
const PATHS: [&str; 3] = ["pools/a.yaml", "pools/b.yaml", "policy.yaml"];

/// The bytes are up to three files.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parts = text.splitn(PATHS.len(), SEPARATOR).zip(PATHS);
    let files = parts.map(|(text, path)| SourceFile {
        path: path.into(),
        text: text.into(),
    });
    let documents = Documents {
        files: files.collect(),
    };
    let loaded = check_documents(documents, Vec::new());
    assert_findings(&loaded.findings, &loaded.documents);
    if loaded.has_errors() {
        return;
    }
    let backwards = Documents {
        files: loaded.documents.files.iter().rev().cloned().collect(),
    };
    let again = check_documents(backwards, Vec::new()).desired;
    for observed in fixtures::clusters() {
        assert_planned(&loaded, &again, observed);
    }
}

fn assert_planned(loaded: &Loaded, again: &Desired, observed: &Observed) {
    let planned = plan(&loaded.desired, observed, loaded.findings.clone());
    plan_invariants::assert_plan(&planned, &loaded.desired, observed);
    assert_findings(&planned.findings, &loaded.documents);
    let twin = plan(again, observed, loaded.findings.clone());
    assert!(
        PlanDocument::new(&planned, "pools") == PlanDocument::new(&twin, "pools"),
        "the order of files matters"
    );
}

/// Each has its words and its place, and every form of them is harmless.
fn assert_findings(findings: &[Finding], documents: &Documents) {
    for finding in findings {
        assert!(
            !finding.message.is_empty() && !finding.help.is_empty(),
            "{finding:?}"
        );
        assert!(finding.rule.0 != "internal-error", "{finding:?}");
        let related = finding.related.iter().map(|label| &label.origin);
        finding
            .origin
            .iter()
            .chain(related)
            .for_each(|origin| assert_place(origin, documents));
    }
    assert_harmless_but_colours(
        "the diagnostics",
        &diagnostics(findings, documents, Detail::Full),
    );
    let told = finding_documents(findings, documents, Detail::Full);
    serde_json::to_string(&told).expect("findings are JSON");
    assert_harmless(
        "the Markdown",
        &markdown_findings(&told.findings, Detail::Full, PageLimit::COMMENT),
    );
}

fn assert_place(origin: &Origin, documents: &Documents) {
    let file = documents.files.iter().find(|file| file.path == origin.file);
    let text = &file.expect("a finding is about a file that was read").text;
    assert!(
        text.get(origin.byte_range()).is_some(),
        "{origin:?} is no place of its file"
    );
    let lines = text.split('\n').count();
    assert!(
        (1..=lines).contains(&(origin.line as usize)) && origin.column >= 1,
        "{origin:?} of {lines} lines"
    );
}
