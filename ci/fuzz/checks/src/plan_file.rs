//! A saved plan: what a reader makes of one that may have been written by anybody.
//!
//! Its digest keeps slips out, not forgers. So every plan is sealed anew, and what lies behind the
//! digest is reached.

use crate::safe_text::assert_harmless;
use crate::{fixtures, plan_invariants};
use ipam_cilium::observed::Observed;
use ipam_controller::Job;
use ipam_plan::plan::{
    FORMAT_VERSION, Intent, Plan, PlanDocument, PlanFileError, Staleness, still_wanted,
};

/// The bytes are the text of the file.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match PlanDocument::parse(text) {
        Ok(_) => {}
        Err(PlanFileError::NotAPlan(error)) => drop(error.to_string()),
        Err(error) => assert_harmless("the refusal", &error.to_string()),
    }
    let Ok(document) = serde_json::from_str::<PlanDocument>(text) else {
        return;
    };
    for intent in [Intent::Files, Intent::Undo] {
        let format_version = FORMAT_VERSION.to_owned();
        let Some(document) = sealed(&PlanDocument {
            format_version,
            intent,
            ..document.clone()
        }) else {
            return;
        };
        plan_invariants::assert_printable(&document);
        fixtures::clusters()
            .iter()
            .for_each(|observed| assert_judged(&document, observed));
    }
}

/// The plan as this version would have saved and read it; `None` where it is refused for another
/// reason than its digest.
fn sealed(document: &PlanDocument) -> Option<PlanDocument> {
    let json = serde_json::to_string(document).expect("a plan is JSON");
    let sealed = PlanDocument::resealed(&json).expect("a plan that was read is one");
    let json = serde_json::to_string(&sealed).expect("a plan is JSON");
    match PlanDocument::parse(&json) {
        Ok(read) => {
            assert!(read == sealed, "a plan is another one after it was saved");
            Some(read)
        }
        Err(PlanFileError::Digest) => panic!("a digest that was made to fit does not"),
        Err(_) => None,
    }
}

/// Held against a cluster as `apply` does it.
fn assert_judged(saved: &PlanDocument, observed: &Observed) {
    let directory = fixtures::directory();
    let waivers = saved
        .waivers
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let fresh = Job::saved(directory, Some(saved), &waivers).plan(observed);
    if saved.intent == Intent::Undo {
        plan_invariants::assert_changes(&fresh.changes, &directory.desired, observed);
        plan_invariants::assert_document(&fresh);
    }
    assert_wanted(saved, &fresh, observed);
}

/// Only freshly planned changes of the file are used, and every other one is reported.
fn assert_wanted(saved: &PlanDocument, fresh: &Plan, observed: &Observed) {
    match still_wanted(saved, fresh, observed) {
        Staleness::Current {
            changes,
            further,
            done,
            gone,
            blocked,
        } => {
            assert!(
                changes.iter().all(|change| fresh.changes.contains(change)),
                "not planned: {changes:?}"
            );
            assert_eq!(
                changes.len() + done + gone + blocked.len(),
                saved.changes.len(),
                "each saved change is reported"
            );
            assert_eq!(
                changes.len() + further,
                fresh.changes.len(),
                "each planned change is reported"
            );
        }
        Staleness::Stale(why) => {
            assert!(!why.is_empty(), "stale without a reason");
            why.iter()
                .for_each(|line| assert_harmless("the difference", line));
        }
    }
}
