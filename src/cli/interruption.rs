//! What may stop an apply or a migration before it writes: a signal, the lock of another process,
//! or a person who does not approve. The first SIGINT or SIGTERM stops an apply in order, the
//! second one at once; each ends `watch` and the operator.

use std::future::Future;
use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use jiff::{SignedDuration, Timestamp};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::Notify;

use super::failure::{Failure, end_by_signal};
use super::{Common, output};
use crate::render::{Paint, printable};
use ipam_cluster::{Cluster, LockRecord};
use ipam_controller::apply::Stop;
use ipam_controller::{Lease, Lock};
use ipam_plan::plan::{Intent, Verdict};

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

/// Acquires the lock, and waits for another holder so long. If the server denies it, a warning says
/// what holds without it.
pub(super) async fn acquired<C: Cluster>(
    lease: &Lease<'_, C>,
    timeout: SignedDuration,
    interruption: &Interruption,
    without: &str,
) -> Result<Lock, Failure> {
    let timeout = timeout.unsigned_abs();
    let acquiring = async { Ok(lease.acquire(timeout, &mut report_holder).await?) };
    let lock = interruption.cancels(acquiring).await;
    if let Err(Failure::Interrupted(_)) = lock {
        // This process may have the lock already.
        lease.release().await;
    }
    let lock = lock?;
    if let Lock::Unavailable(why) = &lock {
        let why = printable(&why.text);
        output::warn(&format!("no lock is taken, {without}: {why}"));
    }
    Ok(lock)
}

fn report_holder(record: &LockRecord) {
    let (holder, operation) = (printable(&record.holder), printable(&record.operation));
    output::progress(&format!(
        "waiting for {holder}, who holds the lock for: {operation}"
    ));
}

/// By our own clock: only a hint, because the clocks of two machines may differ.
pub(super) fn is_held(record: &LockRecord, now: Timestamp) -> bool {
    let until = record
        .renewed
        .and_then(|renewed| renewed.saturating_add(record.duration).ok());
    !record.holder.is_empty() && until.is_some_and(|until| now < until)
}

/// The holder's name in the lock, unique for this process.
pub(super) fn holder() -> String {
    let name = |variable: &str| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let machine = name("HOSTNAME").or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let machine = machine.map_or_else(|| "unknown".to_owned(), |machine| machine.trim().to_owned());
    let person = name("USER").map(|person| person + "@").unwrap_or_default();
    // Two machines may have the same name, so the text ends with a random number.
    format!(
        "{person}{machine} (process {}, {:06x})",
        std::process::id(),
        fastrand::u32(..1 << 24)
    )
}

/// How to approve a migration without an answer.
pub(super) const INSTEAD: &str = "pass --auto-approve to begin without confirmation";

/// Whether a person can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminal {
    Present,
    /// There is no terminal to ask on, for this reason.
    Absent(&'static str),
}

impl Terminal {
    pub(super) fn of(common: &Common) -> Terminal {
        if common.no_input {
            Terminal::Absent("--no-input is set")
        } else if std::io::stdin().is_terminal() {
            Terminal::Present
        } else {
            Terminal::Absent("stdin is not a terminal")
        }
    }
}

/// Asks for approval of a plan with this verdict. Fails on any answer other than `yes`.
pub(super) async fn ask(intent: Intent, verdict: &Verdict, common: &Common) -> Result<(), Failure> {
    let question = match intent {
        Intent::Files => "Apply these changes?",
        Intent::Undo => "Take these changes back?",
    };
    let question = format!("{}\n{question}", printable(&verdict.line()));
    let instead = "pass --auto-approve to apply without confirmation, or --expect-digest with the digest of the reviewed plan";
    confirm(&question, instead, common).await
}

/// Asks a question. Fails on any answer other than `yes`. `instead`: what to do where no person
/// answers.
pub(super) async fn confirm(question: &str, instead: &str, common: &Common) -> Result<(), Failure> {
    if let Terminal::Absent(why) = Terminal::of(common) {
        return Err(Failure::Failed(format!(
            "{why}; nothing was written: {instead}"
        )));
    }
    output::talk(&format!(
        "\n{} Type `yes` to continue: ",
        Paint::Bold.on(question)
    ));
    // On another thread, because this task renews the lock.
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin()
            .lock()
            .read_line(&mut answer)
            .map(|_| answer)
    });
    let answer = answer
        .await
        .map_or_else(Failure::from_panic, |answer| Ok(answer?))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::Failed(
            "not approved; nothing was written".to_owned(),
        )),
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
