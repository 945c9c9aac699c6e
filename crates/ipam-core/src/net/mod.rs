//! Arithmetic on addresses: blocks, block sizes, ranges and the free slots inside a range.
//!
//! Knows nothing of Kubernetes, pools or nodes. Every overlap is computed here, on numbers and
//! never on strings.

mod block;
mod range;
mod slots;

pub use block::{
    Address, AddressError, Block, BlockError, BlockSize, BlockSizeError, Family,
    is_written_as_mapped, unmapped,
};
pub use range::{
    Range, RangeError, RangeIndex, covers, gaps, largest_gap, lowest_free, merge,
    overlapping_pairs, touching,
};
pub use slots::Slots;
