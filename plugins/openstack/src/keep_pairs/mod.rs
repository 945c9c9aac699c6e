//! The only writer of `allowed_address_pairs`. Neutron replaces the list as a whole, so each write
//! names the revision that was read. Must never know why a range is wanted.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::{NeutronError, NextAttempt, Retries};
use ipam_core::neutron::{Id, Pair, PairsChange, VmPort};

/// The requests about pairs that Neutron understands.
pub trait VmPorts {
    /// Reads a port of a VM.
    ///
    /// # Errors
    /// Fails if Neutron refuses; [`NeutronError::NoSuchPort`] if the port is gone.
    fn vm_port(&self, id: &Id) -> Result<VmPort, NeutronError>;

    /// The ports with this hardware address, at most one per network. Compares letter by letter,
    /// unlike databases.
    ///
    /// # Errors
    /// Fails if Neutron refuses.
    fn vm_ports_with_mac(&self, mac: &str) -> Result<Vec<VmPort>, NeutronError>;

    /// Replaces the pairs of a port that still has this revision.
    ///
    /// # Errors
    /// Fails if Neutron refuses; [`NeutronError::Changed`] if the port has another revision.
    fn replace_pairs(&self, id: &Id, pairs: &[Pair], revision: u64) -> Result<(), NeutronError>;
}

/// A list of pairs that was planned for one revision of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsPatch {
    /// The whole new list of pairs.
    pub pairs: Vec<Pair>,
    /// The revision that the plan was made for.
    pub revision: u64,
}

/// The result of [`keep_pairs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairsOutcome {
    /// The port already had the wanted pairs, or its port security is off.
    Unchanged,
    /// Pairs were added or removed.
    Changed(PairsChange),
    /// Neutron's limit on pairs was reached. The port does not allow these ranges.
    LimitReached(BTreeSet<IpNet>),
}

/// Adds the wanted ranges to a port and removes those of ours that are no longer wanted. Retries if
/// another client wrote in between. After an unanswered write, reads the port again.
///
/// # Errors
/// Fails if Neutron refuses; [`NeutronError::Changed`] if others write until the time is over.
pub fn keep_pairs(
    neutron: &(impl VmPorts + Retries),
    port: &Id,
    wanted: &BTreeSet<IpNet>,
    is_ours: impl Fn(&IpNet) -> bool,
) -> Result<PairsOutcome, NeutronError> {
    let mut failed = 0;
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
        failed += 1;
        if neutron.next_attempt(failed) == NextAttempt::Never {
            return Err(error);
        }
    }
}

/// The wanted ranges that a port does not allow yet.
///
/// # Errors
/// Fails if Neutron refuses.
pub fn missing_ranges(
    neutron: &impl VmPorts,
    port: &Id,
    wanted: &BTreeSet<IpNet>,
) -> Result<BTreeSet<IpNet>, NeutronError> {
    let change = neutron.vm_port(port)?.change(wanted, |_| false);
    Ok(change.map(|change| change.added).unwrap_or_default())
}

/// Writes a planned list once. A plan that is stale fails instead of being computed again.
///
/// # Errors
/// Fails if Neutron refuses; [`NeutronError::Changed`] if the port has another revision.
pub fn write_pairs(
    neutron: &impl VmPorts,
    port: &Id,
    patch: &PairsPatch,
) -> Result<(), NeutronError> {
    neutron.replace_pairs(port, &patch.pairs, patch.revision)
}

fn once(
    neutron: &impl VmPorts,
    port: &Id,
    wanted: &BTreeSet<IpNet>,
    is_ours: &impl Fn(&IpNet) -> bool,
    unanswered: &mut Option<PairsChange>,
) -> Result<PairsOutcome, NeutronError> {
    let read = neutron.vm_port(port)?;
    let Some(mut change) = read.change(wanted, is_ours) else {
        // Neutron may have carried out a request without answering it.
        return Ok(unanswered
            .take()
            .map_or(PairsOutcome::Unchanged, PairsOutcome::Changed));
    };
    let mut missing = BTreeSet::new();
    loop {
        match neutron.replace_pairs(port, &change.pairs, read.revision) {
            Ok(()) if missing.is_empty() => return Ok(PairsOutcome::Changed(change)),
            Ok(()) => return Ok(PairsOutcome::LimitReached(missing)),
            // Neutron does not report its limit, so halve what is added.
            Err(NeutronError::TooManyPairs) if !change.added.is_empty() => {
                missing.extend(change.leave_out_half());
                if change.added.is_empty() && change.removed.is_empty() {
                    return Ok(PairsOutcome::LimitReached(missing));
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
