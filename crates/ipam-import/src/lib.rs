//! Pools, pins and LoadBalancer pools for a cluster that already has blocks and addresses.
//!
//! Pure: it never parses a file, asks a server or reads a clock.

#![forbid(unsafe_code)]

pub mod freeze;
pub mod import;
pub mod proposal;
