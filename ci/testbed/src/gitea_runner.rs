//! The runner of Gitea Actions, which runs jobs on this machine, without containers. It keeps
//! nothing when it stops.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::gitea::Gitea;
use crate::process::{Server, isolated};
use crate::programs::{Program, build};

/// The label of the jobs that it takes.
const LABEL: &str = "ubuntu-latest:host";

/// A running runner. Dropping it stops it.
#[derive(Debug)]
pub struct GiteaRunner {
    // Before the folder: the runner writes there until it has stopped.
    _server: Server,
    log: PathBuf,
    _folder: RunFolder,
}

impl GiteaRunner {
    /// Starts one for every repository of the server. Jobs find `programs` before all others.
    ///
    /// # Errors
    /// Fails if it cannot be built, or cannot register.
    pub fn start(gitea: &Gitea, programs: &Path) -> Result<Self> {
        let built = build(&[Program::GiteaRunner])?;
        let program = built.path(Program::GiteaRunner)?;
        let folder = RunFolder::new()?;
        let config = folder.write("config.yaml", &config(folder.path(), programs))?;
        let config = config.display().to_string();
        register(program, gitea, &folder, &config)?;
        let arguments = ["--config", &config, "daemon"].map(str::to_owned);
        let server = Server::start("runner", program, &arguments, folder.path())?;
        Ok(Self {
            _server: server,
            log: folder.path().join("runner.log"),
            _folder: folder,
        })
    }

    /// The file with its output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }
}

fn register(program: &Path, gitea: &Gitea, folder: &RunFolder, config: &str) -> Result<()> {
    let mut command = isolated(program, folder.path());
    command.current_dir(folder.path()).args([
        "--config",
        config,
        "register",
        "--no-interactive",
        "--name",
        "testbed",
        "--labels",
        LABEL,
        "--instance",
        gitea.url(),
        "--token",
        &gitea.runner_token()?,
    ]);
    let output = command.output().map_err(Error::file(program))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::unreadable(
            "gitea-runner register",
            String::from_utf8_lossy(&output.stderr),
        )),
    }
}

/// As JSON, which is YAML.
fn config(folder: &Path, programs: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    serde_json::json!({
        "runner": {
            "file": folder.join(".runner"),
            "envs": {"PATH": format!("{}:{path}", programs.display())},
            "fetch_interval": "200ms",
            "log_report_interval": "500ms",
            "labels": [LABEL],
        },
        "cache": {"enabled": false},
        "host": {"workdir_parent": folder.join("work")},
    })
    .to_string()
}
