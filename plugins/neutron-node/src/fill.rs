//! Fills the warm pool of a network; first, after a boot, it releases what a crash of the machine
//! left behind. Before a port is published, its facts are stored and its addresses are allowed, so
//! that a Pod that takes it has everything.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::sync::run_all;
use crate::log;
use crate::network_state::{NetworkState, PairsLimit};
use crate::pairs::{PairsError, PairsKeeper};
use crate::sync::NeutronSync;
use ipam_core::neutron::Id;
use neutron_cni::cni::{Attachment, CniError, ErrorCode};
use neutron_cni::state::Confirmed;
use neutron_cni::{
    Added, Identity, KeptFacts, LATEST_ANSWER, Leftover, MadeFor, PoolPorts, PooledPort, RunId,
    Upkeep, add, delete, file_error,
};
use openstack::{Neutron, Port, Retries, VmPorts};

/// Hardly any creation takes longer.
const PORT_CREATION: Duration = Duration::from_secs(1);

impl<N: Neutron + VmPorts + Retries> NeutronSync<'_, N> {
    /// Creates the missing ports while there is time. The next sync creates the rest.
    pub(super) fn fill(
        &self,
        needs: &Upkeep,
        ports: &PoolPorts,
        pairs: Option<&PairsKeeper>,
        addresses: &mut BTreeSet<IpAddr>,
        state: &mut NetworkState,
    ) -> Result<(), CniError> {
        let mut pooled: Vec<PooledPort> = ports.all().cloned().collect();
        self.store_facts(&pooled)?;
        let mut count = 0;
        let mut outcome = Ok(());
        while outcome.is_ok() && count < needs.make && Instant::now() + PORT_CREATION < self.until {
            let limit = state.pairs_limit;
            outcome = match limit.filter(|limit| self.is_at_limit(*limit, addresses)) {
                Some(_) => Err(pairs_exhausted(addresses.len())),
                None => self.create(&mut pooled, pairs, addresses, state),
            };
            count += usize::from(outcome.is_ok());
        }
        if count > 0 {
            let ports = if count == 1 { "port" } else { "ports" };
            log(
                &self.name,
                &format!("{count} {ports} more in the warm pool"),
            );
        }
        outcome
    }

    /// Whether one more address would exceed the limit that was reached recently. A port that allows
    /// ranges needs no pair per address.
    fn is_at_limit(&self, limit: PairsLimit, addresses: &BTreeSet<IpAddr>) -> bool {
        let allows_addresses = self
            .daemon_config
            .pairs
            .as_ref()
            .is_some_and(|pairs| pairs.ranges.is_none());
        allows_addresses
            && addresses.len() + 1 >= limit.addresses
            && limit.at.elapsed() < LATEST_ANSWER
    }

    /// Creates one port and publishes it. If a later step fails, deletes the port.
    fn create(
        &self,
        pooled_ports: &mut Vec<PooledPort>,
        pairs: Option<&PairsKeeper>,
        addresses: &mut BTreeSet<IpAddr>,
        state: &mut NetworkState,
    ) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        let identity = Identity::in_pool(&self.name, fastrand::u64(..));
        let slot = &identity.device;
        pool.begin_create(slot)?;
        let run = RunId::new(fastrand::u64(..), self.node_state.server().as_ref());
        let added = add(&self.neutron, &self.last, &self.request, &identity, &run);
        let Added { port, leftover, .. } =
            added.inspect_err(|not| self.end_failed_create(slot, not.leftover))?;
        let own: Vec<IpAddr> = port
            .fixed_ips
            .iter()
            .map(|fixed| fixed.ip_address)
            .collect();
        addresses.extend(&own);
        let pooled = PooledPort {
            port,
            made_for: MadeFor::of(&self.request),
        };
        pooled_ports.push(pooled.clone());
        let published = self
            .store_facts(pooled_ports)
            .and_then(|()| self.allow(pairs, addresses, state))
            .and_then(|()| pool.record_created(slot, &pooled))
            .and_then(|()| pool.publish(slot, &pooled.port.id));
        published.inspect_err(|_| {
            pooled_ports.pop();
            addresses.retain(|address| !own.contains(address));
            // If this fails, the next sync deletes the port.
            if delete(&self.last, &identity).is_ok() {
                self.end_failed_create(slot, leftover);
            }
        })
    }

    /// Allows the addresses on the VM's port, and remembers a limit that is reached.
    fn allow(
        &self,
        pairs: Option<&PairsKeeper>,
        addresses: &BTreeSet<IpAddr>,
        state: &mut NetworkState,
    ) -> Result<(), CniError> {
        let Some(Err(error)) = pairs.map(|pairs| pairs.keep(&self.neutron, addresses)) else {
            return Ok(());
        };
        let is_limit = matches!(error, PairsError::LimitReached(_));
        state.pairs_limit = is_limit.then(|| PairsLimit {
            at: Instant::now(),
            addresses: addresses.len(),
        });
        Err(error.into())
    }

    /// Ends a creation whose port does not exist. A port that may appear late stays pending.
    fn end_failed_create(&self, slot: &str, leftover: Leftover) {
        match leftover {
            Leftover::None => self.node_state.pool().end_create(slot),
            Leftover::Possible => {}
        }
    }

    fn store_facts(&self, ports: &[PooledPort]) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        let facts = KeptFacts::learn(&self.neutron, ports)?;
        if !ports.is_empty() && facts != pool.facts() {
            pool.keep_facts(&facts)
        } else {
            Ok(())
        }
    }
}

