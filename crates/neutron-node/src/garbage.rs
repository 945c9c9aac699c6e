//! Deletes ports of this node whose interface is gone. Runtimes rarely send a GC (containerd sends
//! none), and some main plugins do not pass on a DEL.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::evidence::{cached_results, epochs};
use crate::log;
use crate::network_state::NetworkState;
use crate::sync::{NeutronSync, run_all};
use ipam_core::neutron::Id;
use neutron_cni::cni::{Attachment, CniError};
use neutron_cni::{Epochs, Liveness, Owner, Remembered};
use openstack::{Neutron, Port};

/// Lock timeout against a concurrent ADD or DEL. The next sync retries.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Ports that are deleted under one lock, which keeps ADDs and DELs waiting.
const AT_ONCE: usize = 4;

/// What the node knows of its interfaces at a moment.
struct Evidence {
    remembered: Remembered,
    epochs: Epochs,
}

impl Evidence {
    /// Reads the evidence. Fails with the reason if it is incomplete.
    fn read<N>(sync: &NeutronSync<'_, N>, arguments: &Arguments) -> Result<Evidence, String> {
        let epochs = epochs(&sync.node_state.node_file()).ok_or("/proc/stat has no boot time")?;
        let records = sync.node_state.attachment_records();
        let results = cached_results(&arguments.results)?;
        let remembered = Remembered::of(results, &epochs, |attachment| records.read(attachment));
        Ok(Evidence { remembered, epochs })
    }
}

/// A port whose interface looks gone.
enum GarbagePort {
    /// A port at Neutron.
    Port(Port),
    /// A pooled port, and the interface that holds it.
    Holder(Attachment, Id),
}

impl GarbagePort {
    fn id(&self) -> &Id {
        match self {
            GarbagePort::Port(port) => &port.id,
            GarbagePort::Holder(_, id) => id,
        }
    }
}

/// Deletes ports that have looked like garbage for the grace period, and still do under the lock.
pub(super) fn collect<N: Neutron>(
    sync: &NeutronSync<'_, N>,
    unknown: &[Port],
    at_neutron: &[Port],
    state: &mut NetworkState,
    arguments: &Arguments,
    now: Duration,
) -> Result<(), CniError> {
    report_no_evidence(sync, state, arguments);
    let unknown: BTreeSet<&Id> = unknown.iter().map(|port| &port.id).collect();
    let find = || find_garbage(sync, &unknown, at_neutron, arguments);
    let seen = find()?;
    let expired = state.garbage_candidates.expired(
        seen.iter().map(|one| one.id().clone()),
        now,
        arguments.grace,
    );
    if expired.is_empty() {
        return Ok(());
    }
    let expired: Vec<Id> = expired.into_iter().collect();
    let mut outcome = Ok(());
    for some in expired.chunks(AT_ONCE) {
        let Ok(_lock) = sync
            .node_state
            .lock_all(sync.until.min(Instant::now() + LOCK_TIMEOUT))
        else {
            return outcome;
        };
        let garbage = find()?.into_iter().filter(|one| some.contains(one.id()));
        outcome = outcome.and(run_all(garbage.map(|one| remove(sync, &one))));
    }
    outcome
}

/// Removes forgettable records where no port is. Keeps the record of an interface that holds a pooled port: a
/// loss of power may undo its release, and the record shows that the interface is gone.
pub(super) fn forget_records<N>(
    sync: &NeutronSync<'_, N>,
    forgettable: &BTreeSet<Attachment>,
    at_neutron: &[Port],
) {
    let (pool, records) = (sync.node_state.pool(), sync.node_state.attachment_records());
    for attachment in forgettable {
        let device = attachment.to_string();
        let has_port = at_neutron.iter().any(|port| port.device_id == device);
        let identity = sync.node_state.identity(attachment);
        // The next sync tries again where an ADD or a DEL is running.
        if !has_port
            && let Ok(_locks) = sync.node_state.locks_for(&identity, Instant::now())
            && matches!(pool.held(attachment), Ok(None))
            && records.is_forgettable(attachment)
        {
            records.remove(attachment);
        }
    }
}

/// All garbage of this moment. A recent list of ports is enough: no port gets another user.
fn find_garbage<N>(
    sync: &NeutronSync<'_, N>,
    unknown: &BTreeSet<&Id>,
    at_neutron: &[Port],
    arguments: &Arguments,
) -> Result<Vec<GarbagePort>, CniError> {
    // Without evidence, nothing is garbage.
    let Ok(Evidence { remembered, epochs }) = Evidence::read(sync, arguments) else {
        return Ok(Vec::new());
    };
    let attachment_records = sync.node_state.attachment_records();
    let by_device = |device: &str| attachment_records.read(&attachment_of(device)?);
    let in_files = sync.node_state.pool().ports()?;
    // While a file of an interface is damaged, its port looks unknown.
    let is_known = |port: &Port| in_files.all().any(|pooled| pooled.port.id == port.id);
    let is_garbage = |port: &&Port| {
        let liveness = if port.device_owner == Owner::Pod.as_str() {
            remembered.port_liveness(port, by_device(&port.device_id), &epochs)
        } else if unknown.contains(&port.id) && !is_known(port) && in_files.unreadable.is_empty() {
            remembered.unknown_port_liveness(port, &epochs)
        } else {
            Liveness::Possible
        };
        liveness == Liveness::Gone
    };
    let ports = at_neutron
        .iter()
        .filter(is_garbage)
        .map(|port| GarbagePort::Port(port.clone()));
    let holders = in_files.held.iter().filter(|(holder, pooled)| {
        remembered.holder_liveness(holder, &pooled.port, attachment_records.read(holder))
            == Liveness::Gone
    });
    Ok(ports
        .chain(
            holders.map(|(holder, pooled)| {
                GarbagePort::Holder(holder.clone(), pooled.port.id.clone())
            }),
        )
        .collect())
}

fn remove<N: Neutron>(sync: &NeutronSync<'_, N>, garbage: &GarbagePort) -> Result<(), CniError> {
    let name = sync.node_state.port_name();
    match garbage {
        GarbagePort::Port(port) => {
            sync.neutron.delete_port(&port.id)?;
            if let Some(attachment) = attachment_of(&port.device_id) {
                sync.node_state.attachment_records().end(&attachment);
            }
            log(
                &name,
                &format!(
                    "deleted port {}: its interface {} is gone",
                    port.id,
                    port.device_id.escape_debug()
                ),
            );
        }
        GarbagePort::Holder(holder, id) => {
            let pool = sync.node_state.pool();
            if let Some(pooled) = pool.held(holder)? {
                pool.release(holder, &pooled)?;
            }
            sync.node_state.attachment_records().end(holder);
            log(
                &name,
                &format!("port {id} is free again: its interface {holder} is gone"),
            );
        }
    }
    Ok(())
}

/// Reports once why no garbage can be recognised.
fn report_no_evidence<N>(
    sync: &NeutronSync<'_, N>,
    state: &mut NetworkState,
    arguments: &Arguments,
) {
    let missing = Evidence::read(sync, arguments).err();
    if let Some(why) = &missing
        && state.no_evidence != missing
    {
        log(
            &sync.node_state.port_name(),
            &format!("garbage collection is paused: {why}"),
        );
    }
    state.no_evidence = missing;
}

/// The interface that a `device_id` names.
fn attachment_of(device: &str) -> Option<Attachment> {
    let (container, interface) = device.split_once('/')?;
    Some(Attachment {
        container: container.parse().ok()?,
        interface: interface.parse().ok()?,
    })
}
