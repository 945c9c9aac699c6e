//! Failures of a command: message, hint and exit code. No other module knows exit codes.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::ExitStatus;
use super::output::{Capped, data, diagnostics, talk, warn};
use crate::render::{Detail, Paint, grouped, printable};
use ipam_cluster::{ClusterError, WriteError};
use ipam_controller::Loaded;
use ipam_controller::migration::MigrationError;
use ipam_plan::plan::RefusalDocument;

ipam_core::text_enum! {
    /// The exit codes, from 0 upwards, each with its meaning for the help.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Code {
        Done = "done, or nothing to do",
        Failed = "failed, or the command line is invalid",
        Found = "errors, what --fail-on names, changes (plan --detailed-exitcode, upgrade), or failed cases",
        Invalid = "the files are invalid, or have warnings (validate --strict)",
        Stale = "the saved plan is stale, or not the expected one; nothing was written",
        Refused = "the plan is refused, such as by a limit or a protection; nothing was written",
        Beaten = "another process holds the lock, or was faster with every change",
        Partly = "applied in part, or the result is unknown; the rest is listed",
        Unreadable = "the cluster could not be reached or read",
    }
}

impl Code {
    fn number(self) -> u8 {
        self as u8
    }
}

/// The end of the help: every exit code with its meaning.
pub(super) fn exit_codes() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for code in Code::ALL {
        let _ = writeln!(text, "  {:<5}  {code}", code.number());
    }
    text + "  128+N  ended by signal N before the first write, or by a second signal"
}

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A failure without an exit code of its own.
    Failed(String),
    /// The reader of stdout is gone. Prints nothing.
    BrokenPipe,
    /// The files are invalid; the diagnostics.
    Invalid(String),
    /// The files of a command that writes are invalid; the diagnostics.
    Unwritten(String),
    /// The history of the files cannot be read; the diagnostics.
    NoHistory(String),
    /// The files have warnings, and `--strict` is set; the diagnostics, and the count in words.
    WithWarnings(String, String),
    /// What was approved does not hold any more: what, and the differences.
    Stale {
        what: &'static str,
        differences: Vec<String>,
        hint: &'static str,
    },
    /// The plan is not the expected one.
    Unexpected { what: String, hint: &'static str },
    /// Limits or protections refuse the plan.
    Refused(Vec<RefusalDocument>),
    /// Another process holds the lock, or wrote first for every change.
    Beaten(String),
    /// Only some changes were applied.
    Partly(String),
    /// A migration ended before all nodes were moved; the reason, and what to do next.
    Halted { why: String, next: String },
    /// The cluster could not be reached or read.
    Cluster(ClusterError),
    /// The signal with this number arrived before the first write.
    Interrupted(i32),
}

impl Failure {
    /// The failure of a command that would have written.
    pub(super) fn unwritten(self) -> Failure {
        match self {
            Failure::Invalid(diagnostics) => Failure::Unwritten(diagnostics),
            other => other,
        }
    }

    /// The failure for files that have errors.
    pub(super) fn invalid(loaded: &Loaded, detail: Detail) -> Failure {
        Failure::Invalid(diagnostics(loaded, detail))
    }

    /// The failure of a task that panicked. The panic is printed already.
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
                "{error}; retry after the quarantine, or shorten `quarantine` in the Policy"
            )),
            ClusterError::Claims(WriteError::Forbidden(_) | WriteError::Refused(_)) => {
                Failure::Failed(format!(
                    "{error}; allow `create` and `patch` on it; `cilium-ipam schema --rbac` prints the required roles"
                ))
            }
            other => Failure::Cluster(other),
        }
    }
}

