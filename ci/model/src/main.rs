//! `model`: all checks, with their progress on stderr and one line on stdout.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use model::{Verdict, prove};

fn main() -> Result<ExitCode> {
    ensure!(
        std::env::args().len() == 1,
        "it takes no arguments: the worlds are part of what it proves"
    );
    let proof = prove(&mut |text| eprintln!("{text}"))?;
    println!("{proof}");
    Ok(match proof.verdict() {
        Verdict::Holds => ExitCode::SUCCESS,
        Verdict::Fails => ExitCode::FAILURE,
    })
}
