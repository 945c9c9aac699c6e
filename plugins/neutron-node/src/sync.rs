//! One comparison of a network's files with Neutron: pairs are kept, garbage is deleted, and the
//! pool is filled.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::fill::Released;
use crate::arguments::Arguments;
use crate::network_state::NetworkState;
use crate::pairs::{PairsKeeper, addresses_of};
use crate::{USER_AGENT, garbage, log};
use ipam_core::neutron::Id;
use neutron_cni::cni::{Arguments as CniArguments, CniError};
use neutron_cni::plugin::{CLEANUP_TIME, cloud, session_cache};
use neutron_cni::state::{Confirmed, NodeState};
use neutron_cni::{
    AttachmentRequest, DaemonConfig, LATEST_PORT, Owner, PoolNode, PoolPorts, PooledPort, Settings,
    Upkeep, upkeep,
};
use openstack::{
    HttpNeutron, Neutron, NeutronError, OnRequest, Port, PortFilter, Retries, VmPorts,
};

/// How long to wait for another daemon on this node. Then that daemon does the work.
const DAEMON_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// One sync with Neutron.
pub(super) struct NeutronSync<'l, N> {
    pub(super) node_state: &'l NodeState,
    pub(super) daemon_config: DaemonConfig,
    pub(super) request: AttachmentRequest,
    pub(super) name: String,
    pub(super) neutron: N,
    /// For undoing, after `until`.
    pub(super) last: N,
    /// When requests to Neutron end.
    pub(super) until: Instant,
}

impl<'l> NeutronSync<'l, HttpNeutron> {
    pub(super) fn begin(
        settings: &Settings,
        node_state: &'l NodeState,
        daemon_config: DaemonConfig,
        on_request: Option<&OnRequest>,
    ) -> Result<NeutronSync<'l, HttpNeutron>, CniError> {
        // A pooled port has nothing that a single Pod asked for.
        let request = settings.request(&CniArguments::default())?;
        let now = Instant::now();
        let until = now + settings.deadline - CLEANUP_TIME;
        let neutron = HttpNeutron::new(
            cloud(&settings.source)?,
            USER_AGENT,
            session_cache(node_state.state().to_owned()),
            until,
        )?
        .reporting(on_request.cloned());
        let last = neutron.until(now + settings.deadline);
        Ok(NeutronSync {
            node_state,
            daemon_config,
            request,
            name: node_state.port_name(),
            neutron,
            last,
            until,
        })
    }
}

