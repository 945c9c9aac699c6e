//! What the daemon remembers of a network between runs: its servers of OpenStack, as their ports
//! at Neutron show them, and the time of the next request to Neutron. Nothing is lost without it:
//! the work is only done a little later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::log;
use crate::sync::NeutronSync;
use ipam_core::neutron::Id;
use neutron_cni::cni::{Attachment, CniError};
use neutron_cni::state::{Confirmed, NodeState};
use neutron_cni::{DaemonConfig, GarbageCandidates, Owner, Settings};
use openstack::{HttpNeutron, Neutron, NeutronError, OnRequest, Port, PortFilter};

/// Longer than an ADD may take.
const LONGEST_ADD: Duration = Duration::from_mins(2);

/// The memory of one network.
#[derive(Default)]
pub(super) struct NetworkState {
    /// Time and outcome of the last sync with Neutron.
    last_sync: Option<(Instant, SyncOutcome)>,
    /// The `device_id`s of the ports that the last sync saw.
    known_devices: BTreeSet<String>,
    /// Why garbage cannot be recognised. Each reason is reported once.
    pub(super) no_evidence: Option<String>,
    pub(super) garbage_candidates: GarbageCandidates,
    /// Ports in use that were deleted at Neutron. Reported once.
    pub(super) lost: BTreeMap<Attachment, Id>,
    /// Interfaces whose files are damaged. Reported once.
    pub(super) unreadable: BTreeSet<Attachment>,
    pub(super) pairs_limit: Option<PairsLimit>,
    /// Ports that the plugin created for interfaces, at the last sync.
    own_ports: usize,
    server_look: ServerLook,
    /// The pool at the last run.
    pool_counts: PortCounts,
    /// The sync of this run, if there was one.
    synced: Option<SyncOutcome>,
}

/// Numbers of ports of a pool, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortCounts {
    pub(super) attached: usize,
    pub(super) free: usize,
    pub(super) deleting: usize,
    /// Free ports that the configuration asks for.
    pub(super) wanted: usize,
}

/// When the VM's port reached Neutron's limit on pairs, and the number of addresses that was too
/// many.
#[derive(Clone, Copy)]
pub(super) struct PairsLimit {
    pub(super) at: Instant,
    pub(super) addresses: usize,
}

/// The result of one run for a network.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncResult {
    /// Files and Neutron were compared and brought up to date.
    Done,
    /// No sync was due. The results of the last run still hold.
    NotDue,
}

/// How a sync with Neutron went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    Succeeded,
    Failed,
}

/// Whether this process has looked for the machine among the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ServerLook {
    #[default]
    Due,
    /// The search failed. The failure is reported once.
    Failed,
    Done,
}

impl NetworkState {
    /// Records which ports are at Neutron.
    pub(super) fn record_ports(&mut self, at_neutron: &[Port]) {
        let devices = at_neutron.iter().map(|port| port.device_id.clone());
        self.known_devices = devices.collect();
        let is_own = |port: &&Port| port.device_owner == Owner::Pod.as_str();
        self.own_ports = at_neutron.iter().filter(is_own).count();
    }

    /// Reads the node's files, and asks Neutron if the files require it or the last sync is old.
    pub(super) fn sync(
        &mut self,
        settings: &Settings,
        arguments: &Arguments,
        began: Instant,
        on_request: Option<&OnRequest>,
    ) -> Result<SyncResult, CniError> {
        let node_state = NodeState::of(settings)?;
        let daemon_config = settings.daemon_config()?;
        let begin = |config| NeutronSync::begin(settings, &node_state, config, on_request);
        let result = self.sync_if_due(
            &node_state,
            daemon_config.clone(),
            arguments,
            |state, config| {
                let sync = begin(config)?;
                // The server is found before ports are created: their descriptions name it.
                state.look_for_server(&node_state, &sync.neutron);
                sync.run(state, arguments, began.elapsed())
            },
        );
        self.count_pool(&node_state, &daemon_config);
        result
    }

    /// Looks whether this machine is a server, until it is one, and once after a start. Without it,
    /// `gc` keeps more ports than it must, so a failure stops nothing else.
    fn look_for_server(&mut self, node_state: &NodeState, neutron: &HttpNeutron) {
        if self.server_look == ServerLook::Done && node_state.server().is_some() {
            return;
        }
        match record_own(node_state, neutron) {
            Ok(()) => self.server_look = ServerLook::Done,
            Err(CniError { message, .. }) => {
                if self.server_look == ServerLook::Due {
                    let what = format!("cannot tell whether this machine is a server: {message}");
                    log(&node_state.port_name(), &what);
                    self.server_look = ServerLook::Failed;
                }
            }
        }
    }

