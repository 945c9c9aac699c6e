//! Faulty files, each with its rules and its lines.

use super::{Case, cases, check};

/// Files that are better made than written down.
fn made() -> Vec<Case> {
    let nested = format!("{}a\n", "- ".repeat(100_000));
    let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let flood = "--- a\n".repeat(100_001);
    vec![
        Case::made("nothing at all", String::new(), "empty-directory", 1),
        Case::made("a binary", "\u{0}\u{1}\u{2}".into(), "yaml-syntax", 1),
        Case::made("nested blocks", nested, "yaml-too-large", 1),
        Case::made("a flood of documents", flood, "yaml-too-large", 100_001),
        Case::made("an alias bomb", alias_bomb(), "yaml-too-large", 6),
        Case::made("deep nesting", deep, "yaml-too-large", 1),
    ]
}

fn alias_bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let below = level - 1;
        let aliases = vec![format!("*a{below}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text
}

#[test]
fn each_fault_is_named_with_its_line_and_nothing_is_written() {
    check(&cases("one-fault.yaml"));
}

#[test]
fn files_that_nobody_writes_are_faulty_too() {
    check(&made());
}

#[test]
fn faults_about_load_balancer_addresses_are_named_with_their_lines() {
    check(&cases("load-balancers.yaml"));
}

#[test]
fn a_message_says_what_was_found_and_helps_with_this_field() {
    check(&cases("messages.yaml"));
}
