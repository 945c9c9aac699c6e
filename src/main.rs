//! The program `cilium-ipam`: reads its arguments, runs the command, sets the exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cilium_ipam::cli::main()
}
