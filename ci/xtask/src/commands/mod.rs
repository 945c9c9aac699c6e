//! The verbs, one in each file.

pub mod advisories;
pub mod bench;
pub mod check;
mod companion;
pub mod docs;
pub mod fuzz;
pub mod prove;
pub mod quick;
pub mod release;
pub mod test;
pub mod testbed;
