//! Two real FRR routers that exchange routes, in network namespaces of their own.
//!
//! The scripts in `ci/routers` fetch FRR from Debian and start it; nothing is installed, and
//! nothing outlives the exchange. It requires user namespaces, and knows nothing of nodes: the
//! caller chooses what is announced.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::golang::workspace;

/// Exit code of the scripts if the machine lacks something that they need (EX_TEMPFAIL).
const CANNOT_HERE: i32 = 75;
/// Moves the cache, as it does for the programs.
const CACHE_VARIABLE: &str = "CILIUM_IPAM_TESTBED_CACHE";

/// Announces IPv4 prefixes with their next hops, which must lie in 192.0.2.0/24, from one router to
/// another one, and gives what that one prints for `show bgp ipv4 unicast json` once it has all of
/// them.
///
/// # Errors
/// [`Error::Missing`] where Debian cannot be reached or the kernel has no namespaces for it;
/// otherwise when the routes do not arrive.
pub fn exchange(routes: &[(&str, &str)]) -> Result<String> {
    prepare()?;
    let lines: String = routes
        .iter()
        .map(|(prefix, hop)| format!("{prefix} {hop}\n"))
        .collect();
    run(&scripts().join("exchange.sh"), &cache(), &lines)
}

/// Fetches FRR, for a router beside something else.
pub(crate) fn prepare() -> Result<()> {
    let cache = cache();
    fs::create_dir_all(&cache).map_err(Error::file(&cache))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(Error::file(&lock_path))?;
    lock.lock().map_err(Error::file(&lock_path))?;
    // With the caller's environment: apt may need its proxy from there.
    run(&scripts().join("prep.sh"), &cache, "").map(drop)
}

/// The script that puts a router beside a command, and its first argument.
pub(crate) fn beside() -> (PathBuf, PathBuf) {
    (scripts().join("beside.sh"), cache())
}

fn run(script: &Path, cache: &Path, input: &str) -> Result<String> {
    let mut command = Command::new(script);
    command
        .arg(cache)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::file(script))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that reads nothing says why in its output.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::file(script))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    if output.status.code() == Some(CANNOT_HERE) {
        return Err(Error::missing(
            "routers",
            format!("{} says: {}", script.display(), text(&output.stderr)),
        ));
    }
    Err(Error::Failed {
        program: script.display().to_string(),
        stderr: text(&output.stderr),
    })
}

fn cache() -> PathBuf {
    let folder =
        std::env::var_os(CACHE_VARIABLE).map_or_else(|| workspace().join(".cache"), PathBuf::from);
    folder.join("routers")
}

fn scripts() -> PathBuf {
    workspace().join("ci/routers")
}
