//! Prices of what takes long, and how rules share what they may cost.

use super::*;

fn rule(source: &str) -> Rule {
    Rule {
        expression: compile(source).unwrap(),
        message: Message::Expression,
    }
}

/// Whether an expression ends within this budget.
fn ends_within(budget: u64, source: &str, input: &Value) -> bool {
    match within(budget, source, input) {
        Verdict::Holds => true,
        Verdict::Failed(Failure::TooCostly) => false,
        verdict => panic!("{source}: {verdict:?}"),
    }
}

#[test]
fn a_pattern_costs_what_its_states_cost_for_each_byte() {
    let input = json!({"plan": "a".repeat(1_000), "pools": [], "nodes": {}});
    // Each byte of the text visits some 600 states: a few microseconds.
    let dear = "plan.matches('(a?){200}a{200}')";
    assert!(!ends_within(64_000, dear, &input));
    assert!(ends_within(100_000, dear, &input));
    assert!(ends_within(20_000, "plan.matches('^a*$')", &input));
}

#[test]
fn a_long_pattern_is_refused_and_its_compilation_counts() {
    let input = json!({"plan": "a".repeat(1_001), "pools": [], "nodes": {}});
    let verdict = of("'a'.matches(plan)", &input);
    assert!(
        matches!(&verdict, Verdict::Failed(Failure::Error(text)) if text.contains("1000 bytes")),
        "{verdict:?}"
    );
    let pattern = "a|".repeat(400);
    assert!(!ends_within(
        10_000,
        &format!("'a'.matches('{pattern}')"),
        &input
    ));
}

#[test]
fn each_turn_of_a_loop_counts_what_its_step_looks_up() {
    let input =
        json!({"plan": (0..1_000).collect::<Vec<_>>(), "pools": {"a": {"b": 1}}, "nodes": {}});
    assert!(!ends_within(10_000, "plan.all(x, true)", &input));
    let names = "pools.a.b == 1 && ".repeat(10);
    assert!(!ends_within(
        100_000,
        &format!("plan.all(x, {names} true)"),
        &input
    ));
}

#[test]
fn each_rule_has_a_share_that_no_other_rule_can_use() {
    let input = changes(1_000);
    let costly = rule("plan.changes.all(a, plan.changes.all(b, plan.changes.all(c, true)))");
    let cheap = rule("plan.changes.size() == 1000");
    let mut rules = vec![&costly; 30];
    rules.push(&cheap);
    let verdicts = judge_within(500_000, &rules, &input);
    assert_eq!(verdicts[30], Verdict::Holds);
    for verdict in &verdicts[..30] {
        let Verdict::Failed(failure) = verdict else {
            panic!("{verdict:?}");
        };
        assert!(matches!(
            failure,
            Failure::TooCostly | Failure::MoreThanItsShare { rules: 31 }
        ));
    }
}

#[test]
fn a_rule_may_use_what_others_leave() {
    let input = changes(1_000);
    let cheap = rule("plan.changes.size() == 1000");
    let more = rule("plan.changes.all(a, a.name != '')");
    let budget = 100_000;
    assert!(ends_within(budget, more.expression.source(), &input));
    assert!(!ends_within(budget / 10, more.expression.source(), &input));
    let mut rules = vec![&cheap; 99];
    rules.push(&more);
    assert_eq!(
        judge_within(budget, &rules, &input),
        vec![Verdict::Holds; 100]
    );
}

#[test]
fn a_panic_of_the_evaluator_fails_its_rule_alone() {
    let input = changes(1);
    let (broken, sound) = (rule("panics() == 1"), rule("plan.changes.size() == 1"));
    let verdicts = judge(&[&sound, &broken, &sound], &input);
    assert_eq!(
        verdicts,
        [
            Verdict::Holds,
            Verdict::Failed(Failure::Internal),
            Verdict::Holds
        ]
    );
}
