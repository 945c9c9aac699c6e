//! Decides: what the files ask for and what the cluster shows become a plan, findings and
//! explanations. Pure: it never parses a file, asks a server or reads a clock.
#![forbid(unsafe_code)]

pub mod check;
pub mod doctor;
pub mod explain;
pub mod plan;
