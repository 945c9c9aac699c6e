//! This process as the host of a migration: it waits, listens to signals, runs the person's own
//! check of a moved node with a time limit, and shows progress.

use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::interruption::Interruption;
use super::options::CheckArguments;
use super::progress::Progress;
use ipam_controller::migration::{Host, MigrationEvent};
use ipam_core::model::NodeName;

/// How often a pause looks for a signal.
const SLICE: Duration = Duration::from_millis(100);

/// The process that carries out a migration: its signals, its progress and the user's check.
pub(super) struct ThisProcess<'p> {
    pub(super) interruption: &'p Interruption,
    pub(super) check: &'p CheckArguments,
    progress: Mutex<Progress>,
}

impl<'p> ThisProcess<'p> {
    pub(super) fn new(
        interruption: &'p Interruption,
        check: &'p CheckArguments,
        progress: Progress,
    ) -> ThisProcess<'p> {
        ThisProcess {
            interruption,
            check,
            progress: Mutex::new(progress),
        }
    }

    fn with_progress<T>(&self, use_it: impl FnOnce(&mut Progress) -> T) -> T {
        use_it(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Clears the progress bar.
    pub(super) fn finish(&self) {
        self.with_progress(|progress| progress.finish());
    }
}

impl Host for ThisProcess<'_> {
    async fn sleep(&self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() && !self.is_stopping() {
            let slice = left.min(SLICE);
            tokio::time::sleep(slice).await;
            left -= slice;
        }
    }

    fn is_stopping(&self) -> bool {
        self.interruption.stop().is_requested()
    }

    fn report(&self, event: &MigrationEvent<'_>) {
        self.with_progress(|progress| progress.event(event));
    }

    async fn check(&self, node: &NodeName) -> Result<(), String> {
        let Some(command) = self.check.check.clone() else {
            return Ok(());
        };
        let (node, limit) = (node.clone(), self.check.check_timeout.unsigned_abs());
        let checked = tokio::task::spawn_blocking(move || run(&command, &node, limit));
        match checked.await {
            Ok(result) => result,
            Err(error) => Err(format!("this is a bug in cilium-ipam: {error}")),
        }
    }

    fn has_check(&self) -> bool {
        self.check.check.is_some()
    }
}

/// The variable with the name of the node.
const NODE_VARIABLE: &str = "CILIUM_IPAM_NODE";

/// How often the command is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Bytes at the end of the output in which the last line is looked for.
const TAIL: u64 = 4096;

/// Runs the command for a node. Blocks.
///
/// # Errors
/// Fails with the last line of output if the command fails, and if it takes longer than `limit`.
pub(super) fn run(command: &str, node: &NodeName, limit: Duration) -> Result<(), String> {
    // A file, because a process that the command leaves behind would keep a pipe open.
    let not_started = |error: std::io::Error| format!("the check cannot be started: {error}");
    let mut output = tempfile::tempfile().map_err(not_started)?;
    let stream = |output: &std::fs::File| output.try_clone().map(Stdio::from);
    let child = Command::new("sh")
        .args(["-c", command])
        .env(NODE_VARIABLE, node.as_str())
        .stdin(Stdio::null())
        .stdout(stream(&output).map_err(not_started)?)
        .stderr(stream(&output).map_err(not_started)?)
        .spawn()
        .map_err(not_started)?;
    let status = wait(child, limit)?;
    match status.success() {
        true => Ok(()),
        false => Err(match last_line(&mut output) {
            Some(line) => line,
            None => format!("the check printed nothing, {status}"),
        }),
    }
}

fn wait(mut child: Child, limit: Duration) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    let lost = |error: std::io::Error| format!("the check is lost: {error}");
    loop {
        if let Some(status) = child.try_wait().map_err(lost)? {
            return Ok(status);
        }
        if begun.elapsed() >= limit {
            child.kill().map_err(lost)?;
            child.wait().map_err(lost)?;
            return Err(format!("the check took longer than {limit:?}"));
        }
        std::thread::sleep(POLL);
    }
}

fn last_line(output: &mut (impl Read + Seek)) -> Option<String> {
    let length = output.seek(std::io::SeekFrom::End(0)).ok()?;
    let start = length.saturating_sub(TAIL);
    output.seek(std::io::SeekFrom::Start(start)).ok()?;
    let mut tail = Vec::new();
    output.read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let mut lines = text.lines().map(str::trim).rev();
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, limit: Duration) -> Result<(), String> {
        run(command, &"n1".parse().unwrap(), limit)
    }

    #[test]
    fn the_command_knows_its_node_and_its_last_line_is_the_error() {
        let minute = Duration::from_secs(60);
        assert_eq!(check("test $CILIUM_IPAM_NODE = n1", minute), Ok(()));
        let failing = "echo first; echo \"$CILIUM_IPAM_NODE is silent\" >&2; echo; exit 1";
        assert_eq!(check(failing, minute), Err("n1 is silent".to_owned()));
        let silent = check("exit 7", minute).unwrap_err();
        assert_eq!(silent, "the check printed nothing, exit status: 7");
        // A process that stays behind is not waited for.
        assert_eq!(check("sleep 600 & echo $! ; kill $!", minute), Ok(()));
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let killed = check("exec sleep 600", Duration::from_millis(1));
        assert_eq!(killed, Err("the check took longer than 1ms".to_owned()));
    }
}
