//! One service of OpenStack under uWSGI, with a fault proxy in front of it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ureq::Agent;

use crate::error::Result;
use crate::faults::Faults;
use crate::process::{Ending, Server};
use crate::wait::{PATIENCE, wait_until};

/// More than the kernel needs to end a process.
const PORT_LIMIT: Duration = Duration::from_secs(10);
/// For the readiness check.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// The configuration of uWSGI.
pub(super) struct Recipe<'a> {
    pub(super) name: &'static str,
    pub(super) module: &'static str,
    /// Answers 200 without a token.
    pub(super) health: &'static str,
    pub(super) environment: &'a [(&'static str, String)],
    pub(super) workers: u32,
    pub(super) port: u16,
}

impl Recipe<'_> {
    /// Without the `Connection` header, a client that keeps connections now and then uses one that
    /// uWSGI has closed; Neutron's documented settings have it, too. `no-orphans`: workers of a
    /// killed master go with it.
    fn settings(&self) -> String {
        let environment: String = self
            .environment
            .iter()
            .map(|(name, value)| format!("env = {name}={value}\n"))
            .collect();
        let Self {
            module,
            workers,
            port,
            ..
        } = self;
        format!(
            "[uwsgi]\nhttp-socket = 127.0.0.1:{port}\nmodule = {module}\n{environment}processes = {workers}\n\
             threads = 1\nmaster = true\nenable-threads = true\nthunder-lock = true\nlazy-apps = true\n\
             die-on-term = true\nno-orphans = true\nneed-app = true\nbuffer-size = 65535\nstart-time = %t\n\
             add-header = Connection: close\n"
        )
    }
}

/// A service, which may be away for a while.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    program: PathBuf,
    settings: PathBuf,
    folder: PathBuf,
    port: u16,
    health: &'static str,
    faults: Faults,
    server: Mutex<Option<Server>>,
}

impl Service {
    /// Not running yet; but its fault proxy is, and so it has its public address.
    pub(super) fn new(program: &Path, folder: &Path, recipe: &Recipe<'_>) -> Result<Self> {
        let settings = super::write(
            folder,
            &format!("{}-uwsgi.ini", recipe.name),
            &recipe.settings(),
        )?;
        Ok(Self {
            name: recipe.name,
            program: program.to_owned(),
            settings,
            folder: folder.to_owned(),
            port: recipe.port,
            health: recipe.health,
            faults: super::faults_before(recipe.port)?,
            server: Mutex::new(None),
        })
    }

    /// What stands in front of it, and in the catalog.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Its own address, past the fault proxy.
    #[must_use]
    pub fn direct_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Takes it away, if it is there: nothing listens on its port then, and its fault proxy closes
    /// what comes.
    pub fn stop(&self) {
        self.server().take();
    }

    /// Starts it again on the same port, if it is away, and waits until it answers.
    ///
    /// # Errors
    /// Fails if it does not.
    pub fn start(&self) -> Result<()> {
        if self.server().is_none() {
            // Workers outlive their master for a moment.
            wait_until("its port", PORT_LIMIT, || {
                Ok(TcpListener::bind(("127.0.0.1", self.port)).ok())
            })?;
        }
        self.launch()?;
        self.wait_ready()
    }

    /// Ends it that way, starts it again on the same port, and waits until it answers.
    ///
    /// # Errors
    /// Fails if it does not.
    pub fn restart(&self, ending: Ending) -> Result<()> {
        if let Some(server) = self.server().take() {
            server.end_with(ending);
        }
        self.start()
    }

    /// Starts it and does not wait.
    pub(super) fn launch(&self) -> Result<()> {
        let mut server = self.server();
        if server.is_none() {
            *server = Some(self.spawn()?);
        }
        Ok(())
    }

    pub(super) fn wait_ready(&self) -> Result<()> {
        let agent = Agent::config_builder()
            .proxy(None)
            .timeout_global(Some(PROBE_LIMIT))
            .build()
            .new_agent();
        let url = format!("{}{}", self.direct_url(), self.health);
        match &mut *self.server() {
            Some(server) => server.wait_ready(PATIENCE, || agent.get(&url).call().is_ok()),
            None => Ok(()),
        }
    }

    fn spawn(&self) -> Result<Server> {
        let arguments = ["--ini".to_owned(), self.settings.display().to_string()];
        Server::start(self.name, &self.program, &arguments, &self.folder)
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service {
    /// Nothing of it is needed any more, and a farewell of uWSGI takes seconds.
    fn drop(&mut self) {
        if let Some(server) = self.server().take() {
            server.end_with(Ending::Killed);
        }
    }
}
