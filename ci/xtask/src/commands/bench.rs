//! `bench`: builds the tool and the program that measures it, and runs the latter. What is
//! measured, it alone knows.

use anyhow::Result;

use super::companion;
use crate::cargo;

/// Measure against limits of the same run.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// For `xtask-bench`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs it.
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
    companion::run("bench", &arguments.arguments)
}
