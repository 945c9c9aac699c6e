//! Invariants of every plan, for any input: those of `worlds`, and that every form of it is harmless.

use crate::safe_text::{assert_harmless, assert_harmless_but_colours};
use cilium_ipam::render::{Detail, PageLimit, human, markdown, sanitized_json};
use ipam_cilium::observed::Observed;
use ipam_desired::Desired;
use ipam_plan::plan::{Change, Plan, PlanDocument};
use worlds::invariants;

/// The longest comment that the large Git hosts accept, in characters.
const LONGEST_COMMENT: usize = 65_535;

/// All of it, for a plan that was made from files.
pub(crate) fn assert_plan(plan: &Plan, desired: &Desired, observed: &Observed) {
    invariants::assert_none(&invariants::of_plan(plan, desired, observed));
    let moved = assert_document(plan).summary.moved;
    assert_eq!(moved, 0, "nothing moves by itself");
}

/// What must hold for changes of any plan.
pub(crate) fn assert_changes(changes: &[Change], desired: &Desired, observed: &Observed) {
    invariants::assert_none(&invariants::of_changes(changes, desired, observed));
}

/// Asserts that saving a plan does not change its document, and that every form of the document is
/// harmless. Returns the document.
pub(crate) fn assert_document(plan: &Plan) -> PlanDocument {
    let document = PlanDocument::new(plan, "pools");
    let json = serde_json::to_string_pretty(&document).expect("a plan is JSON");
    let read = PlanDocument::parse(&json).expect("a saved plan is readable");
    assert!(read == document, "a plan is another one after it was saved");
    let harmless = sanitized_json(&json);
    assert_harmless("the JSON", &harmless);
    assert!(
        PlanDocument::parse(&harmless).is_ok_and(|read| read == document),
        "harmless JSON says something else"
    );
    assert_printable(&document);
    for detail in [Detail::Short, Detail::Full] {
        assert!(
            markdown(&document, detail, PageLimit::COMMENT).len() <= LONGEST_COMMENT,
            "the comment is too long"
        );
    }
    document
}

/// What people see of it is harmless.
pub(crate) fn assert_printable(document: &PlanDocument) {
    for detail in [Detail::Short, Detail::Full] {
        assert_harmless(
            "the Markdown",
            &markdown(document, detail, PageLimit::COMMENT),
        );
        assert_harmless_but_colours("the plan", &human(document, detail));
    }
}
