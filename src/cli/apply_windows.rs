//! `apply --maintenance-windows`: whether an apply may write now. Must never know what it writes.

use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;

use super::failure::Failure;
use super::interruption::Interruption;
use super::output;
use ipam_desired::{MigrationPolicy, WindowState};

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
    /// Begin to write only while a maintenance window of the Policy (`migration.windows`) is open.
    /// Outside of them, exit with 4, or wait without the lock and plan again then. Without changes,
    /// or without windows in the Policy, any time will do. Default: do not look at windows.
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
                return Err(closed(None));
            };
            if told.replace(opens) != Some(opens) {
                output::warn(&format!(
                    "no maintenance window is open: waiting until {opens}"
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
            (WindowState::Closed { opens }, OutsideWindows::Refuse) => Err(closed(opens)),
            (WindowState::Closed { .. }, OutsideWindows::Wait) => Ok(Window::Awaited),
        }
    }
}

fn closed(opens: Option<Timestamp>) -> Failure {
    let next = match opens {
        Some(opens) => format!("the next one opens at {opens}"),
        None => "none of the Policy opens any more".to_owned(),
    };
    Failure::Unexpected {
        what: format!("no maintenance window is open: {next}"),
        hint: "apply again in a window, or change `migration.windows` of the Policy",
    }
}
