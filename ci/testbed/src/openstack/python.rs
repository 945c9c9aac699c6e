//! The Python packages of OpenStack, in a virtual environment inside the cache: installed once,
//! with pinned versions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::process::isolated;
use crate::programs::cache;

/// From `pip freeze` in a working environment.
const CONSTRAINTS: &str = include_str!("../../openstack-constraints.txt");
/// The packages to install; the constraints pin their versions and dependencies.
const PACKAGES: [&str; 4] = ["uwsgi", "neutron", "keystone", "pymysql"];
/// Part of the fingerprint: raise it when the way of installing changes.
const RECIPE_VERSION: &str = "1";
/// Written last, so that an installation that was interrupted is never taken for a whole one.
const MARKER: &str = "complete";
/// The version that the pins were made with, then any other.
const NAMES: [&str; 2] = ["python3.11", "python3"];
/// Fails where the interpreter is too old or cannot make virtual environments. Says where it really
/// is, as a name may stand for another program that chooses one.
const ASK: &str = "import ensurepip, sys, venv\n\
                   assert sys.version_info >= (3, 10)\n\
                   print(sys.executable)\n\
                   print(sys.version)";
/// Messages of pip if it cannot reach the index. For a missing version it lists the existing ones.
const UNREACHABLE: [&str; 3] = [
    "from versions: none",
    "Retry(total=0",
    "Max retries exceeded",
];

const NO_PYTHON: &str = "no Python of version 3.10 or newer that has venv and ensurepip";

/// An interpreter with all packages.
#[derive(Debug, Clone)]
pub(super) struct Python {
    folder: PathBuf,
}

impl Python {
    /// Finds the environment in the cache, or installs it.
    pub(super) fn find_or_install() -> Result<Self> {
        let interpreter =
            Interpreter::find().ok_or_else(|| Error::missing("openstack", NO_PYTHON))?;
        let parent = cache().join("openstack");
        fs::create_dir_all(&parent).map_err(Error::file(&parent))?;
        let folder = parent.join(interpreter.fingerprint());
        let lock_path = folder.with_added_extension("lock");
        let lock = File::create(&lock_path).map_err(Error::file(&lock_path))?;
        lock.lock().map_err(Error::file(&lock_path))?;
        let python = Self { folder };
        if !python.folder.join(MARKER).exists() {
            python.install(&interpreter)?;
        }
        Ok(python)
    }

    /// A file of the environment, such as `etc/neutron/api-paste.ini`.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.folder.join("venv").join(path)
    }

    /// Where templates lie that these packages made.
    pub(super) fn templates(&self) -> PathBuf {
        self.folder.join("templates")
    }

    /// Runs a program of the environment to its end.
    pub(super) fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<()> {
        let mut command = isolated(&self.file("bin").join(program), folder);
        command.args(arguments).current_dir(folder);
        output(&mut command, program).map(drop)
    }

    /// In its final place, because scripts of an environment name it.
    fn install(&self, interpreter: &Interpreter) -> Result<()> {
        eprintln!(
            "testbed: installing the Python packages of OpenStack; a minute or two the first time"
        );
        let start = std::time::Instant::now();
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(Error::file(&self.folder))?;
        }
        let constraints = super::write(&self.folder, "constraints.txt", CONSTRAINTS)?;
        let venv = self.folder.join("venv");
        output(
            with_index(&interpreter.executable)
                .args(["-m", "venv"])
                .arg(&venv),
            "venv",
        )?;
        let mut pip = with_index(&venv.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-input",
            "--constraint",
        ])
        .arg(&constraints)
        .args(PACKAGES);
        output(&mut pip, "pip").map_err(|error| match error {
            Error::Failed { stderr, .. }
                if UNREACHABLE.iter().any(|sign| stderr.contains(sign)) =>
            {
                Error::missing("openstack", format!("pip says: {stderr}"))
            }
            other => other,
        })?;
        super::write(&self.folder, MARKER, "")?;
        eprintln!(
            "testbed: installed the Python packages of OpenStack in {} s",
            start.elapsed().as_secs()
        );
        Ok(())
    }
}

/// A Python that can make virtual environments.
struct Interpreter {
    executable: PathBuf,
    version: String,
}

impl Interpreter {
    /// The first one on `PATH` that will do. A name may be there several times, and the first may
    /// be one that cannot.
    fn find() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        NAMES
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .find_map(|at| Self::ask(&at))
    }

    fn ask(program: &Path) -> Option<Self> {
        let answer = output(with_index(program).args(["-c", ASK]), "python").ok()?;
        let (executable, version) = answer.split_once('\n')?;
        Some(Self {
            executable: PathBuf::from(executable),
            version: version.to_owned(),
        })
    }

    /// Changes whenever the environment could.
    fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for part in [RECIPE_VERSION, CONSTRAINTS, &self.version] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(self.executable.as_os_str().as_encoded_bytes());
        let digest = hash.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// With the caller's environment, as pip may need its index, proxy and certificates from there, and
/// a shim its settings; but with nothing that names a cloud or a cluster, or bends Python.
fn with_index(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("OS_")
            || text.starts_with("PYTHON")
            || ["KUBECONFIG", "VIRTUAL_ENV"].contains(&&*text)
        {
            command.env_remove(&name);
        }
    }
    command
}

fn output(command: &mut Command, name: &str) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::file(command.get_program()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = [
        &*String::from_utf8_lossy(&output.stdout),
        &*String::from_utf8_lossy(&output.stderr),
    ]
    .concat();
    Err(Error::Failed {
        program: name.to_owned(),
        stderr,
    })
}
