//! Counts the cost of an evaluation and stops it when its budget is used. `cel` has no such limit,
//! so the calls that count stand in the expression itself.
//!
//! One unit stands for at most 100 ns of one processor: one part of an expression that is evaluated,
//! or one value that is copied or compared.

mod functions;
mod pattern;
mod place;
mod tree;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::common::types::{CelList, CelMap, CelOptional, CelString, Type};
use cel::common::value::{StaticVal, Val};

pub(crate) use functions::environment;
pub(crate) use place::{METER, place};
pub(crate) use tree::depth;

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
    patterns: Mutex<BTreeMap<String, pattern::Pattern>>,
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

    fn with_patterns<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<String, pattern::Pattern>) -> T,
    ) -> T {
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
    /// The budget is used.
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
