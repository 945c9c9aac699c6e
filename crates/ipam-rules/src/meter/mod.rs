//! Counts the cost of an evaluation and stops it when its budget is used. `cel` has no such limit,
//! so the calls that count stand in the expression itself.
//!
//! One unit stands for at most 100 ns of one processor: one part of an expression that is evaluated,
//! or one value that is copied or compared.
//!
//! The shape of a parsed expression.
//!
//! Patterns of `matches`: RE2's syntax, in which `\d`, `\w` and `\s` mean ASCII.

mod functions;
mod place;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};
use cel::common::types::{CelList, CelMap, CelOptional, CelString, Type};
use cel::common::value::{StaticVal, Val};
use regex::bytes::{Regex, RegexBuilder};

pub(crate) use functions::environment;
pub(crate) use place::{METER, place};

/// Bytes of a text that cost one unit.
const BYTES_PER_UNIT: u64 = 32;

static METER_TYPE: Type = Type::new_unspecified_type("@meter");

/// The budget of one evaluation. It is a value, so that calls in the expression can reach it.
#[derive(Clone, Debug)]
pub(crate) struct Meter(Arc<State>);

#[derive(Debug)]
struct State {
    left: AtomicU64,
    /// Patterns of `matches` that are compiled.
    patterns: Mutex<BTreeMap<String, Pattern>>,
}

impl Meter {
    pub(crate) fn new(budget: u64) -> Meter {
        Meter(Arc::new(State {
            left: AtomicU64::new(budget),
            patterns: Mutex::default(),
        }))
    }

    pub(crate) fn left(&self) -> u64 {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Whether the budget is used. The evaluation then has no result.
    pub(crate) fn is_used(&self) -> bool {
        self.left() == 0
    }

    /// Takes units from the budget. Only one thread evaluates.
    fn charge(&self, units: u64) -> Charged {
        let left = self.left().saturating_sub(units);
        self.0.left.store(left, Ordering::Relaxed);
        match left {
            0 => Charged::TooMuch,
            _ => Charged::Within,
        }
    }

    fn with_patterns<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Pattern>) -> T) -> T {
        let mut patterns = self
            .0
            .patterns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        work(&mut patterns)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charged {
    Within,
    /// The budget of the expression is used up.
    TooMuch,
}

impl Val for Meter {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &METER_TYPE
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Meter {}

/// The units of a value with everything in it. Counts no further than `most`.
fn size<'v>(value: &(dyn Val + 'v), most: u64) -> u64 {
    let mut units = 1;
    if let Some(text) = value.downcast_ref::<CelString>() {
        units += text.inner().len() as u64 / BYTES_PER_UNIT;
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        for item in list.inner() {
            if units > most {
                break;
            }
            units += size(item.as_ref(), most - units);
        }
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        for item in map.inner().values() {
            if units > most {
                break;
            }
            units += 1 + size(item.as_ref(), most - units);
        }
    } else if let Some(optional) = value.downcast_ref::<CelOptional>()
        && let Some(inner) = optional.option()
    {
        // Each field of an optional value is a copy.
        units += size(inner, most).saturating_mul(3);
    }
    units
}

/// How deep an expression is nested.
pub(crate) fn depth(expression: &IdedExpr) -> usize {
    1 + children(expression)
        .into_iter()
        .map(depth)
        .max()
        .unwrap_or(0)
}

/// Units of evaluating each part once, inside this many loops. A name is looked up in the scope of
/// each loop, and with every number of its segments.
pub(super) fn weight(expression: &IdedExpr, loops: usize) -> u64 {
    if let Some(segments) = chain(expression) {
        return (segments * (loops + 4)).div_ceil(2) as u64;
    }
    let loops = match &expression.expr {
        Expr::Comprehension(_) => loops + 1,
        _ => loops,
    };
    let own = match &expression.expr {
        Expr::Call(_) => 2,
        _ => 1,
    };
    let inside = children(expression).into_iter();
    own + inside.map(|child| weight(child, loops)).sum::<u64>()
}

/// The number of names in `a.b.c`.
fn chain(expression: &IdedExpr) -> Option<usize> {
    match &expression.expr {
        Expr::Ident(_) => Some(1),
        Expr::Select(select) => chain(&select.operand).map(|before| before + 1),
        _ => None,
    }
}

fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(parts).collect(),
        Expr::Struct(of) => of.entries.iter().flat_map(parts).collect(),
        Expr::Comprehension(of) => {
            vec![
                &of.iter_range,
                &of.accu_init,
                &of.loop_cond,
                &of.loop_step,
                &of.result,
            ]
        }
    }
}

fn parts(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Sizes of compiled patterns in bytes, smallest first, and the units for each byte of a text. A
/// text that visits every state of a pattern costs that much; `ci/fuzz/checks/tests/rule_time.rs`
/// measures it. A pattern that exceeds the last size is refused.
const SIZES: [(usize, u64); 3] = [(4 << 10, 8), (16 << 10, 24), (LARGEST, 64)];

const LARGEST: usize = 64 << 10;

/// Longest pattern in bytes: the time of a compilation grows with it.
const LONGEST: usize = 1_000;

/// Deepest nesting of a pattern.
const NESTING: u32 = 32;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Units for each byte of a text.
    for_each_byte: u64,
}

impl Pattern {
    /// Patterns of one evaluation that are kept.
    pub(super) const KEPT: usize = 32;

    /// Units of a compilation.
    pub(super) fn compiling(pattern: &str) -> u64 {
        6_000 + 16 * pattern.len().min(LONGEST) as u64
    }

    pub(super) fn compile(pattern: &str) -> Result<Pattern, String> {
        if pattern.len() > LONGEST {
            return Err(format!("the pattern has more than {LONGEST} bytes"));
        }
        let mut last = String::new();
        for (size, for_each_byte) in SIZES {
            let built = RegexBuilder::new(pattern)
                .unicode(false)
                .size_limit(size)
                .dfa_size_limit(LARGEST)
                .nest_limit(NESTING)
                .build();
            match built {
                Ok(regex) => {
                    return Ok(Pattern {
                        regex,
                        for_each_byte,
                    });
                }
                Err(regex::Error::CompiledTooBig(_)) => {
                    last = "the pattern is too large".to_owned();
                }
                Err(_) => return Err("it is not a pattern".to_owned()),
            }
        }
        Err(last)
    }

    pub(super) fn cost(&self, text: &str) -> u64 {
        (text.len() as u64 + 8).saturating_mul(self.for_each_byte)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text.as_bytes())
    }
}
