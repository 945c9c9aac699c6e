//! One server process, which ends when its guard is dropped or when this process is gone.
//!
//! The guard holds the write end of a pipe. A small shell is the server's parent, and ends
//! the server once the pipe closes: that happens on drop, but also when the test process is
//! killed or keeps the guard in a `static`. The shell alone sends signals, and only to its
//! own child.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::usage;
use crate::wait::wait_until;

/// SIGTERM first; SIGKILL after the time that a server may need to write its state, or at once on
/// request. The traps leave no `sleep` behind if the server ends sooner.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
(
    read -r word <&3
    if [ "$word" = kill ]; then
        kill -KILL "$server"
        exit
    fi
    kill -TERM "$server"
    sleep 5 &
    nap=$!
    trap 'kill "$nap"; wait "$nap"; exit' TERM
    wait "$nap"
    kill -KILL "$server"
) 2>/dev/null &
watcher=$!
wait "$server"
status=$?
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
exit "$status"
"#;

/// Longer than the shell needs to send both signals.
const STOP_LIMIT: Duration = Duration::from_secs(15);
const LOG_TAIL: usize = 4_000;

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With SIGTERM, so that it writes out what it has and says goodbye.
    Terminated,
    /// With SIGKILL, in the middle of whatever it does.
    Killed,
}

/// A running server. Dropping it stops the server and waits for its end.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    keeper: Child,
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Server {
    /// Starts `program` with its output in `folder/name.log`.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut keeper = spawn_keeper(program, arguments, folder, &log)?;
        Ok(Self {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            folder: folder.to_owned(),
            lifeline: keeper.stdin.take(),
            keeper,
            log,
        })
    }

    /// Ends it, and starts it anew with the same arguments in the same folder.
    pub(crate) fn restart(&mut self, ending: Ending) -> Result<()> {
        self.end(ending);
        self.start_again()
    }

    /// Starts one that was ended with the same arguments in the same folder.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        let Self {
            program,
            arguments,
            folder,
            log,
            ..
        } = &*self;
        let mut keeper = spawn_keeper(program, arguments, folder, log)?;
        self.lifeline = keeper.stdin.take();
        self.keeper = keeper;
        Ok(())
    }

    /// Ends it this way, without a restart.
    pub(crate) fn end_with(mut self, ending: Ending) {
        self.end(ending);
    }

    /// The most memory that it has had so far, in MiB.
    pub(crate) fn peak_rss_mib(&self) -> Result<f64> {
        usage::peak_rss_mib(self.pid()?)
    }

    /// The processor time that it has used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        usage::cpu_seconds(self.pid()?)
    }

    fn pid(&self) -> Result<u32> {
        let keeper = self.keeper.id();
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        let listed = std::fs::read_to_string(&children).map_err(Error::file(&children))?;
        let is_it = |pid: &&str| {
            std::fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|program| program == self.program)
        };
        let found = listed.split_whitespace().find(is_it);
        found
            .and_then(|pid| pid.parse().ok())
            .ok_or_else(|| Error::unreadable(&children, "it does not run"))
    }

    /// Waits until `probe` says yes, and fails at once when the server ends.
    pub(crate) fn wait_ready(
        &mut self,
        limit: Duration,
        mut probe: impl FnMut() -> bool,
    ) -> Result<()> {
        let what = format!("{} to be ready", self.name);
        let waited = wait_until(&what, limit, || {
            self.check_running()?;
            Ok(probe().then_some(()))
        });
        match waited {
            Err(Error::Timeout { what, waited, .. }) => Err(Error::Timeout {
                what,
                waited,
                detail: format!("; the end of its log:\n{}", self.log_tail()),
            }),
            other => other,
        }
    }

    /// Fails when the server has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.keeper.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Error::Ended {
                program: self.name.clone(),
                log: self.log_tail(),
            }),
            Err(source) => Err(Error::file("/bin/sh")(source)),
        }
    }

    /// Where its output goes.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    fn log_tail(&self) -> String {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(&self.log) {
            let _ = file.read_to_end(&mut bytes);
        }
        let start = bytes.len().saturating_sub(LOG_TAIL);
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

