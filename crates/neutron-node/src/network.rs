//! What is done for one network: its pool is filled, pairs are kept, garbage goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::pairs::{NotLetOut, PairsKeeper, addresses_of};
use crate::{garbage, say};
use ipam_core::neutron::Id;
use neutron_cni::cni::{Arguments as CniArguments, Attachment, CniError, ErrorCode};
use neutron_cni::plugin::{FOR_TAKING_BACK, cloud};
use neutron_cni::state::NodeState;
use neutron_cni::{
    Added, AttachmentRequest, DaemonConfig, GarbageCandidates, Identity, KeptFacts, Left, MadeFor,
    Owner, PoolPorts, PooledPort, RunId, Settings, Upkeep, add, delete, upkeep,
};
use openstack::{HttpNeutron, Keeping, Neutron, NeutronError, Port, PortFilter};

/// So long another daemon is waited for: where there are two, one does the work.
const FOR_THE_OTHER: Duration = Duration::from_secs(1);

/// What Neutron was asked for so long ago it does not do any more.
const LATE: Duration = Duration::from_mins(10);

/// Hardly any port takes longer.
const FOR_A_PORT: Duration = Duration::from_secs(1);

/// Longer than an ADD may take.
const FOR_AN_ADD: Duration = Duration::from_mins(2);

/// What is remembered of a network between rounds. Without it, all is only done a little later.
#[derive(Default)]
pub(super) struct Memory {
    /// When Neutron was asked last, and how it went.
    looked: Option<(Instant, LookOutcome)>,
    /// Devices of the ports that the last look saw.
    known: BTreeSet<String>,
    /// Why it is not known what is over, which is said once.
    pub(super) blind: Option<String>,
    pub(super) garbage_candidates: GarbageCandidates,
    /// Ports in use that somebody deleted, which is said once.
    lost: BTreeMap<Attachment, Id>,
    /// When the VM's port let no more addresses out, and how many those would have been.
    full: Option<Full>,
}

#[derive(Clone, Copy)]
struct Full {
    at: Instant,
    addresses: usize,
}

/// What a round was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// All was looked at.
    Done,
    /// It was not time; what was known is as true as before.
    NotDue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LookOutcome {
    Well,
    Badly,
}

impl Memory {
    /// Looks at the files, and at Neutron where they ask for it or where it was long ago.
    pub(super) fn keep(
        &mut self,
        settings: &Settings,
        arguments: &Arguments,
        began: Instant,
    ) -> Result<Round, CniError> {
        let node_state = NodeState::of(settings)?;
        let daemon_config = settings.daemon_config()?;
        // Nothing was made for this network yet, and nothing is to be made.
        if daemon_config == DaemonConfig::default() && !node_state.node_file().exists() {
            return Ok(Round::Done);
        }
        let own = needing_pairs(&node_state, &daemon_config)?;
        let is_pressing = self.goes_well()
            && (needs_more(&node_state, &daemon_config)? || !own.is_subset(&self.known));
        if !is_pressing && !self.is_due(arguments.look) {
            return Ok(Round::NotDue);
        }
        let outcome = Look::begin(settings, &node_state, daemon_config)
            .and_then(|look| look.done(self, arguments, began));
        self.looked(&outcome);
        outcome.map(|()| Round::Done)
    }

    /// Whether it is time to ask again.
    pub(super) fn is_due(&self, look: Duration) -> bool {
        self.looked.is_none_or(|(at, _)| at.elapsed() >= look)
    }

    /// Remembers that it was asked.
    pub(super) fn looked<E>(&mut self, outcome: &Result<(), E>) {
        self.looked = Some((
            Instant::now(),
            if outcome.is_ok() {
                LookOutcome::Well
            } else {
                LookOutcome::Badly
            },
        ));
    }

    /// What goes wrong is not tried all the time.
    fn goes_well(&self) -> bool {
        self.looked
            .is_none_or(|(_, went)| went == LookOutcome::Well)
    }
}

fn no_room(addresses: usize) -> CniError {
    let message = format!(
        "the VM's port lets {addresses} addresses out and no more, so the warm pool gets no further ports"
    );
    let details = "raise `max_allowed_address_pair` in neutron.conf, or let `ranges` out instead of addresses";
    CniError::new(ErrorCode::Refused, message, details)
}

/// Whether the pool lacks something, by its files.
fn needs_more(node_state: &NodeState, daemon_config: &DaemonConfig) -> Result<bool, CniError> {
    let Some(size) = daemon_config.pool else {
        return Ok(false);
    };
    if !node_state.pool().is_there() {
        return Ok(true);
    }
    let ports = node_state.pool().ports()?;
    Ok(ports.free.len() < size.free || !ports.going.is_empty())
}

