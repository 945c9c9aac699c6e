//! A node whose runtime adds and deletes interfaces while faults strike.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use ipam_core::neutron::Id;
use lexopt::Parser;
use neutron_cni::Settings;
use neutron_cni::cni::{Arguments as CniArguments, Attachment, CniError};
use neutron_cni::ipam::{Clients, NodePorts};
use neutron_cni::plugin::Target;
use neutron_cni::state::NodeState;
use private_files::kept;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Figures;
use super::machine::{Fault, Sabotage, SimulatedMachine};
use super::neutron::{Client, NETWORK};
use crate::arguments::{Arguments, Request};
use crate::network_state::NetworkState;
use crate::sync::NeutronSync;

/// Free ports of the pool: this many at least, twice as many at most.
pub(super) const FREE: usize = 2;

pub(super) struct World {
    rng: Rng,
    folder: TempDir,
    pub(super) machine: Rc<SimulatedMachine>,
    pub(super) neutron: Client,
    arguments: Arguments,
    sabotage: Option<Sabotage>,
    /// Settings in `ipam`.
    ipam: Value,
    /// The name of the node in the configuration.
    name: &'static str,
    stored_name: StoredName,
    pub(super) daemon: NetworkState,
    /// The daemon's clock.
    clock: Duration,
    /// The addresses of the interfaces that exist.
    pub(super) living: BTreeMap<Attachment, BTreeSet<IpAddr>>,
    /// Interfaces that the runtime still has to delete.
    doomed: BTreeSet<Attachment>,
    added: u32,
    given_from_pool: u32,
    given_own: u32,
}

/// Whether a fault damaged the file with the node's name, which is not whole on the disk since.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredName {
    Damaged,
    NotDamaged,
}

impl World {
    pub(super) fn new(seed: u64, sabotage: Option<Sabotage>) -> World {
        World::configured(seed, sabotage, json!({"warmPool": {"free": FREE}}))
    }

    /// With these settings in `ipam`.
    pub(super) fn configured(seed: u64, sabotage: Option<Sabotage>, ipam: Value) -> World {
        // The programs draw names of files from this generator.
        fastrand::seed(seed);
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        for part in ["netns", "results"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let state = folder.path().join("state");
        let machine = Rc::new(SimulatedMachine::new(&state, seed, sabotage));
        private_files::simulated::install(machine.clone());
        let results = format!("--results={}", folder.path().join("results").display());
        let Ok(Request::Run(arguments)) = Arguments::read(Parser::from_args([results])) else {
            panic!("the arguments are valid");
        };
        World {
            rng: Rng::with_seed(!seed),
            folder,
            neutron: Client {
                machine: machine.clone(),
                ports: Rc::default(),
            },
            machine,
            arguments: *arguments,
            sabotage,
            ipam,
            name: "n1",
            stored_name: StoredName::NotDamaged,
            daemon: NetworkState::default(),
            clock: Duration::ZERO,
            living: BTreeMap::new(),
            doomed: BTreeSet::new(),
            added: 0,
            given_from_pool: 0,
            given_own: 0,
        }
    }

    /// Adds what happened.
    pub(super) fn count(&self, figures: &mut Figures) {
        figures.seeds += 1;
        let refused = self.neutron.ports.borrow().refused();
        figures.faults += self.machine.faults() + refused;
        figures.refused += refused;
        figures.from_pool += self.given_from_pool;
        figures.own += self.given_own;
    }

    /// One event, in which a fault may strike.
    pub(super) fn event(&mut self) -> Result<(), String> {
        if self.rng.u8(..3) == 0 {
            self.name = "n1";
        }
        self.change_neutron();
        let fault = match self.rng.u8(..10) {
            0..=2 => Some(Fault::Kill),
            3..=4 => Some(Fault::PowerLoss),
            5..=6 => Some(Fault::Full(self.rng.u32(..4))),
            _ => None,
        };
        let steps = self.rng.u32(..18);
        self.machine.plan(fault.map(|fault| (steps, fault)));
        match self.rng.u8(..10) {
            0..=2 => self.add()?,
            3..=4 => self.delete_one(),
            5 => self.retry_delete(),
            6 => self.forget(),
            7 => {
                let seconds = self.rng.u64(..900);
                self.age(Duration::from_secs(seconds));
            }
            _ => drop(self.sync()),
        }
        match self.machine.restart() {
            Some(Fault::PowerLoss) => self.boot(),
            // Whichever program died, the daemon starts again.
            Some(_) => self.restart_daemon(),
            None => {}
        }
        self.check_living()
    }

    /// Neutron refuses to delete some port for a while, or executes late creations.
    fn change_neutron(&mut self) {
        let mut ports = self.neutron.ports.borrow_mut();
        match self.rng.u8(..10) {
            0 => {
                let ids: Vec<Id> = ports.all.iter().map(|port| port.id.clone()).collect();
                let refused = self.rng.choice(ids);
                refused.iter().for_each(|id| ports.refuse_deletion(id));
            }
            1 => ports.allow_deletion(),
            2..=6 => ports.execute_late(),
            _ => {}
        }
    }

    /// Ends the faults, waits, and looks for lost ports.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.machine.plan(None);
        self.neutron.ports.borrow_mut().allow_deletion();
        self.name = "n1";
        for attachment in std::mem::take(&mut self.doomed) {
            let deleted = self.delete(&attachment);
            deleted.map_err(|why| format!("DEL of {attachment}: {why:?}"))?;
        }
        let mut synced = Ok(());
        for _ in 0..6 {
            self.age(Duration::from_mins(11));
            synced = self.sync();
            self.check_living()?;
        }
        synced.map_err(|why| format!("the daemon does not recover: {why:?}"))?;
        self.check_lost()
    }

