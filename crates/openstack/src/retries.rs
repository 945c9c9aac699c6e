//! Retries of requests to Neutron. Has no clock of its own: the implementation waits.

use crate::NeutronError;

/// The time for retries.
pub trait Retries {
    /// Waits before the next attempt, longer after each failure. `failed` counts the failures so
    /// far, from 1.
    fn next_attempt(&self, failed: u32) -> NextAttempt;
}

/// Whether there is time for another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// The pause is over: retry.
    Now,
    /// The time is over: give up.
    Never,
}

/// Retries until OpenStack answers, or until the time is over.
///
/// # Errors
/// Fails if Neutron refuses the request, or with the last failure once the time is over.
pub fn retry_until_answered<N: Retries, T>(
    neutron: &N,
    ask: impl Fn(&N) -> Result<T, NeutronError>,
) -> Result<T, NeutronError> {
    let mut failed = 0;
    loop {
        match ask(neutron) {
            Err(error @ (NeutronError::Unavailable(_) | NeutronError::Unreachable(_))) => {
                failed += 1;
                if neutron.next_attempt(failed) == NextAttempt::Never {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
}
