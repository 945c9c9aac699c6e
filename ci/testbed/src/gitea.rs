//! Gitea on loopback, with SQLite and without its web pages, which need Node.js to build. Its API
//! and its Git are whole. It keeps nothing when it stops.

use std::path::PathBuf;
use std::process::Command;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::golang::source_folder;
use crate::process::{Server, free_port, isolated, with_free_ports};
use crate::programs::{Program, build};
use crate::wait::PATIENCE;

pub(crate) const MODULE: &str = "code.gitea.io/gitea";
/// As in `tests/controlplane/gitea/go.mod`. Later releases need modules that the proxy does not
/// have.
const RELEASE: &str = "1.26.0";

const PASSWORD: &str = "correct-horse";

/// A running Gitea. Dropping it stops it and removes its content.
#[derive(Debug)]
pub struct Gitea {
    program: PathBuf,
    config: PathBuf,
    url: String,
    // Before the folder: the server writes there until it has stopped.
    _server: Server,
    folder: RunFolder,
}

impl Gitea {
    /// Starts it empty and waits until it is ready.
    ///
    /// # Errors
    /// Fails if it cannot be built, or does not get ready.
    pub fn start() -> Result<Self> {
        let programs = build(&[Program::Gitea])?;
        let program = programs.path(Program::Gitea)?.to_owned();
        let sources = source_folder(MODULE, RELEASE)?;
        with_free_ports(|| {
            let folder = RunFolder::new()?;
            let address = format!("127.0.0.1:{}", free_port()?);
            let text = config(&folder, &sources, &address);
            let config = folder.write("app.ini", &text)?;
            let arguments = ["--config", &config.display().to_string(), "web"].map(str::to_owned);
            let mut server = Server::start("gitea", &program, &arguments, folder.path())?;
            let url = format!("http://{address}");
            let client = Client::plain(&url, "");
            server.wait_ready(PATIENCE, || client.is_ok("/api/healthz"))?;
            Ok(Self {
                program: program.clone(),
                config,
                url,
                _server: server,
                folder,
            })
        })
    }

    /// The address of its API.
    #[must_use]
    pub fn api(&self) -> String {
        format!("{}/api/v1", self.url)
    }

    /// Makes a user, and a token of that user with these scopes, such as `all`.
    ///
    /// # Errors
    /// Fails if Gitea says no.
    pub fn user(&self, name: &str, scopes: &str) -> Result<String> {
        let email = format!("{name}@gitea.example");
        let flags = [
            "create",
            "--username",
            name,
            "--password",
            PASSWORD,
            "--email",
            &email,
            "--must-change-password=false",
        ];
        self.administer(&flags)?;
        self.token(name, scopes)
    }

    /// Makes another token of a user.
    ///
    /// # Errors
    /// Fails if Gitea says no.
    pub fn token(&self, name: &str, scopes: &str) -> Result<String> {
        let flags = [
            "generate-access-token",
            "--username",
            name,
            "--token-name",
            scopes,
            "--scopes",
            scopes,
            "--raw",
        ];
        token_in(self.administer(&flags)?)
    }

    /// The token with which a runner for every repository registers.
    pub(crate) fn runner_token(&self) -> Result<String> {
        token_in(self.run(&["actions", "generate-runner-token"])?)
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address of a repository for `git`, with the name and password of a user that
    /// [`Gitea::user`] made.
    #[must_use]
    pub fn git_url(&self, user: &str, repository: &str) -> String {
        let host = self.url.trim_start_matches("http://");
        format!("http://{user}:{PASSWORD}@{host}/{repository}.git")
    }

    /// A client of its API with this token.
    #[must_use]
    pub fn client(&self, token: &str) -> Client {
        Client::plain(&self.api(), token)
    }

    fn administer(&self, flags: &[&str]) -> Result<String> {
        self.run(&[&["admin", "user"], flags].concat())
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let mut command: Command = isolated(&self.program, self.folder.path());
        command
            .arg("--config")
            .arg(&self.config)
            .args(words)
            .current_dir(self.folder.path());
        let output = command.output().map_err(Error::file(&self.program))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(Error::unreadable("gitea", text(&output.stderr))),
        }
    }
}

/// The token in the last line.
fn token_in(printed: String) -> Result<String> {
    let token = printed.lines().last().map(str::trim);
    match token.filter(|token| token.len() == 40) {
        Some(token) => Ok(token.to_owned()),
        None => Err(Error::unreadable("gitea", printed)),
    }
}

fn config(folder: &RunFolder, sources: &std::path::Path, address: &str) -> String {
    let (host, port) = address.split_once(':').unwrap_or((address, ""));
    let (work, sources) = (folder.path().display(), sources.display());
    format!(
        "; A container of CI has no other user.\n\
         I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true\n\
         WORK_PATH = {work}\n\
         [server]\n\
         STATIC_ROOT_PATH = {sources}\n\
         HTTP_ADDR = {host}\n\
         HTTP_PORT = {port}\n\
         ROOT_URL = http://{address}/\n\
         DISABLE_SSH = true\n\
         OFFLINE_MODE = true\n\
         [database]\n\
         DB_TYPE = sqlite3\n\
         [security]\n\
         INSTALL_LOCK = true\n\
         [log]\n\
         LEVEL = Warn\n\
         [actions]\n\
         ENABLED = true\n\
         DEFAULT_ACTIONS_URL = self\n\
         [indexer]\n\
         ISSUE_INDEXER_TYPE = db\n"
    )
}