    pub(super) fn settings(&self) -> Settings {
        let mut ipam = self.ipam.clone();
        ipam["networks"] = json!([NETWORK]);
        ipam["cloud"] = json!("c");
        ipam["node"] = json!(self.name);
        ipam["stateDirectory"] = json!(self.state());
        let written = json!({"cniVersion": "1.1.0", "name": "pods", "ipam": ipam});
        Settings::read(written.to_string().as_bytes()).unwrap()
    }

    pub(super) fn node_state(&self) -> NodeState {
        NodeState::of(&self.settings()).unwrap()
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn netns(&self, attachment: &Attachment) -> PathBuf {
        self.folder
            .path()
            .join("netns")
            .join(attachment.container.to_string())
    }

    /// The runtime's memory of an interface.
    fn cache(&self, attachment: &Attachment) -> PathBuf {
        let name = format!("pods-{}-eth0", attachment.container);
        self.folder.path().join("results").join(name)
    }

    pub(super) fn add(&mut self) -> Result<(), String> {
        self.added += 1;
        let attachment = Attachment {
            container: format!("c{}", self.added).parse().unwrap(),
            interface: "eth0".parse().unwrap(),
        };
        fs::write(self.netns(&attachment), "").unwrap();
        let attempts = self.rng.u8(1..=2);
        for _ in 0..attempts {
            if let Some(given) = self.add_once(&attachment) {
                let text = given
                    .iter()
                    .map(|address| json!({"address": format!("{address}/24")}));
                let cached = json!({
                    "containerId": attachment.container.to_string(), "ifName": "eth0",
                    "result": {"ips": text.collect::<Vec<_>>()},
                });
                fs::write(self.cache(&attachment), cached.to_string()).unwrap();
                let other = self.living.iter().find(|(_, has)| !has.is_disjoint(&given));
                if let Some((other, _)) = other {
                    return Err(format!(
                        "{given:?} of {other} was given to {attachment}, too"
                    ));
                }
                let held = self.state().join("pool/pods/held");
                if held.join(format!("{}@eth0", attachment.container)).exists() {
                    self.given_from_pool += 1;
                } else {
                    self.given_own += 1;
                }
                self.living.insert(attachment, given);
                return Ok(());
            }
        }
        self.doomed.insert(attachment);
        Ok(())
    }

    /// The addresses, if the runtime gets an answer.
    fn add_once(&mut self, attachment: &Attachment) -> Option<BTreeSet<IpAddr>> {
        let settings = self.settings();
        let request = settings.request(&CniArguments::default()).unwrap();
        let netns = self.netns(attachment);
        let target = Target {
            attachment,
            netns: Some(&netns),
        };
        let node_state = NodeState::of(&settings).ok()?;
        let added = self.node_ports(&node_state).add(&request, &target).ok()?;
        let given = added.addresses.iter().map(|one| one.address.addr());
        (!self.machine.is_dead()).then(|| given.collect())
    }

    fn node_ports<'s>(
        &self,
        node_state: &'s NodeState,
    ) -> NodePorts<'s, impl Fn() -> Result<Clients<Client>, CniError>> {
        let client = self.neutron.clone();
        let connect = move || {
            Ok(Clients {
                neutron: client.clone(),
                last: client.clone(),
            })
        };
        NodePorts::new(node_state, Instant::now() + Duration::from_secs(5), connect)
    }

    fn delete_one(&mut self) {
        let living: Vec<Attachment> = self.living.keys().cloned().collect();
        if let Some(attachment) = self.rng.choice(living) {
            self.living.remove(&attachment);
            self.doomed.insert(attachment.clone());
            let _ = self.delete(&attachment);
        }
    }

    fn retry_delete(&mut self) {
        let doomed: Vec<Attachment> = self.doomed.iter().cloned().collect();
        if let Some(attachment) = self.rng.choice(doomed) {
            let _ = self.delete(&attachment);
        }
    }

    /// A DEL; the runtime removes the network namespace before.
    fn delete(&mut self, attachment: &Attachment) -> Result<(), CniError> {
        let _ = fs::remove_file(self.netns(attachment));
        let node_state = NodeState::of(&self.settings())?;
        if self.sabotage == Some(Sabotage::RecordBeforePort) {
            node_state.attachment_records().remove(attachment);
        }
        self.node_ports(&node_state).del(attachment)?;
        if !self.machine.is_dead() {
            self.doomed.remove(attachment);
            let _ = fs::remove_file(self.cache(attachment));
        }
        Ok(())
    }

    /// The runtime loses its memory of an interface that it has to delete.
    pub(super) fn forget(&mut self) {
        let doomed: Vec<Attachment> = self.doomed.iter().cloned().collect();
        if let Some(attachment) = self.rng.choice(doomed) {
            self.doomed.remove(&attachment);
            let _ = fs::remove_file(self.netns(&attachment));
            let _ = fs::remove_file(self.cache(&attachment));
        }
    }

    /// Neutron executes no request that is older.
    pub(super) fn age(&mut self, by: Duration) {
        self.neutron.ports.borrow_mut().execute_late();
        self.machine.age(by);
        self.neutron.ports.borrow_mut().age(by);
        self.clock += by;
    }

    pub(super) fn sync(&mut self) -> Result<(), CniError> {
        self.sync_until(Instant::now() + Duration::from_mins(1))
    }

    pub(super) fn sync_until(&mut self, until: Instant) -> Result<(), CniError> {
        let settings = self.settings();
        let node_state = NodeState::of(&settings)?;
        let sync = NeutronSync {
            daemon_config: settings.daemon_config()?,
            request: settings.request(&CniArguments::default())?,
            name: node_state.port_name(),
            node_state: &node_state,
            neutron: self.neutron.clone(),
            last: self.neutron.clone(),
            until,
        };
        sync.run(&mut self.daemon, &self.arguments, self.clock)
    }

    pub(super) fn restart_daemon(&mut self) {
        self.daemon = NetworkState::default();
        self.clock = Duration::ZERO;
    }

    /// No interface survives a boot. The runtime remembers some of them. The configuration may have
    /// another name of the node for a while, which must not make its ports unknown.
    fn boot(&mut self) {
        let has_ports = !self.neutron.ports.borrow().all.is_empty();
        let is_renamed = has_ports && self.rng.u8(..6) == 0;
        let damaged = self
            .machine
            .boot(|path: &Path| !(is_renamed && path.ends_with("node.json")));
        let stored: Option<String> = kept::read(&self.state().join("node.json"));
        self.stored_name = match damaged {
            Some(path) if path.ends_with("node.json") => StoredName::Damaged,
            _ if stored.is_some() => StoredName::NotDamaged,
            _ => self.stored_name,
        };
        // A damaged name and a wrong one at once cannot be told apart from a new node.
        self.name = if is_renamed && self.stored_name == StoredName::NotDamaged {
            "n2"
        } else {
            "n1"
        };
        self.end_interfaces();
        for attachment in self.doomed.clone() {
            let _ = fs::remove_file(self.netns(&attachment));
            if self.rng.bool() {
                self.doomed.remove(&attachment);
                let _ = fs::remove_file(self.cache(&attachment));
            }
        }
        self.restart_daemon();
    }

    /// Boots without a loss. The runtime remembers all interfaces.
    pub(super) fn boot_whole(&mut self) {
        self.machine.boot_whole();
        self.end_interfaces();
        self.restart_daemon();
    }

    fn end_interfaces(&mut self) {
        self.neutron.ports.borrow_mut().age(Duration::from_secs(30));
        self.doomed
            .extend(std::mem::take(&mut self.living).into_keys());
    }
}
