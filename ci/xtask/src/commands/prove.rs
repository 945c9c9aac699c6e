//! `prove`: the one entry to all proofs. Those on a real API server are in `xtask-prove`; the model
//! and the simulator are programs of their own; three are tests, some with more cases. It knows
//! nothing of what is proved.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::companion;
use crate::cargo;
use crate::suite::{Expected, Guard, Output, Suite};

/// Try to break what the tool promises: model, simulate, appliers, kills, paused, restarts,
/// restore, rival, leader, migrate, faulty, soak, upgrades, properties, hostile, retry, or all.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Fail if a proof skips a test that this file does not list. Goes before the name.
    #[arg(long, value_name = "FILE")]
    expected_skips: Option<PathBuf>,
    /// The proof.
    name: String,
    /// Arguments of the proof.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The proofs of the suite, with few repetitions. `properties`, `hostile` and `retry` are tests, which the
/// suite runs anyway. `.ci/scheduled` repeats all proofs more often, and runs those that take longer.
const IN_SUITE: [(&str, &[&str]); 8] = [
    ("simulate", &["--seeds", "5000"]),
    ("appliers", &[]),
    ("kills", &["--times", "10"]),
    ("paused", &[]),
    ("restarts", &[]),
    ("restore", &["--rounds", "3"]),
    ("rival", &[]),
    ("leader", &["--nodes", "400"]),
];

/// How the proofs run.
#[derive(Clone, Copy)]
pub struct Setting<'s> {
    /// Protects the machine's own folders.
    pub guard: Guard,
    /// The skips that are allowed; without it, every skip is.
    pub expected: Option<&'s Expected>,
}

/// Runs one proof, or all of the suite.
pub fn run(arguments: &Arguments) -> Result<()> {
    let expected = arguments
        .expected_skips
        .as_deref()
        .map(Expected::read)
        .transpose()?;
    let setting = Setting {
        guard: Guard::None,
        expected: expected.as_ref(),
    };
    match arguments.name.as_str() {
        "all" => setting.all(),
        name => setting.one(name, &arguments.arguments),
    }
}

impl Setting<'_> {
    /// Runs all proofs of the suite.
    pub fn all(self) -> Result<()> {
        for (name, arguments) in IN_SUITE {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            self.one(name, &arguments)?;
        }
        Ok(())
    }

    fn one(self, name: &str, arguments: &[String]) -> Result<()> {
        match name {
            "model" => companion::run_alone("model", arguments, self.guard),
            "simulate" => companion::run_alone("simulator", arguments, self.guard),
            "properties" => {
                let cases = cases("properties", arguments, "5000")?;
                self.tests("properties", Some(("PROPTEST_CASES", &cases)))
            }
            "hostile" => self.tests("hostile", None),
            "retry" => self.retry(&cases("retry", arguments, "10000")?),
            _ => {
                let words: Vec<String> = [name.to_owned()]
                    .into_iter()
                    .chain(arguments.iter().cloned())
                    .collect();
                companion::run("prove", &words, self.guard)
            }
        }
    }

    /// A server with random answers, and random patience; the test prints the figures.
    fn retry(self, cases: &str) -> Result<()> {
        let printed = cargo::output_as(
            self.guard.around(cargo::cargo()),
            "test --workspace --all-features --test it retry:: -- --nocapture",
            Some(("RETRY_CASES", cases)),
        )?;
        match printed.lines().find(|line| line.starts_with("retry: ")) {
            Some(figures) => println!("{figures}"),
            None => bail!("the test printed no figures"),
        }
        Ok(())
    }

    /// Runs the tests whose paths contain `name`; prints how many passed.
    fn tests(self, name: &'static str, variable: Option<(&str, &str)>) -> Result<()> {
        // The flags of the suite, so that cargo builds nothing twice.
        let words = format!("test --workspace --all-features --test it {name}");
        let tally = Suite {
            words: &words,
            arguments: &[],
            variable,
            guard: self.guard,
        }
        .run(Output::Kept)?;
        let (passed, skipped) = (tally.passed(), tally.skips().count());
        if passed == 0 {
            bail!("no test has `{name}` in its path\n{tally}");
        }
        if skipped > 0 {
            println!("{tally}");
        }
        self.expected
            .map_or(Ok(()), |expected| expected.check(&tally))?;
        let cases = variable
            .map(|(_, cases)| format!(" cases={cases}"))
            .unwrap_or_default();
        println!("{name}: tests={passed}{cases} skipped={skipped} failures=0");
        Ok(())
    }
}

/// The value of `--cases`, or the default.
fn cases(name: &str, arguments: &[String], default: &str) -> Result<String> {
    match arguments {
        [] => Ok(default.to_owned()),
        [flag, cases] if flag == "--cases" => Ok(cases.clone()),
        _ => bail!("usage: `prove {name} [--cases N]`"),
    }
}
