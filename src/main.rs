//! The program `cilium-ipam`: reads its arguments, runs the command, sets the exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Lists are decoded on several threads, which the usual allocators serve slowly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cilium_ipam::cli::main()
}