impl From<MigrationError> for Failure {
    fn from(error: MigrationError) -> Failure {
        match error {
            MigrationError::Cluster(error) => error.into(),
            MigrationError::TakenOver(_) => Failure::Beaten(error.to_string()),
            MigrationError::Forbidden { .. } => Failure::Failed(format!(
                "{error}; `cilium-ipam schema --rbac migrate` prints the required roles"
            )),
            MigrationError::Object(_)
            | MigrationError::Store { .. }
            | MigrationError::Record { .. }
            | MigrationError::Schedule(_)
            | MigrationError::Reserve(_) => Failure::Failed(error.to_string()),
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

/// Prints a failure to stderr and returns the exit code.
pub(super) fn exit_code(outcome: Result<ExitStatus, Failure>, detail: Detail) -> ExitCode {
    let failure = match outcome {
        Ok(status) => return ExitCode::from(status.code()),
        Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    if let Some(diagnostics) = failure.diagnostics() {
        talk(diagnostics);
    }
    warn(&format!(
        "{}: {}",
        Paint::Red.on("error"),
        printable(&failure.message(detail))
    ));
    let hint = failure.hint();
    if !hint.is_empty() {
        warn(&format!("{}: {hint}", Paint::Bold.on("hint")));
    }
    ExitCode::from(failure.code())
}

impl ExitStatus {
    pub(super) fn code(&self) -> u8 {
        let code = match self {
            ExitStatus::Done => Code::Done,
            ExitStatus::ChangesPending | ExitStatus::Findings => Code::Found,
            ExitStatus::Refused => Code::Refused,
            ExitStatus::Unreadable => Code::Unreadable,
        };
        code.number()
    }
}

impl Failure {
    pub(super) fn code(&self) -> u8 {
        let code = match self {
            Failure::BrokenPipe => Code::Done,
            Failure::Failed(_) => Code::Failed,
            Failure::Invalid(_)
            | Failure::Unwritten(_)
            | Failure::NoHistory(_)
            | Failure::WithWarnings(..) => Code::Invalid,
            Failure::Stale { .. } | Failure::Unexpected { .. } => Code::Stale,
            Failure::Refused(_) => Code::Refused,
            Failure::Beaten(_) => Code::Beaten,
            Failure::Partly(_) | Failure::Halted { .. } => Code::Partly,
            Failure::Cluster(_) => Code::Unreadable,
            Failure::Interrupted(signal) => return signal_code(*signal),
        };
        code.number()
    }

    fn message(&self, detail: Detail) -> String {
        match self {
            Failure::BrokenPipe => String::new(),
            Failure::Failed(message) | Failure::Beaten(message) | Failure::Partly(message) => {
                message.clone()
            }
            Failure::Invalid(_) => "the files are invalid".to_owned(),
            Failure::Unwritten(_) => "the files are invalid; nothing was written".to_owned(),
            Failure::NoHistory(_) => "the history cannot be read".to_owned(),
            Failure::WithWarnings(_, warnings) => {
                format!("the files have {warnings}, and --strict is set")
            }
            Failure::Stale {
                what, differences, ..
            } => stale(what, differences, detail),
            Failure::Halted { why, next } => format!("{why}\n{next}").trim_end().to_owned(),
            Failure::Unexpected { what, .. } => format!("{what}; nothing was written"),
            Failure::Refused(refusals) => refused(refusals, detail),
            Failure::Cluster(error) => error.to_string(),
            Failure::Interrupted(_) => "interrupted; nothing was written".to_owned(),
        }
    }

    /// The message, and how to fix the failure, for a reader elsewhere.
    pub(super) fn brief(&self, detail: Detail) -> String {
        let (message, hint) = (self.message(detail), self.hint());
        match hint.is_empty() {
            true => message,
            false => format!("{message}. Fix: {hint}"),
        }
    }

    /// [`Failure::brief`] below the diagnostics of invalid files.
    pub(super) fn explained(&self, detail: Detail) -> String {
        let brief = self.brief(detail);
        match self.diagnostics() {
            Some(diagnostics) => format!("{diagnostics}\n{brief}"),
            None => brief,
        }
    }

    fn diagnostics(&self) -> Option<&str> {
        match self {
            Failure::Invalid(diagnostics)
            | Failure::Unwritten(diagnostics)
            | Failure::NoHistory(diagnostics)
            | Failure::WithWarnings(diagnostics, _) => Some(diagnostics),
            _ => None,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Failure::BrokenPipe
            | Failure::Failed(_)
            | Failure::Invalid(_)
            | Failure::Unwritten(_)
            | Failure::NoHistory(_)
            | Failure::WithWarnings(..)
            | Failure::Refused(_)
            | Failure::Halted { .. }
            | Failure::Interrupted(_) => "",
            Failure::Stale { hint, .. } | Failure::Unexpected { hint, .. } => hint,
            Failure::Beaten(_) => {
                "retry when the other apply is done; on a live cluster, --lock-timeout 5m waits for it"
            }
            Failure::Partly(_) => {
                "run it again: applied changes stay, and the rest is planned again"
            }
            Failure::Cluster(error) => hint_for(error),
        }
    }
}

/// Ends the program at once, with the exit code that a shell reports for a killed program.
pub(super) fn end_by_signal(signal: i32) -> ! {
    std::process::exit(signal_code(signal).into())
}

fn signal_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Prints help, the version, or an error of the command line. The error's exit code is 1, because 2
/// means pending changes.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    // The streams strip the colours if needed.
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        talk(&text);
        return ExitCode::FAILURE;
    }
    let _ = data(&text);
    ExitCode::SUCCESS
}

fn stale(what: &str, differences: &[String], detail: Detail) -> String {
    let lines = Capped::new(differences, detail);
    let mut message = format!("{what}; nothing was written:");
    for line in &lines.shown {
        message += &format!("\n  {line}");
    }
    message + &more(&lines)
}

/// The refusals as text. Refusals with the same help are one group.
fn refused(refusals: &[RefusalDocument], detail: Detail) -> String {
    let groups = Capped::new(grouped(refusals.iter().map(|one| (&one.help, one))), detail);
    let mut message = "refused; nothing was written:".to_owned();
    for (help, group) in &groups.shown {
        let group = Capped::new(group, detail);
        for refusal in &group.shown {
            message += &format!("\n  {}", refusal.message);
        }
        message += &more(&group);
        message += &format!("\n    {help}");
    }
    let shown: usize = groups.shown.iter().map(|(_, group)| group.len()).sum();
    let further = Capped::<()> {
        shown: Vec::new(),
        hidden: refusals.len() - shown,
    };
    message + &more(&further)
}

fn more<T>(list: &Capped<T>) -> String {
    list.more()
        .map(|more| format!("\n  {more}"))
        .unwrap_or_default()
}

fn hint_for(error: &ClusterError) -> &'static str {
    match error {
        ClusterError::Unreachable(_) | ClusterError::Credentials(_) => {
            "check the cluster with `kubectl get nodes`, or use --cluster-file FILE, --kubeconfig or --context"
        }
        ClusterError::OpenStack(_) => {
            "see --clouds-file and --os-cloud, and try `openstack --os-cloud NAME subnet list`"
        }
        ClusterError::Indispensable { .. } => {
            "allow `list` on it; `cilium-ipam schema --rbac` prints the required roles"
        }
        ClusterError::Stale { .. } | ClusterError::Expired { .. } => {
            "the cluster is busy; try again"
        }
        ClusterError::Object(error) if error.is_of_claims() => {
            "fix the object; its data may be emptied only if no apply runs and no newer version wrote it (documentation: how-to/upgrade)"
        }
        ClusterError::Departed { .. } => "allow `create` and `patch` on it",
        ClusterError::Object(_) => "fix or remove the object: its blocks are unknown",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(number: usize, help: &str) -> RefusalDocument {
        RefusalDocument {
            rule: "protected".to_owned(),
            message: format!("node `n{number}` is protected"),
            help: help.to_owned(),
            waiver: None,
        }
    }

    #[test]
    fn long_lists_are_capped_and_counted() {
        let differences: Vec<String> = (0..2_000).map(|number| format!("Node/n{number}")).collect();
        let failure = Failure::Stale {
            what: "the saved plan is stale",
            differences,
            hint: "",
        };
        let short = failure.message(Detail::Short);
        assert_eq!(short.lines().count(), 12, "{short}");
        assert!(
            short.ends_with("\n  Node/n9\n  … and 1,990 more; --show-all shows all"),
            "{short}"
        );
        assert_eq!(failure.message(Detail::Full).lines().count(), 2_001);
    }

    #[test]
    fn refusals_are_grouped_by_their_help() {
        let mut refusals: Vec<_> = (0..2_000)
            .map(|number| refusal(number, "keep it"))
            .collect();
        refusals.push(refusal(2_000, "another way"));
        let short = Failure::Refused(refusals).message(Detail::Short);
        assert_eq!(short.lines().count(), 15, "{short}");
        assert!(
            short.contains("\n  … and 1,990 more; --show-all shows all\n    keep it\n"),
            "{short}"
        );
        assert!(
            short.ends_with("`n2000` is protected\n    another way"),
            "{short}"
        );
    }

    #[test]
    fn a_short_list_is_shown_completely() {
        let failure = Failure::Refused(vec![refusal(1, "keep it")]);
        let expected = "refused; nothing was written:\n  node `n1` is protected\n    keep it";
        assert_eq!(failure.message(Detail::Short), expected);
    }
}
