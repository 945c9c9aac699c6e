//! Makes a port let out what is wanted, whoever else writes its list at the same time.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::{NeutronError, Patience, Verdict};
use ipam_core::neutron::{GuardedPort, Id, Pair, PairsChange};

/// Neutron, as far as it is about pairs.
pub trait GuardedPorts {
    /// A port.
    ///
    /// # Errors
    /// Its no; [`NeutronError::NoSuchPort`] where it is gone.
    fn guarded_port(&self, id: &Id) -> Result<GuardedPort, NeutronError>;

    /// Replaces the pairs, if nothing of the port has changed since this revision.
    ///
    /// # Errors
    /// Its no; [`NeutronError::Changed`] where something has.
    fn replace_pairs(&self, id: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError>;
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All was as it should be, or nothing is kept from leaving the port.
    AsItWas,
    /// Something came or went.
    Changed(PairsChange),
    /// Neutron allows no more on the port, so these are not let out.
    Short(BTreeSet<IpNet>),
}

/// Reads, changes and writes until nobody has written in between. What was asked for and not
/// answered is read again, not believed.
///
/// # Errors
/// Neutron's no; [`NeutronError::Changed`] where others write all the time until the time is over.
pub fn keep_pairs(
    neutron: &(impl GuardedPorts + Patience),
    port: &Id,
    wanted: &BTreeSet<IpNet>,
    is_ours: impl Fn(&IpNet) -> bool,
) -> Result<Kept, NeutronError> {
    let mut tries = 0;
    let mut unanswered = None;
    loop {
        let error = match once(neutron, port, wanted, &is_ours, &mut unanswered) {
            Err(
                error @ (NeutronError::Changed
                | NeutronError::Unavailable(_)
                | NeutronError::Unreachable(_)),
            ) => error,
            outcome => return outcome,
        };
        tries += 1;
        if neutron.again(tries) == Verdict::Over {
            return Err(error);
        }
    }
}

fn once(
    neutron: &impl GuardedPorts,
    port: &Id,
    wanted: &BTreeSet<IpNet>,
    is_ours: &impl Fn(&IpNet) -> bool,
    unanswered: &mut Option<PairsChange>,
) -> Result<Kept, NeutronError> {
    let read = neutron.guarded_port(port)?;
    let Some(change) = read.change(wanted, is_ours) else {
        // What was not answered may have been done.
        return Ok(unanswered.take().map_or(Kept::AsItWas, Kept::Changed));
    };
    let mut change = change;
    let mut missing = BTreeSet::new();
    loop {
        match neutron.replace_pairs(port, &change.pairs, read.revision) {
            Ok(()) if missing.is_empty() => return Ok(Kept::Changed(change)),
            Ok(()) => return Ok(Kept::Short(missing)),
            // How many are allowed it does not tell.
            Err(NeutronError::TooManyPairs) if !change.added.is_empty() => {
                missing.extend(change.leave_out_half());
                if change.added.is_empty() && change.removed.is_empty() {
                    return Ok(Kept::Short(missing));
                }
            }
            Err(error) => {
                if let NeutronError::Unavailable(_) = error {
                    *unanswered = Some(change);
                }
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
