//! The programs of this crate as CNI plugins: standard input and environment in, one JSON object
//! out. Must never know what a plugin does with a port or a NIC.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cni::{Arguments, Attachment, CniError, Command, Environment, ErrorCode, SpecVersion};
use crate::conversions::file_error;
use crate::settings::{Settings, Source};
use openstack::{Cloud, HttpNeutron, InsecureSetting, NeutronError, SessionCache};
use private_files::read_secret;

/// Longest input that is read, in bytes.
const LONGEST_INPUT: u64 = 16 * 1024 * 1024;

/// The end of the deadline that is reserved for undoing what a run did.
pub const CLEANUP_TIME: Duration = Duration::from_secs(5);

/// How long STATUS waits for Keystone: kubelet asks every few seconds.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);

/// A CNI plugin. [`serve`] reads requests and writes answers for it.
pub trait Plugin: Sized {
    /// The name of the program.
    const NAME: &'static str;

    /// The parts of a network's configuration that every request needs.
    type Settings: NetworkSettings;

    /// Reads standard input.
    ///
    /// # Errors
    /// Fails if it is not a valid configuration of a network.
    fn settings(input: &[u8]) -> Result<Self::Settings, CniError>;

    /// Prepares for one request.
    ///
    /// # Errors
    /// Fails if the node cannot be identified.
    fn new(settings: Self::Settings, began: Instant) -> Result<Self, CniError>;

    /// ADD. Returns the result as JSON.
    ///
    /// # Errors
    /// Fails if the interface cannot get its addresses. What this run did is undone then.
    fn add(&self, target: &Target<'_>, arguments: &Arguments) -> Result<String, CniError>;

    /// DEL. Succeeds if there is nothing to delete.
    ///
    /// # Errors
    /// Fails if a retry can help.
    fn del(&self, target: &Target<'_>) -> Result<(), CniError>;

    /// CHECK.
    ///
    /// # Errors
    /// Fails if the interface no longer has what its ADD gave.
    fn check(&self, target: &Target<'_>) -> Result<(), CniError>;

    /// GC: releases everything of this network whose attachment is not in `valid`.
    ///
    /// # Errors
    /// Fails with the first error after trying the rest.
    fn gc(&self, valid: &BTreeSet<Attachment>) -> Result<(), CniError>;

    /// STATUS: whether an ADD could work on this node.
    ///
    /// # Errors
    /// Fails if the configuration, the node or OpenStack prevents an ADD.
    fn status(&self, arguments: &Arguments) -> Result<(), CniError>;
}

/// The parts of a network's configuration that decide how a request is served.
pub trait NetworkSettings {
    /// The version of the specification for the answer.
    fn version(&self) -> SpecVersion;

    /// The valid attachments of a GC; `None` if the field is absent, which does not mean that there
    /// are none.
    ///
    /// # Errors
    /// Fails if the field is not a list of attachments.
    fn valid_attachments(&self) -> Result<Option<BTreeSet<Attachment>>, CniError>;
}

impl NetworkSettings for Settings {
    fn version(&self) -> SpecVersion {
        self.version
    }

    fn valid_attachments(&self) -> Result<Option<BTreeSet<Attachment>>, CniError> {
        Settings::valid_attachments(self)
    }
}

/// The interface that ADD, DEL and CHECK are about.
#[derive(Clone, Copy, Debug)]
pub struct Target<'e> {
    pub attachment: &'e Attachment,
    /// The container's network namespace. A DEL may not name one.
    pub netns: Option<&'e Path>,
}

impl<'e> Target<'e> {
    /// The path of the Pod's namespace.
    ///
    /// # Errors
    /// Fails if the request names none.
    pub fn pod_path(&self) -> Result<&'e Path, CniError> {
        let missing = || CniError::new(ErrorCode::InvalidEnvironment, "CNI_NETNS is not set", "");
        self.netns.ok_or_else(missing)
    }

    /// The kernel takes a name with `%` for a pattern, and would choose another name.
    ///
    /// # Errors
    /// Fails if the name of the interface has one.
    pub fn refuse_name_pattern(&self) -> Result<(), CniError> {
        if self.attachment.interface.to_string().contains('%') {
            let message = "CNI_IFNAME has a `%`";
            return Err(CniError::new(
                ErrorCode::InvalidEnvironment,
                message,
                "choose another name",
            ));
        }
        Ok(())
    }
}

/// One run of a plugin that asks OpenStack: its configuration and its time.
#[derive(Debug)]
pub struct PluginRun {
    /// The configuration of the network.
    pub settings: Settings,
    /// When requests to Neutron end. The time up to `deadline` is for undoing.
    pub until: Instant,
    /// When the run ends, undoing included.
    pub deadline: Instant,
    user_agent: &'static str,
}

impl PluginRun {
    /// A run that began at `began`. `user_agent` names the program to OpenStack: name and version.
    #[must_use]
    pub fn new(settings: Settings, began: Instant, user_agent: &'static str) -> PluginRun {
        let deadline = began + settings.deadline;
        PluginRun {
            settings,
            until: deadline - CLEANUP_TIME,
            deadline,
            user_agent,
        }
    }

    /// A client of Neutron that gives up at `until`.
    ///
    /// # Errors
    /// Fails if the credentials cannot be read.
    pub fn neutron(&self) -> Result<HttpNeutron, CniError> {
        let cache = session_cache(self.settings.state.clone());
        let cloud = cloud(&self.settings.source)?;
        Ok(HttpNeutron::new(cloud, self.user_agent, cache, self.until)?)
    }

