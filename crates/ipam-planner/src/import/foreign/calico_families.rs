//! Pools of Calico as pools of nodes: Calico's pools have one family each, and a pool of ours gives
//! a node blocks of all its families.

use super::calico_pool::{CalicoPool, Choice};
use super::remark::{Remark, RemarkName};
use super::{ForeignPool, listed};
use ipam_core::model::{PerFamily, Selector};
use ipam_core::net::{Block, BlockSize, Family};
use ipam_desired::PoolState;

/// Default of the kubelet's `maxPods`.
const DEFAULT_MAX_PODS: u128 = 110;

/// The pools, sorted by name. `pools` are sorted by name and do not overlap.
pub(super) fn joined(pools: Vec<CalicoPool>) -> Vec<ForeignPool> {
    let has_both = Family::BOTH
        .iter()
        .all(|family| pools.iter().any(|pool| pool.cidr.family() == *family));
    let mut joined: Vec<ForeignPool> = Vec::new();
    let mut choices: Vec<Choice> = Vec::new();
    let mut rest = pools;
    while !rest.is_empty() {
        let first = rest.remove(0);
        let of_other_family = rest.iter().find(|other| {
            has_same_nodes(&first, other) && other.cidr.family() != first.cidr.family()
        });
        let same = match of_other_family.map(|other| other.size) {
            Some(size) => rest
                .extract_if(.., |other| {
                    has_same_nodes(&first, other) && [first.size, size].contains(&other.size)
                })
                .collect(),
            None => Vec::new(),
        };
        choices.push(first.choice);
        joined.push(of_all(first, same, has_both));
    }
    give_priorities(&mut joined, &choices);
    joined.sort_by(|one, two| one.name.cmp(&two.name));
    joined
}

fn has_same_nodes(one: &CalicoPool, two: &CalicoPool) -> bool {
    (&one.selector, one.choice, one.state) == (&two.selector, two.choice, two.state)
        && one.choice == Choice::BySelector
}

/// A pool of pools with the same nodes. Those of one family have one size.
fn of_all(first: CalicoPool, others: Vec<CalicoPool>, has_both: bool) -> ForeignPool {
    let mut pool = ForeignPool {
        name: first.name,
        cidrs: vec![first.cidr],
        block_size: PerFamily::NONE,
        selector: first.selector,
        priority: 0,
        reserved: Vec::new(),
        state: first.state,
        remarks: first.remarks,
    };
    *pool.block_size.get_mut(first.cidr.family()) = Some(first.size);
    for other in others {
        *pool.block_size.get_mut(other.cidr.family()) = Some(other.size);
        pool.cidrs.push(other.cidr);
        pool.remarks.extend(other.remarks);
        pool.remarks.push(Remark::inferred(
            RemarkName::FamiliesJoined,
            format!("IPPool {}", other.name),
            format!(
                "it selects the same nodes as `{}`: a node gets blocks of both families from one pool, so {} is in pool `{}`",
                pool.name, other.cidr, pool.name
            ),
        ));
    }
    pool.remarks.extend(small_blocks(&pool));
    if has_both && let [only] = *pool.block_size.families().collect::<Vec<_>>() {
        pool.remarks.push(Remark::to_do(
            RemarkName::FamilyAlone,
            format!("IPPool {}", pool.name),
            format!(
                "it has {only} only, and no pool of the other family selects the same nodes: nodes that need both families do not use it until it has CIDRs of both"
            ),
        ));
    }
    pool
}

/// Calico gives a node another block when one is full, and Cilium does not.
fn small_blocks(pool: &ForeignPool) -> Option<Remark> {
    let host_bits = |size: &BlockSize| u32::from(size.family().bits() - size.prefix_len());
    let smallest = pool.block_size.iter().min_by_key(|size| host_bits(size))?;
    // Cilium needs some addresses itself, such as those of its router and its health check.
    let addresses = 1_u128.checked_shl(host_bits(smallest))?;
    (addresses < DEFAULT_MAX_PODS).then(|| {
        Remark::to_do(
            RemarkName::SmallBlocks,
            format!("IPPool {}", pool.name),
            format!(
                "in ipam `kubernetes` and `cluster-pool`, a node of Cilium has one block per family: {addresses} addresses for all its Pods, and the kubelet allows {DEFAULT_MAX_PODS} by default. Lower `maxPods`, or move nodes to a pool with wider blocks later"
            ),
        )
    })
}

/// Calico tries pools in the order of their names. We try the pool with most requirements first, so
/// pools with common nodes get priorities.
fn give_priorities(pools: &mut [ForeignPool], choices: &[Choice]) {
    let is_ordered = |pool: &ForeignPool, choice: &Choice| {
        *choice == Choice::BySelector && pool.state == PoolState::Active
    };
    let places: Vec<usize> = (0..pools.len())
        .filter(|place| is_ordered(&pools[*place], &choices[*place]))
        .collect();
    let has_common_nodes = places.iter().enumerate().any(|(index, one)| {
        let mut later = places[index + 1..].iter();
        later.any(|two| have_common_nodes(&pools[*one].selector, &pools[*two].selector))
    });
    let mut highest = 0;
    if has_common_nodes {
        let names = listed(places.iter().map(|place| &pools[*place].name));
        for place in places.iter().rev() {
            highest += 1;
            let pool = &mut pools[*place];
            pool.priority = highest;
            pool.remarks.push(Remark::inferred(
                RemarkName::PoolOrder,
                format!("IPPool {}", pool.name),
                format!("Calico uses pools in the order of their names, and the priorities keep it: {names}"),
            ));
        }
    }
    // A pool that gives nothing is passed over. Before the others, it does not count as a pool that
    // its nodes should leave.
    for place in (0..pools.len()).rev() {
        if !places.contains(&place) {
            highest += 1;
            pools[place].priority = highest;
        }
    }
}

pub(super) fn have_common_nodes(one: &Selector, two: &Selector) -> bool {
    let requirements = one.requirements().chain(two.requirements()).cloned();
    Selector::all_of(requirements).contradiction().is_none()
}

/// The pool that has a block, by place.
pub(super) fn pool_of(pools: &[ForeignPool], block: Block) -> Option<usize> {
    pools
        .iter()
        .position(|pool| pool.cidrs.iter().any(|cidr| cidr.contains(block)))
}
