//! Decides which node gets which block. Input: supply, taken ranges, pins and demands. Output:
//! assignments and shortfalls.
//!
//! Deterministic: a demand gets the lowest free blocks of the first pool that can serve all of it.
//! Knows nothing of selectors, of Cilium, or of where a block is written.

mod allocate;
mod passed_over;
mod supply;

pub use allocate::{Allocation, Assigned, Demand, Outcome, Shortfall, allocate};
pub use passed_over::{PassedOver, PassedOverPool, PassedOverPools};
pub use supply::{AllocationMode, PoolId, PoolPart, PoolSupply, Supply, WhenFull};
