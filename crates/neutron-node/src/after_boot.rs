//! The first sync after a boot: releases what a crash of the machine left behind. No interface
//! survives a boot, and none takes a port before the pool is confirmed. Changes only files: ports are
//! marked here and deleted later, because a refused DELETE must not keep the pool from Pods.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::log;
use crate::sync::{NeutronSync, run_all};
use ipam_core::neutron::Id;
use neutron_cni::cni::{Attachment, CniError, ErrorCode};
use neutron_cni::state::Confirmed;
use neutron_cni::{MadeFor, PoolPorts, PooledPort, file_error};
use openstack::Port;

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
