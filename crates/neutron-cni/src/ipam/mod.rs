//! The plugin `cni-ipam-neutron`: an interface gets the addresses of a port of Neutron. Connects
//! the node's files with `commands`, which decide what happens at Neutron.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::cni::{Arguments, Attachment, CniError, Dns, IpamOutcome};
use crate::plugin::{Plugin, PluginRun, Target, serve};
use crate::state::NodeState;
use crate::{
    AttachmentRequest, Identity, PooledPort, RunId, Settings, add, check, collect_garbage, delete,
    outcome,
};
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
        // These settings are the daemon's, but a mistake in them shows here first.
        self.run.settings.daemon_config()?;
        let mut request = self.run.settings.request(arguments)?;
        if let Some(path) = &request.resolv_conf {
            request.dns = Some(Dns::of_resolv_conf(&read_small(path)?));
        }
        let identity = self.identity(target);
        let _locks = self.node_state.locks_for(&identity, self.run.until)?;
        self.node_state.keeps_its_name()?;
        let outcome = match self.pooled_addresses(&request, target)? {
            Some(outcome) => outcome,
            None => {
                let neutron = self.run.neutron()?;
                let last = neutron.until(self.run.deadline);
                let run = RunId::new(fastrand::u64(..));
                add(&neutron, &last, &request, &identity, &run)?.outcome
            }
        };
        Ok(outcome.to_text(self.run.settings.version))
    }

    fn del(&self, target: &Target<'_>) -> Result<(), CniError> {
        let identity = self.identity(target);
        // On a full disk there is no lock. The address is released all the same.
        let _locks = self.node_state.locks_for(&identity, self.run.until).ok();
        let pool = self.node_state.pool();
        pool.drop_broken(target.attachment);
        match pool.held(target.attachment)? {
            Some(pooled) => pool.release(target.attachment, &pooled)?,
            None => delete(&self.run.neutron()?, &identity)?,
        }
        self.node_state
            .attachment_records()
            .remove(target.attachment);
        Ok(())
    }

    fn check(&self, target: &Target<'_>) -> Result<(), CniError> {
        let pooled = self.node_state.pool().held(target.attachment)?;
        let identity = pooled.map_or_else(|| self.identity(target), |pooled| pooled.identity());
        let given = self.run.settings.previous_addresses()?;
        check(&self.run.neutron()?, &identity, given.as_ref())
    }

    fn gc(&self, valid: &BTreeSet<Attachment>) -> Result<(), CniError> {
        let _lock = self.node_state.lock_all(self.run.until)?;
        let (pool, records) = (self.node_state.pool(), self.node_state.attachment_records());
        if pool.exists() {
            for (attachment, pooled) in pool.ports()?.held {
                if !valid.contains(&attachment) {
                    pool.release(&attachment, &pooled)?;
                }
            }
        }
        let name = self.node_state.port_name();
        let collected = collect_garbage(&self.run.neutron()?, &name, valid)?;
        if let Some(error) = collected.errors.into_iter().next() {
            return Err(error.into());
        }
        for (attachment, _age) in records.all() {
            if !valid.contains(&attachment) {
                records.remove(&attachment);
            }
        }
        Ok(())
    }

    fn status(&self, arguments: &Arguments) -> Result<(), CniError> {
        self.run.settings.request(arguments)?;
        self.node_state.can_be_locked()?;
        self.run.can_log_in()
    }
}

impl IpamPlugin {
    fn identity(&self, target: &Target<'_>) -> Identity {
        let network_name = &self.run.settings.network_name;
        Identity::new(&self.node_state.node, network_name, target.attachment)
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
        // On a full disk there is no record, and then no pooled port may be taken.
        let netns = target.netns.unwrap_or_else(|| Path::new(""));
        let is_recorded = records.write(target.attachment, netns).is_ok();
        if let Some(pooled) = pool.held(target.attachment)? {
            return match from_files(&pooled) {
                Ok(outcome) => Ok(Some(outcome)),
                Err(_) => outcome(&self.run.neutron()?, request, &pooled.port).map(Some),
            };
        }
        if !is_first || !is_recorded || !pool.is_confirmed() {
            return Ok(None);
        }
        let name = self.node_state.port_name();
        pool.take(target.attachment, |pooled| {
            let fits = pooled.fits(request, &name);
            fits.then(|| from_files(pooled).ok()).flatten()
        })
    }
}
