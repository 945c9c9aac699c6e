//! Files that are valid but probably wrong: each gives a warning with its rule, its line and a fix.

use super::{cases, check};
use crate::support::args;

#[test]
fn selectors_without_nodes_and_pools_without_blocks() {
    check(&cases("warnings.yaml"));
}

#[test]
fn a_selector_that_no_node_can_match_is_reported_once() {
    let mut cases = cases("warnings.yaml");
    cases.retain(|case| {
        case.marks
            .iter()
            .any(|mark| mark.rule == "selector-matches-nothing")
    });
    assert!(!cases.is_empty());
    for case in cases {
        let planned = case
            .folder()
            .run(&args("plan --cluster cluster.json -o json"));
        let findings = planned.expect(0).json()["findings"].to_string();
        assert!(
            !findings.contains("pool-without-nodes"),
            "{}: {findings}",
            case.what
        );
    }
}
