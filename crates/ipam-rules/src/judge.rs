//! Evaluates rules over one JSON value. A rule that cannot be evaluated has no result: it never
//! holds.
//!
//! Panics of `cel` that print nothing.
//!
//! Values of JSON as values of CEL. Texts are borrowed, so copies of a value stay small.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use crate::Expression;
use crate::meter::{METER, Meter, environment};

/// Budget of one rule, in units of the meter: about a second.
pub(crate) const BUDGET: u64 = 10_000_000;

/// Budget of all rules together, as a number of rules that use their whole budget.
const RULES_AT_FULL_COST: u64 = 10;

/// The parser and the evaluator recurse as deep as an expression is nested. Only used pages take
/// memory.
const STACK: usize = 64 * 1024 * 1024;

/// Longest message in characters.
const LONGEST_MESSAGE: usize = 1_000;

/// A rule: an expression that is true of what is allowed.
#[derive(Clone, Debug)]
pub struct Rule {
    pub expression: Expression,
    pub message: Message,
}

/// What a broken rule says.
#[derive(Clone, Debug)]
pub enum Message {
    /// The text of the expression.
    Expression,
    Text(String),
    /// The text that an expression gives.
    Computed(Expression),
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    /// The rule is broken, with its message.
    Broken(String),
    /// The rule has no result.
    Failed(Failure),
}

/// Why a rule has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("it was stopped, because it costs too much")]
    TooCostly,
    /// The rule costs less than one rule may, but more than its share of what all rules may cost.
    #[error(
        "it was stopped, because it costs more than its share of what all {rules} rules may cost"
    )]
    MoreThanItsShare { rules: usize },
    #[error("its value is not true or false, but of type `{0}`")]
    NotBoolean(String),
    #[error("{0}")]
    Error(String),
    /// A key is missing.
    #[error("there is no key `{}`", .0.escape_debug())]
    NoKey(String),
    #[error("the evaluator failed")]
    Internal,
}

/// Runs on a thread with a large stack, and waits for it. `None` if it panicked, which prints
/// nothing, or cannot start.
pub(crate) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("rules".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || {
                silence_this_thread();
                work()
            });
        thread.ok()?.join().ok()
    })
}

/// Evaluates rules, one verdict for each. The fields of `input` are the variables.
pub fn judge(rules: &[&Rule], input: &Value) -> Vec<Verdict> {
    judge_within(BUDGET, rules, input)
}

pub(crate) fn judge_within(budget: u64, rules: &[&Rule], input: &Value) -> Vec<Verdict> {
    if rules.is_empty() {
        return Vec::new();
    }
    let failed = || vec![Verdict::Failed(Failure::Internal); rules.len()];
    with_large_stack(|| evaluate_all(budget, rules, input))
        .flatten()
        .unwrap_or_else(failed)
}

fn evaluate_all(of_one: u64, rules: &[&Rule], input: &Value) -> Option<Vec<Verdict>> {
    let env = environment().ok()?;
    let fields = input.as_object()?;
    let mut context = Context::with_env(env);
    for (name, field) in fields {
        context.add_variable_as_val(name, value(field));
    }
    let mut judging = Judging {
        context: &context,
        of_one,
        left: of_one.saturating_mul(RULES_AT_FULL_COST),
    };
    Some(judging.all(rules))
}

struct Judging<'j, 'p, 'v> {
    context: &'j Context<'p, 'v>,
    /// Budget of one rule.
    of_one: u64,
    /// What the rules together may still cost.
    left: u64,
}

impl Judging<'_, '_, '_> {
    /// Each rule has an equal share, so no other rule can use it. Those that need more share what is
    /// left then.
    fn all(&mut self, rules: &[&Rule]) -> Vec<Verdict> {
        let share = self.share(rules.len());
        let mut verdicts: Vec<Verdict> = rules.iter().map(|rule| self.one(rule, share)).collect();
        let stopped = |verdict: &Verdict| *verdict == Verdict::Failed(Failure::TooCostly);
        let mut waiting = verdicts.iter().filter(|verdict| stopped(verdict)).count();
        if share == self.of_one || waiting == 0 {
            return verdicts;
        }
        for (rule, verdict) in rules.iter().zip(&mut verdicts) {
            if !stopped(verdict) {
                continue;
            }
            let share = self.share(waiting);
            waiting -= 1;
            *verdict = match self.one(rule, share) {
                again if stopped(&again) && share < self.of_one => {
                    Verdict::Failed(Failure::MoreThanItsShare { rules: rules.len() })
                }
                again => again,
            };
        }
        verdicts
    }

    fn share(&self, rules: usize) -> u64 {
        self.of_one.min(self.left / rules.max(1) as u64)
    }

    /// A panic inside the evaluator fails this rule alone.
    fn one(&mut self, rule: &Rule, budget: u64) -> Verdict {
        let meter = Meter::new(budget);
        let evaluating = AssertUnwindSafe(|| verdict(rule, self.context, &meter));
        let verdict = catch_unwind(evaluating).unwrap_or(Verdict::Failed(Failure::Internal));
        self.left = self.left.saturating_sub(budget - meter.left());
        verdict
    }
}

