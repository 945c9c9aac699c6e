//! `--fail-on`: what in a plan, or in the schedule of a migration, makes a command fail.

use clap::ValueEnum;

use super::ExitStatus;
use super::base::BaseArguments;
use super::failure::Failure;
use ipam_migrate::migration::{Goal, ScheduleDocument};
use ipam_plan::check::UNKNOWN_VERSION;
use ipam_plan::plan::PlanDocument;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct FailOnArguments {
    /// Exit with 2 if the plan has one of these, and with 5 if it is refused.
    ///
    /// `error` and `refused` are always among them, unless `never` is.
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    fail_on: Option<Vec<FailOn>>,
}

/// A condition of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum FailOn {
    /// A change.
    Changes,
    /// A blocked change.
    Blocked,
    /// A block that the files would not give its node today.
    Misplaced,
    /// A node that gets a block of a later pool because a better one is full.
    FellOver,
    /// A reason for which `apply` refuses the plan. The exit code is 5.
    Refused,
    /// A Policy that allows more than that of `--base`, which must be given.
    Policy,
    /// A field that differs from its expected value.
    Drift,
    /// A warning of a check.
    Warning,
    /// A release of Cilium whose rules are unknown.
    UnknownVersion,
    /// An error of a check, such as a block that two nodes hold.
    Error,
    /// Nothing at all.
    Never,
}

/// A result of a command, in which conditions may hold.
pub(super) trait Conditions {
    fn has(&self, condition: FailOn) -> bool;
}

impl FailOnArguments {
    pub(super) fn is_given(&self) -> bool {
        self.fail_on.is_some()
    }

    /// # Errors
    /// Fails if it names `policy`, and there is no Policy to compare with.
    pub(super) fn suits(&self, base: Option<&BaseArguments>) -> Result<(), Failure> {
        let names_policy = self.asked(&[]).contains(&FailOn::Policy);
        match names_policy && !base.is_some_and(BaseArguments::is_given) {
            true => Err(Failure::Failed(
                "--fail-on policy compares the Policy with that of another revision: pass --base, such as `--base origin/main` (of `plan` and `comment`)".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// How a command ends that shows this plan. A refusal matters more than all else.
    pub(super) fn status(&self, plan: &impl Conditions, by_default: &[FailOn]) -> ExitStatus {
        match &self.met(plan, by_default)[..] {
            [] => ExitStatus::Done,
            met if met.contains(&FailOn::Refused) => ExitStatus::Refused,
            _ => ExitStatus::ChangesPending,
        }
    }

    /// The conditions that hold, each once.
    pub(super) fn met(&self, plan: &impl Conditions, by_default: &[FailOn]) -> Vec<FailOn> {
        let mut asked = self.asked(by_default);
        asked.sort_unstable();
        asked.dedup();
        asked.retain(|condition| plan.has(*condition));
        asked
    }

    /// Whether no plan makes the command fail.
    pub(super) fn asks_for_nothing(&self, by_default: &[FailOn]) -> bool {
        let mut asked = self.asked(by_default).into_iter();
        asked.all(|condition| condition == FailOn::Never)
    }

    fn asked(&self, by_default: &[FailOn]) -> Vec<FailOn> {
        let Some(named) = &self.fail_on else {
            return by_default.to_vec();
        };
        if named.contains(&FailOn::Never) {
            return named.clone();
        }
        let always = [FailOn::Error, FailOn::Refused];
        named.iter().copied().chain(always).collect()
    }
}

impl FailOn {
    /// What a plan has then.
    pub(super) fn noun(self) -> &'static str {
        match self {
            FailOn::Changes => "changes",
            FailOn::Blocked => "blocked changes",
            FailOn::Misplaced => "misplaced blocks",
            FailOn::FellOver => "nodes outside their best pool",
            FailOn::Refused => "a refusal",
            FailOn::Policy => "a weakened Policy",
            FailOn::Drift => "drift",
            FailOn::Warning => "warnings",
            FailOn::UnknownVersion => "an unknown release of Cilium",
            FailOn::Error => "errors",
            FailOn::Never => "nothing",
        }
    }
}

impl Conditions for PlanDocument {
    fn has(&self, condition: FailOn) -> bool {
        match condition {
            FailOn::Changes => !self.changes.is_empty(),
            FailOn::Blocked => !self.blocked.is_empty(),
            FailOn::Misplaced => !self.misplaced.is_empty(),
            FailOn::FellOver => self.summary.fell_over > 0,
            FailOn::Refused => !self.refusals.is_empty(),
            FailOn::Policy => !self.weakened.is_empty(),
            FailOn::Drift => !self.drift.is_empty(),
            FailOn::Warning => self.summary.warnings > 0,
            FailOn::UnknownVersion => {
                let mut findings = self.findings.iter();
                findings.any(|finding| finding.rule == UNKNOWN_VERSION)
            }
            FailOn::Error => self.summary.errors > 0,
            FailOn::Never => false,
        }
    }
}

impl Conditions for ScheduleDocument {
    /// A node that moves is a change, and one that should move and stays is blocked. A risk, or a
    /// remark on the whole schedule, is a warning.
    fn has(&self, condition: FailOn) -> bool {
        let moves = !self.moves.is_empty();
        let stays = !self.left_out.is_empty();
        match condition {
            FailOn::Changes => moves,
            FailOn::Blocked => stays,
            FailOn::Misplaced => self.request.goal == Goal::Blocks && (moves || stays),
            FailOn::Warning => {
                let has_risk = self.moves.iter().any(|one| !one.risks.is_empty());
                has_risk || !self.remarks.is_empty()
            }
            FailOn::FellOver
            | FailOn::Refused
            | FailOn::Policy
            | FailOn::Drift
            | FailOn::UnknownVersion
            | FailOn::Error
            | FailOn::Never => false,
        }
    }
}