/// Devices of interfaces whose addresses the files do not tell, where each must be let out: those
/// with ports of their own. What has none by now will hardly get one.
fn needing_pairs(
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
    let young = node_state
        .attachment_records()
        .all()
        .into_iter()
        .filter(|(_, age)| *age < FOR_AN_ADD)
        .map(|(attachment, _)| attachment);
    Ok(young
        .filter(|attachment| !held.contains_key(attachment))
        .map(|attachment| attachment.to_string())
        .collect())
}

/// One look at Neutron.
pub(super) struct Look<'l> {
    pub(super) node_state: &'l NodeState,
    daemon_config: DaemonConfig,
    request: AttachmentRequest,
    name: String,
    pub(super) neutron: HttpNeutron,
    last: HttpNeutron,
    /// Until when Neutron is asked.
    pub(super) until: Instant,
}

impl<'l> Look<'l> {
    fn begin(
        settings: &Settings,
        node_state: &'l NodeState,
        daemon_config: DaemonConfig,
    ) -> Result<Look<'l>, CniError> {
        // What a Pod asks for it asks for itself.
        let request = settings.request(&CniArguments::default())?;
        let now = Instant::now();
        let until = now + settings.deadline - FOR_TAKING_BACK;
        let neutron = HttpNeutron::new(
            cloud(&settings.source)?,
            Keeping::In(node_state.state().to_owned()),
            until,
        )?;
        let last = neutron.until(now + settings.deadline);
        Ok(Look {
            node_state,
            daemon_config,
            request,
            name: node_state.port_name(),
            neutron,
            last,
            until,
        })
    }

    fn done(
        &self,
        memory: &mut Memory,
        arguments: &Arguments,
        began: Instant,
    ) -> Result<(), CniError> {
        let _lock = self
            .node_state
            .lock_daemon(Instant::now() + FOR_THE_OTHER)?;
        let pool = self.node_state.pool();
        self.node_state.attachment_records().clean();
        if self.daemon_config.pool.is_some() {
            self.node_state.keeps_its_name()?;
            pool.lay_out()?;
        }
        // The files first: whatever is in them then was at Neutron before.
        let ports = pool.ports()?;
        let at_neutron = self.at_neutron()?;
        memory.known = at_neutron
            .iter()
            .map(|port| port.device_id.clone())
            .collect();
        let needs = upkeep(
            &ports,
            &at_neutron,
            &self.name,
            &self.request,
            self.daemon_config.pool,
        );
        self.tell_lost(memory, &needs);
        needs
            .forget
            .iter()
            .chain(&needs.give_back)
            .try_for_each(|id| pool.retire(id))?;
        pool.settle()?;
        for id in &needs.forget {
            say(
                &self.name,
                &format!("port {id} of the warm pool is gone: somebody deleted it"),
            );
            pool.forget(id);
        }
        if pool.is_there() {
            pool.confirm()?;
        }
        let going: BTreeSet<Id> = pool
            .ports()?
            .going
            .into_iter()
            .map(|pooled| pooled.port.id)
            .collect();
        let mut addresses = addresses_of(&at_neutron, &going);
        let pairs = self.keep_pairs(&addresses);
        // What fails keeps nothing else from being done, but for new ports that nothing would be
        // let out for.
        let outcomes = [
            self.take_back_unfinished(&needs.unknown),
            self.delete_going(),
            garbage::collect(self, &needs.unknown, &at_neutron, memory, arguments, began),
            match &pairs {
                Ok(pairs) => self.fill(&needs, &ports, pairs.as_ref(), &mut addresses, memory),
                Err(_) => Ok(()),
            },
        ];
        pairs.map(drop)?;
        outcomes.into_iter().collect()
    }

    fn keep_pairs(&self, addresses: &BTreeSet<IpAddr>) -> Result<Option<PairsKeeper>, CniError> {
        let pairs = PairsKeeper::of(&self.daemon_config, self.node_state, &self.neutron)?;
        if let Some(pairs) = &pairs {
            pairs.keep(&self.neutron, addresses)?;
        }
        Ok(pairs)
    }

    /// The ports of this network on this node, letter by letter.
    pub(super) fn at_neutron(&self) -> Result<Vec<Port>, NeutronError> {
        let filter = PortFilter {
            name: Some(&self.name),
            ..PortFilter::default()
        };
        let mut ports = self.neutron.ports(&filter)?;
        let owners = [Owner::Pod, Owner::Pool].map(Owner::as_str);
        ports.retain(|port| port.name == self.name && owners.contains(&port.device_owner.as_str()));
        Ok(ports)
    }

    /// A port that somebody has, and that is gone, is an address that Neutron may give to somebody
    /// else.
    fn tell_lost(&self, memory: &mut Memory, needs: &Upkeep) {
        for (attachment, id) in needs
            .lost
            .iter()
            .filter(|(attachment, _)| !memory.lost.contains_key(*attachment))
        {
            let what = format!(
                "port {id} of {attachment} is gone: somebody deleted it. Delete the Pod, as its address may be given again"
            );
            say(&self.name, &what);
        }
        memory.lost.clone_from(&needs.lost);
    }

    /// Ports that a daemon made that was killed before it could write them down: nobody can have
    /// taken them. What it asked for may come late.
    fn take_back_unfinished(&self, unknown: &[Port]) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        for (node_state, age) in pool.intended()? {
            match unknown.iter().find(|port| port.device_id == node_state) {
                Some(port) => self.neutron.delete_port(&port.id)?,
                None if age < LATE => continue,
                None => {}
            }
            pool.fulfil(&node_state);
        }
        Ok(())
    }

    fn delete_going(&self) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        for PooledPort { port, .. } in pool.ports()?.going {
            self.neutron.delete_port(&port.id)?;
            pool.forget(&port.id);
        }
        Ok(())
    }

    /// Makes what lacks. What is known of its subnets is kept first, and its address let out, so
    /// that whoever takes it has all that is needed.
    fn fill(
        &self,
        needs: &Upkeep,
        ports: &PoolPorts,
        pairs: Option<&PairsKeeper>,
        addresses: &mut BTreeSet<IpAddr>,
        memory: &mut Memory,
    ) -> Result<(), CniError> {
        let mut made: Vec<PooledPort> = ports.all().cloned().collect();
        self.keep_facts(&made)?;
        let mut count = 0;
        // The next look goes on; what is begun is ended.
        let mut outcome = Ok(());
        while outcome.is_ok() && count < needs.make && Instant::now() + FOR_A_PORT < self.until {
            outcome = match memory.full.filter(|full| self.is_full(*full, addresses)) {
                Some(_) => Err(no_room(addresses.len())),
                None => self.make(&mut made, pairs, addresses, memory),
            };
            count += usize::from(outcome.is_ok());
        }
        if count > 0 {
            let ports = if count == 1 { "port" } else { "ports" };
            say(
                &self.name,
                &format!("{count} {ports} more in the warm pool"),
            );
        }
        outcome
    }

    /// Whether one address more would be too many, as far as it was seen lately and is asked for at
    /// all.
    fn is_full(&self, full: Full, addresses: &BTreeSet<IpAddr>) -> bool {
        let lets_addresses_out = self
            .daemon_config
            .pairs
            .as_ref()
            .is_some_and(|pairs| pairs.ranges.is_none());
        lets_addresses_out && addresses.len() + 1 >= full.addresses && full.at.elapsed() < LATE
    }

    fn make(
        &self,
        made: &mut Vec<PooledPort>,
        pairs: Option<&PairsKeeper>,
        addresses: &mut BTreeSet<IpAddr>,
        memory: &mut Memory,
    ) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        let identity = Identity::in_pool(&self.name, fastrand::u64(..));
        let node_state = &identity.device;
        pool.intend(node_state)?;
        let added = add(
            &self.neutron,
            &self.last,
            &self.request,
            &identity,
            &RunId::new(fastrand::u64(..)),
        );
        let Added { port, left, .. } =
            added.inspect_err(|not| self.unmade(node_state, not.left))?;
        let own: Vec<IpAddr> = port
            .fixed_ips
            .iter()
            .map(|fixed| fixed.ip_address)
            .collect();
        addresses.extend(&own);
        let pooled = PooledPort {
            port,
            made_for: MadeFor::of(&self.request),
        };
        made.push(pooled.clone());
        let is_out = self.keep_facts(made).and_then(|()| {
            let Some(Err(not)) = pairs.map(|pairs| pairs.keep(&self.neutron, addresses)) else {
                return Ok(());
            };
            let is_full = matches!(not, NotLetOut::Full(_));
            memory.full = is_full.then(|| Full {
                at: Instant::now(),
                addresses: addresses.len(),
            });
            Err(not.into())
        });
        let kept = is_out.and_then(|()| {
            pool.made(node_state, &pooled)?;
            pool.put(node_state, &pooled.port.id)
        });
        kept.inspect_err(|_| {
            made.pop();
            addresses.retain(|address| !own.contains(address));
            // If this fails, the next look does it.
            if delete(&self.last, &identity).is_ok() {
                self.unmade(node_state, left);
            }
        })
    }

    /// A port that is not there, and will not be. One that may come late is looked for.
    fn unmade(&self, node_state: &str, left: Left) {
        match left {
            Left::Nothing => self.node_state.pool().fulfil(node_state),
            Left::Perhaps => {}
        }
    }

    fn keep_facts(&self, ports: &[PooledPort]) -> Result<(), CniError> {
        let pool = self.node_state.pool();
        let facts = KeptFacts::learn(&self.neutron, ports)?;
        if !ports.is_empty() && facts != pool.facts() {
            pool.keep_facts(&facts)
        } else {
            Ok(())
        }
    }
}
