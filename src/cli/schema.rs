//! `schema`: prints the JSON Schema of the files, the CustomResourceDefinitions, or the roles that
//! `plan` and `apply` need. The first two come from the types that read the files.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::failure::Failure;
use super::{ExitStatus, output};
use ipam_config::custom_resources::definitions;
use ipam_config::documents::{DocumentKind, json_schema};

/// Print the JSON Schema of the files for editors, the CustomResourceDefinitions, or the roles that
/// plan and apply need.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The kind. Default: all kinds.
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: Option<DocumentKind>,
    /// Print the CustomResourceDefinitions instead, as `kubectl apply --server-side -f -` takes
    /// them.
    #[arg(long, conflicts_with = "kind")]
    crds: bool,
    /// Print the roles that `plan` and `apply` need instead, to copy and bind.
    #[arg(long, conflicts_with_all = ["kind", "crds"])]
    rbac: bool,
}

/// A test compares them with the documentation.
const ROLES: &str = include_str!("roles.yaml");

fn kinds() -> impl TypedValueParser<Value = DocumentKind> {
    let names = PossibleValuesParser::new(DocumentKind::ALL.map(DocumentKind::as_str));
    names.try_map(|name| name.parse().map_err(|()| "unknown kind"))
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    if arguments.rbac {
        output::script(ROLES)?;
    } else if arguments.crds {
        output::json(&json!({"apiVersion": "v1", "kind": "List", "items": definitions()}))?;
    } else {
        output::json(&json_schema(arguments.kind))?;
    }
    Ok(ExitStatus::Done)
}
