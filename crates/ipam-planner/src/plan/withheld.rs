//! Which addresses Nodes and CiliumNodes keep out of the pools, and how much one of them may.
//!
//! A kubelet reports the addresses of its machine, and any Cilium agent can write any CiliumNode.
//! Without a bound, one broken node could fill every pool. What `Node.spec` shows and what agents
//! read is never cut: it is in use.

use std::collections::{BTreeMap, BTreeSet};

use super::drift;
use ipam_cilium::observed::{HoldingField, ModeSeen, Node, Observed, Reading};
use ipam_core::alloc::{PoolId, PoolPart, Supply};
use ipam_core::model::{
    Finding, IpamMode, NodeName, ObjectRef, PoolName, Rule, Severity, grouped_digits,
};
use ipam_core::net::{Block, Range, Slots};

/// Blocks of one pool that the addresses of one machine keep free. Machines have a handful, and
/// seldom in a pool.
const OF_A_MACHINE: u128 = 8;

/// Blocks of one pool that one object keeps free by what no agent reads, or an eighth of the pool
/// where that is more: enough for a block of an earlier, larger size, in which an agent may live
/// still.
const UNREAD: u128 = 16;

/// A node that holds more blocks of one pool than this, and more than a quarter of it, is told.
const HELD: u128 = 64;

/// Addresses that are kept out of the pools.
pub(super) struct Withheld<'o> {
    /// Addresses of machines.
    pub(super) machines: Vec<Range>,
    /// What objects show for nodes.
    pub(super) shown: Vec<(&'o NodeName, Range)>,
    /// Addresses of machines that report so many that some are given to other nodes.
    crowded: BTreeMap<&'o NodeName, Vec<Range>>,
    excess: Vec<Excess>,
}

/// How much of each pool one object may keep.
#[derive(Clone, Copy)]
enum Most {
    /// So many blocks.
    Blocks(u128),
    /// So many blocks, or an eighth of the pool where that is more.
    BlocksOrEighth(u128),
    All,
}

/// An object that shows much of a pool.
struct Excess {
    object: ObjectRef,
    what: &'static str,
    pool: PoolName,
    shows: u128,
    keeps: u128,
    /// The fields that show it, each with its object, a value and its last writer.
    sources: Vec<String>,
}

impl<'o> Withheld<'o> {
    /// Of all Nodes and CiliumNodes, with the supply of all pools.
    pub(super) fn new(observed: &'o Observed, supply: &Supply) -> Withheld<'o> {
        let (machines, shown, crowded, excess) =
            (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        let mut withheld = Withheld {
            machines,
            shown,
            crowded,
            excess,
        };
        for node in observed.nodes.values() {
            let mut budget = Budget::new(supply, Most::Blocks(OF_A_MACHINE));
            withheld
                .machines
                .extend(machine(node).flat_map(|range| budget.take(range)));
            let sources = || vec![of_addresses(node)];
            let excess = budget.excess(
                &ObjectRef::node(&node.name),
                "the addresses of its machine",
                sources,
            );
            if !excess.is_empty() {
                withheld.crowded.insert(&node.name, machine(node).collect());
            }
            withheld.excess.extend(excess);
        }
        let held = held(observed);
        let mut blocks: BTreeMap<&NodeName, BTreeSet<Block>> = BTreeMap::new();
        for (name, block) in observed.shown_blocks() {
            blocks.entry(name).or_default().insert(block);
        }
        for (name, blocks) in blocks {
            let (used, mut unread): (Vec<Block>, Vec<Block>) = blocks
                .into_iter()
                .partition(|block| held.contains(&(name, *block)));
            // A wide one does not take the place of those that may be honest.
            unread.sort_by_cached_key(|block| touched(supply, *block));
            let mut budget = Budget::new(supply, Most::All);
            withheld.shown.extend(
                used.iter()
                    .flat_map(|block| budget.take(block.range()))
                    .map(|part| (name, part)),
            );
            let sources = || of_fields(observed, name, &used);
            withheld
                .excess
                .extend(budget.much(&ObjectRef::node(name), sources));
            let mut budget = Budget::new(supply, Most::BlocksOrEighth(UNREAD));
            let parts = unread.iter().flat_map(|block| budget.take(block.range()));
            withheld.shown.extend(parts.map(|part| (name, part)));
            let sources = || of_fields(observed, name, &unread);
            withheld.excess.extend(budget.excess(
                &ObjectRef::node(name),
                "fields that no agent reads",
                sources,
            ));
        }
        withheld
    }

    /// Addresses of a node's own machine that are not kept out of the pools.
    pub(super) fn own_addresses(&self, node: &NodeName) -> Vec<Range> {
        self.crowded.get(node).cloned().unwrap_or_default()
    }

    /// Names the objects that show much of a pool.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.excess.iter().map(Excess::finding).collect()
    }
}

/// Addresses of the machine of one node, as far as they are kept out of the pools.
pub(super) fn of_machine(node: &Node, supply: &Supply) -> Vec<Range> {
    let mut budget = Budget::new(supply, Most::Blocks(OF_A_MACHINE));
    machine(node).flat_map(|range| budget.take(range)).collect()
}

/// Internal ones first: they are kept before others.
fn machine(node: &Node) -> impl Iterator<Item = Range> {
    node.addresses.iter().map(|address| Range::from(*address))
}

/// Blocks of which no part may be given to another node: `Node.spec` shows them, or an agent reads
/// them. In ipam `multi-pool`, Cilium's operator allocates them.
fn held(observed: &Observed) -> BTreeSet<(&NodeName, Block)> {
    let mut held = BTreeSet::new();
    for node in observed.nodes.values() {
        held.extend(node.spec.iter().map(|block| (&node.name, *block)));
        let read = observed.holds(node);
        let read = read
            .iter()
            .filter(|holding| holding.reading == Reading::Read);
        held.extend(read.map(|holding| (&node.name, holding.block)));
    }
    // An agent of cluster-pool lives in its CiliumNode, whether its Node is there or not.
    if observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool) {
        let blocks = observed
            .cilium_nodes
            .values()
            .map(|node| (&node.name, &node.pod_cidrs));
        held.extend(
            blocks.flat_map(|(name, blocks)| blocks.iter().map(move |block| (name, *block))),
        );
    }
    if observed.is_multi_pool() {
        let allocated = observed.cilium_nodes.values().flat_map(|node| {
            node.allocated
                .iter()
                .flat_map(|(_, blocks)| blocks)
                .map(move |block| (&node.name, *block))
        });
        held.extend(allocated);
    }
    held
}

