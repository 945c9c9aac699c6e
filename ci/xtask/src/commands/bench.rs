//! `bench`: builds the tool and `xtask-bench`, and runs the latter. It knows nothing of what is
//! measured.

use anyhow::Result;

use super::companion;
use crate::cargo;
use crate::suite::Guard;

/// Measure against limits of the same run.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Arguments of `xtask-bench`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments
        .arguments
        .iter()
        .any(|argument| argument == "cni" || argument == "all")
    {
        cargo::run(
            "build --profile plugin --package neutron-cni --package neutron-node --bin cni-ipam-neutron --bin neutron-node",
        )?;
    }
    companion::run("bench", &arguments.arguments, Guard::None)
}
