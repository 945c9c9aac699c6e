//! Reads documents: YAML text in, `Desired` and findings out.
//!
//! Reads text, never files, and knows nothing of a cluster. Does not stop at the first fault: reads
//! every document of every file, and reports each fault at its place in the file.

mod cilium_manifests;
mod context;
mod editor_schema;
mod ignored;
mod incomplete_pools;
mod lines;
mod lower;
mod lower_address_pool;
mod lower_migration;
mod lower_neutron_pool;
mod lower_pin;
mod lower_policy;
mod lower_policy_test;
mod lower_pool;
mod lower_rules;
mod lower_selector;
mod lower_service_pin;
mod messages;
mod pool_annotations;
mod recognition;
mod references;
mod schema;
mod schema_lb;
mod schema_policy;
mod schema_policy_test;
mod schema_pool;
mod server_fields;
mod structure;
mod tree;
mod validator;
mod written_text;
mod yaml;

use std::sync::Arc;

pub use cilium_manifests::cilium_manifests;
pub use editor_schema::editor_schema;
pub use lines::Lines;
pub use lower::lower;
pub use references::{Named, NamedInFile, Naming, named};
pub(crate) use schema::inline_settings;
pub use schema::{API_VERSION, DocumentKind, json_schema};

/// One file of the directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    /// Path as the person would write it, with `/`.
    pub path: Arc<str>,
    /// Content.
    pub text: Arc<str>,
}

/// All files of the directory, in any order.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// The files.
    pub files: Vec<SourceFile>,
}