/// Values of one field that are told; more are counted.
const TOLD: usize = 3;

/// `Node/m status.addresses: 10.0.0.1, 10.0.1.1 and 254 more`.
fn of_addresses(node: &Node) -> String {
    let addresses: BTreeSet<Range> = machine(node).collect();
    let addresses: Vec<String> = addresses
        .iter()
        .map(|range| range.first().to_string())
        .collect();
    format!(
        "{} status.addresses: {}",
        ObjectRef::node(&node.name),
        first_few(&addresses)
    )
}

/// The fields that show these blocks for a node, with the last writer of each where the server kept
/// it.
fn of_fields(observed: &Observed, name: &NodeName, blocks: &[Block]) -> Vec<String> {
    let mut fields: BTreeMap<HoldingField, BTreeSet<Block>> = BTreeMap::new();
    for (field, block) in
        drift::all_shown(observed, name).filter(|(_, block)| blocks.contains(block))
    {
        fields.entry(field).or_default().insert(block);
    }
    let told = |(field, blocks): (HoldingField, BTreeSet<Block>)| {
        let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        let (kind, field_name) = match field {
            HoldingField::CiliumNode => ("CiliumNode", "spec.ipam.podCIDRs"),
            HoldingField::Allocated => ("CiliumNode", "spec.ipam.pools.allocated"),
            HoldingField::NodeSpec
            | HoldingField::Annotation
            | HoldingField::OldAnnotation
            | HoldingField::Setting => ("Node", field.as_str()),
        };
        let author = drift::author(observed, name, field);
        let author = author.map(|(manager, time)| {
            format!(
                ", written by {} at {}",
                manager.escape_debug(),
                time.escape_debug()
            )
        });
        format!(
            "{kind}/{name} {field_name}: {}{}",
            first_few(&blocks),
            author.unwrap_or_default()
        )
    };
    fields.into_iter().map(told).collect()
}

fn first_few(values: &[String]) -> String {
    let shown = values
        .iter()
        .take(TOLD)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match values.len().saturating_sub(TOLD) {
        0 => shown,
        more => format!("{shown} and {} more", grouped_digits(more)),
    }
}

impl Excess {
    fn finding(&self) -> Finding {
        let Excess {
            object,
            what,
            pool,
            shows,
            keeps,
            sources,
        } = self;
        let (all, kept) = (grouped_digits(*shows), grouped_digits(*keeps));
        let by = if sources.is_empty() {
            String::new()
        } else {
            format!(" ({})", sources.join("; "))
        };
        let (severity, message, help) = if keeps < shows {
            let message = format!(
                "{object} claims {all} blocks of pool `{pool}` by {what}{by}; {kept} of them are kept free"
            );
            (
                Severity::Error,
                message,
                "check who writes these fields; the pool gives the other blocks to nodes",
            )
        } else {
            let message = format!("{object} holds {all} blocks of pool `{pool}`{by}");
            (
                Severity::Warning,
                message,
                "check that the node needs a block of this size, or drain and re-create it",
            )
        };
        let finding = Finding::new(severity, Rule("one-node-fills-pool"), message)
            .about(object.clone())
            .help(help);
        finding.seen(sources.iter().cloned())
    }
}

