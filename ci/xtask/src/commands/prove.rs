//! `prove`: one door to all proofs. Those on a real API server are a companion of this program; the
//! model and the simulator are programs of their own; three are tests, some with more cases. What
//! is proved, they alone know.

use anyhow::{Result, bail};

use super::companion;
use crate::cargo;
use crate::suite::{Guard, Output, Suite};

/// Try to break what the tool promises: model, simulate, appliers, kills, paused, restarts,
/// restore, rival, leader, soak, properties, hostile, retry, or all.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The proof.
    name: String,
    /// For the proof.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// All of them, as the suite runs them: fewer repetitions of those whose repetitions take long. The
/// tests of the model check its smaller worlds; the large ones take many minutes.
const IN_SUITE: [(&str, &[&str]); 11] = [
    ("simulate", &["--seeds", "10000"]),
    ("appliers", &[]),
    ("kills", &["--times", "20"]),
    ("paused", &[]),
    ("restarts", &[]),
    ("restore", &["--rounds", "3"]),
    ("rival", &[]),
    ("leader", &["--nodes", "400"]),
    ("properties", &["--cases", "1000"]),
    ("hostile", &[]),
    ("retry", &["--cases", "2000"]),
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
        one(
            name,
            &arguments
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}

fn one(name: &str, arguments: &[String]) -> Result<()> {
    match name {
        "model" => cargo::run_with("run --release --package model --", arguments, None),
        "simulate" => cargo::run_with("run --release --package simulator --", arguments, None),
        "properties" => {
            let cases = cases("properties", arguments, "5000")?;
            tests("properties", Some(("PROPTEST_CASES", &cases)))
        }
        "hostile" => tests("hostile", None),
        "retry" => retry(&cases("retry", arguments, "10000")?),
        _ => {
            let words: Vec<String> = [name.to_owned()]
                .into_iter()
                .chain(arguments.iter().cloned())
                .collect();
            companion::run("prove", &words)
        }
    }
}

/// How many random cases.
fn cases(name: &str, arguments: &[String], usual: &str) -> Result<String> {
    match arguments {
        [] => Ok(usual.to_owned()),
        [flag, cases] if flag == "--cases" => Ok(cases.clone()),
        _ => bail!("it is `prove {name} [--cases N]`"),
    }
}

/// A server with random answers, and random patience; the test prints the figures.
fn retry(cases: &str) -> Result<()> {
    let told = cargo::output_with(
        "test --workspace --all-features --test it retry:: -- --nocapture",
        Some(("RETRY_CASES", cases)),
    )?;
    match told.lines().find(|line| line.starts_with("retry: ")) {
        Some(figures) => println!("{figures}"),
        None => bail!("the test prints no figures"),
    }
    Ok(())
}

/// The tests whose names have this in them; prints how many there are when all hold.
fn tests(name: &'static str, variable: Option<(&str, &str)>) -> Result<()> {
    // As the suite builds it, or it would be built once more.
    let words = format!("test --workspace --all-features --test it {name}");
    let tally = Suite {
        words: &words,
        arguments: &[],
        variable,
        guard: Guard::None,
    }
    .run(Output::Kept)?;
    let (passed, skipped) = (tally.passed(), tally.skips().count());
    if passed == 0 {
        bail!("there is no test of that name\n{tally}");
    }
    let cases = variable
        .map(|(_, cases)| format!(" cases={cases}"))
        .unwrap_or_default();
    println!("{name}: tests={passed}{cases} skipped={skipped} failures=0");
    Ok(())
}