fn verdict(rule: &Rule, context: &Context<'_, '_>, meter: &Meter) -> Verdict {
    match evaluate(&rule.expression, context, meter, truth) {
        Ok(true) => Verdict::Holds,
        Ok(false) => match message(rule, context, meter) {
            Ok(message) => Verdict::Broken(message),
            Err(failure) => Verdict::Failed(failure),
        },
        Err(failure) => Verdict::Failed(failure),
    }
}

fn message(rule: &Rule, context: &Context<'_, '_>, meter: &Meter) -> Result<String, Failure> {
    match &rule.message {
        Message::Text(text) => Ok(text.clone()),
        Message::Expression => Ok(format!("`{}` is false", rule.expression.source().trim())),
        Message::Computed(expression) => {
            evaluate(expression, context, meter, text).map_err(|failure| match failure {
                Failure::TooCostly => failure,
                failure => Failure::Error(format!(
                    "it is broken, and its message has no text: {failure}"
                )),
            })
        }
    }
}

fn evaluate<T>(
    expression: &Expression,
    context: &Context<'_, '_>,
    meter: &Meter,
    read: fn(&(dyn Val + '_)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut context = context.new_inner_scope();
    context.add_variable_as_val(METER, Box::new(meter.clone()));
    let result = CelValue::resolve_val(expression.metered(), &context);
    if meter.is_used() {
        return Err(Failure::TooCostly);
    }
    match result {
        Ok(value) => read(value.as_ref()),
        Err(ExecutionError::NoSuchKey(key)) => Err(Failure::NoKey(key.to_string())),
        Err(error) => Err(Failure::Error(reason(&error))),
    }
}

fn truth(value: &(dyn Val + '_)) -> Result<bool, Failure> {
    match value.downcast_ref::<CelBool>() {
        Some(is) => Ok(*is.inner()),
        None => Err(Failure::NotBoolean(value.get_type().name().to_owned())),
    }
}

fn text(value: &(dyn Val + '_)) -> Result<String, Failure> {
    match value.downcast_ref::<CelString>() {
        Some(text) => Ok(text.inner().chars().take(LONGEST_MESSAGE).collect()),
        None => Err(Failure::Error(format!(
            "its value is not text, but of type `{}`",
            value.get_type().name()
        ))),
    }
}

/// The error without the values in it, which may be large and have no order.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload(error) => error.to_string(),
        ExecutionError::UndeclaredReference(name) => format!("there is no `{name}`"),
        ExecutionError::UnexpectedType { got, want } => {
            format!("a value is of type `{got}`, expected `{want}`")
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => format!(
            "`{operator}` cannot be used on `{}` and `{}`",
            left.type_of(),
            right.type_of()
        ),
        ExecutionError::ValuesNotComparable(left, right) => format!(
            "`{}` cannot be compared with `{}`",
            left.type_of(),
            right.type_of()
        ),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "it divides by zero".to_owned()
        }
        ExecutionError::Overflow(operator, ..) => format!("a number overflows in `{operator}`"),
        ExecutionError::IndexOutOfBounds(_) => "an index is outside its list".to_owned(),
        ExecutionError::DuplicateKey(_) => "a map has a key twice".to_owned(),
        ExecutionError::FunctionError { function, message } => {
            format!(
                "`{function}`: {}",
                message.chars().take(160).collect::<String>()
            )
        }
        _ => "a value has the wrong type".to_owned(),
    }
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Silences panics of this thread until it ends. Those of other threads are printed as before.
pub(crate) fn silence_this_thread() {
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that ends has no such variable any more.
            if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                usual(panic);
            }
        }));
    });
    IS_QUIET.set(true);
}

/// The value. Whole numbers are `int`, or `uint` above its range.
pub(crate) fn value(json: &Value) -> Box<dyn Val + '_> {
    match json {
        Value::Null => Box::new(CelNull),
        Value::Bool(is) => Box::new(CelBool::from(*is)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Box::new(CelInt::from(number)),
            (None, Some(number)) => Box::new(CelUInt::from(number)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => {
            let items: Vec<Box<dyn Val + '_>> = items.iter().map(value).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(fields) => {
            let fields: HashMap<CelMapKey<'_>, Box<dyn Val + '_>> = fields
                .iter()
                .map(|(key, field)| (CelMapKey::from(key.as_str()), value(field)))
                .collect();
            Box::new(CelMap::from(fields))
        }
    }
}
