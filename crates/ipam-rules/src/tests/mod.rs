//! What rules mean, and that every hostile one ends with a verdict.

mod addresses;
mod cost;
mod shapes;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    Expression, Failure, Fault, Fields, MAX_DEPTH, MAX_LENGTH, Message, Rule, Shape, Verdict,
    judge,
    judge::{BUDGET, judge_within},
};

/// Nothing is known of the variables.
fn compile(source: &str) -> Result<Expression, Fault> {
    let variables = ["plan", "pools", "nodes"].map(|name| (name, Shape::Any));
    Expression::compile(source, &variables.into()).map_err(|error| error.fault)
}

fn of(source: &str, input: &Value) -> Verdict {
    within(BUDGET, source, input)
}

fn within(budget: u64, source: &str, input: &Value) -> Verdict {
    let rule = Rule {
        expression: compile(source).unwrap_or_else(|error| panic!("{source}: {error}")),
        message: Message::Text("broken".to_owned()),
    };
    judge_within(budget, &[&rule], input).remove(0)
}

fn changes(count: usize) -> Value {
    let change = |index: usize| {
        json!({
            "name": format!("n{index}"), "kind": "Node", "hazard": "none", "action": "assign",
            "before": [], "after": [format!("10.{}.{}.0/24", index / 256, index % 256)],
            "pool": "a", "labels": {"rack": format!("r{}", index % 40), "change-ticket": "CH-1"},
            "guard": {"uid": "u", "resource_version": "1"}, "edit": {"NodeSpec": {"after": []}},
        })
    };
    json!({"plan": {"changes": (0..count).map(change).collect::<Vec<_>>()}, "pools": [], "nodes": {}})
}

#[test]
fn expressions_mean_what_they_mean_in_kubernetes() {
    let input = changes(3);
    for source in [
        "plan.changes.all(c, c.hazard != 'destructive' || c.labels['change-ticket'] != '')",
        "plan.changes.exists(c, c.name == 'n1')",
        "plan.changes.exists_one(c, c.name == 'n1')",
        "plan.changes.map(c, c.name) == ['n0', 'n1', 'n2']",
        "plan.changes.filter(c, c.name != 'n1').size() == 2",
        "plan.changes.map(c, c.name != 'n1', c.name) == ['n0', 'n2']",
        "size(plan.changes) == 3 && plan.changes[0].after[0].startsWith('10.')",
        "plan.changes[0].labels[?'none'].orValue('x') == 'x'",
        "plan.changes[0].?labels.?rack.orValue('') == 'r0'",
        "has(plan.changes[0].pool) && !has(plan.changes[0].nothing)",
        "'rack' in plan.changes[0].labels && 'n1' in plan.changes.map(c, c.name)",
        "plan.changes.all(c, c.name.matches('^n[0-9]+$'))",
        "plan.changes[0].labels.map(key, key) == ['change-ticket', 'rack']",
        "plan.changes[0].labels == {'rack': 'r0', 'change-ticket': 'CH-1'}",
        "[1, 2] + [3] == [1, 2, 3] && 'a' + 'b' == 'ab' && 7 / 2 == 3 && 7 % 2 == 1",
        "int('7') == 7 && string(7) == '7' && type(7) == int && 1.5 > 1.0 && -1 < 1",
        "optional.of(1).hasValue() && (true ? 'ä' : 'b').size() == 1",
        "[[1, 2], [3]].all(inner, inner.all(x, x > 0))",
        // An error on one side does not matter if the other side decides.
        "plan.changes[9].name == 'x' || true",
    ] {
        assert_eq!(of(source, &input), Verdict::Holds, "{source}");
    }
    assert_eq!(
        of("size(plan.changes) == 4", &input),
        Verdict::Broken("broken".to_owned())
    );
}

