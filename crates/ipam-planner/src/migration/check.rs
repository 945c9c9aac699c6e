//! What the record keeps of a person's own check: that there was one, and its program. The command
//! itself may hold secrets, so it is never recorded.

use serde::{Deserialize, Serialize};

/// Recorded if the program of a command cannot be told without the risk of a secret.
const SHELL: &str = "sh";

/// A check that was given when the migration began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDocument {
    /// The name of its program, without its path and arguments.
    pub program: String,
}

impl CheckDocument {
    /// Of a command for `sh -c`. A command that begins with anything but a plain name, such as with
    /// `TOKEN=… curl`, is recorded as `sh`.
    pub fn of_command(command: &str) -> CheckDocument {
        let first = command.split_whitespace().next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
        let name = first.rsplit('/').next().unwrap_or_default();
        let is_name = first.chars().all(is_plain) && !name.is_empty();
        CheckDocument {
            program: if is_name { name } else { SHELL }.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_program_is_recorded() {
        let program = |command: &str| CheckDocument::of_command(command).program;
        assert_eq!(program("ping -c 3 \"$CILIUM_IPAM_NODE\""), "ping");
        assert_eq!(program("  /usr/local/bin/check --token s3cret"), "check");
        for hidden in [
            "TOKEN=s3cret curl x",
            "TOKEN=\"a s3cret b\" curl x",
            "'s3cret' x",
            "s3cret|sh",
            "",
            "/",
        ] {
            assert_eq!(program(hidden), "sh", "{hidden}");
        }
    }
}
