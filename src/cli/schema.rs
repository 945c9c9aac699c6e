//! `schema`: JSON Schema of the files, made from the types that read them.

use clap::ValueEnum;

use super::failure::Failure;
use super::{Reached, output};
use crate::desired::{DocumentKind, json_schema};

/// Print the JSON Schema of the files, for editors.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// One kind; all of them when absent.
    #[arg(value_enum, value_name = "KIND")]
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    #[value(name = "IPPool")]
    IpPool,
    #[value(name = "NodeAssignment")]
    NodeAssignment,
    #[value(name = "Policy")]
    Policy,
}

pub(super) fn run(arguments: &Arguments) -> Result<Reached, Failure> {
    let kind = arguments.kind.map(|kind| match kind {
        Kind::IpPool => DocumentKind::IpPool,
        Kind::NodeAssignment => DocumentKind::NodeAssignment,
        Kind::Policy => DocumentKind::Policy,
    });
    output::json(&json_schema(kind))?;
    Ok(Reached::Done)
}
