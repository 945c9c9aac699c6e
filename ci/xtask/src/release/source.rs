//! The sources of a release: a folder, its commit, and the time that all files of the release get.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Standard name of the time, in seconds since 1970, that builds use for all files.
pub const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// A folder with the repository's files.
#[derive(Debug, Clone)]
pub struct Source {
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
}

/// The commit that the files come from.
#[derive(Debug, Clone)]
pub struct Commit {
    pub id: String,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH`, or the commit's.
    pub time: u64,
}

impl Source {
    /// The repository that this program was built from.
    pub fn here() -> Source {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.ancestors().nth(2).unwrap_or(manifest);
        Source {
            root: root.to_owned(),
            target: std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| root.join("target"), PathBuf::from),
        }
    }

    /// Copies the files that Git tracks, or would add, into a folder. Nothing else is built from.
    pub fn copy_to(&self, folder: &Path) -> Result<Source> {
        let listed = self.git(&[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])?;
        for name in listed.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (self.root.join(name), folder.join(name));
            if !from.exists() {
                continue;
            }
            std::fs::create_dir_all(to.parent().unwrap_or(folder))?;
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {name}"))?;
        }
        Ok(Source {
            root: folder.to_owned(),
            target: folder.join("target"),
        })
    }

    /// The commit of the work tree. `trial` allows changes that are not committed.
    pub fn commit(&self, trial: bool) -> Result<Commit> {
        let changed = self.git(&["status", "--porcelain"])?;
        if !trial && !changed.is_empty() {
            bail!("the work tree has changes:\n{changed}help: commit them, or pass --trial");
        }
        let time = match std::env::var(TIME_VARIABLE) {
            Ok(time) => time,
            Err(_) => self.git(&["log", "-1", "--format=%ct"])?.trim().to_owned(),
        };
        Ok(Commit {
            id: self.git(&["rev-parse", "HEAD"])?.trim().to_owned(),
            time: time
                .parse()
                .with_context(|| format!("{TIME_VARIABLE} is not a number of seconds: {time}"))?,
        })
    }

    pub fn read(&self, name: &str) -> Result<String> {
        let path = self.root.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Cargo in this folder, with this target folder.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        self.prepare(&mut command);
        command
    }

    /// Sets folder and target folder of a command that builds.
    pub fn prepare(&self, command: &mut Command) {
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
    }

    /// The standard output of cargo.
    pub fn cargo_output(&self, arguments: &[&str]) -> Result<String> {
        output(self.cargo().args(arguments))
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        output(Command::new("git").args(arguments).current_dir(&self.root))
    }
}

/// Runs a command; returns its standard output.
///
/// # Errors
/// Fails with the command's errors if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .output()
        .with_context(|| format!("`{shown}` does not start"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("cannot read the output of `{shown}`"))
}

/// Shows a command and runs it with this terminal.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("`{shown}` does not start"))?;
    if !status.success() {
        bail!("`{shown}` failed");
    }
    Ok(())
}

/// The folder of these Python packages in the cache. Installs them if it is missing; `name` changes
/// with their versions.
pub fn python_packages(name: &str, packages: &[String]) -> Result<PathBuf> {
    let folder = Source::here().root.join(".cache/tools").join(name);
    if !folder.exists() {
        let unfinished = folder.with_added_extension("unfinished");
        run(Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"])
            .arg(&unfinished)
            .args(packages))?;
        std::fs::rename(&unfinished, &folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(folder)
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
