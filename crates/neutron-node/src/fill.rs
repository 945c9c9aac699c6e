//! Fills the warm pool of a network. Before a port is published, its facts are stored and its
//! addresses are allowed, so that a Pod that takes it has everything.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::log;
use crate::network_state::{NetworkState, PairsLimit};
use crate::pairs::{PairsError, PairsKeeper};
use crate::sync::NeutronSync;
use neutron_cni::cni::{CniError, ErrorCode};
use neutron_cni::{
    Added, Identity, KeptFacts, LATEST_ANSWER, Leftover, MadeFor, PoolPorts, PooledPort, RunId,
    Upkeep, add, delete,
};
use openstack::{Neutron, Retries, VmPorts};

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
