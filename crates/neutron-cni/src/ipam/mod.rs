//! The plugin `cni-ipam-neutron`: an interface gets the addresses of a port of Neutron. Must never
//! know files; `node_ports` does.

mod node_ports;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use crate::cni::{Arguments, Attachment, CniError, Dns};
use crate::plugin::{Plugin, PluginRun, Target, serve};
use crate::state::NodeState;
use crate::{Settings, check};
use openstack::HttpNeutron;
use private_files::read_small;

pub use node_ports::{Clients, NodePorts};

/// Runs the plugin once, as a container runtime does.
pub fn main() -> ExitCode {
    serve::<IpamPlugin>()
}

/// How the program names itself to OpenStack.
const USER_AGENT: &str = concat!("cni-ipam-neutron/", env!("CARGO_PKG_VERSION"));

struct IpamPlugin {
    run: PluginRun,
    node_state: NodeState,
}

impl Plugin for IpamPlugin {
    const NAME: &'static str = "cni-ipam-neutron";
    type Settings = Settings;

    fn settings(input: &[u8]) -> Result<Settings, CniError> {
        Settings::read(input)
    }

    fn new(settings: Settings, began: Instant) -> Result<IpamPlugin, CniError> {
        let run = PluginRun::new(settings, began, USER_AGENT);
        let node_state = NodeState::of(&run.settings)?;
        Ok(IpamPlugin { run, node_state })
    }

    fn add(&self, target: &Target<'_>, arguments: &Arguments) -> Result<String, CniError> {
        // These settings are the daemon's, but a mistake in them shows here first.
        self.run.settings.daemon_config()?;
        let mut request = self.run.settings.request(arguments)?;
        if let Some(path) = &request.resolv_conf {
            request.dns = Some(Dns::of_resolv_conf(&read_small(path)?));
        }
        let outcome = self.node_ports().add(&request, target)?;
        Ok(outcome.to_text(self.run.settings.version))
    }

    fn del(&self, target: &Target<'_>) -> Result<(), CniError> {
        self.node_ports().del(target.attachment)
    }

    fn check(&self, target: &Target<'_>) -> Result<(), CniError> {
        let pooled = self.node_state.pool().held(target.attachment)?;
        let identity = pooled.map_or_else(
            || self.node_state.identity(target.attachment),
            |pooled| pooled.identity(),
        );
        let given = self.run.settings.previous_addresses()?;
        check(&self.run.neutron()?, &identity, given.as_ref())
    }

    fn gc(&self, valid: &BTreeSet<Attachment>) -> Result<(), CniError> {
        self.node_ports().gc(valid)
    }

    fn status(&self, arguments: &Arguments) -> Result<(), CniError> {
        self.run.settings.request(arguments)?;
        self.node_state.can_be_locked()?;
        self.run.can_log_in()
    }
}

impl IpamPlugin {
    fn node_ports(&self) -> NodePorts<'_, impl Fn() -> Result<Clients<HttpNeutron>, CniError>> {
        let connect = || {
            let neutron = self.run.neutron()?;
            let last = neutron.until(self.run.deadline);
            Ok(Clients { neutron, last })
        };
        NodePorts::new(&self.node_state, self.run.until, connect)
    }
}
