//! The most memory that an expression takes before its budget is used. The only test of its
//! process, because the kernel counts a process.
#![cfg(target_os = "linux")]

use ipam_rules::{Expression, Message, Rule, Shape, Verdict, judge};
use serde_json::{Value, json};

/// Most memory of one rule beside its input, in MiB.
const MOST: u64 = 128;

/// Values of `VmHWM` and `VmRSS`, in MiB.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() / 1024
}

/// Begins to count the peak anew.
fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn input() -> Value {
    let change = |index: usize| json!({"name": format!("n{index}"), "labels": {"rack": "a"}});
    json!({
        "plan": {"changes": (0..5_000).map(change).collect::<Vec<_>>()},
        "pools": (0..5_000).collect::<Vec<_>>(),
        "nodes": {},
    })
}

#[test]
fn no_expression_takes_more_than_its_budget_allows() {
    let input = input();
    let variables = ["plan", "pools", "nodes"]
        .map(|name| (name, Shape::Any))
        .into();
    let repeated = |start: &str, step: &str| start.to_owned() + &step.repeat(50) + ".size() > 0";
    for source in [
        "plan.changes.map(a, plan.changes).size() > 0".to_owned(),
        "pools.map(a, pools.map(b, {'a': b})).size() > 0".to_owned(),
        "pools.map(a, pools.map(b, string(b))).size() > 0".to_owned(),
        "pools.map(a, pools.map(b, cidr('fd00::/64'))).size() > 0".to_owned(),
        "pools.all(a, pools.all(b, b.none == 1))".to_owned(),
        repeated("['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa']", ".map(x, x + x)"),
        repeated("[1]", ".map(x, {'a': x, 'b': x})"),
    ] {
        let rule = Rule {
            expression: Expression::compile(&source, &variables).unwrap(),
            message: Message::Expression,
        };
        reset_peak();
        let before = memory("VmRSS");
        let verdict = judge(&[&rule], &input).remove(0);
        let most = memory("VmHWM") - before;
        println!("{most} MiB: {}", &source[..source.len().min(60)]);
        assert!(most <= MOST, "{most} MiB: {source}");
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "{source}: {verdict:?}"
        );
    }
}
