//! A CNI request (SPEC.md, "Parameters"): its environment variables with `CNI_ARGS`, the version
//! of the specification, and the interface of a container that is its subject.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use super::outcome::{CniError, ErrorCode};
use crate::settings::of_pod;
use ipam_core::net::Address;

ipam_core::text_enum! {
    /// The command of a request, from the variable `CNI_COMMAND`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Command {
        /// Give an interface its addresses.
        Add = "ADD",
        /// Release the addresses of an interface.
        Del = "DEL",
        /// Check that an interface still has its addresses.
        Check = "CHECK",
        /// Release what no attachment uses any more.
        Gc = "GC",
        /// Check whether an ADD could work.
        Status = "STATUS",
        /// List the supported versions.
        Version = "VERSION",
    }
}

fn command(text: &str) -> Result<Command, CniError> {
    text.parse().map_err(|()| match text {
        "" => fault("CNI_COMMAND is not set"),
        other => fault(format!(
            "unknown CNI_COMMAND {}; expected one of {}",
            other.chars().take(32).collect::<String>(),
            Command::ALL.map(Command::as_str).join(", ")
        )),
    })
}

/// The parameters of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub command: Command,
    /// The interface of ADD, DEL and CHECK; `None` for other commands.
    pub attachment: Option<Attachment>,
    /// The container's network namespace. A DEL may not name one.
    pub netns: Option<PathBuf>,
    /// `CNI_ARGS` of an ADD.
    pub arguments: Arguments,
}

impl Environment {
    /// Reads the parameters; `variable` returns the value of a variable that is set.
    ///
    /// # Errors
    /// Fails if a required variable is missing or invalid.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Environment, CniError> {
        let value = |name: &str| variable(name).unwrap_or_default();
        let command = command(&value("CNI_COMMAND"))?;
        let attachment = match command {
            Command::Add | Command::Del | Command::Check => Some(attachment(&value)?),
            Command::Gc | Command::Status | Command::Version => None,
        };
        let netns = Some(value("CNI_NETNS"))
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        // The network namespace of a container that is being deleted may be gone.
        if matches!(command, Command::Add | Command::Check) && netns.is_none() {
            return Err(fault("CNI_NETNS is not set"));
        }
        let arguments = match command {
            // Only an ADD uses the arguments in `CNI_ARGS`.
            Command::Add => {
                Arguments::read(&value("CNI_ARGS")).map_err(|why| match why {
                    // The Pod requests it, so the runtime is not at fault.
                    ArgumentFault::Address(_) => of_pod(fault(why.to_string())),
                    _ => fault(why.to_string()),
                })?
            }
            _ => Arguments::default(),
        };
        Ok(Environment {
            command,
            attachment,
            netns,
            arguments,
        })
    }
}

fn attachment(value: &impl Fn(&str) -> String) -> Result<Attachment, CniError> {
    let set = |name: &str| {
        let text = value(name);
        if text.is_empty() {
            Err(fault(format!("{name} is not set")))
        } else {
            Ok(text)
        }
    };
    let wrong = |name: &str, why: &dyn std::fmt::Display| fault(format!("{name} is {why}"));
    let container = set("CNI_CONTAINERID")?
        .parse()
        .map_err(|why| wrong("CNI_CONTAINERID", &why))?;
    let interface = set("CNI_IFNAME")?
        .parse()
        .map_err(|why| wrong("CNI_IFNAME", &why))?;
    Ok(Attachment {
        container,
        interface,
    })
}

fn fault(message: impl Into<String>) -> CniError {
    CniError::new(
        ErrorCode::InvalidEnvironment,
        message,
        "a container runtime or cnitool runs this plugin",
    )
}

ipam_core::text_enum! {
    /// A supported version, oldest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SpecVersion {
        /// Introduced lists of plugins and several addresses.
        V0_3_1 = "0.3.1",
        /// Introduced CHECK, and the previous result on DEL.
        V0_4_0 = "0.4.0",
        /// Removed the IP version next to each address.
        V1_0_0 = "1.0.0",
        /// Introduced GC and STATUS.
        V1_1_0 = "1.1.0",
    }
}

impl SpecVersion {
    /// The newest version. It answers requests with an unknown version.
    pub const NEWEST: SpecVersion = SpecVersion::V1_1_0;

    /// The answer to VERSION, in this version.
    pub fn supported(self) -> Value {
        let versions = SpecVersion::ALL.map(SpecVersion::as_str);
        json!({"cniVersion": self.as_str(), "supportedVersions": versions})
    }
}

/// Longest text that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// The arguments of an ADD that this plugin reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Addresses that the Pod requests.
    pub addresses: Vec<IpAddr>,
}

/// Why `CNI_ARGS` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentFault {
    #[error("CNI_ARGS must be KEY=VALUE pairs")]
    Pair,
    #[error("CNI_ARGS is longer than {} KiB", LONGEST / 1024)]
    Length,
    #[error("CNI_ARGS asks for IP={0}, which is not an address")]
    Address(String),
    /// Without `IgnoreUnknown`, an unknown key is an error.
    #[error("CNI_ARGS has the unknown key {0}; set IgnoreUnknown=true to ignore it")]
    Unknown(String),
}

