//! Saved plans as input of `apply`: recognizes them, and finds the changes that are still wanted;
//! and whether `--maintenance-windows` lets an apply write now.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;

use super::failure::Failure;
use super::files::SafetyArguments;
use super::interruption::{self, Interruption};
use super::plan_file::{self, Expectation, PlanOrigin};
use super::{Common, output};
use crate::render::{Detail, Irreversible, count, human};
use ipam_cilium::observed::Observed;
use ipam_core::model::Waiver;
use ipam_desired::{MigrationPolicy, WindowState};
use ipam_plan::plan::{
    BlockedChange, Change, Intent, Plan, PlanDocument, Staleness, Verdict, still_wanted,
};

/// The plan file, or `None` if `what` has YAML files. A file with a JSON object is a plan, whatever
/// its name.
pub(super) fn saved_plan(what: &Path) -> Result<Option<PlanDocument>, Failure> {
    if !plan_file::is_named_as_plan(what) {
        return Ok(None);
    }
    let is_yaml = what
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml");
    if is_yaml
        && std::fs::read_to_string(what).is_ok_and(|text| !text.trim_start().starts_with('{'))
    {
        return Ok(None);
    }
    plan_file::read(what).map(Some)
}

/// The saved plan, if it brings the cluster to the files.
pub(super) fn of_files(saved: Option<&PlanDocument>) -> Option<&PlanDocument> {
    saved.filter(|saved| saved.intent == Intent::Files)
}

/// The plan file, if it is the one that is expected.
pub(super) fn expected_plan(
    what: &Path,
    expectation: &Expectation,
    safety: &SafetyArguments,
    common: &Common,
) -> Result<Option<PlanDocument>, Failure> {
    let saved = saved_plan(what)?;
    expectation.check_directory(saved.as_ref(), PlanOrigin::Earlier)?;
    if let Some(saved) = &saved {
        expectation.check_digest(saved, PlanOrigin::Earlier)?;
    }
    // An undo plan needs an approval in any case.
    if let Some(saved) = of_files(saved.as_ref()) {
        expectation.check_trust(interruption::Terminal::of(common))?;
        safety.check_waivers(saved)?;
    }
    if let Some(saved) = &saved {
        output::talk(&plan_file::introduction(what, saved));
    }
    Ok(saved)
}

/// The waivers of a plan and of the flags.
pub(super) fn waivers(saved: Option<&PlanDocument>, safety: &SafetyArguments) -> BTreeSet<Waiver> {
    // When an undo plan is made, the later addresses of Services are unknown.
    let of_plan = saved.into_iter().flat_map(|saved| &saved.waivers);
    let named = of_plan.filter_map(|name| name.parse().ok());
    named.chain(safety.waivers()).collect()
}

/// Changes that an apply may send, and changes that it cannot make.
pub(super) struct Approved {
    /// The verdict on the plan that is shown.
    pub(super) verdict: Verdict,
    pub(super) changes: Vec<Change>,
    /// Number of blocked objects.
    pub(super) blocked: usize,
    /// Blocked changes that a saved undo plan would make.
    pub(super) held_back: Vec<BlockedChange>,
}

pub(super) fn saved_changes(
    saved: &PlanDocument,
    plan: &Plan,
    observed: &Observed,
    detail: Detail,
) -> Result<Approved, Failure> {
    // A plan that was refused when it was saved stays refused: its flags are unknown now.
    if !saved.refusals.is_empty() {
        return Err(Failure::Refused(saved.refusals.clone()));
    }
    match still_wanted(saved, plan, observed) {
        Staleness::Stale(differences) if saved.intent == Intent::Undo => Err(Failure::Stale {
            what: "the undo plan is stale",
            differences,
            hint: "the objects have changed since; revert them by hand, or plan from the files",
        }),
        Staleness::Stale(differences) => Err(Failure::Stale {
            what: "the saved plan is stale",
            differences,
            hint: "run `cilium-ipam plan` again and review it",
        }),
        Staleness::Current {
            changes,
            further,
            done,
            gone,
            blocked: held_back,
        } => {
            warn_if(gone, |gone| {
                format!(
                    "left out: {}, gone or re-created since",
                    count(gone, "object")
                )
            });
            let (blocked, verdict) = match saved.intent {
                Intent::Files => (plan.blocked.len(), saved.verdict()),
                Intent::Undo => {
                    let shown = undo_document(saved, plan);
                    output::talk(&human(&shown, detail));
                    (shown.summary.blocked, shown.verdict())
                }
            };
            warn_if(done, |done| {
                format!("done already: {} of the saved plan", count(done, "change"))
            });
            let irreversible = changes
                .iter()
                .filter(|change| !change.can_be_undone())
                .count();
            warn_if(irreversible, |irreversible| {
                let what = count(irreversible, "change");
                format!(
                    "{what} cannot be undone: {}",
                    Irreversible::of(saved).as_str()
                )
            });
            if saved.intent == Intent::Files {
                warn_if(further, |further| {
                    let what = count(further, "further change");
                    format!("not in the saved plan: {what}; run plan again for more")
                });
            }
            Ok(Approved {
                verdict,
                changes,
                blocked,
                held_back,
            })
        }
    }
}