impl Server {
    /// Ends it and waits until it has ended.
    pub(crate) fn end(&mut self, ending: Ending) {
        if let (Some(lifeline), Ending::Killed) = (&mut self.lifeline, ending) {
            // Should the pipe be broken, there is nothing left to be killed.
            let _ = lifeline.write_all(b"kill\n");
        }
        drop(self.lifeline.take());
        let start = Instant::now();
        while let Ok(None) = self.keeper.try_wait() {
            if start.elapsed() > STOP_LIMIT {
                eprintln!(
                    "testbed: {} does not end; it is killed with its keeper",
                    self.name
                );
                self.kill_server();
                let _ = self.keeper.kill();
                let _ = self.keeper.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A keeper that is killed leaves its server behind.
    fn kill_server(&self) {
        let Ok(server) = self.pid() else { return };
        let script = r#"kill -KILL "$1""#;
        let _ = isolated(Path::new("/bin/sh"), &self.folder)
            .args(["-c", script, "kill", &server.to_string()])
            .status();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Ending::Terminated);
    }
}

/// The shell with the server as its child. What an earlier life of the server has logged stays.
fn spawn_keeper(program: &Path, arguments: &[String], folder: &Path, log: &Path) -> Result<Child> {
    let output = File::options()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::file(log))?;
    let errors = output.try_clone().map_err(Error::file(log))?;
    isolated(Path::new("/bin/sh"), folder)
        .args(["-c", KEEPER, "keeper"])
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        // Ctrl-C is for the test. The keeper ends the server when the test is gone.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(Error::file("/bin/sh"))
}

/// A command which knows nothing of the person's home, clusters and proxies.
pub(crate) fn isolated(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// A port that was free a moment ago. Callers start again with another when it got taken.
pub(crate) fn free_port() -> Result<u16> {
    let address = "127.0.0.1:0";
    let listener = TcpListener::bind(address).map_err(Error::file(address))?;
    let bound = listener.local_addr().map_err(Error::file(address))?;
    Ok(bound.port())
}

/// Runs `start` again when the server ended at once, as it does when its port got taken.
pub(crate) fn with_free_ports<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    const ATTEMPTS: u32 = 3;
    let mut attempt = 1;
    loop {
        match start() {
            Err(Error::Ended { log, .. }) if attempt < ATTEMPTS && says_port_is_taken(&log) => {
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// Go and C libraries do not agree on the first letter.
fn says_port_is_taken(log: &str) -> bool {
    log.to_lowercase().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> Server {
        let arguments = ["-c", script].map(str::to_owned);
        Server::start("shell", Path::new("/bin/sh"), &arguments, folder).unwrap()
    }

    #[test]
    fn dropping_ends_the_server_with_sigterm() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = shell(
            folder.path(),
            "trap 'echo asked to end; exit' TERM; echo up; while :; do sleep 0.1; done",
        );
        let log = server.log().to_owned();
        server
            .wait_ready(Duration::from_secs(10), || {
                std::fs::read_to_string(&log).unwrap().contains("up")
            })
            .unwrap();
        drop(server);
        let said = std::fs::read_to_string(&log).unwrap();
        assert_eq!(said, "up\nasked to end\n");
    }

    #[test]
    fn a_restart_starts_the_same_again_and_killing_asks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = shell(
            folder.path(),
            "trap 'echo asked to end; exit' TERM; echo up; while :; do sleep 0.1; done",
        );
        let log = server.log().to_owned();
        let said = || std::fs::read_to_string(&log).unwrap();
        for (ending, before) in [
            (Ending::Terminated, "up\n"),
            (Ending::Killed, "up\nasked to end\nup\n"),
        ] {
            server
                .wait_ready(Duration::from_secs(10), || said() == before)
                .unwrap();
            server.restart(ending).unwrap();
        }
        server
            .wait_ready(Duration::from_secs(10), || {
                said().matches("up").count() == 3
            })
            .unwrap();
        assert_eq!(said().matches("asked to end").count(), 1, "{}", said());
    }

    /// A terminal sends Ctrl-C to the test's group. A server that it reached would be left alone,
    /// because it would reach the keeper as well.
    #[test]
    fn a_server_is_in_a_group_of_its_own() {
        let group = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let (_, behind) = stat.rsplit_once(") ").unwrap();
            behind.split(' ').nth(2).unwrap().to_owned()
        };
        let folder = tempfile::tempdir().unwrap();
        let server = shell(folder.path(), "while :; do sleep 0.1; done");
        let keeper = server.keeper.id().to_string();
        assert_eq!(group(&keeper), keeper);
        assert_ne!(group("self"), keeper);
    }

    #[test]
    fn a_server_that_ends_early_is_told_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = shell(folder.path(), "echo address already in use; exit 1");
        let error = server
            .wait_ready(Duration::from_secs(10), || false)
            .unwrap_err();
        assert!(
            error.to_string().contains("address already in use"),
            "{error}"
        );
    }
}
