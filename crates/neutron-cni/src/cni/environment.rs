//! What a runtime says in the environment of a plugin (SPEC.md, "Parameters").

use std::path::PathBuf;
use std::str::FromStr;

use crate::cni::arguments::Arguments;
use crate::cni::attachment::Attachment;
use crate::cni::error::{CniError, ErrorCode};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Give an interface its addresses.
    Add,
    /// Take them back.
    Del,
    /// Say whether it still has them.
    Check,
    /// Take back what nobody has any more.
    Gc,
    /// Say whether an ADD could work.
    Status,
    /// Say which versions are spoken.
    Version,
}

impl FromStr for Command {
    type Err = CniError;

    fn from_str(text: &str) -> Result<Command, CniError> {
        match text {
            "ADD" => Ok(Command::Add),
            "DEL" => Ok(Command::Del),
            "CHECK" => Ok(Command::Check),
            "GC" => Ok(Command::Gc),
            "STATUS" => Ok(Command::Status),
            "VERSION" => Ok(Command::Version),
            "" => Err(fault("CNI_COMMAND is not set")),
            other => Err(fault(format!(
                "CNI_COMMAND is {}, and neither ADD, DEL, CHECK, GC, STATUS nor VERSION",
                other.chars().take(32).collect::<String>()
            ))),
        }
    }
}

/// The environment, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// What is asked.
    pub command: Command,
    /// What it is about; `None` for commands that are about all.
    pub attachment: Option<Attachment>,
    /// The container's network namespace; that of one which is going may not be named any more.
    pub netns: Option<PathBuf>,
    /// What is said besides.
    pub arguments: Arguments,
}

impl Environment {
    /// Reads it; `variable` gives the value of a variable, where it is set.
    ///
    /// # Errors
    /// What lacks, or cannot be.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Environment, CniError> {
        let value = |name: &str| variable(name).unwrap_or_default();
        let command: Command = value("CNI_COMMAND").parse()?;
        let attachment = match command {
            Command::Add | Command::Del | Command::Check => Some(attachment(&value)?),
            Command::Gc | Command::Status | Command::Version => None,
        };
        let netns = Some(value("CNI_NETNS"))
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        // Of a container that is going, the network namespace may be gone.
        if matches!(command, Command::Add | Command::Check) && netns.is_none() {
            return Err(fault("CNI_NETNS is not set"));
        }
        let arguments = match command {
            // What was asked for then does not matter any more.
            Command::Add => {
                Arguments::read(&value("CNI_ARGS")).map_err(|why| fault(why.to_string()))?
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
        "a plugin is run by a container runtime, or by cnitool",
    )
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
        assert!(with("DEL", &container).is_ok(), "its namespace may be gone");
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
