//! `cargo xtask`: the one entry to building, checking, testing and measuring this repository.
//!
//! Every command is a short list of commands that a person could type as well. Each is shown before it
//! runs. The README and `.ci/run` call these verbs and nothing else.
#![forbid(unsafe_code)]

mod cargo;
mod commands;
mod links;
mod suite;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{advisories, bench, check, docs, fuzz, prove, quick, release, test, testbed};

/// The one entry to building, checking, testing and measuring cilium-ipam.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Test the pure crates and the cases on files, in a minute or two.
    Quick,
    /// Check formatting, lints, dependencies and documentation.
    Check,
    /// Build the documentation site into target/book and check its links. Installs mdBook first.
    Docs(docs::Arguments),
    /// Check dependencies for known vulnerabilities. Skipped, by name, if the list of them cannot
    /// be fetched.
    Advisories,
    /// Run the whole test suite and the proofs. Builds the real programs that they need first.
    Test(test::Arguments),
    /// Build or start the real Kubernetes and Cilium programs.
    #[command(subcommand)]
    Testbed(testbed::Command),
    /// Measure against limits of the same run: plan, apply, file, alloc, claims, services, doctor,
    /// join, peers, cni, growth, sizes, table or all.
    #[command(disable_help_flag = true)]
    Bench(bench::Arguments),
    /// Try to break what the tool promises: model, simulate, appliers, kills, paused, restarts,
    /// restore, rival, leader, migrate, faulty, soak, properties, hostile, retry or all.
    Prove(prove::Arguments),
    /// Write everything that a release page needs into `dist`: archives, packages, image, chart,
    /// sums, provenance.
    #[command(disable_help_flag = true)]
    Release(release::Arguments),
    /// Run fuzz targets, ten minutes each by default. Installs cargo-fuzz first; requires a nightly
    /// toolchain.
    Fuzz(fuzz::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Quick => quick::run(),
        Command::Check => check::run(),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Advisories => advisories::run(),
        Command::Test(arguments) => test::run(&arguments),
        Command::Testbed(command) => testbed::run(&command),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Release(arguments) => release::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
