//! The plugin `cni-ipam-neutron`: environment and standard input in, one JSON object out, and the files that it keeps between runs. What is done
//! is decided in `neutron`; here are files, time and HTTP.

mod files;
mod http;
mod kept;
mod login;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use self::files::{Locked, fault, state_folder};
use self::files::{node_name, read_secret, read_small};
pub(crate) use self::http::HttpNeutron;
pub(crate) use self::login::Logins;
use crate::neutron::cni::{CniError, Command, Dns, Environment, ErrorCode, SpecVersion};
use crate::neutron::{Cloud, Identity, NeutronError, RunId, Settings, Source, add, check, collect_garbage, delete};

/// Longest input that is read, in bytes.
const LONGEST_INPUT: u64 = 16 * 1024 * 1024;

/// What is kept of the deadline for taking back what was made.
pub(crate) const FOR_TAKING_BACK: Duration = Duration::from_secs(5);

/// How long STATUS waits for Keystone: kubelet asks every few seconds.
pub(crate) const FOR_STATUS: Duration = Duration::from_secs(3);

/// Keeps the name of the node.
const NODE_FILE: &str = "node.json";

/// Runs once, as a runtime runs it.
pub fn main() -> ExitCode {
    answer(run)
}

/// Hands standard input over, and says what comes of it as the protocol has it.
pub(crate) fn answer(run: fn(&[u8], Instant) -> Result<String, CniError>) -> ExitCode {
    let began = Instant::now();
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST_INPUT).read_to_end(&mut input);
    let outcome = read.map_err(|why| fault("standard input", &why)).and_then(|_| run(&input, began));
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
    let environment = environment()?;
    if environment.command == Command::Version {
        return Ok(Settings::version_of(input).supported().to_string());
    }
    let settings = Settings::read(input)?;
    is_of_its_version(environment.command, &settings)?;
    Running::new(settings, began)?.answer(&environment)
}

