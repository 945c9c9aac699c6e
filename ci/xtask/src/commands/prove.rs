//! `prove`: one door to all proofs. Those on a real API server are a companion of this program; the model and the
//! simulator are programs of their own; two are tests with more cases. What is proved, they alone know.

use anyhow::{Result, bail};

use super::companion;
use crate::cargo;
use crate::suite::{Guard, Output, Suite};

/// Try to break what the tool promises: model, simulate, appliers, kills, paused, restarts, rival, leader, soak, properties, hostile, or all.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The proof.
    name: String,
    /// For the proof.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// All of them, as the suite runs them: fewer repetitions of those whose repetitions take long. The tests of the model check its
/// smaller worlds; the large ones take many minutes.
const IN_SUITE: [(&str, &[&str]); 9] = [
    ("simulate", &["--seeds", "10000"]),
    ("appliers", &[]),
    ("kills", &["--times", "20"]),
    ("paused", &[]),
    ("restarts", &[]),
    ("rival", &[]),
    ("leader", &["--nodes", "400"]),
    ("properties", &["--cases", "1000"]),
    ("hostile", &[]),
];

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.name.as_str() {
        "all" => all(),
        name => one(name, &arguments.arguments),
    }
}

/// Runs all of them as the suite does.
pub fn all() -> Result<()> {
    for (name, arguments) in IN_SUITE {
        one(name, &arguments.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn one(name: &str, arguments: &[String]) -> Result<()> {
    match name {
        "model" => cargo::run_with("run --release --package model --", arguments, None),
        "simulate" => cargo::run_with("run --release --package simulator --", arguments, None),
        "properties" => properties(arguments),
        "hostile" => tests("hostile", None),
        _ => {
            let words: Vec<String> = [name.to_owned()].into_iter().chain(arguments.iter().cloned()).collect();
            companion::run("prove", &words)
        }
    }
}

/// The properties of plans against a naive planner, with so many random cases each.
fn properties(arguments: &[String]) -> Result<()> {
    let cases = match arguments {
        [] => "5000",
        [flag, cases] if flag == "--cases" => cases,
        _ => bail!("it is `prove properties [--cases N]`"),
    };
    tests("properties", Some(("PROPTEST_CASES", cases)))
}

/// The tests whose names have this in them; prints how many there are when all hold.
fn tests(name: &'static str, variable: Option<(&str, &str)>) -> Result<()> {
    // As the suite builds it, or it would be built once more.
    let words = format!("test --workspace --all-features --test it {name}");
    let tally = Suite { words: &words, arguments: &[], variable, guard: Guard::None }.run(Output::Kept)?;
    let (passed, skipped) = (tally.passed(), tally.skips().count());
    if passed == 0 {
        bail!("there is no test of that name\n{tally}");
    }
    let cases = variable.map(|(_, cases)| format!(" cases={cases}")).unwrap_or_default();
    println!("{name}: tests={passed}{cases} skipped={skipped} failures=0");
    Ok(())
}
