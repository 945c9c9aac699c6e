//! One `cilium-ipam apply` as a process, which can be stopped, resumed and killed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use xtask::pools::Pools;
use xtask::stopping;
use xtask::tool::Tool;

/// All changes were applied.
pub const DONE: i32 = 0;
/// Another writer won every race.
pub const BEATEN: i32 = 6;
/// Some changes were applied, and the rest is listed.
pub const PARTLY: i32 = 7;
/// The cluster could not be read.
pub const UNREACHABLE: i32 = 8;

const REPORT: &str = "report.json";
const TALK: &str = "talk.txt";

/// Lines of stderr that a failure shows.
const TALK_TAIL: usize = 4;

/// Whether an applier takes the Lease that lets only one run at a time.
#[derive(Clone, Copy)]
pub enum Courtesy {
    /// As people run it.
    Lease,
    /// Several at once.
    None,
}

/// How appliers start: all alike, except for the directory.
#[derive(Clone, Copy)]
pub struct Manner<'m> {
    /// The program.
    pub tool: &'m Tool,
    /// Who they are.
    pub kubeconfig: &'m Path,
    /// Writes at the same time.
    pub parallelism: usize,
    /// Whether only one runs at a time.
    pub courtesy: Courtesy,
}

impl Manner<'_> {
    /// Starts one in a new folder, because it writes files there.
    pub fn start(&self, pools: &Pools) -> Result<Applier> {
        let folder = TempDir::new().context("no temporary folder")?;
        let mut command = self.command(OsStr::new("apply"), pools, folder.path())?;
        command.args([
            "--auto-approve",
            "--output",
            "json",
            "--parallelism",
            &self.parallelism.to_string(),
        ]);
        match self.courtesy {
            Courtesy::Lease => {}
            Courtesy::None => {
                command.arg("--no-lock");
            }
        }
        let child = command.spawn().context("the tool does not start")?;
        Ok(Applier { child, folder })
    }

    /// The exit code of `plan --detailed-exitcode`, whatever the checks find.
    pub fn plan(&self, pools: &Pools) -> Result<Option<i32>> {
        let folder = TempDir::new().context("no temporary folder")?;
        let mut command = self.command(OsStr::new("plan"), pools, folder.path())?;
        Ok(command
            .args(["--detailed-exitcode", "--fail-on", "never"])
            .status()
            .context("the tool does not start")?
            .code())
    }

    /// How many findings of this rule a plan has.
    pub fn findings(&self, pools: &Pools, rule: &str) -> Result<usize> {
        let folder = TempDir::new().context("no temporary folder")?;
        let mut command = self.command(OsStr::new("plan"), pools, folder.path())?;
        command
            .args(["--output", "json"])
            .status()
            .context("the tool does not start")?;
        let plan: Value = serde_json::from_slice(&std::fs::read(folder.path().join(REPORT))?)
            .context("a plan is no JSON")?;
        let findings = plan["findings"]
            .as_array()
            .context("a plan without findings")?;
        // One entry may stand for several.
        let of_rule = findings.iter().filter(|finding| finding["rule"] == rule);
        let count: u64 = of_rule
            .filter_map(|finding| finding["count"].as_u64())
            .sum();
        Ok(usize::try_from(count)?)
    }

    fn command(&self, verb: &OsStr, pools: &Pools, folder: &Path) -> Result<Command> {
        let mut command = self.tool.command();
        command.current_dir(folder).args([
            verb,
            pools.path(),
            OsStr::new("--kubeconfig"),
            self.kubeconfig.as_os_str(),
        ]);
        command.stdin(Stdio::null());
        command.stdout(File::create(folder.join(REPORT)).context("no file for the report")?);
        command.stderr(File::create(folder.join(TALK)).context("no file for the talk")?);
        Ok(command)
    }
}

/// A running applier. Dropping it kills it.
pub struct Applier {
    child: Child,
    folder: TempDir,
}

/// The end of an applier.
pub struct Ended {
    status: ExitStatus,
    report: Value,
    talk: String,
}

impl Applier {
    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self
            .child
            .try_wait()
            .context("the tool cannot be watched")?
            .is_none())
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<Ended> {
        let status = self.child.wait().context("the tool cannot be waited for")?;
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name));
        let report = serde_json::from_str(&read(REPORT)?).unwrap_or_default();
        Ok(Ended {
            status,
            report,
            talk: read(TALK)?,
        })
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(mut self) -> Result<Ended> {
        self.child.kill().context("the tool cannot be killed")?;
        self.wait()
    }

    /// Stops it with SIGSTOP; once this returns, it does nothing.
    pub fn pause(&self) -> Result<()> {
        stopping::pause(&self.child)
    }

    /// Resumes a stopped one.
    pub fn resume(&self) -> Result<()> {
        stopping::resume(&self.child)
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A change as the report names it.
pub struct Reported {
    /// The node.
    pub node: String,
    /// Its blocks after the change.
    pub blocks: Vec<String>,
}

impl Ended {
    /// Its exit code, unless a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Whether SIGKILL ended it.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::SIGKILL as i32)
    }

    /// Fails if the exit code is not in `codes`.
    pub fn expect(self, codes: &[i32]) -> Result<Self> {
        match self.code() {
            Some(code) if codes.contains(&code) => Ok(self),
            _ => bail!(
                "an apply ended with {}, not with one of {codes:?}:\n{}",
                self.status,
                self.end_of_talk()
            ),
        }
    }

    /// Its report.
    pub fn applied(&self) -> Vec<Reported> {
        self.reported("applied")
    }

    /// The changes in one list of the report: `applied`, `not_applied` or `unknown`.
    pub fn reported(&self, list: &str) -> Vec<Reported> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reported = |line: &Value| Reported {
            node: text(&line["name"]),
            blocks: line["after"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect(),
        };
        self.report[list]
            .as_array()
            .into_iter()
            .flatten()
            .map(reported)
            .collect()
    }

    /// Its stderr.
    pub fn talk(&self) -> &str {
        &self.talk
    }

    /// The last lines, which have the failure.
    pub fn end_of_talk(&self) -> String {
        let lines: Vec<&str> = self.talk.lines().filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(TALK_TAIL)..].join("\n")
    }
}