/// The environment of the process.
pub(crate) fn environment() -> Result<Environment, CniError> {
    Environment::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

/// Whether the version that is spoken has the command.
pub(crate) fn is_of_its_version(command: Command, settings: &Settings) -> Result<(), CniError> {
    match command {
        Command::Check => settings.needs(SpecVersion::V0_4_0, "CHECK"),
        Command::Gc => settings.needs(SpecVersion::V1_1_0, "GC"),
        Command::Status => settings.needs(SpecVersion::V1_1_0, "STATUS"),
        Command::Add | Command::Del | Command::Version => Ok(()),
    }
}

/// A request that is being answered.
struct Running {
    settings: Settings,
    /// What the node is called now.
    named: String,
    /// What its ports call it.
    node: String,
    /// For what is asked.
    neutron: HttpNeutron,
    /// For taking back, when the time of the other is over.
    last: HttpNeutron,
    until: Instant,
}

impl Running {
    fn new(settings: Settings, began: Instant) -> Result<Running, CniError> {
        let node = match &settings.node {
            Some(node) => node.clone(),
            None => node_name()?,
        };
        let named = settings.cluster.as_ref().map_or(node.clone(), |cluster| format!("{cluster}/{node}"));
        // Ports were made by the name that the node had first.
        let node = kept::read(&settings.state.join(NODE_FILE)).unwrap_or_else(|| named.clone());
        let until = began + settings.deadline - FOR_TAKING_BACK;
        let cloud = cloud(&settings.source)?;
        let neutron = HttpNeutron::new(cloud, Logins::new(&settings.state), until)?;
        let last = neutron.until(began + settings.deadline);
        Ok(Running { settings, named, node, neutron, last, until })
    }

    fn answer(&self, environment: &Environment) -> Result<String, CniError> {
        let Running { settings, neutron, .. } = self;
        let missing = || CniError::new(ErrorCode::InvalidEnvironment, "no attachment is named", "");
        let identity = || {
            let attachment = environment.attachment.as_ref().ok_or_else(missing)?;
            Ok::<_, CniError>(Identity::new(&self.node, &settings.network_name, attachment))
        };
        match environment.command {
            Command::Add => self.add(environment, &identity()?),
            Command::Del => {
                let identity = identity()?;
                // Without a lock, as on a full disk, an address is given back all the same.
                let _locks = self.locks(&identity).ok();
                Ok(delete(neutron, &identity).map(|()| String::new())?)
            }
            Command::Check => check(neutron, &identity()?, settings.given()?.as_ref()).map(|()| String::new()),
            Command::Gc => self.collect_garbage(),
            Command::Status => self.status(environment),
            Command::Version => Ok(String::new()),
        }
    }

    fn add(&self, environment: &Environment, identity: &Identity) -> Result<String, CniError> {
        let mut wish = self.settings.wish(&environment.arguments)?;
        if let Some(path) = &wish.resolv_conf {
            wish.dns = Some(Dns::of_resolv_conf(&read_small(path)?));
        }
        let _locks = self.locks(identity)?;
        self.keeps_its_name()?;
        let outcome = add(&self.neutron, &self.last, &wish, identity, &RunId::new(fastrand::u64(..)))?;
        Ok(outcome.to_text(self.settings.version))
    }

    /// A node that gets another name would not find the ports that it has.
    fn keeps_its_name(&self) -> Result<(), CniError> {
        let path = self.settings.state.join(NODE_FILE);
        if self.named != self.node {
            let message = format!("this node's ports are called {}, and its name is {} now", self.node, self.named);
            let details =
                format!("give it its name back, or remove {} when no Pod has an address any more", path.display());
            return Err(CniError::new(ErrorCode::InvalidConfiguration, message, details));
        }
        if !path.exists() {
            kept::keep(&path, &self.named).map_err(|why| fault(&path.display().to_string(), &why))?;
        }
        Ok(())
    }

    /// One at a time for each attachment: a runtime that lost its patience may ask again while the first one still runs. And none while garbage
    /// is collected.
    fn locks(&self, identity: &Identity) -> Result<[Locked; 2], CniError> {
        let folder = state_folder(&self.settings.state)?;
        let garbage = Locked::shared(&self.garbage_lock(&folder), self.until)?;
        // As many files as there are pairs of digits, whatever comes and goes.
        let attachment = folder.join(format!("attachment-{}.lock", &identity.file_name()[..2]));
        Ok([garbage, Locked::alone(&attachment, self.until)?])
    }

    fn collect_garbage(&self) -> Result<String, CniError> {
        let Some(valid) = self.settings.valid()? else { return Ok(String::new()) };
        let folder = state_folder(&self.settings.state)?;
        let _lock = Locked::alone(&self.garbage_lock(&folder), self.until)?;
        let name = Identity::name_of(&self.node, &self.settings.network_name);
        match collect_garbage(&self.neutron, &name, &valid)?.faults.into_iter().next() {
            Some(fault) => Err(fault.into()),
            None => Ok(String::new()),
        }
    }

    /// Whether an ADD could work, as far as this node knows. That OpenStack does not answer is no fault here: a node that says so is taken out
    /// of its cluster, and with it all that runs there and needs no new address.
    fn status(&self, environment: &Environment) -> Result<String, CniError> {
        self.settings.wish(&environment.arguments)?;
        let folder = state_folder(&self.settings.state)?;
        Locked::is_possible(&self.garbage_lock(&folder))?;
        match self.neutron.until(Instant::now() + FOR_STATUS).log_in() {
            Ok(()) | Err(NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => Ok(String::new()),
            Err(fault) => {
                let CniError { message, details, .. } = fault.into();
                Err(CniError::new(ErrorCode::NotAvailable, message, details))
            }
        }
    }

    /// Of this network: collecting for one keeps no other waiting.
    fn garbage_lock(&self, folder: &Path) -> PathBuf {
        folder.join(format!("garbage-{}.lock", self.settings.network_name))
    }
}

pub(crate) fn cloud(source: &Source) -> Result<Cloud, CniError> {
    match source {
        Source::Inline(cloud) => Ok(cloud.clone()),
        Source::File { path, cloud } => {
            Cloud::read(&read_secret(path)?, cloud.as_deref()).map_err(|why| in_file(path, &why))
        }
    }
}

fn in_file(path: &Path, why: &dyn std::fmt::Display) -> CniError {
    let message = format!("{}: {why}", path.display());
    CniError::new(ErrorCode::InvalidConfiguration, message, "see `cloud` and `cloudsFile`")
}
