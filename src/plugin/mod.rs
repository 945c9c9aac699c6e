//! The plugin `cni-ipam-neutron`: environment and standard input in, one JSON object out, and the files that it keeps between runs. What is done
//! is decided in `neutron`; here are files, time and HTTP.

mod files;
mod http;
mod kept;
mod login;
mod names;
mod node;
mod place;
mod pool;
mod running;
mod traces;

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::files::read_secret;
use self::running::Running;
use crate::neutron::cni::{CniError, Command, Environment, ErrorCode, SpecVersion};
use crate::neutron::{Cloud, Settings, Source};

pub use self::files::read_small;
pub use self::http::HttpNeutron;
pub use self::login::Keeping;
pub use node::main as node_main;

/// Longest input that is read, in bytes.
const LONGEST_INPUT: u64 = 16 * 1024 * 1024;

/// What is kept of the deadline for taking back what was made.
const FOR_TAKING_BACK: Duration = Duration::from_secs(5);

/// Runs once, as a runtime runs it.
pub fn main() -> ExitCode {
    let began = Instant::now();
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST_INPUT).read_to_end(&mut input);
    let outcome = read.map_err(|why| files::fault("standard input", &why)).and_then(|_| run(&input, began));
    let (text, code) = match outcome {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (error.to_json(Settings::version_of(&input)).to_string(), ExitCode::FAILURE),
    };
    // Whoever does not read it knows the exit code.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    code
}

/// The answer; empty where there is nothing to say.
fn run(input: &[u8], began: Instant) -> Result<String, CniError> {
    let environment =
        Environment::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))?;
    if environment.command == Command::Version {
        return Ok(Settings::version_of(input).supported().to_string());
    }
    let settings = Settings::read(input)?;
    match environment.command {
        Command::Check => settings.needs(SpecVersion::V0_4_0, "CHECK")?,
        Command::Gc => settings.needs(SpecVersion::V1_1_0, "GC")?,
        Command::Status => settings.needs(SpecVersion::V1_1_0, "STATUS")?,
        Command::Add | Command::Del | Command::Version => {}
    }
    Running::new(settings, began)?.answer(&environment)
}

fn cloud(source: &Source) -> Result<Cloud, CniError> {
    match source {
        Source::Inline(cloud) => Ok(cloud.clone()),
        Source::File { path, cloud } => {
            Cloud::read(&read_secret(path)?, cloud.as_deref()).map_err(|why| in_file(path, &why))
        }
    }
}

fn in_file(path: &Path, why: &dyn std::fmt::Display) -> CniError {
    let message = format!("{}: {why}", path.display());
    CniError::new(ErrorCode::InvalidConfiguration, message, "see `ipam.cloud` and `ipam.cloudsFile`")
}
