//! The vocabulary that every other crate shares: blocks and ranges, names, selectors, findings,
//! claims, and the allocator. Pure: it must never know a file, a client, or a clock.

#![forbid(unsafe_code)]

pub mod alloc;
pub mod claims;
pub mod model;
pub mod net;
pub mod neutron;
pub mod rules;
pub mod text;
mod text_enum;
