//! This process as the host of a migration: it waits, listens to signals, runs the person's check,
//! and shows progress.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::interruption::Interruption;
use super::check_command;
use super::options::CheckArguments;
use super::progress::Progress;
use ipam_controller::migration::{Host, MigrationEvent};
use ipam_core::model::NodeName;

/// How often a pause looks for a signal.
const SLICE: Duration = Duration::from_millis(100);

/// This process.
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
        let checked =
            tokio::task::spawn_blocking(move || check_command::run(&command, &node, limit));
        match checked.await {
            Ok(result) => result,
            Err(error) => Err(format!("this is a bug in cilium-ipam: {error}")),
        }
    }

    fn has_check(&self) -> bool {
        self.check.check.is_some()
    }
}
