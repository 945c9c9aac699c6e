//! The functions that stand in a metered expression. Their names cannot be written in CEL.

use std::sync::Arc;

use cel::common::types::{
    CelBool, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString, DYN_TYPE,
};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::{Charged, METER_TYPE, Meter, Pattern, size};
use crate::addresses;

/// Counts a value that is compared or read.
pub(super) const CHARGE: &str = "@charge";
/// Counts a value that is copied into a new one.
pub(super) const KEEP: &str = "@keep";
/// Stops a loop when the budget is used.
pub(super) const TICK: &str = "@tick";
/// Counts a turn of a loop, from its item and the weight of its step.
pub(super) const TURN: &str = "@turn";
/// Counts the length of a text; the size of a list is known.
pub(super) const LENGTH: &str = "@length";
/// What a loop runs over: a list, or the keys of a map in order.
pub(super) const RANGE: &str = "@range";
/// `matches`, with patterns that are compiled once.
pub(super) const MATCHES: &str = "@matches";

/// A copied value stays in memory, so it costs more than one that is read. A map with one entry
/// takes most for its units; `ci/fuzz/checks/tests/rule_memory.rs`
/// measures it.
const KEPT: u64 = 8;

/// Units of a call of the meter itself.
const CALL: u64 = 2;

/// Units of a turn of a loop beside its step: the item becomes a variable, and the accumulator.
const TURN_ITSELF: u64 = 9;

/// The standard functions, those of addresses, and those of the meter.
///
/// # Errors
/// Fails if `cel` has a function of the same name.
pub(crate) fn environment() -> Result<Arc<Env>, DeclarationError> {
    let mut env = Env::stdlib();
    let meter = || METER_TYPE.to_owned();
    let any = || DYN_TYPE.to_owned();
    env.add_overload(CHARGE, CHARGE, vec![meter(), any()], charge)?;
    env.add_overload(KEEP, KEEP, vec![meter(), any()], keep)?;
    env.add_overload(TICK, TICK, vec![meter(), any()], tick)?;
    env.add_overload(LENGTH, LENGTH, vec![meter(), any()], length)?;
    env.add_overload(RANGE, RANGE, vec![meter(), any()], range)?;
    env.add_overload(TURN, TURN, vec![meter(), any(), any()], turn)?;
    env.add_overload(MATCHES, MATCHES, vec![meter(), any(), any()], matches)?;
    addresses::declare(&mut env)?;
    #[cfg(test)]
    env.add_overload("panics", "panics", Vec::new(), |_| panic!("as `cel` might"))?;
    Ok(Arc::new(env))
}

type Evaluated<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The meter and the other arguments.
fn parted<'b, 'v, const N: usize>(
    args: Vec<CowVal<'b, 'v>>,
) -> Result<(Meter, [CowVal<'b, 'v>; N]), ExecutionError> {
    let wrong = || ExecutionError::function_error("meter", "has no such arguments");
    let mut args = args.into_iter();
    let meter = args.next().ok_or_else(wrong)?;
    let meter = meter.downcast_ref::<Meter>().ok_or_else(wrong)?.clone();
    let rest = args.collect::<Vec<_>>().try_into().map_err(|_| wrong())?;
    Ok((meter, rest))
}

fn within(charged: Charged) -> Result<(), ExecutionError> {
    match charged {
        Charged::Within => Ok(()),
        Charged::TooMuch => Err(ExecutionError::function_error(
            "meter",
            "the budget is used",
        )),
    }
}

fn charge<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [value]) = parted(args)?;
    within(meter.charge(CALL + size(value.as_ref(), meter.left())))?;
    Ok(value)
}

fn keep<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [value]) = parted(args)?;
    let units = size(value.as_ref(), meter.left());
    within(meter.charge(CALL + units.saturating_mul(KEPT)))?;
    Ok(value)
}

fn tick<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [condition]) = parted(args)?;
    within(meter.charge(1))?;
    Ok(condition)
}

fn turn<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [item, weight]) = parted(args)?;
    let weight = weight
        .downcast_ref::<CelInt>()
        .map_or(0, |weight| *weight.inner());
    let units = TURN_ITSELF + size(item.as_ref(), meter.left());
    within(meter.charge(u64::try_from(weight).unwrap_or(0).saturating_add(units)))?;
    Ok(CowVal::owned(CelBool::from(true)))
}

fn length<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [value]) = parted(args)?;
    let units = match value.downcast_ref::<CelString>() {
        Some(_) => size(value.as_ref(), meter.left()),
        None => 1,
    };
    within(meter.charge(CALL + units))?;
    Ok(value)
}

/// `cel` keeps the keys of a map in no order. A result that depends on it would differ from run to
/// run.
fn range<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [value]) = parted(args)?;
    within(meter.charge(CALL))?;
    let optional = value.downcast_ref::<CelOptional>().is_some();
    if optional {
        return Err(ExecutionError::function_error(
            "a loop",
            "runs over no optional value",
        ));
    }
    let Some(map) = value.downcast_ref::<CelMap>() else {
        return Ok(value);
    };
    within(meter.charge((map.inner().len() as u64).saturating_mul(KEPT)))?;
    let mut keys: Vec<&CelMapKey<'_>> = map.inner().keys().collect();
    keys.sort_by_cached_key(|key| order(key));
    let keys: Vec<Box<dyn Val + 'v>> = keys.into_iter().map(boxed).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

fn order(key: &CelMapKey<'_>) -> (u8, i128, String) {
    match key {
        CelMapKey::Bool(key) => (0, i128::from(*key.inner()), String::new()),
        CelMapKey::Int(key) => (1, i128::from(*key.inner()), String::new()),
        CelMapKey::UInt(key) => (1, i128::from(*key.inner()), String::new()),
        CelMapKey::String(key) => (2, 0, key.inner().to_owned()),
    }
}

fn boxed<'v>(key: &CelMapKey<'v>) -> Box<dyn Val + 'v> {
    match key {
        CelMapKey::Bool(key) => Box::new(*key),
        CelMapKey::Int(key) => Box::new(*key),
        CelMapKey::UInt(key) => Box::new(*key),
        CelMapKey::String(key) => Box::new(key.clone()),
    }
}

fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (meter, [text, pattern]) = parted(args)?;
    let (Some(text), Some(pattern)) = (
        text.downcast_ref::<CelString>(),
        pattern.downcast_ref::<CelString>(),
    ) else {
        let types = [&text, &pattern].map(|one| one.get_type().name().to_owned());
        return Err(ExecutionError::no_such_overload("matches", types.to_vec()));
    };
    let failed = |message: String| ExecutionError::function_error("matches", message);
    let (text, pattern) = (text.inner(), pattern.inner());
    meter.with_patterns(|patterns| {
        if !patterns.contains_key(pattern) {
            within(meter.charge(Pattern::compiling(pattern)))?;
            let compiled = Pattern::compile(pattern).map_err(failed)?;
            if patterns.len() >= Pattern::KEPT {
                patterns.pop_first();
            }
            patterns.insert(pattern.to_owned(), compiled);
        }
        let compiled = patterns
            .get(pattern)
            .ok_or_else(|| failed("the pattern is lost".to_owned()))?;
        within(meter.charge(CALL + compiled.cost(text)))?;
        Ok(CowVal::owned(CelBool::from(compiled.matches(text))))
    })
}