/// What one object may still keep out of each pool.
struct Budget<'s> {
    supply: &'s Supply,
    most: Most,
    kept: BTreeMap<PoolId, u128>,
    shown: BTreeMap<PoolId, u128>,
}

impl<'s> Budget<'s> {
    fn new(supply: &'s Supply, most: Most) -> Budget<'s> {
        Budget {
            supply,
            most,
            kept: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
    }

    /// The part of a range that is kept out of the pools; all of it where it touches none.
    fn take(&mut self, range: Range) -> Vec<Range> {
        let parts = self.supply.parts(&range);
        if parts.is_empty() {
            return vec![range];
        }
        let mut taken = Vec::new();
        for PoolPart { pool, blocks, part } in parts {
            let most = self.most(pool);
            let kept = self.kept.entry(pool).or_default();
            let keeps = blocks.min(most.saturating_sub(*kept));
            *self.shown.entry(pool).or_default() += blocks;
            *kept += keeps;
            taken.extend(if keeps == blocks {
                Some(part)
            } else {
                self.supply.first_blocks(pool, &part, keeps)
            });
        }
        taken
    }

    fn most(&self, pool: PoolId) -> u128 {
        match self.most {
            Most::Blocks(blocks) => blocks,
            Most::BlocksOrEighth(blocks) => blocks.max(all_blocks(self.supply, pool) / 8),
            Most::All => u128::MAX,
        }
    }

    /// Pools of which more was shown than is kept.
    fn excess(
        self,
        object: &ObjectRef,
        what: &'static str,
        sources: impl Fn() -> Vec<String>,
    ) -> Vec<Excess> {
        let Budget {
            supply,
            kept,
            shown,
            ..
        } = self;
        let excess = shown.into_iter().filter_map(|(pool, shows)| {
            let keeps = kept.get(&pool).copied().unwrap_or_default();
            let name = || supply.pool(pool).name().clone();
            let excess = || Excess {
                object: object.clone(),
                what,
                pool: name(),
                shows,
                keeps,
                sources: sources(),
            };
            (shows > keeps).then(excess)
        });
        excess.collect()
    }

    /// Pools of which a node holds much.
    fn much(self, object: &ObjectRef, sources: impl Fn() -> Vec<String>) -> Vec<Excess> {
        let Budget { supply, shown, .. } = self;
        let excess = shown.into_iter().filter_map(|(id, shows)| {
            let (what, name) = ("", supply.pool(id).name().clone());
            (shows > HELD.max(all_blocks(supply, id) / 4)).then(|| Excess {
                object: object.clone(),
                what,
                pool: name,
                shows,
                keeps: shows,
                sources: sources(),
            })
        });
        excess.collect()
    }
}

/// How many blocks of pools have addresses of it.
fn touched(supply: &Supply, block: Block) -> u128 {
    supply
        .parts(&block.range())
        .iter()
        .fold(0, |sum, part| sum.saturating_add(part.blocks))
}

fn all_blocks(supply: &Supply, pool: PoolId) -> u128 {
    supply
        .pool(pool)
        .slots()
        .iter()
        .map(Slots::count)
        .fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_core::alloc::{Giving, PoolSupply};
    use ipam_core::model::PerFamily;
    use ipam_core::net::{BlockSize, Family};

    fn supply() -> Supply {
        let size = PerFamily {
            ipv4: BlockSize::new(Family::Ipv4, 24).ok(),
            ipv6: None,
        };
        let ranges = ["10.20.0.0/16".parse().unwrap()];
        Supply::new(vec![PoolSupply::new(
            "a".parse().unwrap(),
            Giving::New,
            &ranges,
            &size,
        )])
    }

    #[test]
    fn one_object_takes_what_it_may_and_the_lowest_of_it() {
        let supply = supply();
        let mut budget = Budget::new(&supply, Most::Blocks(3));
        let texts = |ranges: Vec<Range>| ranges.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(budget.take("10.9.0.0/16".parse().unwrap())),
            ["10.9.0.0/16"]
        );
        assert_eq!(
            texts(budget.take("10.20.9.7".parse().unwrap())),
            ["10.20.9.7/32"]
        );
        assert_eq!(
            texts(budget.take("10.20.128.0/17".parse().unwrap())),
            ["10.20.128.0/23"]
        );
        assert!(budget.take("10.20.3.1".parse().unwrap()).is_empty());
        let node = ObjectRef::node(&"n".parse().unwrap());
        let excess = budget.excess(&node, "test", || vec!["Node/n x: y".to_owned()]);
        assert_eq!(
            (excess.len(), excess[0].shows, excess[0].keeps),
            (1, 130, 3)
        );
        assert!(excess[0].finding().message.contains(
            "claims 130 blocks of pool `a` by test (Node/n x: y); 3 of them are kept free"
        ));
    }
}
