//! The `allowed_address_pairs` of the VM's port. A file records which pairs this daemon wrote; it
//! changes no others.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;

use crate::log;
use ipam_core::neutron::Id;
use ipam_core::text::joined;
use neutron_cni::cni::{CniError, ErrorCode, InterfaceName};
use neutron_cni::file_error;
use neutron_cni::state::NodeState;
use neutron_cni::{DaemonConfig, VmInterface};
use openstack::{PairsOutcome, Port, Retries, VmPorts, keep_pairs, missing_ranges};
use private_files::{kept, read_small, state_folder};

/// Why the port of the VM does not allow all wanted ranges.
pub(super) enum PairsError {
    /// Neutron's limit on pairs per port is reached.
    LimitReached(CniError),
    Other(CniError),
}

impl From<CniError> for PairsError {
    fn from(why: CniError) -> PairsError {
        PairsError::Other(why)
    }
}

impl From<PairsError> for CniError {
    fn from(error: PairsError) -> CniError {
        match error {
            PairsError::LimitReached(why) | PairsError::Other(why) => why,
        }
    }
}

/// Keeps the pairs of one port for one purpose.
pub(super) struct PairsKeeper {
    port: Id,
    ranges: Option<BTreeSet<IpNet>>,
    record: PathBuf,
    purpose: String,
}

impl PairsKeeper {
    /// The keeper for a network; `None` if its configuration asks for no pairs.
    pub(super) fn of(
        daemon_config: &DaemonConfig,
        node_state: &NodeState,
        neutron: &(impl VmPorts + Retries),
    ) -> Result<Option<PairsKeeper>, CniError> {
        let Some(pairs_config) = &daemon_config.pairs else {
            return Ok(None);
        };
        let folder = state_folder(node_state.state())?;
        let keeper = PairsKeeper::new(&pairs_config.on, folder, &node_state.port_name(), neutron)?;
        Ok(Some(PairsKeeper {
            ranges: pairs_config.ranges.clone(),
            ..keeper
        }))
    }

    /// The keeper for a purpose. The file of records is named after it.
    pub(super) fn new(
        on: &VmInterface,
        folder: PathBuf,
        purpose: &str,
        neutron: &(impl VmPorts + Retries),
    ) -> Result<PairsKeeper, CniError> {
        let port = match on {
            VmInterface::Port(id) => id.clone(),
            VmInterface::Interface(name) => port_of(name, neutron)?,
        };
        let record = folder.join(format!("pairs-{port}-{}.json", purpose.replace('/', "@")));
        Ok(PairsKeeper {
            port,
            ranges: None,
            record,
            purpose: purpose.to_owned(),
        })
    }

