//! Common parts of the guests: their folder, the scripts that make and boot them, and how they see
//! this machine. It knows nothing of what runs in them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::golang::workspace;

/// This machine's loopback as a guest sees it; the API server's certificate names it, too.
pub(crate) const HOST_IN_GUEST: &str = "10.0.2.2";
/// That loopback as this machine sees it.
pub(crate) const HOST: &str = "127.0.0.1";
/// Moves the cache, as it does for the programs.
const CACHE_VARIABLE: &str = "CILIUM_IPAM_TESTBED_CACHE";
/// What a script says where Debian cannot be reached.
const CANNOT_HERE: i32 = 75;

/// Where guests are kept.
pub(crate) fn cache() -> PathBuf {
    match std::env::var_os(CACHE_VARIABLE) {
        Some(folder) => PathBuf::from(folder).join("agent-vm"),
        None => workspace().join(".cache/agent-vm"),
    }
}

/// Where the scripts lie.
pub(crate) fn scripts() -> PathBuf {
    workspace().join("ci/agent-vm")
}

/// Locks the cache for this process until the returned file is dropped.
pub(crate) fn lock(cache: &Path) -> Result<File> {
    fs::create_dir_all(cache).map_err(Error::file(cache))?;
    let path = cache.join("lock");
    let lock = File::create(&path).map_err(Error::file(&path))?;
    lock.lock().map_err(Error::file(&path))?;
    Ok(lock)
}

/// Runs a script, with the caller's environment: apt may need its proxy from there.
pub(crate) fn script(name: &str, arguments: &[&Path]) -> Result<()> {
    let path = scripts().join(name);
    let output = Command::new(&path)
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .map_err(Error::file(&path))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(CANNOT_HERE) => Err(Error::missing(
            "guest",
            format!("{} says: {stderr}", path.display()),
        )),
        _ => Err(Error::Failed {
            program: path.display().to_string(),
            stderr,
        }),
    }
}

/// A guest's output need not be UTF-8.
pub(crate) fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(Error::file(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