fn warn_if(number: usize, message: impl FnOnce(usize) -> String) {
    if number > 0 {
        output::warn(&message(number));
    }
}

/// The effect of an undo plan on the cluster as it is now. Irreversible changes are blocked in it.
fn undo_document(saved: &PlanDocument, plan: &Plan) -> PlanDocument {
    let mut shown = PlanDocument::new(plan, &saved.source.directory);
    shown.digest.clone_from(&saved.digest);
    shown.intent = saved.intent;
    shown.blocked.extend(saved.blocked.iter().cloned());
    shown.summary.blocked = shown.blocked.len();
    shown
}

/// Longest time before the clock is read again: the machine may sleep, or its clock be set.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// What to do while no window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutsideWindows {
    /// Write nothing, and exit with 4.
    Refuse,
    /// Wait until one opens.
    Wait,
}

/// Flags for the time of an apply.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WindowArguments {
    /// Begin to write only in a maintenance window of the Policy.
    ///
    /// The Policy has them in `migration.windows`. Outside the windows, the command exits with 4, or
    /// waits without the lock and plans again then. Without changes, or without windows in the Policy,
    /// any time is allowed. Default: ignore windows.
    #[arg(long, value_name = "WHAT", value_enum)]
    maintenance_windows: Option<OutsideWindows>,
}

/// Whether an apply may begin to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Open,
    /// Not before [`WindowArguments::wait`] returns.
    Awaited,
}

impl WindowArguments {
    /// Waits for a window. A signal ends the wait.
    pub(super) async fn wait(
        &self,
        policy: &MigrationPolicy,
        now: impl Fn() -> Timestamp,
        interruption: &Interruption,
    ) -> Result<(), Failure> {
        let mut told = None;
        while let WindowState::Closed { opens } = policy.state_at(now()) {
            let Some(opens) = opens else {
                return Err(closed(policy, None));
            };
            if told.replace(opens) != Some(opens) {
                output::progress(&format!(
                    "no maintenance window is open: waiting until {}",
                    policy.local(opens)
                ));
            }
            let left = Duration::try_from(opens.duration_since(now())).unwrap_or_default();
            let nap = tokio::time::sleep(left.min(LONGEST_NAP));
            interruption
                .cancels(async {
                    nap.await;
                    Ok(())
                })
                .await?;
        }
        Ok(())
    }

    /// Whether a window is open. With `refuse`, fails if none is.
    pub(super) fn check(
        &self,
        policy: &MigrationPolicy,
        now: Timestamp,
    ) -> Result<Window, Failure> {
        let Some(outside) = self.maintenance_windows else {
            return Ok(Window::Open);
        };
        match (policy.state_at(now), outside) {
            (WindowState::Open { .. }, _) => Ok(Window::Open),
            (WindowState::Closed { opens }, OutsideWindows::Refuse) => Err(closed(policy, opens)),
            (WindowState::Closed { .. }, OutsideWindows::Wait) => Ok(Window::Awaited),
        }
    }
}

fn closed(policy: &MigrationPolicy, opens: Option<Timestamp>) -> Failure {
    let next = match opens {
        Some(opens) => format!("the next one opens at {}", policy.local(opens)),
        None => "none of the Policy opens any more".to_owned(),
    };
    Failure::Unexpected {
        what: format!("no maintenance window is open: {next}"),
        hint: "apply again in a window, or change `migration.windows` of the Policy",
    }
}
