//! The lock of `apply` and of a migration: who holds it, and how it is acquired. It must never know
//! what it is held for.

use jiff::{SignedDuration, Timestamp};

use super::failure::Failure;
use super::interruption::Interruption;
use super::output;
use crate::render::printable;
use ipam_cluster::{Cluster, LockRecord};
use ipam_controller::{Lease, Lock};

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
        // The lock may be ours already.
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
    output::warn(&format!(
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
    // Two machines may have the same name.
    format!(
        "{person}{machine} (process {}, {:06x})",
        std::process::id(),
        fastrand::u32(..1 << 24)
    )
}
