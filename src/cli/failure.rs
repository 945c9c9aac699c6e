//! What can go wrong with a command, its exit code, and the hint that is printed with it. Nothing
//! else knows exit codes.

use std::process::ExitCode;

use super::Reached;
use super::output::{data, talk, warn};
use crate::render::{Paint, printable};
use ipam_cluster::{ClusterError, WriteError};
use ipam_planner::plan::RefusalDocument;

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
    Unexpected {
        /// What differs.
        what: String,
        /// The way out.
        hint: &'static str,
    },
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
        Err(Failure::Failed(format!(
            "this is a bug in cilium-ipam: {error}"
        )))
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        match error {
            ClusterError::Locked { .. } | ClusterError::Held { .. } => {
                Failure::Beaten(error.to_string())
            }
            ClusterError::Unsaved { .. } => Failure::Failed(error.to_string()),
            ClusterError::ClaimsFull { .. } => Failure::Failed(format!(
                "{error}; run it again when the quarantine is over, or shorten `quarantine` in the Policy"
            )),
            ClusterError::Claims(WriteError::Forbidden(_) | WriteError::Refused(_)) => {
                Failure::Failed(format!(
                    "{error}; allow `create` and `patch` on it, see the README for the rights that are needed"
                ))
            }
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
    let failure = match outcome {
        Ok(Reached::Done) | Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
        Ok(Reached::ChangesPending | Reached::Findings) => return ExitCode::from(2),
        Err(failure) => failure,
    };
    if let Failure::Invalid(diagnostics) | Failure::WithWarnings(diagnostics, _) = &failure {
        talk(diagnostics);
    }
    warn(&format!(
        "{}: {}",
        Paint::Red.on("error"),
        printable(&failure.message())
    ));
    let hint = failure.hint();
    if !hint.is_empty() {
        warn(&format!("{}: {hint}", Paint::Bold.on("hint")));
    }
    ExitCode::from(failure.code())
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Failure::BrokenPipe => 0,
            Failure::Failed(_) => 1,
            Failure::Invalid(_) | Failure::WithWarnings(..) => 3,
            Failure::Stale(_) | Failure::StaleUndo(_) | Failure::Unexpected { .. } => 4,
            Failure::Refused(_) => 5,
            Failure::Beaten(_) => 6,
            Failure::Partly(_) => 7,
            Failure::Cluster(_) => 8,
        }
    }

    fn message(&self) -> String {
        match self {
            Failure::BrokenPipe => String::new(),
            Failure::Failed(message) | Failure::Beaten(message) | Failure::Partly(message) => {
                message.clone()
            }
            Failure::Invalid(_) => {
                "the files are invalid; nothing was planned or written".to_owned()
            }
            Failure::WithWarnings(_, warnings) => {
                format!("the files have {warnings}, and --strict is set")
            }
            Failure::Stale(differences) => stale("saved", differences),
            Failure::StaleUndo(differences) => stale("undo", differences),
            Failure::Unexpected { what, .. } => format!("{what}; nothing was written"),
            Failure::Refused(refusals) => {
                let line = |refusal: &RefusalDocument| {
                    format!("\n  {}\n    {}", refusal.message, refusal.help)
                };
                format!(
                    "refused; nothing was written:{}",
                    refusals.iter().map(line).collect::<String>()
                )
            }
            Failure::Cluster(error) => error.to_string(),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Failure::BrokenPipe
            | Failure::Failed(_)
            | Failure::Invalid(_)
            | Failure::WithWarnings(..)
            | Failure::Refused(_) => "",
            Failure::Stale(_) => "run `cilium-ipam plan` again and review it",
            Failure::StaleUndo(_) => {
                "what it lists has changed since; take it back by hand, or plan from the files"
            }
            Failure::Unexpected { hint, .. } => hint,
            Failure::Beaten(_) => {
                "run it again when the other one is done; on a live cluster --lock-timeout 5m waits for it"
            }
            Failure::Partly(_) => {
                "run it again: what was applied stays, and the rest is planned anew"
            }
            Failure::Cluster(error) => hint_for(error),
        }
    }
}

/// Ends the program at once, with the exit code that a shell gives a program which a signal has
/// ended.
pub(super) fn end_by_signal(signal: i32) -> ! {
    std::process::exit(128 + signal)
}

/// Help and version are no failure. A faulty command line is: 1, because 2 means that changes are
/// pending.
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
    let lines: String = differences
        .iter()
        .map(|line| format!("\n  {line}"))
        .collect();
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
        ClusterError::Indispensable { .. } => {
            "allow `list` on it; see the README for the rights that are needed"
        }
        ClusterError::Stale { .. } | ClusterError::Expired { .. } => {
            "the cluster is busy; try again"
        }
        ClusterError::Object(error) if error.is_of_claims() => {
            "fix the object; its data may be emptied only if no apply runs and no newer version wrote it (UPGRADE.md)"
        }
        ClusterError::Object(_) => "fix or remove the object: nobody knows which blocks it shows",
        ClusterError::File { .. } => "fix the file, or make a new one with `cilium-ipam snapshot`",
        ClusterError::Refused { .. }
        | ClusterError::Malformed { .. }
        | ClusterError::Outdated { .. }
        | ClusterError::WentBack { .. }
        | ClusterError::Held { .. }
        | ClusterError::Claims(_)
        | ClusterError::ClaimsFull { .. }
        | ClusterError::Unsaved { .. }
        | ClusterError::Locked { .. } => "",
    }
}
