//! The sizes of the binaries, beside those of programs that people know.

use std::path::Path;

use anyhow::{Context, Result};
use testbed::Program;
use xtask::line::Line;

use super::target::{Built, programs};

const MIB: f64 = 1024.0 * 1024.0;

/// Prints a line for each binary of these platforms.
pub fn print(all: &[Built]) -> Result<()> {
    for built in all {
        for program in programs() {
            line(program.name, built.target.triple(), &built.binary(program))?;
        }
    }
    Ok(())
}

/// Builds kubectl and OpenTofu for this machine, stripped as well, and prints a line for each.
pub fn print_others() -> Result<()> {
    for (name, program) in [("kubectl", Program::Kubectl), ("tofu", Program::Tofu)] {
        match testbed::build(&[program]) {
            Ok(built) => line(name, "this machine", built.path(program)?)?,
            Err(error) => println!("size: name={name} not built: {error}"),
        }
    }
    Ok(())
}

fn line(name: &str, target: &str, path: &Path) -> Result<()> {
    let metadata =
        std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Line::new("size")
        .with("name", name)
        .with("target", target)
        .measured("mib", metadata.len() as f64 / MIB)
        .print();
    Ok(())
}
