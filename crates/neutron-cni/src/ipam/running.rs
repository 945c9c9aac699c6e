//! One request of a runtime, being answered: the node's files first, and Neutron where they do not
//! suffice.

use std::path::Path;
use std::time::Instant;

use crate::cni::{Attachment, CniError, Command, Dns, Environment, ErrorCode, IpamOutcome};
use crate::plugin::{FOR_STATUS, FOR_TAKING_BACK, cloud};
use crate::state::NodeState;
use crate::{
    AttachmentRequest, Identity, PooledPort, RunId, Settings, add, check, collect_garbage, delete,
    outcome,
};
use openstack::{HttpNeutron, Keeping, NeutronError};
use private_files::read_small;

/// A request that is being answered.
pub(super) struct Running {
    settings: Settings,
    node_state: NodeState,
    began: Instant,
    /// Until when Neutron may be asked; what comes after is for taking back.
    until: Instant,
}

/// An interface that is asked about.
struct About<'e> {
    attachment: &'e Attachment,
    identity: Identity,
    /// Where the runtime says it; it may not say it of one that goes.
    netns: &'e Path,
}

impl Running {
    pub(super) fn new(settings: Settings, began: Instant) -> Result<Running, CniError> {
        let node_state = NodeState::of(&settings)?;
        let until = began + settings.deadline - FOR_TAKING_BACK;
        Ok(Running {
            settings,
            node_state,
            began,
            until,
        })
    }

    pub(super) fn answer(&self, environment: &Environment) -> Result<String, CniError> {
        let done = |()| String::new();
        match environment.command {
            Command::Add => self.add(environment),
            Command::Del => self.delete(&self.about(environment)?).map(done),
            Command::Check => self.check(&self.about(environment)?).map(done),
            Command::Gc => self.collect_garbage().map(done),
            Command::Status => self.status(environment).map(done),
            Command::Version => Ok(String::new()),
        }
    }

    fn about<'e>(&self, environment: &'e Environment) -> Result<About<'e>, CniError> {
        let missing = || CniError::new(ErrorCode::InvalidEnvironment, "no attachment is named", "");
        let attachment = environment.attachment.as_ref().ok_or_else(missing)?;
        let identity = Identity::new(
            &self.node_state.node,
            &self.settings.network_name,
            attachment,
        );
        Ok(About {
            attachment,
            identity,
            netns: environment
                .netns
                .as_deref()
                .unwrap_or_else(|| Path::new("")),
        })
    }

    /// Neutron, until there is only time for taking back.
    fn neutron(&self) -> Result<HttpNeutron, CniError> {
        let cloud = cloud(&self.settings.source)?;
        Ok(HttpNeutron::new(
            cloud,
            Keeping::In(self.node_state.state().to_owned()),
            self.until,
        )?)
    }

    fn add(&self, environment: &Environment) -> Result<String, CniError> {
        // They are the daemon's, but whoever mistypes one sees it here.
        self.settings.daemon_config()?;
        let mut request = self.settings.request(&environment.arguments)?;
        if let Some(path) = &request.resolv_conf {
            request.dns = Some(Dns::of_resolv_conf(&read_small(path)?));
        }
        let about = self.about(environment)?;
        let _locks = self.node_state.locks_for(&about.identity, self.until)?;
        self.node_state.keeps_its_name()?;
        let outcome = match self.of_pool(&request, &about)? {
            Some(outcome) => outcome,
            None => {
                let neutron = self.neutron()?;
                let last = neutron.until(self.began + self.settings.deadline);
                add(
                    &neutron,
                    &last,
                    &request,
                    &about.identity,
                    &RunId::new(fastrand::u64(..)),
                )?
                .outcome
            }
        };
        Ok(outcome.to_text(self.settings.version))
    }

    /// What a port of the pool gives, if there is one that will do. An interface that may have a
    /// port of its own already gets none of the pool: it would have two.
    fn of_pool(
        &self,
        request: &AttachmentRequest,
        about: &About<'_>,
    ) -> Result<Option<IpamOutcome>, CniError> {
        let (pool, attachment_records) =
            (self.node_state.pool(), self.node_state.attachment_records());
        let given = |pooled: &PooledPort| outcome(&pool.facts(), request, &pooled.port);
        let is_first = !attachment_records.has(about.attachment);
        // On a full disk there is no trace, and nothing is taken that only a trace would lead to.
        let has_left = attachment_records
            .leave(about.attachment, about.netns)
            .is_ok();
        if let Some(pooled) = pool.held(about.attachment)? {
            return match given(&pooled) {
                Ok(outcome) => Ok(Some(outcome)),
                Err(_) => outcome(&self.neutron()?, request, &pooled.port).map(Some),
            };
        }
        if !is_first || !has_left || !pool.is_confirmed() {
            return Ok(None);
        }
        let name = self.node_state.port_name();
        pool.take(about.attachment, |pooled| {
            pooled
                .fits(request, &name)
                .then(|| given(pooled).ok())
                .flatten()
        })
    }

    fn delete(&self, about: &About<'_>) -> Result<(), CniError> {
        // Without a lock, as on a full disk, an address is given back all the same.
        let _locks = self.node_state.locks_for(&about.identity, self.until).ok();
        let pool = self.node_state.pool();
        pool.drop_broken(about.attachment);
        match pool.held(about.attachment)? {
            Some(pooled) => pool.release(about.attachment, &pooled)?,
            None => delete(&self.neutron()?, &about.identity)?,
        }
        self.node_state
            .attachment_records()
            .take_away(about.attachment);
        Ok(())
    }

    fn check(&self, about: &About<'_>) -> Result<(), CniError> {
        let pooled = self.node_state.pool().held(about.attachment)?;
        let identity = pooled.map_or_else(|| about.identity.clone(), |pooled| pooled.identity());
        check(&self.neutron()?, &identity, self.settings.given()?.as_ref())
    }

    fn collect_garbage(&self) -> Result<(), CniError> {
        let Some(valid) = self.settings.valid()? else {
            return Ok(());
        };
        let _lock = self.node_state.lock_all(self.until)?;
        let (pool, attachment_records) =
            (self.node_state.pool(), self.node_state.attachment_records());
        if pool.is_there() {
            for (attachment, pooled) in pool.ports()?.held {
                if !valid.contains(&attachment) {
                    pool.release(&attachment, &pooled)?;
                }
            }
        }
        let collected = collect_garbage(&self.neutron()?, &self.node_state.port_name(), &valid)?;
        if let Some(fault) = collected.faults.into_iter().next() {
            return Err(fault.into());
        }
        let left = attachment_records
            .all()
            .into_iter()
            .map(|(attachment, _)| attachment);
        left.filter(|attachment| !valid.contains(attachment))
            .for_each(|gone| attachment_records.take_away(&gone));
        Ok(())
    }

    /// Whether an ADD could work, as far as this node knows. That OpenStack does not answer is no
    /// fault here: a node that says so is taken out of its cluster, and with it all that runs there
    /// and needs no new address.
    fn status(&self, environment: &Environment) -> Result<(), CniError> {
        self.settings.request(&environment.arguments)?;
        self.node_state.can_be_locked()?;
        match self.neutron()?.until(Instant::now() + FOR_STATUS).log_in() {
            Ok(()) | Err(NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => Ok(()),
            Err(fault) => {
                let CniError {
                    message, details, ..
                } = fault.into();
                Err(CniError::new(ErrorCode::NotAvailable, message, details))
            }
        }
    }
}
