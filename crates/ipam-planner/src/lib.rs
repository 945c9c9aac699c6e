//! From the files and the observed cluster to a plan, findings and explanations.
//!
//! Pure: it never parses a file, asks a server or reads a clock.

#![forbid(unsafe_code)]

mod allocators;
pub mod check;
pub mod doctor;
pub mod explain;
pub mod freeze;
mod growth;
pub mod history;
pub mod import;
pub mod map;
pub mod migration;
pub mod openstack;
pub mod plan;
pub mod proposal;
pub mod upgrade;
