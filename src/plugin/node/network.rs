//! What is done for one network: its pool is filled, pairs are kept, garbage goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::garbage;
use super::pairs::{PairsKeeper, addresses_of};
use super::say;
use crate::neutron::cni::{Arguments as CniArguments, Attachment, CniError};
use crate::neutron::{
    Chores, Id, Identity, KeptFacts, MadeFor, Neutron, NeutronError, Owner, PoolPorts, PooledPort, Port, PortFilter,
    RunId, Settings, Suspects, Upkeep, Wish, add, delete, upkeep,
};
use crate::plugin::http::HttpNeutron;
use crate::plugin::login::Keeping;
use crate::plugin::place::Place;
use crate::plugin::{FOR_TAKING_BACK, cloud};

/// So long another daemon is waited for: where there are two, one does the work.
const FOR_THE_OTHER: Duration = Duration::from_secs(1);

/// What Neutron was asked for so long ago it does not do any more.
const LATE: Duration = Duration::from_mins(10);

/// What is remembered of a network between rounds. Without it, all is only done a little later.
#[derive(Default)]
pub(super) struct Memory {
    /// When Neutron was asked last, and how it went.
    looked: Option<(Instant, Went)>,
    /// Interfaces with ports of their own that the last look knew.
    known: BTreeSet<Attachment>,
    suspects: Suspects,
    /// Ports in use that somebody deleted, which is said once.
    lost: BTreeMap<Attachment, Id>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Went {
    Well,
    Badly,
}

impl Memory {
    /// Looks at the files, and at Neutron where they ask for it or where it was long ago.
    pub(super) fn keep(&mut self, settings: &Settings, arguments: &Arguments, began: Instant) -> Result<(), CniError> {
        let place = Place::of(settings)?;
        let chores = settings.chores()?;
        // Nothing was made for this network yet, and nothing is to be made.
        if chores == Chores::default() && !place.node_file().exists() {
            return Ok(());
        }
        let own = needing_pairs(&place, &chores)?;
        let is_pressing = self.goes_well() && (needs_more(&place, &chores)? || !own.is_subset(&self.known));
        if !is_pressing && !self.is_due(arguments.look) {
            return Ok(());
        }
        let outcome = Look::begin(settings, &place, chores).and_then(|look| look.done(self, arguments, began));
        self.known = own;
        self.looked(&outcome);
        outcome
    }

    /// Whether it is time to ask again.
    pub(super) fn is_due(&self, look: Duration) -> bool {
        self.looked.is_none_or(|(at, _)| at.elapsed() >= look)
    }

    /// Remembers that it was asked.
    pub(super) fn looked<E>(&mut self, outcome: &Result<(), E>) {
        self.looked = Some((Instant::now(), if outcome.is_ok() { Went::Well } else { Went::Badly }));
    }

    /// What goes wrong is not tried all the time.
    fn goes_well(&self) -> bool {
        self.looked.is_none_or(|(_, went)| went == Went::Well)
    }
}

/// Whether the pool lacks something, by its files.
fn needs_more(place: &Place, chores: &Chores) -> Result<bool, CniError> {
    let Some(size) = chores.pool else { return Ok(false) };
    if !place.pool().is_there() {
        return Ok(true);
    }
    let ports = place.pool().ports()?;
    Ok(ports.free.len() < size.free || !ports.going.is_empty())
}

/// Interfaces whose addresses the files do not tell, where each must be let out: those with ports of their own.
fn needing_pairs(place: &Place, chores: &Chores) -> Result<BTreeSet<Attachment>, CniError> {
    if chores.pairs.as_ref().is_none_or(|pairs| pairs.ranges.is_some()) {
        return Ok(BTreeSet::new());
    }
    let mut own: BTreeSet<Attachment> = place.traces().attachments().into_iter().collect();
    let held = place.pool().ports()?.held;
    own.retain(|attachment| !held.contains_key(attachment));
    Ok(own)
}

/// One look at Neutron.
pub(super) struct Look<'l> {
    pub(super) place: &'l Place,
    chores: Chores,
    wish: Wish,
    name: String,
    pub(super) neutron: HttpNeutron,
    last: HttpNeutron,
    /// Until when Neutron is asked.
    pub(super) until: Instant,
}