    /// Whether OpenStack accepts the credentials. One that does not answer is no failure: kubelet
    /// would evict the node, although most of its Pods need no new address.
    ///
    /// # Errors
    /// Fails if OpenStack refuses them.
    pub fn can_log_in(&self) -> Result<(), CniError> {
        let neutron = self.neutron()?;
        match neutron.until(Instant::now() + STATUS_TIMEOUT).log_in() {
            Ok(()) | Err(NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => Ok(()),
            Err(error) => {
                let CniError {
                    code: _,
                    message,
                    details,
                } = error.into();
                Err(CniError::new(ErrorCode::NotAvailable, message, details))
            }
        }
    }
}

/// The cache of sessions in this folder. Insecure settings are warnings on standard error, because
/// standard output belongs to the runtime.
#[must_use]
pub fn session_cache(folder: PathBuf) -> SessionCache {
    let on_insecure = |setting: &InsecureSetting| {
        eprintln!("warning: {setting}\nhelp: {}", setting.way_out());
    };
    SessionCache::In {
        folder,
        on_insecure,
    }
}

/// Runs a plugin once, as a container runtime does.
pub fn serve<P: Plugin>() -> ExitCode {
    // Runtimes pass no arguments, so a person started the plugin in a shell.
    if std::env::args_os().len() > 1 {
        return introduce(P::NAME);
    }
    let began = Instant::now();
    let mut input = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(LONGEST_INPUT)
        .read_to_end(&mut input);
    let outcome = read
        .map_err(|why| file_error("standard input", &why))
        .and_then(|_| answer::<P>(&input, began));
    let (text, code) = match outcome {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (
            error.to_json(Settings::version_of(&input)).to_string(),
            ExitCode::FAILURE,
        ),
    };
    // A runtime that closed the pipe still sees the exit code.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    code
}

/// The answer; empty for commands without one.
fn answer<P: Plugin>(input: &[u8], began: Instant) -> Result<String, CniError> {
    let environment = Environment::read(|name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    })?;
    let command = environment.command;
    if command == Command::Version {
        return Ok(Settings::version_of(input).supported().to_string());
    }
    let settings = P::settings(input)?;
    require_version(command, settings.version())?;
    let valid = match command {
        Command::Gc => settings.valid_attachments()?,
        _ => None,
    };
    let plugin = P::new(settings, began)?;
    let arguments = &environment.arguments;
    let done = |()| String::new();
    match command {
        Command::Add => plugin.add(&target(&environment)?, arguments),
        Command::Del => plugin.del(&target(&environment)?).map(done),
        Command::Check => plugin.check(&target(&environment)?).map(done),
        Command::Gc => match valid {
            Some(valid) => plugin.gc(&valid).map(done),
            None => Ok(String::new()),
        },
        Command::Status => plugin.status(arguments).map(done),
        Command::Version => Ok(String::new()),
    }
}

fn target(environment: &Environment) -> Result<Target<'_>, CniError> {
    let missing = || {
        CniError::new(
            ErrorCode::InvalidEnvironment,
            "CNI_CONTAINERID and CNI_IFNAME are required",
            "a container runtime or cnitool sets them",
        )
    };
    Ok(Target {
        attachment: environment.attachment.as_ref().ok_or_else(missing)?,
        netns: environment.netns.as_deref(),
    })
}

/// Tells a person who starts the plugin by hand what it is.
fn introduce(name: &str) -> ExitCode {
    let (version, spoken) = (
        env!("CARGO_PKG_VERSION"),
        SpecVersion::ALL.map(SpecVersion::as_str).join(", "),
    );
    let text = format!(
        "{name} {version}: a CNI plugin (CNI {spoken}).\nContainer runtimes run it, with CNI_COMMAND in the environment and a configuration on standard input: see how-to/openstack in the documentation.\n"
    );
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Fails if the version of the configuration lacks the command.
fn require_version(command: Command, version: SpecVersion) -> Result<(), CniError> {
    let since = match command {
        Command::Check => SpecVersion::V0_4_0,
        Command::Gc | Command::Status => SpecVersion::V1_1_0,
        Command::Add | Command::Del | Command::Version => SpecVersion::V0_3_1,
    };
    if version >= since {
        return Ok(());
    }
    let message =
        format!("{command} is a command of CNI {since}, and the configuration is of {version}");
    Err(CniError::new(
        ErrorCode::IncompatibleVersion,
        message,
        format!("set `cniVersion` to {since} or newer"),
    ))
}

/// Reads the credentials of a network.
///
/// # Errors
/// Fails if the file cannot be read, others may read it, or it lacks the cloud.
pub fn cloud(source: &Source) -> Result<Cloud, CniError> {
    match source {
        Source::Inline(cloud) => Ok(cloud.clone()),
        Source::File { path, cloud } => {
            let text = read_secret(path).map_err(|why| {
                let error = CniError::from(why);
                let details = format!("{}. Its path is `cloudsFile`", error.details);
                CniError { details, ..error }
            })?;
            Cloud::read(&text, cloud.as_deref()).map_err(|why| in_file(path, &why))
        }
        Source::Unknown => Err(CniError::new(
            ErrorCode::InvalidConfiguration,
            "the configuration is incomplete: it lacks `networks`, like all fields of the section but its type",
            "the runtime must send the whole configuration of the ADD, to every command",
        )),
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
