//! Lowers `spec.rules` of the `IPAMPolicy` document, and a `PolicyTest` document to cases. Knows
//! no plan: an expression is only parsed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::schema_policy_test::{PolicyTestDocument, WrittenCase, WrittenExpectation, WrittenPlan};
use super::{Context, keys};
use crate::documents::schema_policy::{WrittenRule, WrittenSeverity};
use crate::documents::tree::Step;
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::text::most_similar;
use ipam_core::text::one_line;
use ipam_desired::{Expectation, PolicyRule, RuleCase, rule_variables};
use ipam_rules::{Expression, Fault, Fields, Message};

pub(super) fn lower(context: &mut Context<'_>, written: &[Option<WrittenRule>]) -> Vec<PolicyRule> {
    let mut names: BTreeMap<&str, Origin> = BTreeMap::new();
    let mut rules = Vec::new();
    for (index, rule) in written.iter().enumerate() {
        let Some(rule) = rule else { continue };
        let path = [keys(["spec", "rules"]), vec![Step::Index(index)]].concat();
        if let Some(name) = &rule.name {
            let origin = context
                .document
                .origin(&[path.clone(), keys(["name"])].concat());
            if name.trim().is_empty() {
                let help = "write a name, such as `no-deletion`";
                context.fault(
                    "bad-rule",
                    "a rule has an empty name",
                    &origin,
                    "empty",
                    help,
                );
            }
            if let Some(first) = names.insert(name, origin.clone()) {
                context.findings.push(named_twice(name, &origin, &first));
            }
        }
        rules.extend(self::rule(context, rule, &path));
    }
    rules
}

fn named_twice(name: &str, origin: &Origin, first: &Origin) -> Finding {
    let message = format!("two rules have the name `{}`", one_line(name));
    Finding::new(Severity::Error, Rule("bad-rule"), message)
        .at(origin, "the same name")
        .and(first, "first used here")
        .help("rename one of them")
}

/// The rule, or `None` with a fault for each wrong field.
fn rule(context: &mut Context<'_>, written: &WrittenRule, path: &[Step]) -> Option<PolicyRule> {
    let WrittenRule {
        name,
        expression,
        message,
        message_expression,
        severity,
    } = written;
    let at = |key| [path, &keys([key])].concat();
    let source = expression.as_deref()?;
    let expression = compiled(context, "expression", source, &at("expression"));
    let message = match (message, message_expression) {
        (None, None) => Some(Message::Expression),
        (Some(text), None) => Some(Message::Text(text.clone())),
        (None, Some(source)) => {
            let path = at("messageExpression");
            compiled(context, "messageExpression", source, &path).map(Message::Computed)
        }
        (Some(_), Some(_)) => {
            let origin = context.document.origin(&at("messageExpression"));
            context.fault(
                "bad-rule",
                "a rule has `message` and `messageExpression`",
                &origin,
                "a second message",
                "keep one of them",
            );
            None
        }
    };
    Some(PolicyRule {
        name: name.clone()?,
        origin: context.document.origin(&at("expression")),
        severity: match severity {
            WrittenSeverity::Error => Severity::Error,
            WrittenSeverity::Warning => Severity::Warning,
            WrittenSeverity::Info => Severity::Info,
        },
        rule: ipam_rules::Rule {
            expression: expression?,
            message: message?,
        },
    })
}

fn compiled(
    context: &mut Context<'_>,
    key: &str,
    source: &str,
    path: &[Step],
) -> Option<Expression> {
    let variables = rule_variables();
    let error = match Expression::compile(source, &variables) {
        Ok(expression) => return Some(expression),
        Err(error) => error,
    };
    let origin = match error.at.clone() {
        Some(part) => context.document.origin_of_part(path, part),
        None => context.document.origin(path),
    };
    let message = format!(
        "`{key}` of a rule cannot be used: {}",
        one_line(&error.to_string())
    );
    let help = help(&error.fault, &variables);
    context.fault("bad-rule", message, &origin, label(&error.fault), help);
    None
}

fn label(fault: &Fault) -> &'static str {
    match fault {
        Fault::UnknownVariable { .. } => "no such variable",
        Fault::UnknownFunction { .. } => "no such function",
        Fault::UnknownField { .. } | Fault::NoFields(_) => "no such field",
        Fault::UnknownValue { .. } => "no such value",
        Fault::Syntax(_) => "here",
        Fault::Empty
        | Fault::TooLong { .. }
        | Fault::TooDeep
        | Fault::Unsupported(_)
        | Fault::Internal => "not a rule",
    }
}

/// The name that was probably meant, or the names that exist.
fn help(fault: &Fault, variables: &Fields) -> String {
    if let Some((name, known)) = fault.unknown() {
        let known = || known.iter().map(String::as_str);
        return match most_similar(name, known()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("use one of `{}`", known().collect::<Vec<_>>().join("`, `")),
        };
    }
    let variables: Vec<&str> = variables.keys().copied().collect();
    format!(
        "write a CEL expression over `{}`, such as `plan.changes.all(c, c.hazard != \"destructive\")`",
        variables.join("`, `")
    )
}

/// The cases of a document without structural faults.
pub(super) fn lower_policy_test(
    context: &mut Context<'_>,
    written: PolicyTestDocument,
) -> Vec<RuleCase> {
    let cases = written.spec.and_then(|spec| spec.cases);
    let mut lowered = Vec::new();
    for (index, case) in cases.into_iter().flatten().enumerate() {
        let Some(case) = case else { continue };
        let path = [keys(["spec", "cases"]), vec![Step::Index(index)]].concat();
        let origin = context
            .document
            .origin(&[&path[..], &keys(["rule"])].concat());
        let expects_broken = matches!(case.expect, Some(WrittenExpectation::Broken));
        if case.message.is_some() && !expects_broken {
            let message = [path, keys(["message"])].concat();
            context.fault(
                "bad-policy-test",
                "a case expects a message, but no broken rule",
                &context.document.origin(&message),
                "no rule says it",
                "write `expect: broken`, or remove `message`",
            );
        }
        lowered.extend(self::case(case, origin));
    }
    lowered
}

fn case(written: WrittenCase, origin: Origin) -> Option<RuleCase> {
    let WrittenCase {
        rule,
        name,
        expect,
        message,
        plan: WrittenPlan { changes, services },
        pools,
        nodes,
    } = written;
    Some(RuleCase {
        rule: rule?,
        name,
        expected: match expect? {
            WrittenExpectation::Holds => Expectation::Holds,
            WrittenExpectation::Broken => Expectation::Broken,
            WrittenExpectation::NoResult => Expectation::NoResult,
        },
        message,
        origin,
        changes: as_written(&changes),
        services: as_written(&services),
        pools: pools.map(|pools| as_written(&pools)),
        nodes: as_written(&nodes),
    })
}

/// The fields that are written, as JSON.
fn as_written<T: DeserializeOwned + Default>(parts: &impl Serialize) -> T {
    serde_json::from_value(json!(parts)).unwrap_or_default()
}
