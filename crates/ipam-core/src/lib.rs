//! The nouns that every other crate shares: blocks and ranges, names, selectors, findings, claims,
//! and the allocator that fits them together. Pure: it knows no file, no client, no clock.
#![forbid(unsafe_code)]

pub mod alloc;
pub mod claims;
pub mod model;
pub mod net;
pub mod neutron;
pub mod text;
