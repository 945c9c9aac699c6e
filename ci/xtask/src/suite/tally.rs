//! The tally of a run of tests, from libtest's output and from the record of skipped tests.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, ensure};

/// A test that was skipped, before its start or at run time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// One word for what is missing.
    pub what: String,
    /// As libtest names it.
    pub test: String,
    /// The evidence that it is missing.
    pub why: String,
}

/// How many tests passed, and which were skipped.
#[derive(Debug, Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    skips: BTreeSet<Skip>,
    /// What the tests that failed printed, each below its name.
    failures: Vec<String>,
}

/// Lines that are repeated of what a failed test printed: the last ones say why.
const LINES_OF_A_FAILURE: usize = 20;

impl Tally {
    /// From libtest's output, and from the record with one line per skipped test. libtest counts
    /// such a test as passed.
    ///
    /// # Errors
    /// Fails if one of both cannot be understood.
    pub fn of(told: &str, record: &str) -> Result<Self> {
        let recorded = record
            .lines()
            .map(recorded)
            .collect::<Result<BTreeSet<Skip>>>()?;
        let [passed, failed] = ["passed", "failed"].map(|word| counted(told, word));
        let failed_tests: BTreeSet<&str> = told.lines().filter_map(failed_test).collect();
        let left = recorded
            .iter()
            .filter(|skip| !failed_tests.contains(skip.test.as_str()))
            .count();
        let passed = passed
            .checked_sub(left)
            .context("more tests were skipped than ended well")?;
        let skips = told.lines().filter_map(ignored).chain(recorded).collect();
        Ok(Self {
            passed,
            failed,
            skips,
            failures: failures(told),
        })
    }

    /// How many passed. None of them was skipped.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// Those that were skipped.
    pub fn skips(&self) -> impl Iterator<Item = &Skip> {
        self.skips.iter()
    }

    /// Adds a skip that no test has recorded.
    pub fn add(&mut self, skip: Skip) {
        self.skips.insert(skip);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Skip { what, test, why } in &self.skips {
            writeln!(f, "skipped {test}: {what}: {why}")?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        write!(
            f,
            "tests: passed={} failed={} skipped={}",
            self.passed,
            self.failed,
            self.skips.len()
        )
    }
}

fn recorded(line: &str) -> Result<Skip> {
    let parts: Vec<&str> = line.splitn(3, '\t').collect();
    ensure!(
        parts.len() == 3,
        "`{line}` is not how a skipped test is recorded"
    );
    Ok(Skip {
        what: parts[0].to_owned(),
        test: parts[1].to_owned(),
        why: parts[2].to_owned(),
    })
}

/// `test result: ok. 5 passed; 0 failed; …` of every binary.
fn counted(told: &str, word: &str) -> usize {
    let results = told
        .lines()
        .filter(|line| line.starts_with("test result: "));
    let parts = results.flat_map(|line| line.split([';', '.']));
    parts
        .filter_map(|part| part.trim().strip_suffix(word)?.trim().parse::<usize>().ok())
        .sum()
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// The parts of libtest's output that begin with `---- NAME stdout ----`.
fn failures(told: &str) -> Vec<String> {
    let mut failures: Vec<Vec<&str>> = Vec::new();
    let mut is_inside = false;
    for line in told.lines() {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            failures.push(Vec::new());
            is_inside = true;
        }
        is_inside &= line != "failures:";
        if let Some(failure) = failures.last_mut().filter(|_| is_inside) {
            failure.push(line);
        }
    }
    let shortened = |lines: Vec<&str>| {
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let (name, printed) = lines.split_first()?;
        let last = &printed[printed.len().saturating_sub(LINES_OF_A_FAILURE)..];
        Some([&[*name], last].concat().join("\n"))
    };
    failures.into_iter().filter_map(shortened).collect()
}

/// `test NAME ... ignored, WHAT: WHY`
fn ignored(line: &str) -> Option<Skip> {
    let (test, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let reason = reason.trim_start_matches(',').trim();
    let (what, why) = reason.split_once(": ").unwrap_or(("ignored", reason));
    Some(Skip {
        what: what.to_owned(),
        test: test.to_owned(),
        why: why.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "\
        running 4 tests\n\
        test a::b ... ok\n\
        test a::c ... ok\n\
        test a::d ... ignored, slow: boots a guest\n\
        test a::e ... FAILED\n\
        \n\
        failures:\n\
        \n\
        ---- a::e stdout ----\n\
        asks a server\n\
        \n\
        thread 'a::e' panicked at e.rs:1:1:\n\
        no answer\n\
        \n\
        failures:\n\
        \x20   a::e\n\
        \n\
        test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
        test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";

    #[test]
    fn what_is_skipped_has_not_passed_and_what_failed_says_why() {
        let tally = Tally::of(TOLD, "debian\ta::c\tno network\n").unwrap();
        assert_eq!(
            tally.to_string(),
            "skipped a::c: debian: no network\nskipped a::d: slow: boots a guest\n\
             ---- a::e stdout ----\nasks a server\nthread 'a::e' panicked at e.rs:1:1:\nno answer\n\
             tests: passed=8 failed=1 skipped=2"
        );
    }

    #[test]
    fn a_skip_that_failed_later_was_not_counted_as_passed() {
        assert_eq!(
            Tally::of(TOLD, "debian\ta::e\tno network\n")
                .unwrap()
                .passed(),
            9
        );
    }

    #[test]
    fn what_is_no_record_is_refused() {
        Tally::of(TOLD, "a::c\n").unwrap_err();
        Tally::of("", "debian\ta::c\tno network\n").unwrap_err();
    }
}
