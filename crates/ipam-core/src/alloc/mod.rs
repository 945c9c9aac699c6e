//! Which node gets which block: supply, what is taken, pins and demands in; assignments and
//! shortfalls out.
//!
//! Pure and deterministic: the lowest free block of the first pool that can serve a demand whole.
//! Knows pools as named supplies and nodes as names, and nothing of selectors, Cilium or where a
//! block is written.

mod allocate;
mod supply;

pub use allocate::{Allocation, Assigned, Demand, Outcome, PassedOver, Shortfall, allocate};
pub use supply::{Giving, PoolId, PoolPart, PoolSupply, Supply};
