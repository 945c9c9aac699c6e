//! Programs of Debian that need nothing but themselves: fetched and unpacked into the cache, never
//! installed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::golang::workspace;

/// What the script exits with where Debian cannot be reached (EX_TEMPFAIL).
const CANNOT_HERE: i32 = 75;
/// Where a package has libraries.
const LIBRARY_FOLDER: &str = "usr/lib/x86_64-linux-gnu";
/// Moves the cache, as it does for the programs.
const CACHE_VARIABLE: &str = "CILIUM_IPAM_TESTBED_CACHE";

/// A program of a package, such as `promtool` of `prometheus`.
///
/// # Errors
/// [`Error::Missing`] where Debian cannot be reached; otherwise when it cannot be unpacked.
pub fn debian(package: &str, program: &str) -> Result<PathBuf> {
    debian_file(package, &format!("usr/bin/{program}"))
}

/// What `nft` loads.
const NFT_LIBRARIES: [(&str, &str); 5] = [
    ("libnftables1", "libnftables.so.1"),
    ("libnftnl11", "libnftnl.so.11"),
    ("libmnl0", "libmnl.so.0"),
    ("libjansson4", "libjansson.so.4"),
    ("libxtables12", "libxtables.so.12"),
];

/// `nft`, and its `LD_LIBRARY_PATH`.
///
/// # Errors
/// As [`debian_file`].
pub fn nft() -> Result<(PathBuf, String)> {
    let program = debian_file("nftables", "usr/sbin/nft")?;
    Ok((program, library_folders(&NFT_LIBRARIES)?))
}

/// The value of `LD_LIBRARY_PATH` for these libraries, each of its package.
///
/// # Errors
/// As [`debian_file`].
pub fn library_folders(libraries: &[(&str, &str)]) -> Result<String> {
    let mut folders = Vec::new();
    for (package, library) in libraries {
        let path = debian_file(package, &format!("{LIBRARY_FOLDER}/{library}"))?;
        folders.extend(path.parent().map(|folder| folder.display().to_string()));
    }
    Ok(folders.join(":"))
}

/// A file of a package, by its path from the root.
///
/// # Errors
/// [`Error::Missing`] where Debian cannot be reached; otherwise when it cannot be unpacked.
pub fn debian_file(package: &str, file: &str) -> Result<PathBuf> {
    let folder =
        std::env::var_os(CACHE_VARIABLE).map_or_else(|| workspace().join(".cache"), PathBuf::from);
    let cache = folder.join("debian").join(package);
    fs::create_dir_all(&cache).map_err(Error::file(&cache))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(Error::file(&lock_path))?;
    lock.lock().map_err(Error::file(&lock_path))?;
    let path = cache.join("root").join(file);
    if path.exists() {
        return Ok(path);
    }
    let script = workspace().join("ci/testbed/fetch-debian.sh");
    // With the caller's environment: apt may need its proxy from there.
    let mut command = Command::new(&script);
    command
        .arg(&cache)
        .arg(package)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null());
    let output = command.output().map_err(Error::file(&script))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(CANNOT_HERE) {
        return Err(Error::missing("debian", format!("{package}: {stderr}")));
    }
    if !output.status.success() || !path.exists() {
        return Err(Error::Failed {
            program: script.display().to_string(),
            stderr,
        });
    }
    Ok(path)
}
