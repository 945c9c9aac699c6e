//! New nodes where another allocator gives them their blocks: the room in its ranges.
//!
//! It must never know the files.

use super::world::World;
use super::{First, Left, Simulation};
use crate::capacity::{Supplier, Supply, supplies, usable_addresses};
use crate::growth::Growth;
use ipam_cilium::observed::{ModeSeen, Node, Observed, setting_key};
use ipam_core::model::IpamMode;

/// Addresses of each family that an agent takes for itself: its router and its health check.
const OF_AGENT: u64 = 2;

/// What an agent keeps ready of its default pool without a setting (`pkg/option/config.go` @ 1.20).
const USUAL_PRE_ALLOCATION: u64 = 8;

/// Whether a node gets blocks of one family if another family is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Families {
    AllOrNone,
    EachAlone,
}

/// What is left of a supply.
struct Room<'o> {
    supply: Supply<'o>,
    free: u128,
    total: u128,
    /// Blocks that new nodes ask for.
    asked: u128,
}

pub(super) fn by_supplies(world: &World, pods: Option<u64>) -> Simulation {
    let mut simulation = world.empty();
    let mut rooms = Vec::new();
    for supply in supplies(&world.observed) {
        match supply {
            Ok(supply) => rooms.push(Room::new(supply)),
            Err(unknown) => simulation.unknown.push(unknown),
        }
    }
    let mode = world.observed.cilium.mode();
    let is_multi_pool = mode == ModeSeen::Known(IpamMode::MultiPool);
    if !simulation.unknown.is_empty() || (rooms.is_empty() && !is_multi_pool) {
        return simulation;
    }
    for (at, (group, name)) in world.added.iter().enumerate() {
        let Some(node) = world.observed.nodes.get(name) else {
            continue;
        };
        let given = match is_multi_pool {
            true => from_pod_pool(&world.observed, node, pods, &mut rooms),
            false => from_all(&mut rooms),
        };
        let outcome = &mut simulation.groups[*group];
        match given {
            Ok(of) => *outcome.given.entry(of).or_default() += 1,
            Err(why) => {
                *outcome.without.entry(why.clone()).or_default() += 1;
                let (number, group) = (at + 1, *group);
                let first = First { number, group, why };
                simulation.first_without.get_or_insert(first);
            }
        }
    }
    for room in &rooms {
        simulation.left.push(room.left());
        simulation.needs.extend(room.need(&world.observed));
    }
    simulation
}

