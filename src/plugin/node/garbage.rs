//! Ports of this node that nobody has any more. Runtimes hardly ask for it (containerd never does), and some main plugins keep a DEL to
//! themselves.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::evidence::{beginnings, remembered};
use super::network::Look;
use super::say;
use crate::neutron::cni::{Attachment, CniError};
use crate::neutron::{Beginnings, Id, Life, Neutron, Owner, Port, Remembered, Suspects};

/// How long whoever adds or deletes is waited for. Who comes too often is not kept waiting: it is tried again.
const FOR_LOCK: Duration = Duration::from_secs(2);

/// What the node knows at a moment.
struct Known {
    remembered: Remembered,
    beginnings: Beginnings,
}

impl Known {
    fn of(look: &Look<'_>, arguments: &Arguments) -> Option<Known> {
        let remembered = remembered(&arguments.results)?;
        Some(Known { remembered, beginnings: beginnings(&look.place.node_file())? })
    }
}

/// Something that looks abandoned.
enum Abandoned {
    /// A port at Neutron.
    Port(Port),
    /// An interface that has a port of the pool.
    Holder(Attachment, Id),
}

impl Abandoned {
    fn id(&self) -> &Id {
        match self {
            Abandoned::Port(port) => &port.id,
            Abandoned::Holder(_, id) => id,
        }
    }
}

/// Deletes what has looked abandoned for long, and still does while nobody can add or delete.
pub(super) fn collect(
    look: &Look<'_>,
    unknown: &[Port],
    at_neutron: &[Port],
    suspects: &mut Suspects,
    arguments: &Arguments,
    began: Instant,
) -> Result<(), CniError> {
    let unknown: BTreeSet<&Id> = unknown.iter().map(|port| &port.id).collect();
    let look_again = || abandoned(look, &unknown, at_neutron, arguments);
    let seen = look_again()?;
    let ripe = suspects.ripe(seen.iter().map(|one| one.id().clone()), began.elapsed(), arguments.grace);
    if ripe.is_empty() {
        return Ok(());
    }
    let Ok(_lock) = look.place.lock_all(look.until.min(Instant::now() + FOR_LOCK)) else { return Ok(()) };
    for one in look_again()?.into_iter().filter(|one| ripe.contains(one.id())) {
        remove(look, &one)?;
    }
    Ok(())
}

/// All that looks so now. What Neutron said a moment ago will do: no port gets another user.
fn abandoned(
    look: &Look<'_>,
    unknown: &BTreeSet<&Id>,
    at_neutron: &[Port],
    arguments: &Arguments,
) -> Result<Vec<Abandoned>, CniError> {
    // Without evidence nothing is known to be over.
    let Some(Known { remembered, beginnings }) = Known::of(look, arguments) else { return Ok(Vec::new()) };
    let traces = look.place.traces();
    let by_device = |device: &str| {
        let (container, interface) = device.split_once('/')?;
        traces.read(&Attachment { container: container.parse().ok()?, interface: interface.parse().ok()? })
    };
    let in_files = look.place.pool().ports()?;
    let is_known = |port: &Port| in_files.all().any(|pooled| pooled.port.id == port.id);
    let is_over = |port: &&Port| {
        let life = if port.device_owner == Owner::Pod.as_str() {
            remembered.life_of_port(port, by_device(&port.device_id), &beginnings)
        } else if unknown.contains(&port.id) && !is_known(port) {
            remembered.life_behind_unknown(port, &beginnings)
        } else {
            Life::Possible
        };
        life == Life::Over
    };
    let ports = at_neutron.iter().filter(is_over).map(|port| Abandoned::Port(port.clone()));
    let holders = in_files
        .held
        .iter()
        .filter(|(holder, _)| remembered.life_of_holder(holder, traces.read(holder), &beginnings) == Life::Over);
    Ok(ports.chain(holders.map(|(holder, pooled)| Abandoned::Holder(holder.clone(), pooled.port.id.clone()))).collect())
}

fn remove(look: &Look<'_>, abandoned: &Abandoned) -> Result<(), CniError> {
    let name = look.place.port_name();
    match abandoned {
        Abandoned::Port(port) => {
            look.neutron.delete_port(&port.id)?;
            say(&name, &format!("deleted port {} of {}, which is no more", port.id, port.device_id));
        }
        Abandoned::Holder(holder, id) => {
            let pool = look.place.pool();
            if let Some(pooled) = pool.held(holder)? {
                pool.release(holder, &pooled)?;
            }
            look.place.traces().take_away(holder);
            say(&name, &format!("port {id} is free again: {holder} is no more"));
        }
    }
    Ok(())
}
