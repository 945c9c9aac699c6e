//! From YAML files, Git revisions and custom resources to what they ask for, with each finding at
//! its line. Knows nothing of a cluster's state.
#![forbid(unsafe_code)]

pub mod custom_resources;
pub mod documents;
pub mod source;
