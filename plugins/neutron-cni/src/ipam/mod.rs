//! The plugin `cni-ipam-neutron`: ADD, DEL and GC of one network on this node. An interface gets
//! the addresses of a port of Neutron. Must never know files; `state` does.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::cni::IpamOutcome;
use super::conversions::file_error;
use super::state::{Confirmed, Creation};
use super::{
    AttachmentRequest, Leftover, PoolNode, PooledPort, RunId, add, collect_garbage, delete, outcome,
};
use crate::cni::{Arguments, Attachment, CniError, Dns};
use crate::plugin::{Plugin, PluginRun, Target, serve};
use crate::state::NodeState;
use crate::{Settings, check};
use openstack::{HttpNeutron, Neutron, Retries};
use private_files::read_small;

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
        // The daemon uses these settings, but an ADD reports a mistake in them first.
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

/// Clients of Neutron for one run.
pub struct Clients<N> {
    pub neutron: N,
    /// For undoing, when the time of the other one is over.
    pub last: N,
}

/// The ports of one network on this node.
pub struct NodePorts<'s, C> {
    node_state: &'s NodeState,
    /// When waiting for locks ends.
    until: Instant,
    /// Connects to Neutron. Most requests are served from the files alone.
    connect: C,
}

impl<'s, N, C> NodePorts<'s, C>
where
    N: Neutron + Retries,
    C: Fn() -> Result<Clients<N>, CniError>,
{
    pub fn new(node_state: &'s NodeState, until: Instant, connect: C) -> NodePorts<'s, C> {
        NodePorts {
            node_state,
            until,
            connect,
        }
    }

    /// Gives the interface a pooled port, or a port of its own.
    ///
    /// # Errors
    /// Fails if the files cannot be written, or Neutron refuses.
    pub fn add(
        &self,
        request: &AttachmentRequest,
        target: &Target<'_>,
    ) -> Result<IpamOutcome, CniError> {
        let identity = self.node_state.identity(target.attachment);
        let _locks = self.node_state.locks_for(&identity, self.until)?;
        self.node_state.keeps_its_name()?;
        if let Some(outcome) = self.pooled_addresses(request, target)? {
            return Ok(outcome);
        }
        let Clients { neutron, last } = (self.connect)()?;
        let records = self.node_state.attachment_records();
        let before = records.begin_create(target.attachment);
        let before = before.map_err(|why| record_error(target.attachment, &why))?;
        let run = RunId::new(fastrand::u64(..), self.node_state.server().as_ref());
        let added = add(&neutron, &last, request, &identity, &run);
        let leftover = added
            .as_ref()
            .map_or_else(|not| not.leftover, |added| added.leftover);
        // An answer to this run says nothing of an earlier one.
        if (before, leftover) == (Creation::Answered, Leftover::None) {
            records.record_answer(target.attachment);
        }
        Ok(added?.outcome)
    }

    /// Releases the interface's ports.
    ///
    /// # Errors
    /// Fails if the files cannot be changed, or Neutron refuses.
    pub fn del(&self, attachment: &Attachment) -> Result<(), CniError> {
        let identity = self.node_state.identity(attachment);
        // On a full disk there is no lock. The address is released all the same.
        let _locks = self.node_state.locks_for(&identity, self.until).ok();
        let pool = self.node_state.pool();
        pool.drop_broken(attachment);
        match pool.held(attachment)? {
            Some(pooled) => pool.release(attachment, &pooled)?,
            None => delete(&(self.connect)()?.neutron, &identity)?,
        }
        // Last: without its record, a port may stay until the next boot.
        self.node_state.attachment_records().end(attachment);
        Ok(())
    }

    /// Releases the ports of all interfaces that are not in `valid`.
    ///
    /// # Errors
    /// Fails with the first error after trying the rest.
    pub fn gc(&self, valid: &BTreeSet<Attachment>) -> Result<(), CniError> {
        let _lock = self.node_state.lock_all(self.until)?;
        let (pool, records) = (self.node_state.pool(), self.node_state.attachment_records());
        let ports = pool.ports()?;
        for (attachment, pooled) in &ports.held {
            if !valid.contains(attachment) {
                pool.release(attachment, pooled)?;
            }
        }
        for attachment in ports.unreadable.difference(valid) {
            pool.drop_broken(attachment);
        }
        let (forgettable, name) = (records.forgettable(), self.node_state.port_name());
        let collected = collect_garbage(&(self.connect)()?.neutron, &name, valid)?;
        if let Some(error) = collected.errors.into_iter().next() {
            return Err(error.into());
        }
        for (attachment, _age) in records.all() {
            // The ports of all interfaces outside `valid` were deleted above.
            if valid.contains(&attachment) {
                continue;
            }
            if forgettable.contains(&attachment) {
                records.remove(&attachment);
            } else {
                records.end(&attachment);
            }
        }
        Ok(())
    }

    /// The addresses of a pooled port, if the interface holds one or a free one fits. An interface
    /// that may already have a port of its own gets none: it would have two.
    fn pooled_addresses(
        &self,
        request: &AttachmentRequest,
        target: &Target<'_>,
    ) -> Result<Option<IpamOutcome>, CniError> {
        let (pool, records) = (self.node_state.pool(), self.node_state.attachment_records());
        let from_files = |pooled: &PooledPort| outcome(&pool.facts(), request, &pooled.port);
        let is_first = !records.has(target.attachment);
        let netns = target.netns.unwrap_or_else(|| Path::new(""));
        let written = records.write(target.attachment, netns);
        written.map_err(|why| record_error(target.attachment, &why))?;
        if let Some(pooled) = pool.held(target.attachment)? {
            return match from_files(&pooled) {
                Ok(outcome) => Ok(Some(outcome)),
                Err(_) => outcome(&(self.connect)()?.neutron, request, &pooled.port).map(Some),
            };
        }
        if !is_first || pool.confirmed() != Confirmed::ThisBoot {
            return Ok(None);
        }
        let (name, machine) = (self.node_state.port_name(), NodeState::machine());
        let node = PoolNode {
            port_name: &name,
            machine: machine.as_ref(),
        };
        pool.take(target.attachment, |pooled| {
            let fits = pooled.fits(request, &node);
            fits.then(|| from_files(pooled).ok()).flatten()
        })
    }
}

/// Without its record, a port could be taken for garbage while the interface uses it.
fn record_error(attachment: &Attachment, why: &std::io::Error) -> CniError {
    file_error(&format!("the record of {attachment}"), why)
}
