//! The time that an expression takes before its budget is used.
#![cfg(target_os = "linux")]

use ipam_rules::{Expression, Message, Rule, Shape, Verdict, judge};
use serde_json::{Value, json};

/// Processor time of this process in milliseconds.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum()
}

/// Letters `a` and `b` without a period, so that each position has its own state of a pattern.
fn letters(count: usize) -> String {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state & 4 == 0 { 'a' } else { 'b' }
    };
    (0..count).map(|_| next()).collect()
}

fn input() -> Value {
    let change = |index: usize| json!({"name": format!("n{index}"), "reason": "a".repeat(400), "labels": {"rack": "a"}});
    json!({
        "plan": {"changes": (0..5_000).map(change).collect::<Vec<_>>()},
        "pools": (0..5_000).collect::<Vec<_>>(),
        "nodes": {"long": letters(300_000), "short": letters(300)},
    })
}

fn sources() -> Vec<String> {
    let inner = [
        "true",
        "y.none == 1",
        "pools[y] == y",
        "string(y) != \"x\"",
        "int(\"12345\") == 12345",
        "!plan.changes[y].reason.contains(\"aaaaaaaab\")",
        "type(y) == int",
        "[y].size() == 1",
        "nodes.long.matches(\"[ab]*a[ab]{12}c\") || true",
        "nodes.long.matches(\"[ab]*a[ab]{30}c\") || true",
        "nodes.short.matches(\"[ab]*a[ab]{400}c\") || true",
        "nodes.short.matches(\"([ab]{1,20}){1,10}c\") || true",
        "plan.changes[y].reason.matches(\"(a?){200}a{200}\") || true",
        "plan.changes[y].name.matches(\"^[a-z]*$\") || true",
        "isIP(\"2001:0db8:0000:0000:0000:0000:0000:\" + string(y))",
        "ip(\"2001:db8::\" + string(y)).family() == 6 || true",
        "string(ip(\"2001:0db8:0000:0000:0000:0000:0000:0001\")) == \"x\" || true",
        "ip.isCanonical(\"2001:0db8:0000:0000:0000:0000:0000:0001\") || true",
        "cidr(\"2001:db8::/32\").containsIP(\"2001:0db8:0000:0000:0000:0000:0000:0001\")",
        "cidr(\"2001:db8::/32\").containsCIDR(cidr(\"2001:0db8:1:0::1/64\").masked())",
        "isIP(plan.changes[y].reason) || true",
        "\"a\".matches(string(x) + string(y) + \"(a?){200}a{200}\") || true",
    ];
    let mut sources: Vec<String> = inner
        .iter()
        .map(|inner| format!("pools.all(x, pools.all(y, {inner}))"))
        .collect();
    let alternatives = "a|".repeat(480);
    sources.push(format!(
        "pools.all(x, pools.all(y, \"a\".matches(string(x) + string(y) + \"{alternatives}\")))"
    ));
    let names = "plan.changes[0].labels.rack != \"\" && ".repeat(30);
    sources.push(format!("pools.all(x, pools.all(y, {names} true))"));
    sources.push("pools.all(x, plan.?changes.hasValue())".to_owned());
    sources.push("pools.all(x, plan.changes == plan.changes)".to_owned());
    sources
}

#[test]
#[ignore = "slow: prints seconds of processor time; run it in a release build"]
fn every_expression_is_stopped() {
    let input = input();
    let variables = ["plan", "pools", "nodes"]
        .map(|name| (name, Shape::Any))
        .into();
    for source in sources() {
        let rule = Rule {
            expression: Expression::compile(&source, &variables).unwrap(),
            message: Message::Expression,
        };
        let before = processor_time();
        let verdict = judge(&[&rule], &input).remove(0);
        println!(
            "{} ms: {}",
            processor_time() - before,
            &source[..source.len().min(90)]
        );
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "{source}: {verdict:?}"
        );
    }
}
