//! The `go` command: what the modules under `tests/controlplane` build from, and how.
//!
//! Only ordinary `go build` and `go mod download`; the modules' own go.sum pins everything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Part of every fingerprint: raise it when the way of building changes.
const RECIPE_VERSION: &str = "1";

/// One `go build`: which main package of which module, with which flags.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// A folder under `tests/controlplane`.
    pub(crate) module: &'static str,
    pub(crate) package: &'static str,
    pub(crate) tags: &'static str,
    pub(crate) linker_flags: String,
    pub(crate) cgo: Cgo,
}

/// Whether a program has parts in C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cgo {
    Without,
    /// With SQLite, which gcc compiles.
    Sqlite,
}

impl Recipe {
    /// Builds into `output`, whatever lies there.
    pub(crate) fn build(&self, output: &Path) -> Result<()> {
        let output = output.display().to_string();
        let arguments = [
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-tags",
            self.tags,
            "-ldflags",
            &self.linker_flags,
            "-o",
            &output,
            self.package,
        ];
        go_with(&module_folder(self.module), &arguments, self.cgo).map(drop)
    }

    /// Changes whenever the binary could: sources, pinned dependencies, flags, compiler.
    pub(crate) fn fingerprint(&self) -> Result<String> {
        let folder = module_folder(self.module);
        let mut hash = Sha256::new();
        for part in [RECIPE_VERSION, self.module, self.tags, &self.linker_flags] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(go(&folder, &["version"])?);
        for file in sources(&folder)? {
            hash.update(
                file.strip_prefix(&folder)
                    .unwrap_or(&file)
                    .as_os_str()
                    .as_encoded_bytes(),
            );
            hash.update([0]);
            hash.update(fs::read(&file).map_err(Error::file(&file))?);
        }
        let digest = hash.finalize();
        Ok(digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }
}

/// The unpacked sources of a release of a Go module, downloaded when missing.
pub(crate) fn source_folder(path: &str, release: &str) -> Result<PathBuf> {
    let wanted = format!("{path}@v{release}");
    let answer = go(&workspace(), &["mod", "download", "-json", &wanted])?;
    let answer: serde_json::Value =
        serde_json::from_str(&answer).map_err(|why| Error::unreadable("go mod download", why))?;
    match answer["Dir"].as_str() {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Err(Error::unreadable("go mod download", "no Dir in the answer")),
    }
}

/// The root of the repository.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

fn module_folder(module: &str) -> PathBuf {
    workspace().join("tests/controlplane").join(module)
}

/// go.mod, go.sum and every Go file, in a stable order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        let is_source = path
            .extension()
            .is_some_and(|extension| extension == "go" || extension == "mod" || extension == "sum");
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if is_source {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn go(folder: &Path, arguments: &[&str]) -> Result<String> {
    go_with(folder, arguments, Cgo::Without)
}

fn go_with(folder: &Path, arguments: &[&str], cgo: Cgo) -> Result<String> {
    let enabled = match cgo {
        Cgo::Without => "0",
        Cgo::Sqlite => "1",
    };
    let output = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        .env("CGO_ENABLED", enabled)
        .env("GOWORK", "off")
        .env("GOFLAGS", "")
        .env_remove("KUBECONFIG")
        .output()
        .map_err(Error::NoGo)?;
    if !output.status.success() {
        // With `-json`, go writes its errors to the standard output.
        let told = [output.stderr, output.stdout].concat();
        return Err(Error::Go {
            command: arguments.join(" "),
            told: String::from_utf8_lossy(&told).into_owned(),
        });
    }
    String::from_utf8(output.stdout).map_err(|why| Error::unreadable("the answer of go", why))
}
