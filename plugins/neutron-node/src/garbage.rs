//! Deletes ports of this node whose interface is gone. Runtimes rarely send a GC (containerd sends
//! none), and some main plugins do not pass on a DEL. The evidence is in the caches of container
//! runtimes, and in the ages of the kernel and of the plugin's files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use crate::arguments::Arguments;
use crate::log;
use crate::network_state::NetworkState;
use crate::sync::{NeutronSync, run_all};
use ipam_core::neutron::Id;
use neutron_cni::cni::{Attachment, CniError, address_of};
use neutron_cni::{CachedResult, Epochs, Liveness, Owner, Remembered};
use openstack::{Neutron, Port};
use private_files::boot;

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
    /// The interface that holds a pooled port, and the id of the port.
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

/// All garbage of the network now. A recent list of ports is enough: no port gets another user.
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

/// Reads the caches of the runtimes. Fails if no folder exists or a file is invalid: then no
/// interface is known to be gone.
pub(super) fn cached_results(folders: &[PathBuf]) -> Result<Vec<CachedResult>, String> {
    let mut results = Vec::new();
    let mut seen = 0;
    for folder in folders {
        match read(folder, &mut results) {
            Ok(()) => seen += 1,
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(format!("{}: {why}", folder.display())),
        }
    }
    if seen > 0 {
        Ok(results)
    } else {
        Err("no folder of `--results` exists, so the runtime's cache is unknown".to_owned())
    }
}

/// The ages of the kernel and of the plugin's files; `None` if `/proc/stat` has no boot time.
pub(super) fn epochs(node_file: &Path) -> Option<Epochs> {
    let boot = Timestamp::try_from(boot::time()?).ok()?;
    let files = modified(node_file);
    Some(Epochs { boot, files })
}

fn modified(path: &Path) -> Option<Timestamp> {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    written.ok().and_then(|at| Timestamp::try_from(at).ok())
}

fn read(folder: &Path, results: &mut Vec<CachedResult>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let bytes = match fs::read(&path) {
            // A DEL removed the file since the folder was listed.
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            bytes => bytes?,
        };
        let nonsense = || {
            io::Error::new(
                ErrorKind::InvalidData,
                format!("{} is not a result of libcni", path.display()),
            )
        };
        let cached: Value = serde_json::from_slice(&bytes).map_err(|_| nonsense())?;
        let text = |key: &str| cached[key].as_str().unwrap_or_default();
        let attachment = Attachment {
            container: text("containerId").parse().map_err(|_| nonsense())?,
            interface: text("ifName").parse().map_err(|_| nonsense())?,
        };
        let ips = cached["result"]["ips"].as_array().into_iter().flatten();
        results.push(CachedResult {
            attachment,
            addresses: ips
                .filter_map(|ip| address_of(ip["address"].as_str()?))
                .collect(),
            written: modified(&path),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_folder_and_an_invalid_file_are_no_evidence() {
        let folder = tempfile::tempdir().unwrap();
        let (there, absent) = (folder.path().to_owned(), folder.path().join("absent"));
        assert!(cached_results(std::slice::from_ref(&absent)).is_err());
        assert_eq!(
            cached_results(&[there.clone(), absent.clone()]),
            Ok(Vec::new())
        );
        let cached = json!({"containerId": "c", "ifName": "eth0", "result": {"ips": [{"address": "10.0.0.7/24"}]}});
        fs::write(there.join("net-c-eth0"), cached.to_string()).unwrap();
        let known = cached_results(&[absent, there.clone()]).unwrap();
        assert_eq!(known[0].attachment.to_string(), "c/eth0");
        assert_eq!(
            known[0].addresses,
            ["10.0.0.7".parse::<std::net::IpAddr>().unwrap()]
        );
        assert!(known[0].written.is_some());
        fs::write(there.join("net-d-eth0"), "{}").unwrap();
        assert!(
            cached_results(&[there])
                .unwrap_err()
                .contains("net-d-eth0 is not a result of libcni")
        );
    }

    #[test]
    fn the_kernel_reports_its_boot_time() {
        let epochs = epochs(Path::new("/nowhere")).unwrap();
        assert!(epochs.boot < Timestamp::now() && epochs.files.is_none());
    }
}
