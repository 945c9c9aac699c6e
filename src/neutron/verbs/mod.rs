//! What is done for each request. Each leaves at Neutron what the answer says, whatever was there
//! before and wherever an earlier try ended.

mod add;
mod check;
mod delete;
mod garbage;
mod outcome;

use super::api::{Neutron, NeutronError, Port, PortFilter};
use super::identity::Identity;

pub use add::{Added, Left, NotAdded, add};
pub use check::check;
pub use delete::delete;
pub use garbage::{Collected, collect_garbage};
pub use outcome::outcome;

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

/// The ports of an attachment or of a place in a pool, oldest first.
fn ports_of(neutron: &impl Neutron, identity: &Identity) -> Result<Vec<Port>, NeutronError> {
    let (name, device) = (Some(identity.name.as_str()), Some(identity.device.as_str()));
    let filter = PortFilter {
        name,
        device,
        owner: Some(identity.owner),
        mac: None,
    };
    let mut ports = neutron.ports(&filter)?;
    ports.retain(|port| identity.is_of(port));
    ports.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok(ports)
}

/// Tries until there is an answer, or no time.
pub(crate) fn answered<N: Patience, T>(
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

#[cfg(test)]
mod tests;
