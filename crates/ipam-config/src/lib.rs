//! Reads YAML files, Git revisions and custom resources into `Desired`, with each finding at its
//! line. Knows nothing of the state of a cluster.
#![forbid(unsafe_code)]

pub mod custom_resources;
pub mod documents;
pub mod source;
