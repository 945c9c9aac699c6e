//! SIGINT and SIGTERM. They end `watch` and the operator. The first one stops an apply in order,
//! the second one at once.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::Notify;

use super::failure::{Failure, end_by_signal};
use super::output;
use ipam_controller::apply::Stop;

/// Listens for signals on a thread of its own. The other threads may be busy with a large file, or
/// wait for a server that does not answer.
pub(super) struct Interruption {
    stop: Arc<Stop>,
    first: Arc<FirstSignal>,
    /// Whether changes may be in flight.
    writes: Arc<AtomicBool>,
}

#[derive(Default)]
struct FirstSignal {
    number: AtomicI32,
    arrived: Notify,
}

impl Interruption {
    /// Replaces the default action of the signals.
    ///
    /// # Errors
    /// Fails if the handlers or the thread cannot be installed.
    pub(super) fn listen() -> Result<Interruption, Failure> {
        let (stop, first) = (Arc::<Stop>::default(), Arc::<FirstSignal>::default());
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let writes = Arc::<AtomicBool>::default();
        let (requested, arrived, may_write) = (stop.clone(), first.clone(), writes.clone());
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut signals = signals.forever();
                if let Some(signal) = signals.next() {
                    requested.request();
                    arrived.number.store(signal, Ordering::Relaxed);
                    arrived.arrived.notify_one();
                    output::warn(stopping(may_write.load(Ordering::Relaxed)));
                }
                if let Some(signal) = signals.next() {
                    end_by_signal(signal);
                }
            })?;
        Ok(Interruption {
            stop,
            first,
            writes,
        })
    }

    /// Runs work that writes no addresses. A signal cancels it.
    ///
    /// # Errors
    /// Fails if the work fails, or if a signal arrives.
    pub(super) async fn cancels<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            () = self.first.arrived.notified() => {
                Err(Failure::Interrupted(self.first.number.load(Ordering::Relaxed)))
            }
        }
    }

    /// From now on, a signal waits for writes in flight.
    pub(super) fn begin_writes(&self) {
        self.writes.store(true, Ordering::Relaxed);
    }

    /// Stops an apply when a signal arrives.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }
}

/// The message after the first signal. The terminal may have printed `^C` without a line end.
fn stopping(may_write: bool) -> &'static str {
    match may_write {
        true => "\nstopping: waiting for writes in flight; a second signal stops at once",
        false => "\nstopping: nothing was applied; a second signal stops at once",
    }
}

/// Returns when SIGINT or SIGTERM arrives.
pub(super) async fn shutdown_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_waits_for_writes_only_if_there_may_be_some() {
        assert!(stopping(true).contains("writes in flight"));
        assert!(stopping(false).starts_with("\nstopping: nothing was applied"));
    }

    #[tokio::test]
    async fn the_first_signal_cancels_work_that_waits() {
        let interruption = Interruption::listen().unwrap();
        let done = interruption.cancels(async { Ok(1) }).await;
        assert!(matches!(done, Ok(1)));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        let waiting = interruption.cancels(std::future::pending::<Result<(), Failure>>());
        assert!(matches!(waiting.await, Err(Failure::Interrupted(SIGTERM))));
        assert!(interruption.stop().is_requested());
    }
}