#[test]
fn the_message_is_a_text_the_expression_or_computed() {
    let input = changes(2);
    let message = |message| {
        let rule = Rule {
            expression: compile("size(plan.changes) < 2 ").unwrap(),
            message,
        };
        judge(&[&rule], &input).remove(0)
    };
    assert_eq!(
        message(Message::Expression),
        Verdict::Broken("`size(plan.changes) < 2` is false".to_owned())
    );
    let computed = compile("'it changes ' + string(size(plan.changes))").unwrap();
    assert_eq!(
        message(Message::Computed(computed)),
        Verdict::Broken("it changes 2".to_owned())
    );
    for source in ["plan.nothing", "1"] {
        let verdict = message(Message::Computed(compile(source).unwrap()));
        assert!(
            matches!(verdict, Verdict::Failed(Failure::Error(_))),
            "{verdict:?}"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_does_not_hold() {
    let input = changes(2);
    for (source, part) in [
        ("plan.changes[0].labels['none'] == ''", "no key `none`"),
        ("plan.changes[0].name < 1", "string, int"),
        ("plan.changes[5].name == ''", "outside its list"),
        ("1 / 0 == 1", "divides by zero"),
        ("9223372036854775807 + 1 > 0", "overflows"),
        ("plan.changes[0].name + 1 == ''", "cannot be used"),
        ("'a'.matches('(')", "not a pattern"),
        (
            "plan.changes.all(c, c.labels['none'] != '')",
            "no key `none`",
        ),
        ("int('x') == 1", "int"),
        ("plan.changes", "of type `list`"),
        ("{'a': 1, 'a': 2} == {}", "key twice"),
        ("plan.changes[0].name.all(x, true)", "string"),
    ] {
        let Verdict::Failed(failure) = of(source, &input) else {
            panic!("{source} has a result");
        };
        let text = failure.to_string();
        assert!(text.contains(part), "{source}: {text}");
        assert!(text.len() < 400, "{source}: {text}");
    }
}

#[test]
fn what_is_no_rule_is_refused_before_any_plan() {
    for (source, name) in [
        ("plam.changes == []", "variable `plam`"),
        ("now() > 1", "function `now`"),
        ("duration('1h') == duration('1h')", "function `duration`"),
        ("'a'.lowerAscii() == 'a'", "function `lowerAscii`"),
        ("c.name == '' && [1].all(c, true)", "variable `c`"),
    ] {
        let error = compile(source).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no {name}"), "{source}");
        assert!(error.unknown().is_some_and(|(_, known)| !known.is_empty()));
    }
    for (source, error) in [
        ("", Fault::Empty),
        ("Node{name: 'x'} == 1", Fault::Unsupported("a message")),
        (
            "optional.of(1).optMap(x, x + 1).hasValue()",
            Fault::Unsupported("this macro"),
        ),
    ] {
        assert_eq!(compile(source).unwrap_err(), error, "{source}");
    }
    for source in [
        "plan.changes.all(",
        "1 +",
        "\u{202e}plan",
        "a b",
        "@meter == 1",
        "'unclosed",
        "plan..x",
    ] {
        let error = compile(source).unwrap_err();
        assert!(matches!(error, Fault::Syntax(_)), "{source}: {error}");
        assert!(!error.to_string().contains('\u{202e}'));
    }
}

/// Loops over all changes in all changes, this deep.
fn nested(depth: usize) -> String {
    let mut source = "true".to_owned();
    for level in 0..depth {
        source = format!("plan.changes.all(c{level}, {source})");
    }
    source
}

#[test]
fn a_rule_that_would_not_end_is_stopped() {
    let input = changes(5_000);
    let doubled = |start: &str, step: &str| {
        let mut source = start.to_owned();
        (0..50).for_each(|_| source.push_str(step));
        format!("{source}.size() > 0")
    };
    for source in [
        nested(4),
        "plan.changes.map(c, plan.changes).size() > 0".to_owned(),
        "plan.changes.map(c, plan.changes.map(d, plan.changes.map(e, e))).size() > 0".to_owned(),
        "plan.changes.all(c, plan.changes.exists(d, plan.changes == []) || true)".to_owned(),
        "plan.changes.all(c, plan.changes + 1 == 2 || true)".to_owned(),
        "plan.changes.all(c, plan[?'changes'].hasValue())".to_owned(),
        "plan.changes.all(c, c in plan.changes.filter(d, true))".to_owned(),
        "plan.changes.exists_one(c, plan.changes.exists_one(d, plan.changes.exists_one(e, true)))"
            .to_owned(),
        // The errors of turns are kept until the loop ends, and must not keep it alive.
        "plan.changes.all(a, plan.changes.all(b, plan.changes.all(c, c.none == 1)) || true)"
            .to_owned(),
        doubled("['aaaaaaaaaaaaaaaaaaaaaaaa']", ".map(x, x + x)"),
        doubled("[[1]]", ".map(x, x + x)"),
        doubled("[[1]]", ".map(x, [x, x])"),
        doubled("[1]", ".map(x, {'a': x, 'b': x})"),
        "plan.changes.all(c, plan.changes.all(d, c.name.matches(d.name + '(a?){400}')))".to_owned(),
        "plan.changes.all(a, plan.changes.all(b, plan.changes.map(c, c.name).size() == 5000))"
            .to_owned(),
    ] {
        let verdict = within(1_000_000, &source, &input);
        assert!(
            matches!(verdict, Verdict::Failed(Failure::TooCostly)),
            "{source}: {verdict:?}"
        );
    }
}

#[test]
fn a_plain_rule_over_a_large_plan_has_a_result() {
    let input = changes(20_000);
    for source in [
        "plan.changes.all(c, c.hazard != 'destructive' || c.labels['change-ticket'] != '')",
        "plan.changes.filter(c, c.hazard == 'destructive').size() <= 3",
        "plan.changes.map(c, c.hazard == 'none', c.name).size() == 20000",
        "plan.changes.all(c, c.name.matches('^[a-z][a-z0-9-]*$'))",
        "size(plan.changes) <= 20000",
    ] {
        assert_eq!(of(source, &input), Verdict::Holds, "{source}");
    }
}

#[test]
fn deep_and_long_expressions_end_without_a_stack_overflow() {
    let repeated = |text: &str| text.repeat((MAX_LENGTH - 8) / text.len());
    for source in [
        format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000)),
        format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000)),
        format!("{}1", repeated("1+")),
        format!("{}true", repeated("true?1:")),
        format!("plan{}", repeated(".a")),
        format!("plan{}", repeated("[0]")),
        format!("{}1", repeated("{1:")),
        format!("{}1", repeated("f(")),
    ] {
        let error = compile(&source).unwrap_err();
        assert!(
            matches!(error, Fault::TooDeep | Fault::Syntax(_)),
            "{error}"
        );
    }
    for depth in 1..200 {
        let source = format!("{}1{} == 1", "(".repeat(depth), ")".repeat(depth));
        match compile(&source) {
            Ok(_) => assert!(depth <= MAX_DEPTH),
            Err(error) => assert_eq!(error, Fault::TooDeep, "{depth}"),
        }
    }
    let long = "x".repeat(MAX_LENGTH + 1);
    assert_eq!(
        compile(&long).unwrap_err(),
        Fault::TooLong {
            length: MAX_LENGTH + 1
        }
    );
    // `cel` drops pairs of signs, so these are not deep.
    let source = format!("{}1 == 1", repeated("- "));
    assert!(!matches!(of(&source, &changes(0)), Verdict::Failed(_)));
    // As deep as allowed, it is evaluated.
    let source = format!("{}1 > 0", "1+".repeat(MAX_DEPTH - 3));
    assert_eq!(of(&source, &changes(0)), Verdict::Holds);
    let source = format!("{}[1]{}.size() == 1", "[".repeat(20), "]".repeat(20));
    assert_eq!(of(&source, &changes(0)), Verdict::Holds);
}

