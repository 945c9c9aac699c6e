//! What must hold on the node, whatever struck.

use std::collections::BTreeSet;
use std::net::IpAddr;

use neutron_cni::state::NodeState;

use super::neutron::addresses;
use super::world::{FREE, World};

impl World {
    /// Each interface has its own port at Neutron.
    pub(super) fn check_living(&self) -> Result<(), String> {
        let ports = &self.neutron.ports.borrow().all;
        for (attachment, given) in &self.living {
            let is_there = ports
                .iter()
                .any(|port| addresses(port).collect::<BTreeSet<_>>() == *given);
            if !is_there {
                return Err(format!("{attachment} uses {given:?}, which has no port"));
            }
        }
        Ok(())
    }

    /// Each port is an interface's or free, and no file tells of another one.
    pub(super) fn check_lost(&self) -> Result<(), String> {
        let node_state = NodeState::of(&self.settings()).map_err(|why| format!("{why:?}"))?;
        let pool = node_state.pool();
        let files = pool.ports().map_err(|why| format!("{why:?}"))?;
        let used: BTreeSet<IpAddr> = self.living.values().flatten().copied().collect();
        for port in &self.neutron.ports.borrow().all {
            let is_free = files.free.iter().any(|pooled| pooled.port.id == port.id);
            let is_used = addresses(port).all(|address| used.contains(&address));
            match (is_free, is_used) {
                (false, false) => return Err(format!("lost: {port:?}")),
                (true, true) => return Err(format!("free and used: {port:?}")),
                _ => {}
            }
        }
        let dead = files
            .held
            .keys()
            .find(|holder| !self.living.contains_key(holder));
        let pending = pool.pending_creates().map_err(|why| format!("{why:?}"))?;
        let is_clean = dead.is_none()
            && files.unreadable.is_empty()
            && files.deleting.is_empty()
            && pending.is_empty()
            && (FREE..=2 * FREE).contains(&files.free.len());
        if is_clean {
            Ok(())
        } else {
            Err(format!("not at rest: {files:?} {pending:?}"))
        }
    }
}
