//! The skips that are expected on a machine, from a file. A line names the missing thing and the
//! test, or `*` for every test that needs it.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::tally::{Skip, Tally};

/// The lines of the file.
pub struct Expected(Vec<(String, String)>);

impl Expected {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::of(&text).with_context(|| path.display().to_string())
    }

    fn of(text: &str) -> Result<Self> {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            ensure!(words.len() == 2, "`{line}` is not `WHAT TEST`");
            Ok((words[0].to_owned(), words[1].to_owned()))
        };
        lines.map(pair).collect::<Result<_>>().map(Self)
    }

    /// Fails if a test was skipped that is not expected.
    ///
    /// # Errors
    /// Names each of them.
    pub fn check(&self, tally: &Tally) -> Result<()> {
        let unexpected: Vec<String> = tally
            .skips()
            .filter(|skip| !self.has(skip))
            .map(|skip| format!("  {} {}", skip.what, skip.test))
            .collect();
        if !unexpected.is_empty() {
            bail!(
                "these tests were skipped, and must run here:\n{}\nhelp: the lines above say what is missing",
                unexpected.join("\n")
            );
        }
        Ok(())
    }

    fn has(&self, skip: &Skip) -> bool {
        self.0
            .iter()
            .any(|(what, test)| *what == skip.what && (test == "*" || *test == skip.test))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_of_another_test_or_for_another_reason_is_not_expected() {
        let expected = Expected::of("# Why.\nslow a::b\nguest *\n").unwrap();
        let check = |record: &str| {
            let told = "test result: ok. 9 passed; 0 failed";
            expected
                .check(&Tally::of(told, record).unwrap())
                .map_err(|error| error.to_string())
        };
        check("slow\ta::b\t-\nguest\tc::d\t-\n").unwrap();
        let refused = check("slow\ta::b\t-\nslow\ta::c\t-\ndebian\ta::b\t-\n").unwrap_err();
        assert!(
            refused.contains("\n  debian a::b\n  slow a::c\n"),
            "{refused}"
        );
        assert!(Expected::of("slow\n").is_err());
    }
}
