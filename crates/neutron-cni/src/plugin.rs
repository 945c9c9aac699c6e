//! What the CNI plugins of this crate share as programs: standard input and environment in, one
//! JSON object out.

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cni::{CniError, Command, Environment, ErrorCode, SpecVersion};
use crate::conversions::file_error;
use crate::settings::{Settings, Source};
use openstack::Cloud;
use private_files::read_secret;

/// Longest input that is read, in bytes.
const LONGEST_INPUT: u64 = 16 * 1024 * 1024;

/// What is kept of the deadline for taking back what was made.
pub const FOR_TAKING_BACK: Duration = Duration::from_secs(5);

/// How long STATUS waits for Keystone: kubelet asks every few seconds.
pub const FOR_STATUS: Duration = Duration::from_secs(3);

/// Hands standard input over, and says what comes of it as the protocol has it.
pub fn answer(name: &str, run: fn(&[u8], Instant) -> Result<String, CniError>) -> ExitCode {
    // No runtime gives any: these are of a person.
    if std::env::args_os().len() > 1 {
        return introduce(name);
    }
    let began = Instant::now();
    let mut input = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(LONGEST_INPUT)
        .read_to_end(&mut input);
    let outcome = read
        .map_err(|why| file_error("standard input", &why))
        .and_then(|_| run(&input, began));
    let (text, code) = match outcome {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (
            error.to_json(Settings::version_of(&input)).to_string(),
            ExitCode::FAILURE,
        ),
    };
    // Whoever does not read it knows the exit code.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    code
}

/// What it is, for whoever starts it by hand.
fn introduce(name: &str) -> ExitCode {
    let (version, spoken) = (
        env!("CARGO_PKG_VERSION"),
        SpecVersion::ALL.map(SpecVersion::as_str).join(", "),
    );
    let text = format!(
        "{name} {version}: a CNI plugin (CNI {spoken}).\nContainer runtimes run it, with CNI_COMMAND in the environment and a configuration on standard input: see NEUTRON.md.\n"
    );
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// The environment of the process.
pub fn environment() -> Result<Environment, CniError> {
    Environment::read(|name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    })
}

/// Whether the version that is spoken has the command.
pub fn is_of_its_version(command: Command, settings: &Settings) -> Result<(), CniError> {
    match command {
        Command::Check => settings.needs(SpecVersion::V0_4_0, "CHECK"),
        Command::Gc => settings.needs(SpecVersion::V1_1_0, "GC"),
        Command::Status => settings.needs(SpecVersion::V1_1_0, "STATUS"),
        Command::Add | Command::Del | Command::Version => Ok(()),
    }
}

pub fn cloud(source: &Source) -> Result<Cloud, CniError> {
    match source {
        Source::Inline(cloud) => Ok(cloud.clone()),
        Source::File { path, cloud } => {
            Cloud::read(&read_secret(path)?, cloud.as_deref()).map_err(|why| in_file(path, &why))
        }
    }
}

fn in_file(path: &Path, why: &dyn std::fmt::Display) -> CniError {
    let message = format!("{}: {why}", path.display());
    CniError::new(
        ErrorCode::InvalidConfiguration,
        message,
        "see `cloud` and `cloudsFile`",
    )
}