impl<N: Neutron + VmPorts + Retries> NeutronSync<'_, N> {
    /// Syncs once. `now` is the time of a monotonic clock.
    pub(super) fn run(
        &self,
        state: &mut NetworkState,
        arguments: &Arguments,
        now: Duration,
    ) -> Result<(), CniError> {
        let _lock = self
            .node_state
            .lock_daemon(Instant::now() + DAEMON_LOCK_TIMEOUT)?;
        let pool = self.node_state.pool();
        self.node_state.attachment_records().clean();
        let repaired = self.repair_name();
        if self.daemon_config.pool.is_some() {
            self.node_state.keeps_its_name()?;
            pool.create_folders()?;
        }
        self.compare(state, arguments, now).and(repaired)
    }

    /// Writes a damaged file with the node's name again. Each ADD reads it.
    fn repair_name(&self) -> Result<(), CniError> {
        if !self.node_state.has_unreadable_name() {
            return Ok(());
        }
        self.node_state.keeps_its_name()?;
        let file = self.node_state.node_file();
        let what = format!("{} was damaged and is written again", file.display());
        log(&self.name, &what);
        Ok(())
    }

    /// An error stops no other step, but no port is created that the VM's port would not allow.
    fn compare(
        &self,
        state: &mut NetworkState,
        arguments: &Arguments,
        now: Duration,
    ) -> Result<(), CniError> {
        // Read the files first: each port in them existed at Neutron before.
        let ports = self.node_state.pool().ports()?;
        let forgettable = self.node_state.attachment_records().forgettable();
        let pending = self.node_state.pool().pending_creates()?;
        let at_neutron = self.ports_at_neutron()?;
        state.record_ports(&at_neutron);
        let needs = self.needs(&ports, &at_neutron);
        self.report_lost(state, &needs);
        let released = self.release_after_boot(&ports, &needs.unknown);
        let retired = self.retire_ports(&needs);
        let confirmed = self.confirm(released, &retired);
        let remaining = self.node_state.pool().ports()?;
        self.report_unreadable(state, &remaining);
        let mut addresses = addresses_of(&at_neutron, &ids(&remaining.deleting));
        let pairs = self.keep_pairs(&addresses);
        let outcomes = [
            confirmed,
            self.delete_unfinished_ports(pending, &needs.unknown),
            retired.and_then(|()| self.delete_marked_ports()),
            garbage::collect(self, &needs.unknown, &at_neutron, state, arguments, now),
            match &pairs {
                // After a boot, nothing would look for the lost ports of a pool that was never confirmed.
                Ok(pairs) if self.node_state.pool().confirmed() != Confirmed::Unknown => {
                    self.fill(&needs, &ports, pairs.as_ref(), &mut addresses, state)
                }
                _ => Ok(()),
            },
        ];
        garbage::forget_records(self, &forgettable, &at_neutron);
        pairs.map(drop)?;
        run_all(outcomes)
    }

    fn needs(&self, ports: &PoolPorts, at_neutron: &[Port]) -> Upkeep {
        let machine = NodeState::machine();
        let node = PoolNode {
            port_name: &self.name,
            machine: machine.as_ref(),
        };
        let size = self.daemon_config.pool;
        upkeep(ports, at_neutron, &node, &self.request, size)
    }

    /// Lets Pods take ports, if none in the files is of an earlier boot's interface or gone.
    fn confirm(
        &self,
        released: Result<Released, CniError>,
        retired: &Result<(), CniError>,
    ) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        match (released?, retired) {
            (Released::Everything, Ok(())) if pool.exists() => pool.confirm(),
            _ => Ok(()),
        }
    }

    /// Takes ports out of the pool that are gone, useless or too many.
    fn retire_ports(&self, needs: &Upkeep) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        needs
            .forget
            .iter()
            .chain(&needs.give_back)
            .try_for_each(|id| pool.mark_deleting(id))?;
        pool.sync_folders()?;
        for id in &needs.forget {
            log(
                &self.name,
                &format!("port {id} of the warm pool is gone: it was deleted at Neutron"),
            );
            pool.forget(id);
        }
        Ok(())
    }

    fn keep_pairs(&self, addresses: &BTreeSet<IpAddr>) -> Result<Option<PairsKeeper>, CniError> {
        let pairs = PairsKeeper::of(&self.daemon_config, self.node_state, &self.neutron)?;
        if let Some(pairs) = &pairs {
            pairs.keep(&self.neutron, addresses)?;
        }
        Ok(pairs)
    }

    /// The ports of this network on this node. Compares letter by letter, unlike databases.
    fn ports_at_neutron(&self) -> Result<Vec<Port>, NeutronError> {
        let filter = PortFilter {
            name: Some(&self.name),
            ..PortFilter::default()
        };
        let mut ports = self.neutron.ports(&filter)?;
        let owners = [Owner::Pod, Owner::Pool].map(Owner::as_str);
        ports.retain(|port| port.name == self.name && owners.contains(&port.device_owner.as_str()));
        Ok(ports)
    }

    /// Reports ports in use that are gone. Neutron may give their addresses again.
    fn report_lost(&self, state: &mut NetworkState, needs: &Upkeep) {
        for (attachment, id) in needs
            .lost
            .iter()
            .filter(|(attachment, _)| !state.lost.contains_key(*attachment))
        {
            let what = format!(
                "port {id} of {attachment} is gone: it was deleted at Neutron. Delete the Pod: Neutron may give its address again"
            );
            log(&self.name, &what);
        }
        state.lost.clone_from(&needs.lost);
    }

    /// Reports damaged files of interfaces. Each keeps its port until its DEL, or until the next boot.
    fn report_unreadable(&self, state: &mut NetworkState, ports: &PoolPorts) {
        for holder in ports.unreadable.difference(&state.unreadable) {
            let what = format!(
                "the file of {holder}'s port is damaged. The port stays until the interface is deleted, or until the node boots"
            );
            log(&self.name, &what);
        }
        state.unreadable.clone_from(&ports.unreadable);
    }

    /// Deletes ports of a daemon that was killed before it recorded them, so no Pod has them.
    /// Neutron may create such a port late.
    fn delete_unfinished_ports(
        &self,
        pending: Vec<(String, Duration)>,
        unknown: &[Port],
    ) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        run_all(pending.into_iter().map(|(slot, age)| {
            match unknown.iter().find(|port| port.device_id == slot) {
                Some(port) => self.neutron.delete_port(&port.id)?,
                None if age < LATEST_PORT => return Ok(()),
                None => {}
            }
            pool.end_create(&slot);
            Ok(())
        }))
    }

    fn delete_marked_ports(&self) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        let marked = pool.ports()?.deleting.into_iter();
        run_all(marked.map(|PooledPort { port, .. }| {
            self.neutron.delete_port(&port.id)?;
            pool.forget(&port.id);
            Ok(())
        }))
    }
}

fn ids(ports: &[PooledPort]) -> BTreeSet<Id> {
    ports.iter().map(|pooled| pooled.port.id.clone()).collect()
}

/// Runs all steps, and returns the first error.
pub(super) fn run_all(
    steps: impl IntoIterator<Item = Result<(), CniError>>,
) -> Result<(), CniError> {
    let run = |outcome: Result<(), CniError>, step| outcome.and(step);
    steps.into_iter().fold(Ok(()), run)
}
