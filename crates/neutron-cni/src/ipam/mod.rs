//! The plugin `cni-ipam-neutron`. What is done is decided in `commands`; here are files, time and
//! HTTP.

mod running;

use std::process::ExitCode;
use std::time::Instant;

use self::running::Running;
use crate::cni::{CniError, Command};
use crate::plugin::{answer, environment, is_of_its_version};
use crate::settings::Settings;

/// Runs once, as a runtime runs it.
pub fn main() -> ExitCode {
    answer("cni-ipam-neutron", run)
}

/// The answer; empty where there is nothing to say.
fn run(input: &[u8], began: Instant) -> Result<String, CniError> {
    let environment = environment()?;
    if environment.command == Command::Version {
        return Ok(Settings::version_of(input).supported().to_string());
    }
    let settings = Settings::read(input)?;
    is_of_its_version(environment.command, &settings)?;
    Running::new(settings, began)?.answer(&environment)
}
