//! Moves nodes to other blocks, and a cluster to another IPAM mode, step by step.
//!
//! Pure: it never parses a file, asks a server or reads a clock.

#![forbid(unsafe_code)]

pub mod migration;
