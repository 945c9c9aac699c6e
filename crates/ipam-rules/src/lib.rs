//! Rules over one JSON value, written in CEL, and evaluated within limits of time and memory. Pure:
//! it must never know a plan, a file, a client or a clock.

#![forbid(unsafe_code)]

mod addresses;
mod check;
mod expression;
mod judge;
mod meter;

pub use check::{Fields, Shape};
pub use expression::{CompileError, Expression, Fault, MAX_DEPTH, MAX_LENGTH};
pub use judge::{Failure, Message, Rule, Verdict, judge};

#[cfg(test)]
mod tests;
