//! The environment variables of a CNI request (SPEC.md, "Parameters").

use std::path::PathBuf;

use crate::cni::arguments::Arguments;
use crate::cni::attachment::Attachment;
use crate::cni::error::{CniError, ErrorCode};

ipam_core::text_enum! {
    /// `CNI_COMMAND`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Command {
        /// Give an interface its addresses.
        Add = "ADD",
        /// Release them.
        Del = "DEL",
        /// Check that the interface still has them.
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
            // Only an ADD uses them.
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
        "a container runtime or cnitool runs this plugin",
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