/// A block of each supply. The operator of `cluster-pool` and kube-controller-manager give a node
/// blocks of all families, or none.
fn from_all(rooms: &mut [Room<'_>]) -> Result<Supplier, String> {
    let wanted: Vec<(usize, u128)> = (0..rooms.len()).map(|index| (index, 1)).collect();
    take(rooms, &wanted, Families::AllOrNone)
}

/// The blocks for which an agent asks that starts on the node, and for these Pods.
fn from_pod_pool(
    observed: &Observed,
    node: &Node,
    pods: Option<u64>,
    rooms: &mut [Room<'_>],
) -> Result<Supplier, String> {
    let name = observed.default_pool(node);
    let addresses = needed(
        OF_AGENT.saturating_add(pods.unwrap_or(0)),
        pre_allocation(observed, node, name)?,
    );
    let mut wanted = Vec::new();
    for (index, room) in rooms.iter().enumerate() {
        if room.supply.of == Supplier::PodPool(name.to_owned()) {
            let block = usable_addresses(room.supply.size);
            wanted.push((index, u128::from(addresses).div_ceil(block)));
        }
    }
    match wanted.is_empty() {
        true => Err(format!(
            "its default CiliumPodIPPool `{}` does not exist",
            name.escape_debug()
        )),
        false => take(rooms, &wanted, Families::EachAlone),
    }
}

/// Takes blocks of these rooms.
fn take(
    rooms: &mut [Room<'_>],
    wanted: &[(usize, u128)],
    families: Families,
) -> Result<Supplier, String> {
    for (index, blocks) in wanted {
        rooms[*index].asked += blocks;
    }
    let lacks = |(index, blocks): &&(usize, u128)| rooms[*index].free < *blocks;
    let short = wanted.iter().find(lacks).map(|(index, blocks)| {
        let supply = &rooms[*index].supply;
        let (of, family) = (&supply.of, supply.family());
        match blocks {
            1 => format!("{of} has no free {family} block"),
            _ => format!("{of} has less than the {blocks} {family} blocks that its agent asks for"),
        }
    });
    if short.is_none() || families == Families::EachAlone {
        for (index, blocks) in wanted {
            let free = &mut rooms[*index].free;
            *free = free.saturating_sub(*blocks);
        }
    }
    match (short, wanted.first()) {
        (Some(short), _) => Err(short),
        (None, Some((index, _))) => Ok(rooms[*index].supply.of.clone()),
        (None, None) => Err("no allocator is known for this node".to_owned()),
    }
}

impl<'o> Room<'o> {
    fn new(supply: Supply<'o>) -> Room<'o> {
        let counts = supply.counts();
        Room {
            free: counts.free,
            total: counts.total,
            supply,
            asked: 0,
        }
    }

    fn left(&self) -> Left {
        Left {
            of: self.supply.of.clone(),
            family: self.supply.family(),
            free: self.free,
            total: self.total,
        }
    }

    /// What to do if new nodes ask for more than was free.
    fn need(&self, observed: &Observed) -> Option<String> {
        let lacking = self.asked.checked_sub(self.supply.counts().free)?;
        let lacking = usize::try_from(lacking)
            .ok()
            .filter(|lacking| *lacking > 0)?;
        let growth = Growth::of_cluster(observed);
        let Supply { ranges, size, .. } = &self.supply;
        match &self.supply.of {
            Supplier::ClusterPool => Some(growth.advice_for_operator(size.family(), lacking)),
            Supplier::PodPool(name) => {
                Some(growth.advice_for_pod_pool(name, ranges, *size, lacking))
            }
            _ => None,
        }
    }
}

/// The addresses for which an agent asks while this many are in use (`neededIPCeil` of
/// `pkg/ipam/multipool.go` @ 1.19).
fn needed(in_use: u64, pre_allocation: u64) -> u64 {
    match pre_allocation {
        0 => in_use,
        step => in_use.div_ceil(step).saturating_add(1).saturating_mul(step),
    }
}

/// What the agent keeps ready of a pool.
fn pre_allocation(observed: &Observed, node: &Node, pool: &str) -> Result<u64, String> {
    let setting = observed.setting(&node.labels, setting_key::POD_POOL_PRE_ALLOCATION);
    let Some(setting) = setting.filter(|setting| !setting.value.is_empty()) else {
        return Ok(USUAL_PRE_ALLOCATION);
    };
    let entries = setting
        .value
        .split(',')
        .filter_map(|entry| entry.split_once('='));
    let entry = entries.rev().find(|(name, _)| name.trim() == pool);
    match entry {
        None => Ok(0),
        Some((_, number)) => number.trim().parse().map_err(|_| {
            let key = setting_key::POD_POOL_PRE_ALLOCATION;
            format!("`{key}` cannot be parsed; expected `POOL=NUMBER`")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_keeps_addresses_ready() {
        // The cases of `Test_neededIPCeil` in Cilium 1.19.
        for (in_use, pre_allocation, expected) in [
            (0, 16, 16),
            (1, 16, 32),
            (15, 16, 32),
            (16, 16, 32),
            (17, 16, 48),
            (0, 0, 0),
            (5, 0, 5),
            (2, 8, 16),
            (112, 8, 120),
        ] {
            assert_eq!(needed(in_use, pre_allocation), expected, "{in_use}");
        }
    }
}
