//! Protects the machine's own folders from the tests with `ci/guarded.sh`, if the machine allows
//! it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::tally::Skip;
use crate::cargo::root;

/// Exit code of the script if the machine does not allow the guard (EX_TEMPFAIL).
const CANNOT_HERE: i32 = 75;
/// Succeeds if no folder is writable and the first has its trap.
const CHECK: &str = "for folder in /var/lib /run \"$HOME\"; do\n\
                     if touch \"$folder/not-for-tests\" 2>/dev/null; then echo \"$folder can be written\"; exit 1; fi; done\n\
                     cat /var/lib/cni/cilium-ipam-neutron/node.json";

/// Whether the tests can reach the machine's own folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// They are read-only and contain traps.
    ReadOnly,
    /// They are unprotected.
    None,
}

impl Guard {
    /// The best guard that this machine allows. Without a guard, also the reason, as a skip.
    ///
    /// # Errors
    /// Fails if the guard starts but does not protect the folders.
    pub fn find() -> Result<(Self, Option<Skip>)> {
        let output = Command::new(script())
            .args(["sh", "-c", CHECK])
            .output()
            .context("ci/guarded.sh does not start")?;
        let [told, errors] = [&output.stdout, &output.stderr]
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        match output.status.code() {
            Some(0) => Ok((Self::ReadOnly, None)),
            Some(CANNOT_HERE) => {
                let skip = Skip {
                    what: "guard".to_owned(),
                    test: "the-machine's-folders-are-left-alone".to_owned(),
                    why: errors.split_whitespace().collect::<Vec<_>>().join(" "),
                };
                Ok((Self::None, Some(skip)))
            }
            _ => bail!("ci/guarded.sh does not guard: {told}{errors}"),
        }
    }

    /// The same command behind the guard. Its environment is not kept: set variables afterwards.
    #[must_use]
    pub fn around(self, command: Command) -> Command {
        match self {
            Self::None => command,
            Self::ReadOnly => {
                let mut guarded = Command::new(script());
                guarded
                    .arg(command.get_program())
                    .args(command.get_args())
                    .current_dir(root());
                guarded
            }
        }
    }
}

fn script() -> PathBuf {
    root().join("ci/guarded.sh")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testbed::{Error, or_skip};

    use super::*;

    /// Runs a line of shell behind the guard; its exit code.
    fn guarded(line: &str) -> testbed::Result<Option<i32>> {
        let output = Command::new(script())
            .args(["sh", "-c", line])
            .current_dir(root())
            .output()
            .unwrap();
        match output.status.code() {
            Some(CANNOT_HERE) => Err(Error::missing(
                "guard",
                String::from_utf8_lossy(&output.stderr),
            )),
            code => Ok(code),
        }
    }

    #[test]
    fn the_guard_stops_writes_to_the_machines_folders_and_nothing_else() {
        assert_eq!(or_skip!(guarded("touch \"$HOME/not-for-tests\"")), Some(1));
        assert_eq!(or_skip!(guarded("mkdir /run/not-for-tests")), Some(1));
        assert_eq!(
            or_skip!(guarded(
                "grep -q somebody-else /var/lib/cni/cilium-ipam-neutron/node.json"
            )),
            Some(0)
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(
            or_skip!(guarded(&format!(
                "echo written > {}; exit 9",
                file.path().display()
            ))),
            Some(9)
        );
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "written\n");
    }
}
