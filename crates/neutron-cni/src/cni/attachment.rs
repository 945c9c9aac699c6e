//! An interface of a container: the subject of ADD, DEL and CHECK.

use std::fmt;
use std::str::FromStr;

/// Longest id that is accepted, in bytes. Runtimes use 64 hexadecimal digits.
const LONGEST_ID: usize = 200;

/// Longest name of an interface, in bytes (`IFNAMSIZ` of Linux without the terminating zero).
const LONGEST_NAME: usize = 15;

/// `CNI_CONTAINERID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceName(String);

/// Why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// See SPEC.md, "Parameters".
    #[error(
        "not the id of a container: letters, digits, `_`, `.` and `-`, a letter or a digit first, at most 200 of them"
    )]
    ContainerId,
    /// The rule of the kernel (`dev_valid_name`, `net/core/dev.c` of Linux).
    #[error("not the name of an interface: at most 15 bytes, without `/`, `:` and spaces")]
    InterfaceName,
}

impl FromStr for ContainerId {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<ContainerId, NameFault> {
        let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
        let is_other =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let is_one = text.len() <= LONGEST_ID
            && text.as_bytes().first().is_some_and(is_first)
            && text.bytes().all(is_other);
        is_one
            .then(|| ContainerId(text.to_owned()))
            .ok_or(NameFault::ContainerId)
    }
}

impl FromStr for InterfaceName {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<InterfaceName, NameFault> {
        let is_possible =
            |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '/' | ':');
        let is_one = (1..=LONGEST_NAME).contains(&text.len())
            && !matches!(text, "." | "..")
            && text.chars().all(is_possible);
        is_one
            .then(|| InterfaceName(text.to_owned()))
            .ok_or(NameFault::InterfaceName)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of an attachment (SPEC.md, "GC").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    pub container: ContainerId,
    pub interface: InterfaceName,
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.container, self.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_refused() {
        for bad in ["", "-a", ".a", "a/b", "a b", "ü", "a\n", &"a".repeat(201)] {
            assert_eq!(
                bad.parse::<ContainerId>(),
                Err(NameFault::ContainerId),
                "{bad:?}"
            );
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a:b",
            "a b",
            "a\u{a0}b",
            "0123456789abcdef",
        ] {
            assert_eq!(
                bad.parse::<InterfaceName>(),
                Err(NameFault::InterfaceName),
                "{bad:?}"
            );
        }
        assert!("e2f1_.-".parse::<ContainerId>().is_ok());
        assert!("eth0.100@x".parse::<InterfaceName>().is_ok());
    }
}