impl Arguments {
    /// Parses `CNI_ARGS`. An unknown key is an error unless `IgnoreUnknown` is set
    /// (`pkg/types/args.go` of containernetworking/cni @ 1.3.0).
    ///
    /// # Errors
    /// Fails if the text is too long or invalid.
    pub fn read(text: &str) -> Result<Arguments, ArgumentFault> {
        if text.len() > LONGEST {
            return Err(ArgumentFault::Length);
        }
        let pairs = text
            .split(';')
            .map(str::trim)
            .filter(|pair| !pair.is_empty());
        let pairs: Vec<(&str, &str)> = pairs
            .map(|pair| pair.split_once('=').ok_or(ArgumentFault::Pair))
            .collect::<Result<_, _>>()?;
        let value = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let ignores_unknown = value("IgnoreUnknown")
            .is_some_and(|value| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"));
        let mut arguments = Arguments::default();
        for (key, value) in &pairs {
            match *key {
                // The plugin of 2020 documents the key in lower case.
                "IP" | "ip" => {
                    for text in value
                        .split(',')
                        .map(str::trim)
                        .filter(|text| !text.is_empty())
                    {
                        let address = address_of(text)
                            .ok_or_else(|| ArgumentFault::Address(shortened(text)))?;
                        arguments.addresses.push(address);
                    }
                }
                "IgnoreUnknown"
                | "K8S_POD_NAMESPACE"
                | "K8S_POD_NAME"
                | "K8S_POD_INFRA_CONTAINER_ID"
                | "K8S_POD_UID" => {}
                _ if ignores_unknown => {}
                other => return Err(ArgumentFault::Unknown(shortened(other))),
            }
        }
        Ok(arguments)
    }
}

/// Parses an address and ignores a prefix length: the subnet has it.
pub fn address_of(text: &str) -> Option<IpAddr> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<Address>().ok().map(IpAddr::from)
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Longest id that is accepted, in bytes. Runtimes use 64 hexadecimal digits.
const LONGEST_ID: usize = 200;

/// Longest name of an interface, in bytes (`IFNAMSIZ` of Linux without the terminating zero).
const LONGEST_NAME: usize = 15;

/// Id of a container, from the variable `CNI_CONTAINERID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceName(String);

/// Why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// The id of a container breaks the rule in SPEC.md, "Parameters".
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

    fn read(variables: &[(&str, &str)]) -> Result<Environment, CniError> {
        let value = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Environment::read(value)
    }

    #[test]
    fn each_command_needs_its_own() {
        let container = [("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "eth0")];
        let with = |command, more: &[(&'static str, &'static str)]| {
            read(&[&[("CNI_COMMAND", command)], more].concat())
        };
        assert!(
            with("VERSION", &[]).is_ok() && with("STATUS", &[]).is_ok() && with("GC", &[]).is_ok()
        );
        assert!(with("DEL", &container).is_ok(), "the namespace may be gone");
        assert_eq!(
            with("ADD", &container).unwrap_err().message,
            "CNI_NETNS is not set"
        );
        let added = with(
            "ADD",
            &[&container[..], &[("CNI_NETNS", "/dev/null")]].concat(),
        )
        .unwrap();
        assert_eq!(added.attachment.unwrap().to_string(), "c/eth0");
        for (command, variables) in [
            ("ADD", &container[1..]),
            ("DEL", &container[..1]),
            ("CHECK", &[]),
            ("", &[]),
            ("add", &[]),
        ] {
            assert_eq!(
                with(command, variables).unwrap_err().code,
                ErrorCode::InvalidEnvironment,
                "{command}"
            );
        }
    }
}

#[cfg(test)]
mod arguments_tests {
    use super::*;

    #[test]
    fn arguments_of_containerd_are_read() {
        let text = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=e2;K8S_POD_UID=u";
        let arguments = Arguments::read(text).unwrap();
        assert_eq!(arguments, Arguments::default());
        let arguments = Arguments::read("IP=::ffff:10.0.0.7/120, fd00::7;").unwrap();
        assert_eq!(
            arguments.addresses,
            [
                "10.0.0.7".parse::<IpAddr>().unwrap(),
                "fd00::7".parse().unwrap()
            ]
        );
    }

    #[test]
    fn invalid_arguments_are_refused() {
        assert_eq!(Arguments::read("IP"), Err(ArgumentFault::Pair));
        assert_eq!(
            Arguments::read("IP=10.0.0.300"),
            Err(ArgumentFault::Address("10.0.0.300".to_owned()))
        );
        assert_eq!(
            Arguments::read("X=1"),
            Err(ArgumentFault::Unknown("X".to_owned()))
        );
        assert_eq!(
            Arguments::read("X=1;IgnoreUnknown=true"),
            Ok(Arguments::default())
        );
        assert_eq!(
            Arguments::read(&";".repeat(20_000)),
            Err(ArgumentFault::Length)
        );
    }
}

#[cfg(test)]
mod attachment_tests {
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
