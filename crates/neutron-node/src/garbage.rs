//! Ports of this node that nobody has any more. Runtimes hardly ask for it (containerd never does),
//! and some main plugins keep a DEL to themselves.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::evidence::{epochs, remembered};
use crate::network::{Look, Memory};
use crate::say;
use ipam_core::neutron::Id;
use neutron_cni::cni::{Attachment, CniError};
use neutron_cni::{Epochs, Liveness, Owner, Remembered};
use openstack::{Neutron, Port};

/// How long whoever adds or deletes is waited for. Who comes too often is not kept waiting: it is
/// tried again.
const FOR_LOCK: Duration = Duration::from_secs(2);

/// Ports that are deleted while nobody else may add or delete.
const AT_ONCE: usize = 4;

/// What the node knows at a moment.
struct Known {
    remembered: Remembered,
    epochs: Epochs,
}

impl Known {
    /// What is known, or why too little is.
    fn of(look: &Look<'_>, arguments: &Arguments) -> Result<Known, String> {
        let epochs = epochs(&look.node_state.node_file())
            .ok_or("/proc/stat does not tell when the node booted")?;
        Ok(Known {
            remembered: remembered(&arguments.results)?,
            epochs,
        })
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
    memory: &mut Memory,
    arguments: &Arguments,
    began: Instant,
) -> Result<(), CniError> {
    tell_blind(look, memory, arguments);
    let unknown: BTreeSet<&Id> = unknown.iter().map(|port| &port.id).collect();
    let look_again = || abandoned(look, &unknown, at_neutron, arguments);
    let seen = look_again()?;
    let ripe = memory.garbage_candidates.ripe(
        seen.iter().map(|one| one.id().clone()),
        began.elapsed(),
        arguments.grace,
    );
    if ripe.is_empty() {
        return Ok(());
    }
    let ripe: Vec<Id> = ripe.into_iter().collect();
    for some in ripe.chunks(AT_ONCE) {
        let Ok(_lock) = look
            .node_state
            .lock_all(look.until.min(Instant::now() + FOR_LOCK))
        else {
            return Ok(());
        };
        for one in look_again()?
            .into_iter()
            .filter(|one| some.contains(one.id()))
        {
            remove(look, &one)?;
        }
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
    let Ok(Known { remembered, epochs }) = Known::of(look, arguments) else {
        return Ok(Vec::new());
    };
    let attachment_records = look.node_state.attachment_records();
    let by_device = |device: &str| attachment_records.read(&attachment_of(device)?);
    let in_files = look.node_state.pool().ports()?;
    let is_known = |port: &Port| in_files.all().any(|pooled| pooled.port.id == port.id);
    let is_over = |port: &&Port| {
        let liveness = if port.device_owner == Owner::Pod.as_str() {
            remembered.life_of_port(port, by_device(&port.device_id), &epochs)
        } else if unknown.contains(&port.id) && !is_known(port) {
            remembered.life_behind_unknown(port, &epochs)
        } else {
            Liveness::Possible
        };
        liveness == Liveness::Over
    };
    let ports = at_neutron
        .iter()
        .filter(is_over)
        .map(|port| Abandoned::Port(port.clone()));
    let holders = in_files.held.iter().filter(|(holder, pooled)| {
        remembered.life_of_holder(holder, &pooled.port, attachment_records.read(holder))
            == Liveness::Over
    });
    Ok(ports
        .chain(
            holders
                .map(|(holder, pooled)| Abandoned::Holder(holder.clone(), pooled.port.id.clone())),
        )
        .collect())
}

fn remove(look: &Look<'_>, abandoned: &Abandoned) -> Result<(), CniError> {
    let name = look.node_state.port_name();
    match abandoned {
        Abandoned::Port(port) => {
            look.neutron.delete_port(&port.id)?;
            if let Some(attachment) = attachment_of(&port.device_id) {
                look.node_state.attachment_records().take_away(&attachment);
            }
            say(
                &name,
                &format!(
                    "deleted port {} of {}, which is no more",
                    port.id,
                    port.device_id.escape_debug()
                ),
            );
        }
        Abandoned::Holder(holder, id) => {
            let pool = look.node_state.pool();
            if let Some(pooled) = pool.held(holder)? {
                pool.release(holder, &pooled)?;
            }
            look.node_state.attachment_records().take_away(holder);
            say(
                &name,
                &format!("port {id} is free again: {holder} is no more"),
            );
        }
    }
    Ok(())
}

/// What cannot be known is said once, as nothing is deleted meanwhile.
fn tell_blind(look: &Look<'_>, memory: &mut Memory, arguments: &Arguments) {
    let blind = Known::of(look, arguments).err();
    if let Some(why) = &blind
        && memory.blind != blind
    {
        say(
            &look.node_state.port_name(),
            &format!("no garbage is looked for: {why}"),
        );
    }
    memory.blind = blind;
}

/// Whose a port's `device_id` is.
fn attachment_of(device: &str) -> Option<Attachment> {
    let (container, interface) = device.split_once('/')?;
    Some(Attachment {
        container: container.parse().ok()?,
        interface: interface.parse().ok()?,
    })
}
