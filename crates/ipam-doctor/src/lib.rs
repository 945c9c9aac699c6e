//! Faults of a running cluster, reasons for what it shows, its past, and what an upgrade of Cilium changes.
//!
//! Pure: it never parses a file, asks a server or reads a clock.

#![forbid(unsafe_code)]

pub mod doctor;
pub mod explain;
pub mod history;
pub mod map;
pub mod upgrade;
