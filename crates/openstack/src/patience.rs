//! How often Neutron is asked again, without a clock of its own.

use crate::NeutronError;

/// Time, as far as it matters: when to try again, and when to give up.
pub trait Patience {
    /// Waits a little, longer with each try; says whether there is time for another one.
    fn again(&self, tries: u32) -> Verdict;
}

/// Whether there is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again.
    Again,
    /// The time is over.
    Over,
}

/// Tries until there is an answer, or no time.
pub fn answered<N: Patience, T>(
    neutron: &N,
    ask: impl Fn(&N) -> Result<T, NeutronError>,
) -> Result<T, NeutronError> {
    let mut tries = 0;
    loop {
        match ask(neutron) {
            Err(error @ (NeutronError::Unavailable(_) | NeutronError::Unreachable(_))) => {
                tries += 1;
                if neutron.again(tries) == Verdict::Over {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
}
