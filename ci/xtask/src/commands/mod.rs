//! The verbs, one in each file.

pub mod bench;
pub mod check;
pub mod quick;
pub mod test;
pub mod testbed;