    /// Makes the VM's port allow these addresses, or the configured ranges instead.
    pub(super) fn keep(
        &self,
        neutron: &(impl VmPorts + Retries),
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<(), PairsError> {
        let wanted = self
            .ranges
            .clone()
            .unwrap_or_else(|| addresses.iter().copied().map(IpNet::from).collect());
        self.keep_ranges(neutron, &wanted)
    }

    /// Allows these ranges. At Neutron's limit, retries as long as each attempt allows more.
    pub(super) fn keep_ranges(
        &self,
        neutron: &(impl VmPorts + Retries),
        wanted: &BTreeSet<IpNet>,
    ) -> Result<(), PairsError> {
        let mut missing: Option<BTreeSet<IpNet>> = None;
        loop {
            let now = self.keep_once(neutron, wanted)?;
            if now.is_empty() {
                return Ok(());
            }
            if missing.is_some_and(|before| before.len() <= now.len()) {
                let message = format!(
                    "port {} has Neutron's limit of pairs, and does not allow {}",
                    self.port,
                    joined(&now, ", ")
                );
                let details = "raise `max_allowed_address_pair` in neutron.conf, or allow `ranges` instead of addresses";
                return Err(PairsError::LimitReached(CniError::new(
                    ErrorCode::Refused,
                    message,
                    details,
                )));
            }
            missing = Some(now);
        }
    }

    /// Makes one attempt to change the pairs. Returns the ranges that exceed Neutron's limit.
    fn keep_once(
        &self,
        neutron: &(impl VmPorts + Retries),
        wanted: &BTreeSet<IpNet>,
    ) -> Result<BTreeSet<IpNet>, CniError> {
        let before: BTreeSet<IpNet> = kept::read(&self.record).unwrap_or_default();
        let others = self.of_other_purposes();
        // A pair that another writer added is not ours, even if it is wanted now.
        let added = missing_ranges(neutron, &self.port, wanted)?;
        let mut ours: BTreeSet<IpNet> = before.union(&added).copied().collect();
        // Of several purposes that need a pair, only the last one removes it.
        ours.extend(wanted.intersection(&others));
        // Record first: a pair without a record would stay for ever.
        self.remember(&before, &ours)?;
        let outcome = keep_pairs(neutron, &self.port, wanted, |range| {
            ours.contains(range) && !others.contains(range)
        })?;
        self.remember(&ours, &ours.intersection(wanted).copied().collect())?;
        match outcome {
            PairsOutcome::Unchanged => Ok(BTreeSet::new()),
            PairsOutcome::LimitReached(missing) => Ok(missing),
            PairsOutcome::Changed(change) => {
                let parts = [
                    ("now allows", &change.added),
                    ("no longer allows", &change.removed),
                ];
                let parts = parts.into_iter().filter(|(_, ranges)| !ranges.is_empty());
                let parts = parts.map(|(verb, ranges)| format!("{verb} {}", joined(ranges, ", ")));
                log(
                    &self.purpose,
                    &format!("port {} {}", self.port, joined(parts, ", and ")),
                );
                Ok(BTreeSet::new())
            }
        }
    }

    /// The ranges that this port allows for other networks, or for pod CIDRs.
    fn of_other_purposes(&self) -> BTreeSet<IpNet> {
        let Some(Ok(entries)) = self.record.parent().map(fs::read_dir) else {
            return BTreeSet::new();
        };
        let paths = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| *path != self.record);
        let is_of_port = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("pairs-{}-", self.port))
        };
        paths
            .filter(is_of_port)
            .filter_map(|path| kept::read::<BTreeSet<IpNet>>(&path))
            .flatten()
            .collect()
    }

    fn remember(&self, before: &BTreeSet<IpNet>, ranges: &BTreeSet<IpNet>) -> Result<(), CniError> {
        if before == ranges {
            return Ok(());
        }
        kept::keep_synced(&self.record, ranges)
            .map_err(|why| file_error(&self.record.display().to_string(), &why))
    }
}

/// The addresses of the ports that are not being deleted.
pub(super) fn addresses_of(ports: &[Port], deleting: &BTreeSet<Id>) -> BTreeSet<IpAddr> {
    let staying = ports.iter().filter(|port| !deleting.contains(&port.id));
    staying
        .flat_map(|port| &port.fixed_ips)
        .map(|fixed| fixed.ip_address)
        .collect()
}

/// The port with the hardware address of this interface.
fn port_of(name: &InterfaceName, neutron: &impl VmPorts) -> Result<Id, CniError> {
    let path = PathBuf::from(format!("/sys/class/net/{name}/address"));
    let mac = read_small(&path)?;
    let mac = mac.trim();
    let ports = neutron.vm_ports_with_mac(mac)?;
    match ports.as_slice() {
        [port] => Ok(port.id.clone()),
        ports => {
            let message = format!(
                "{} ports of Neutron have the hardware address {mac} of {name}; exactly one is required",
                ports.len()
            );
            let details = "name the `port` of the VM, and check the project of the credentials";
            Err(CniError::new(
                ErrorCode::InvalidConfiguration,
                message,
                details,
            ))
        }
    }
}