fn pairs_exhausted(addresses: usize) -> CniError {
    let message = format!(
        "the VM's port allows {addresses} addresses and no more, so the warm pool gets no further ports"
    );
    let details =
        "raise `max_allowed_address_pair` in neutron.conf, or allow `ranges` instead of addresses";
    CniError::new(ErrorCode::Refused, message, details)
}

/// How long to wait for ADDs and DELs of the interfaces that hold ports.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the pool may be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Released {
    Everything,
    /// An ADD or DEL of an interface is running. The next sync goes on.
    Partly,
}

impl<N> NeutronSync<'_, N> {
    /// Lets garbage collection find interfaces of earlier boots, removes their damaged files, and
    /// marks ports without a file. Tries everything before it returns the first error.
    pub(super) fn release_after_boot(
        &self,
        ports: &PoolPorts,
        unknown: &[Port],
    ) -> Result<Released, CniError> {
        if self.node_state.pool().confirmed() != Confirmed::EarlierBoot {
            return Ok(Released::Everything);
        }
        let until = self.until.min(Instant::now() + LOCK_TIMEOUT);
        let records = self.node_state.attachment_records();
        let unrecorded = ports.held.keys().filter(|holder| !records.has(holder));
        let mut released = Released::Everything;
        let holders = run_all(unrecorded.chain(&ports.unreadable).map(|holder| {
            let outcome = self.release_holder(holder, until)?;
            if outcome == Released::Partly {
                released = Released::Partly;
            }
            Ok(())
        }));
        let marked = self.mark_unknown(unknown);
        holders.and(marked).map(|()| released)
    }

    /// Removes the damaged file of an interface, or records that it is of an earlier boot.
    fn release_holder(&self, holder: &Attachment, until: Instant) -> Result<Released, CniError> {
        let identity = self.node_state.identity(holder);
        // Not the lock of the network: ADDs of other interfaces hold it while Neutron answers.
        let _locks = match self.node_state.locks_for(&identity, until) {
            Err(busy) if busy.code == ErrorCode::TryAgainLater => return Ok(Released::Partly),
            locks => locks?,
        };
        let (pool, records) = (self.node_state.pool(), self.node_state.attachment_records());
        pool.drop_broken(holder);
        if pool.held(holder)?.is_some() && !records.has(holder) {
            let written = records.write_gone(holder);
            written.map_err(|why| file_error(&format!("the record of {holder}"), &why))?;
        }
        Ok(Released::Everything)
    }

    /// Marks ports without a file for deletion. Needs no lock: no interface of this boot has them.
    fn mark_unknown(&self, unknown: &[Port]) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        // A DEL may have moved a port while the files were read first. It moves only once.
        let files = pool.ports()?;
        let known: BTreeSet<&Id> = files.all().map(|pooled| &pooled.port.id).collect();
        let lost = unknown.iter().filter(|port| !known.contains(&port.id));
        run_all(lost.map(|port| {
            let pooled = PooledPort {
                port: port.clone(),
                made_for: MadeFor::of(&self.request),
            };
            pool.mark_unknown(&pooled)?;
            let what = "lost its file before the boot: it will be deleted";
            log(&self.name, &format!("port {} {what}", port.id));
            Ok(())
        }))
    }
}