impl<'l> Look<'l> {
    fn begin(settings: &Settings, place: &'l Place, chores: Chores) -> Result<Look<'l>, CniError> {
        // What a Pod asks for it asks for itself.
        let wish = settings.wish(&CniArguments::default())?;
        let now = Instant::now();
        let until = now + settings.deadline - FOR_TAKING_BACK;
        let neutron = HttpNeutron::new(cloud(&settings.source)?, Keeping::In(place.state().to_owned()), until)?;
        let last = neutron.until(now + settings.deadline);
        Ok(Look { place, chores, wish, name: place.port_name(), neutron, last, until })
    }

    fn done(&self, memory: &mut Memory, arguments: &Arguments, began: Instant) -> Result<(), CniError> {
        let _lock = self.place.lock_daemon(Instant::now() + FOR_THE_OTHER)?;
        let pool = self.place.pool();
        if self.chores.pool.is_some() {
            self.place.keeps_its_name()?;
            pool.lay_out()?;
        }
        // The files first: whatever is in them then was at Neutron before.
        let ports = pool.ports()?;
        let at_neutron = self.at_neutron()?;
        let needs = upkeep(&ports, &at_neutron, &self.name, &self.wish, self.chores.pool);
        self.tell_lost(memory, &needs);
        for id in &needs.forget {
            say(&self.name, &format!("port {id} of the warm pool is gone: somebody deleted it"));
            pool.retire(id)?;
            pool.forget(id);
        }
        needs.give_back.iter().try_for_each(|id| pool.retire(id))?;
        self.take_back_unfinished(&needs.unknown)?;
        let mut addresses = addresses_of(&at_neutron, &going(&ports, &needs));
        let pairs = PairsKeeper::of(&self.chores, self.place, &self.neutron)?;
        // What fails keeps nothing else from being done.
        let outcomes = [
            pairs.as_ref().map_or(Ok(()), |pairs| pairs.keep(&self.neutron, &addresses)),
            self.delete_going(),
            garbage::collect(self, &needs.unknown, &at_neutron, &mut memory.suspects, arguments, began),
            self.fill(&needs, &ports, pairs.as_ref(), &mut addresses),
        ];
        outcomes.into_iter().collect()
    }

    /// The ports of this network on this node, letter by letter.
    pub(super) fn at_neutron(&self) -> Result<Vec<Port>, NeutronError> {
        let filter = PortFilter { name: Some(&self.name), ..PortFilter::default() };
        let mut ports = self.neutron.ports(&filter)?;
        let owners = [Owner::Pod, Owner::Pool].map(Owner::as_str);
        ports.retain(|port| port.name == self.name && owners.contains(&port.device_owner.as_str()));
        Ok(ports)
    }

    /// A port that somebody has, and that is gone, is an address that Neutron may give to somebody else.
    fn tell_lost(&self, memory: &mut Memory, needs: &Upkeep) {
        for (attachment, id) in needs.lost.iter().filter(|(attachment, _)| !memory.lost.contains_key(*attachment)) {
            let what = format!(
                "port {id} of {attachment} is gone: somebody deleted it. Delete the Pod, as its address may be given again"
            );
            say(&self.name, &what);
        }
        memory.lost.clone_from(&needs.lost);
    }

    /// Ports that a daemon made that was killed before it could write them down: nobody can have taken them. What it asked for may come late.
    fn take_back_unfinished(&self, unknown: &[Port]) -> Result<(), CniError> {
        let pool = self.place.pool();
        for (place, age) in pool.intended()? {
            match unknown.iter().find(|port| port.device_id == place) {
                Some(port) => self.neutron.delete_port(&port.id)?,
                None if age < LATE => continue,
                None => {}
            }
            pool.fulfil(&place);
        }
        Ok(())
    }

    fn delete_going(&self) -> Result<(), CniError> {
        let pool = self.place.pool();
        for PooledPort { port, .. } in pool.ports()?.going {
            self.neutron.delete_port(&port.id)?;
            pool.forget(&port.id);
        }
        Ok(())
    }

    /// Makes what lacks. What is known of its subnets is kept first, and its address let out, so that whoever takes it has all that is needed.
    fn fill(
        &self,
        needs: &Upkeep,
        ports: &PoolPorts,
        pairs: Option<&PairsKeeper>,
        addresses: &mut BTreeSet<IpAddr>,
    ) -> Result<(), CniError> {
        let pool = self.place.pool();
        let mut made: Vec<PooledPort> = ports.all().cloned().collect();
        self.keep_facts(&made)?;
        for _ in 0..needs.make {
            let identity = Identity::in_pool(&self.name, fastrand::u64(..));
            pool.intend(&identity.device)?;
            let port = add(&self.neutron, &self.last, &self.wish, &identity, &RunId::new(fastrand::u64(..)))?.port;
            addresses.extend(port.fixed_ips.iter().map(|fixed| fixed.ip_address));
            let pooled = PooledPort { port, made_for: MadeFor::of(&self.wish) };
            made.push(pooled.clone());
            let kept = self.keep_facts(&made).and_then(|()| {
                pairs.map_or(Ok(()), |pairs| pairs.keep(&self.neutron, addresses))?;
                pool.put(&pooled)
            });
            if let Err(fault) = kept {
                // If this fails, the next look does it.
                let _ = delete(&self.last, &identity);
                return Err(fault);
            }
            pool.fulfil(&identity.device);
        }
        if needs.make > 0 {
            say(&self.name, &format!("{} ports more in the warm pool", needs.make));
        }
        Ok(())
    }

    fn keep_facts(&self, ports: &[PooledPort]) -> Result<(), CniError> {
        let pool = self.place.pool();
        let facts = KeptFacts::learn(&self.neutron, ports)?;
        if !ports.is_empty() && facts != pool.facts() { pool.keep_facts(&facts) } else { Ok(()) }
    }
}

/// Nobody gets these any more, so nothing is let out for them.
fn going(ports: &PoolPorts, needs: &Upkeep) -> BTreeSet<Id> {
    let going = ports.going.iter().map(|pooled| pooled.port.id.clone());
    going.chain(needs.give_back.iter().cloned()).collect()
}
