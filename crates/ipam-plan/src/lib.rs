//! From the files and the observed cluster to a plan.
//!
//! Pure: it never parses a file, asks a server or reads a clock.

#![forbid(unsafe_code)]

pub mod allocators;
pub mod capacity;
pub mod check;
pub mod growth;
pub mod openstack;
pub mod overview;
pub mod plan;
pub mod simulate;