    fn sync_if_due(
        &mut self,
        node_state: &NodeState,
        daemon_config: DaemonConfig,
        arguments: &Arguments,
        sync: impl FnOnce(&mut NetworkState, DaemonConfig) -> Result<(), CniError>,
    ) -> Result<SyncResult, CniError> {
        // No port exists for this network, and none is to be created.
        if daemon_config == DaemonConfig::default() && !node_state.node_file().exists() {
            return Ok(SyncResult::Done);
        }
        let devices = devices_needing_pairs(node_state, &daemon_config)?;
        let is_urgent = self.last_succeeded()
            && (needs_ports(node_state, &daemon_config)?
                || !devices.is_subset(&self.known_devices));
        if !is_urgent && !self.is_due(arguments.neutron_interval) {
            return Ok(SyncResult::NotDue);
        }
        let outcome = sync(self, daemon_config);
        self.record(&outcome);
        outcome.map(|()| SyncResult::Done)
    }

    /// Whether the last sync is at least this old.
    pub(super) fn is_due(&self, interval: Duration) -> bool {
        self.last_sync
            .is_none_or(|(at, _)| at.elapsed() >= interval)
    }

    /// Records a sync that ends now.
    pub(super) fn record<E>(&mut self, outcome: &Result<(), E>) {
        let outcome = if outcome.is_ok() {
            SyncOutcome::Succeeded
        } else {
            SyncOutcome::Failed
        };
        self.last_sync = Some((Instant::now(), outcome));
        self.synced = Some(outcome);
    }

    /// The sync since the last call, if there was one.
    pub(super) fn take_synced(&mut self) -> Option<SyncOutcome> {
        self.synced.take()
    }

    /// Known numbers of ports of the network, by their state.
    pub(super) fn port_counts(&self) -> PortCounts {
        PortCounts {
            attached: self.pool_counts.attached + self.own_ports,
            ..self.pool_counts
        }
    }

    /// Counts the ports in the files. Keeps the numbers if a file cannot be read.
    fn count_pool(&mut self, node_state: &NodeState, daemon_config: &DaemonConfig) {
        self.pool_counts.wanted = daemon_config.pool.map_or(0, |size| size.free);
        if !node_state.pool().exists() {
            return;
        }
        if let Ok(ports) = node_state.pool().ports() {
            self.pool_counts = PortCounts {
                attached: ports.held.len(),
                free: ports.free.len(),
                deleting: ports.deleting.len(),
                wanted: self.pool_counts.wanted,
            };
        }
    }

    /// A sync that failed is not urgent: it waits for its interval.
    fn last_succeeded(&self) -> bool {
        self.last_sync
            .is_none_or(|(_, outcome)| outcome == SyncOutcome::Succeeded)
    }
}

/// Whether Pods cannot use the pool yet, it lacks ports, or has ports to delete, by its files.
pub(super) fn needs_ports(
    node_state: &NodeState,
    daemon_config: &DaemonConfig,
) -> Result<bool, CniError> {
    let Some(size) = daemon_config.pool else {
        return Ok(false);
    };
    if !node_state.pool().exists() {
        return Ok(true);
    }
    let ports = node_state.pool().ports()?;
    let is_unconfirmed = node_state.pool().confirmed() == Confirmed::EarlierBoot;
    Ok(is_unconfirmed || ports.free.len() < size.free || !ports.deleting.is_empty())
}

/// Interfaces whose own port needs a pair for each address. The files do not hold these addresses.
/// An old interface without a port will hardly get one.
fn devices_needing_pairs(
    node_state: &NodeState,
    daemon_config: &DaemonConfig,
) -> Result<BTreeSet<String>, CniError> {
    if daemon_config
        .pairs
        .as_ref()
        .is_none_or(|pairs| pairs.ranges.is_some())
    {
        return Ok(BTreeSet::new());
    }
    let held = node_state.pool().ports()?.held;
    let records = node_state.attachment_records();
    let young = records
        .all()
        .into_iter()
        .filter(|(_, age)| *age < LONGEST_ADD)
        .map(|(attachment, _)| attachment);
    Ok(young
        .filter(|attachment| !held.contains_key(attachment))
        // Of an interface that is gone, a port is garbage.
        .filter(|attachment| !records.is_gone(attachment))
        .map(|attachment| attachment.to_string())
        .collect())
}

/// Prefix of `device_owner` in the ports of servers (Nova).
const OF_SERVER: &str = "compute:";

/// The ports whose `device_id` is this server.
pub(super) fn ports_of(neutron: &impl Neutron, server: &Id) -> Result<Vec<Port>, NeutronError> {
    neutron.ports(&PortFilter {
        device: Some(&server.to_string()),
        ..PortFilter::default()
    })
}

/// A port by which Nova gives this server a network. Databases compare text in their own way.
pub(super) fn port_of<'p>(ports: &'p [Port], server: &Id) -> Option<&'p Port> {
    let is_of = |port: &&Port| {
        port.device_owner.starts_with(OF_SERVER)
            && port.device_id.parse::<Id>().as_ref() == Ok(server)
    };
    ports.iter().find(is_of)
}

/// Records whether Neutron shows this machine as a server. The firmware's id of a machine that is no
/// server of these credentials must not look like a server that is gone.
pub(super) fn record_own(node_state: &NodeState, neutron: &impl Neutron) -> Result<(), CniError> {
    let Some(machine) = NodeState::machine() else {
        return Ok(());
    };
    let ports = ports_of(neutron, &machine)?;
    let shown = port_of(&ports, &machine).map(|_| &machine);
    node_state.record_server(shown)
}