#[test]
fn large_patterns_are_refused() {
    for pattern in ["((a{100}){100}){100}", "(((((a+)+)+)+)+)+$", "a{100000}"] {
        let verdict = of(
            &format!("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'.matches('{pattern}')"),
            &changes(0),
        );
        assert!(!matches!(verdict, Verdict::Holds), "{pattern}: {verdict:?}");
    }
}

/// Texts near the grammar reach more of the parser than any text.
fn soup() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "plan",
        ".changes",
        ".all(c,",
        ".map(c,",
        ".filter(x,",
        ")",
        "(",
        "c",
        ".name",
        "&&",
        "||",
        "!",
        "==",
        "+",
        "1",
        "'a'",
        "[",
        "]",
        "{",
        "}",
        ":",
        "?",
        ",",
        ".size()",
        "has(",
        "[?",
        ".?x",
        "in",
        "optional.of(",
        ".orValue(",
        "null",
        "true",
        "matches",
        "ip(",
        "isCIDR(",
        "cidr('10.0.0.0/8')",
        ".containsIP(",
        ".family()",
        "ip.isCanonical(",
        "x",
        "-",
        "u",
        "\u{202e}",
        "é",
        "\"",
        "\\",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_compiles_or_fails_and_has_the_same_verdict_twice(source in prop_oneof![soup(), ".{0,80}"]) {
        if let Ok(expression) = compile(&source) {
            let rule = Rule { expression, message: Message::Expression };
            let input = changes(3);
            let first = judge(&[&rule], &input);
            prop_assert_eq!(&first, &judge(&[&rule], &input));
        }
    }
}
