//! What can go wrong with a command, its exit code, and the hint that is printed with it. Nothing else knows exit codes.

use std::process::ExitCode;

use super::Reached;
use super::output::{data, talk, warn};
use crate::cluster::{ClusterError, WriteError};
use crate::plan::RefusalDocument;
use crate::render::{Paint, printable};

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(super) enum Failure {
    /// Anything that has no code of its own.
    Failed(String),
    /// The reader of our output went away; nothing to say to anybody.
    BrokenPipe,
    /// The files are invalid; the diagnostics.
    Invalid(String),
    /// The files have warnings, and those count as errors; the diagnostics, and the count in words.
    WithWarnings(String, String),
    /// A saved plan no longer fits; the differences.
    Stale(Vec<String>),
    /// An undo plan no longer fits; the differences.
    StaleUndo(Vec<String>),
    /// It is not the plan that a person expects.
    Unexpected(String),
    /// Limits or protections speak against it.
    Refused(Vec<RefusalDocument>),
    /// Another process holds the lock, or was faster with every change.
    Beaten(String),
    /// Some changes were applied and others not.
    Partly(String),
    /// The cluster could not be reached or read.
    Cluster(ClusterError),
}

impl Failure {
    /// A task that panicked: the panic has been printed already.
    pub(super) fn from_panic<T>(error: tokio::task::JoinError) -> Result<T, Failure> {
        Err(Failure::Failed(format!("this is a bug in cilium-ipam: {error}")))
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        match error {
            ClusterError::Locked { .. } | ClusterError::Held { .. } => Failure::Beaten(error.to_string()),
            ClusterError::Claims(WriteError::Forbidden(_) | WriteError::Refused(_)) => Failure::Failed(format!(
                "{error}; allow `create` and `patch` on it, see the README for the rights that are needed"
            )),
            other => Failure::Cluster(other),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failure::BrokenPipe
        } else {
            Failure::Failed(error.to_string())
        }
    }
}

/// The exit code, after saying on stderr what went wrong.
pub(super) fn exit_code(outcome: Result<Reached, Failure>) -> ExitCode {
    let (code, message, hint) = match outcome {
        Ok(Reached::Done) | Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
        Ok(Reached::ChangesPending | Reached::Findings) => return ExitCode::from(2),
        Err(Failure::Invalid(diagnostics)) => {
            talk(&diagnostics);
            (3, "the files are invalid; nothing was planned or written".to_owned(), "")
        }
        Err(Failure::WithWarnings(diagnostics, warnings)) => {
            talk(&diagnostics);
            (3, format!("the files have {warnings}, and --strict is set"), "")
        }
        Err(Failure::Failed(message)) => (1, message, ""),
        Err(Failure::Stale(differences)) => {
            (4, stale("saved", &differences), "run `cilium-ipam plan` again and review it")
        }
        Err(Failure::StaleUndo(differences)) => (
            4,
            stale("undo", &differences),
            "what it lists has changed since; take it back by hand, or plan from the files",
        ),
        Err(Failure::Unexpected(what)) => (
            4,
            format!("{what}; nothing was written"),
            "look at it with `cilium-ipam show FILE`, or plan again and review it",
        ),
        Err(Failure::Refused(refusals)) => {
            let line = |refusal: &RefusalDocument| format!("\n  {}\n    {}", refusal.message, refusal.help);
            let lines: String = refusals.iter().map(line).collect();
            (5, format!("refused; nothing was written:{}", lines), "")
        }
        Err(Failure::Beaten(message)) => {
            (6, message, "run it again when the other one is done; on a live cluster --lock-timeout 5m waits for it")
        }
        Err(Failure::Partly(message)) => {
            (7, message, "run it again: what was applied stays, and the rest is planned anew")
        }
        Err(Failure::Cluster(error)) => (8, error.to_string(), hint_for(&error)),
    };
    warn(&format!("{}: {}", Paint::Red.on("error"), printable(&message)));
    if !hint.is_empty() {
        warn(&format!("{}: {hint}", Paint::Bold.on("hint")));
    }
    ExitCode::from(code)
}

/// Help and version are no failure. A faulty command line is: 1, because 2 means that changes are pending.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    // With the colours that the streams may want.
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        talk(&text);
        return ExitCode::FAILURE;
    }
    let _ = data(&text);
    ExitCode::SUCCESS
}

fn stale(what: &str, differences: &[String]) -> String {
    let lines: String = differences.iter().map(|line| format!("\n  {line}")).collect();
    format!("the {what} plan is stale; nothing was written:{lines}")
}

fn hint_for(error: &ClusterError) -> &'static str {
    match error {
        ClusterError::Unreachable(_) | ClusterError::Credentials(_) => {
            "check the cluster with `kubectl get nodes`, or use --cluster FILE, --kubeconfig or --context"
        }
        ClusterError::OpenStack(_) => {
            "see --clouds-file and --os-cloud, and try `openstack --os-cloud NAME subnet list`"
        }
        ClusterError::Indispensable { .. } => "allow `list` on it; see the README for the rights that are needed",
        ClusterError::Stale { .. } | ClusterError::Expired { .. } => "the cluster is busy; try again",
        ClusterError::Object(_) => "mend or remove the object; the claims may be emptied when no apply runs",
        ClusterError::File { .. } => "make one with `cilium-ipam snapshot`",
        ClusterError::Refused { .. }
        | ClusterError::Malformed { .. }
        | ClusterError::Outdated { .. }
        | ClusterError::Held { .. }
        | ClusterError::Claims(_)
        | ClusterError::Locked { .. } => "",
    }
}
