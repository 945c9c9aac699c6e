//! Skipped tests. libtest cannot skip a test that finds out at run time that this machine lacks
//! something. So such a test adds a line to a record. `cargo xtask test` reads, shows and counts
//! these lines.
//!
//! Without a record, the test fails: every skipped test is counted.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Names the file to which skipped tests are added, one a line: what is missing, the test, and why,
/// with tabs between.
pub const SKIPS_VARIABLE: &str = "CILIUM_IPAM_SKIPS";

/// Gives the value of a [`Result`], or ends the test: as skipped if this machine cannot have what
/// it needs, as failed after any other error. Use it in the test function itself.
#[macro_export]
macro_rules! or_skip {
    ($wanted:expr) => {
        match $wanted {
            Ok(wanted) => wanted,
            Err(error) => {
                fn here() {}
                $crate::skip(::std::any::type_name_of_val(&here), error);
                return;
            }
        }
    };
}

/// Records that the test around this function is skipped. [`or_skip!`] calls it.
///
/// # Panics
/// If the error is anything else than a missing thing, or if skipped tests are not counted.
#[track_caller]
pub fn skip(inside: &str, error: Error) {
    let Error::Missing { what, why } = &error else {
        panic!("{error}")
    };
    let test = test_name(inside);
    eprintln!("skipped {test}: {error}");
    let Some(record) = std::env::var_os(SKIPS_VARIABLE) else {
        panic!("{test} cannot run: {error}\nhelp: `cargo xtask test` counts it as skipped")
    };
    add(Path::new(&record), &line(what, test, why))
        .unwrap_or_else(|error| panic!("{test}: {error}"));
}

/// As libtest prints it: without the crate and what lies inside of the test.
fn test_name(inside: &str) -> &str {
    let name = inside.split_once("::").map_or(inside, |(_, name)| name);
    name.trim_end_matches("::here")
        .trim_end_matches("::{{closure}}")
}

fn line(what: &str, test: &str, why: &str) -> String {
    format!(
        "{what}\t{test}\t{}\n",
        why.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// In one write, as other tests add theirs meanwhile.
fn add(record: &Path, line: &str) -> Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .open(record)
        .map_err(Error::file(record))?;
    file.write_all(line.as_bytes()).map_err(Error::file(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_named_as_libtest_names_the_test() {
        fn here() {}
        let closure = || {
            fn here() {}
            std::any::type_name_of_val(&here)
        };
        for inside in [std::any::type_name_of_val(&here), closure()] {
            assert_eq!(
                test_name(inside),
                "skip::tests::a_skip_is_named_as_libtest_names_the_test"
            );
        }
        assert_eq!(
            line("debian", "a::b", "no route\n  to\thost\n"),
            "debian\ta::b\tno route to host\n"
        );
    }

    #[test]
    #[should_panic(expected = "something.sock")]
    fn an_error_is_no_skip() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        or_skip!(Err(Error::file("/something.sock")(error)));
    }

    #[test]
    fn a_record_that_is_not_there_fails_the_test() {
        assert!(add(Path::new("/nowhere/at/all"), "line\n").is_err());
    }
}
