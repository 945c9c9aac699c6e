//! The `allowed_address_pairs` of the VM's port: what this daemon has written there it remembers,
//! and touches nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;

use crate::say;
use ipam_core::neutron::Id;
use neutron_cni::cni::{CniError, ErrorCode, InterfaceName};
use neutron_cni::file_error;
use neutron_cni::state::NodeState;
use neutron_cni::{DaemonConfig, GuardedInterface};
use openstack::{GuardedPorts, HttpNeutron, KeptPairs, Port, keep_pairs};
use private_files::{kept, read_small, state_folder};

/// Why not all is let out.
pub(super) enum NotLetOut {
    /// Neutron lets a port have no more pairs.
    Full(CniError),
    /// Anything else.
    Other(CniError),
}

impl From<CniError> for NotLetOut {
    fn from(why: CniError) -> NotLetOut {
        NotLetOut::Other(why)
    }
}

impl From<NotLetOut> for CniError {
    fn from(not: NotLetOut) -> CniError {
        match not {
            NotLetOut::Full(why) | NotLetOut::Other(why) => why,
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
    /// For a network, if it asks for it.
    pub(super) fn of(
        daemon_config: &DaemonConfig,
        node_state: &NodeState,
        neutron: &HttpNeutron,
    ) -> Result<Option<PairsKeeper>, CniError> {
        let Some(chore) = &daemon_config.pairs else {
            return Ok(None);
        };
        let folder = state_folder(node_state.state())?;
        let keeper = PairsKeeper::new(&chore.on, folder, &node_state.port_name(), neutron)?;
        Ok(Some(PairsKeeper {
            ranges: chore.ranges.clone(),
            ..keeper
        }))
    }

    /// For a purpose that has a name.
    pub(super) fn new(
        on: &GuardedInterface,
        folder: PathBuf,
        purpose: &str,
        neutron: &HttpNeutron,
    ) -> Result<PairsKeeper, CniError> {
        let port = match on {
            GuardedInterface::Port(id) => id.clone(),
            GuardedInterface::Interface(name) => port_of(name, neutron)?,
        };
        let record = folder.join(format!("pairs-{port}-{}.json", purpose.replace('/', "@")));
        Ok(PairsKeeper {
            port,
            ranges: None,
            record,
            purpose: purpose.to_owned(),
        })
    }

    /// Lets these addresses out, or the ranges that were asked for instead.
    pub(super) fn keep(
        &self,
        neutron: &HttpNeutron,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<(), NotLetOut> {
        let wanted = self
            .ranges
            .clone()
            .unwrap_or_else(|| addresses.iter().copied().map(IpNet::from).collect());
        self.keep_ranges(neutron, &wanted)
    }

    /// Lets these ranges out. As many as Neutron allows; where not all, more is tried as long as
    /// more comes through.
    pub(super) fn keep_ranges(
        &self,
        neutron: &HttpNeutron,
        wanted: &BTreeSet<IpNet>,
    ) -> Result<(), NotLetOut> {
        let mut missing: Option<BTreeSet<IpNet>> = None;
        loop {
            let now = self.keep_once(neutron, wanted)?;
            if now.is_empty() {
                return Ok(());
            }
            if missing.is_some_and(|before| before.len() <= now.len()) {
                let message = format!(
                    "Neutron does not let port {} let out {}",
                    self.port,
                    list(&now)
                );
                let details = "raise `max_allowed_address_pair` in neutron.conf, or let `ranges` out instead of addresses";
                return Err(NotLetOut::Full(CniError::new(
                    ErrorCode::Refused,
                    message,
                    details,
                )));
            }
            missing = Some(now);
        }
    }

    /// What Neutron does not allow.
    fn keep_once(
        &self,
        neutron: &HttpNeutron,
        wanted: &BTreeSet<IpNet>,
    ) -> Result<BTreeSet<IpNet>, CniError> {
        let before: BTreeSet<IpNet> = kept::read(&self.record).unwrap_or_default();
        let others = self.of_other_purposes();
        // What somebody else has written is not ours, whoever wants it now.
        let read = neutron.guarded_port(&self.port)?;
        let added = read
            .change(wanted, |_| false)
            .map(|change| change.added)
            .unwrap_or_default();
        let mut ours: BTreeSet<IpNet> = before.union(&added).copied().collect();
        // Whoever of us has added it: the last who needs it takes it away.
        ours.extend(wanted.intersection(&others));
        // Before anything is written: what is not remembered would never go again.
        self.remember(&before, &ours)?;
        let outcome = keep_pairs(neutron, &self.port, wanted, |range| {
            ours.contains(range) && !others.contains(range)
        })?;
        self.remember(&ours, &ours.intersection(wanted).copied().collect())?;
        match outcome {
            KeptPairs::AsItWas => Ok(BTreeSet::new()),
            KeptPairs::Short(missing) => Ok(missing),
            KeptPairs::Changed(change) => {
                let parts = [
                    ("now lets out", &change.added),
                    ("no longer lets out", &change.removed),
                ];
                let parts = parts.into_iter().filter(|(_, ranges)| !ranges.is_empty());
                let parts: Vec<String> = parts
                    .map(|(verb, ranges)| format!("{verb} {}", list(ranges)))
                    .collect();
                say(
                    &self.purpose,
                    &format!("port {} {}", self.port, parts.join(", and ")),
                );
                Ok(BTreeSet::new())
            }
        }
    }

    /// What is let out of this port for other networks, or for pod CIDRs.
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

/// The addresses of the ports, but for those that are going.
pub(super) fn addresses_of(ports: &[Port], going: &BTreeSet<Id>) -> BTreeSet<IpAddr> {
    let staying = ports.iter().filter(|port| !going.contains(&port.id));
    staying
        .flat_map(|port| &port.fixed_ips)
        .map(|fixed| fixed.ip_address)
        .collect()
}

/// The port with the hardware address of this interface.
fn port_of(name: &InterfaceName, neutron: &HttpNeutron) -> Result<Id, CniError> {
    let path = PathBuf::from(format!("/sys/class/net/{name}/address"));
    let mac = read_small(&path)?;
    let mac = mac.trim();
    let ports = neutron.guarded_ports_with_mac(mac)?;
    match ports.as_slice() {
        [port] => Ok(port.id.clone()),
        ports => {
            let message = format!(
                "{} ports of Neutron have the hardware address {mac} of {name}",
                ports.len()
            );
            let details = "name the `port` of the VM, or see which project the credentials are of";
            Err(CniError::new(
                ErrorCode::InvalidConfiguration,
                message,
                details,
            ))
        }
    }
}

fn list(ranges: &BTreeSet<IpNet>) -> String {
    ranges
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
