//! Proposes pools for a cluster that has no files yet, so that every node keeps its block.
//!
//! Decides CIDRs and selectors from the observed cluster and the options of a person. Never asks,
//! and knows no format of files.

mod division;
mod groups;
mod suggestion;

use std::collections::BTreeSet;
use std::fmt;

use self::division::{Division, Share};
use self::groups::{Group, HeldBlock, Purpose};
use ipam_cilium::observed::{BlockAllocator, ModeSeen, Observed};
use ipam_core::model::{IpamMode, NodeName, PerFamily, PoolName, count};
use ipam_core::net::{Block, BlockSize, Family, Range, merge};
use ipam_core::text::joined;
use ipam_desired::PoolState;
use ipam_plan::check::is_private;
use ipam_plan::plan::{BlockedReason, OperatorObstacle};

pub(crate) use groups::{held_by, is_selectable, pool_name};
pub use suggestion::{CidrSource, Suggestion, names_places, suggest};
pub(crate) use suggestion::{Room, held, labels, rank, smallest_around, suggest_with};

/// What a person wants.
#[derive(Clone, Debug)]
pub struct ProposalOptions {
    /// The addresses of all pools. They do not overlap each other.
    pub cidrs: Vec<Block>,
    /// How nodes are divided into pools.
    pub split: Split,
    /// Size of the blocks of nodes.
    pub sizes: PerFamily<BlockSize>,
}

/// How nodes are divided into pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// All nodes are in one pool.
    None,
    /// A pool for each value of a node label, of nodes and of `values`.
    ByLabel {
        key: String,
        values: BTreeSet<String>,
    },
}

/// The nodes of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolNodes {
    /// Every node of the cluster.
    All,
    /// Nodes with this label.
    WithLabel { key: String, value: String },
    /// Every node, as a fallback for those that no other pool selects.
    Fallback,
}

/// A proposed pool.
#[derive(Clone, Debug)]
pub struct ProposedPool {
    pub name: PoolName,
    pub selected: PoolNodes,
    /// In the order of use. Not empty.
    pub cidrs: Vec<Block>,
    /// A size for each family of the CIDRs.
    pub sizes: PerFamily<BlockSize>,
    pub priority: i32,
    /// A disabled pool only keeps blocks of an unusual size.
    pub state: PoolState,
}

/// Proposed pools, and remarks for the user.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// Proposed pools, sorted by the nodes that they select.
    pub pools: Vec<ProposedPool>,
    /// Parts of the wished CIDRs that are in no pool and free.
    pub unassigned: Vec<Block>,
    /// CIDRs that are not private address space.
    pub public: Vec<Block>,
    pub remarks: Vec<Remark>,
}

/// What a person should know of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// This number of held blocks lies outside the wished CIDRs; the first of them.
    OutsideCidrs(usize, Block),
    /// This number of nodes holds blocks of another size than the wished one. A disabled pool keeps
    /// these blocks.
    OtherSize(PoolName, usize),
    /// The block of this node overlaps that of a node of another pool.
    Overlapping(NodeName, Block),
    /// The pool has too few blocks of this family for its nodes; the number of nodes without one.
    NoRoom(PoolNodes, Family, u128),
    /// This number of nodes has a value of the label that no selector can have.
    UnusableLabel(usize),
    /// Nodes with this value of the label are in several places, by another label.
    SeveralPlaces(groups::SeveralPlaces),
    /// This label has values that no selector can have, on this number of nodes. Therefore it divides
    /// no nodes.
    UnusableValue(String, usize),
    /// These CIDRs are public address space.
    Public(Vec<Block>),
    /// No pool has the name of this `CiliumPodIPPool` of the cluster; why, if no file can express it.
    PodPoolLeftOut(String, Option<String>),
    /// Another program assigns pod CIDRs: what it does, and how to stop it.
    AssignsItself { does: String, fix: String },
    /// Cilium's operator assigns pod CIDRs to new nodes; how to let pools assign them instead.
    OperatorAssigns(String),
    /// In this mode of old releases, a node has several blocks.
    SeveralBlocks,
    /// Another CNI plugin gives Pods their addresses, by this `cni-chaining-mode`.
    Chained(String),
    /// The source of the observation never has objects of these kinds.
    NotCollected(BTreeSet<&'static str>),
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::OutsideCidrs(blocks, first) => write!(
                f,
                "{} of nodes outside the given CIDRs, such as {first}: the pools have these blocks, too",
                count(*blocks, "block")
            ),
            Remark::OtherSize(pool, nodes) => write!(
                f,
                "{} with a block of another size: pool `{pool}` keeps these blocks and gives no new ones",
                count(*nodes, "node")
            ),
            Remark::Overlapping(node, block) => write!(
                f,
                "block {block} of node `{node}` overlaps the block of another node: drain one of them and give it another block"
            ),
            Remark::NoRoom(selected, family, nodes) => write!(
                f,
                "no {family} block is left for {nodes} of the nodes {selected}: add a CIDR to their pool"
            ),
            Remark::UnusableLabel(nodes) => write!(
                f,
                "{} with a label value that no selector can have: the fallback pool serves them",
                count(*nodes, "node")
            ),
            Remark::UnusableValue(key, nodes) => write!(
                f,
                "{} {} a value of the label `{}` that no selector can have: the label divides no pools",
                count(*nodes, "node"),
                if *nodes == 1 { "has" } else { "have" },
                key.escape_debug()
            ),
            Remark::SeveralPlaces(places) => places.fmt(f),
            Remark::AssignsItself { does, fix } => {
                write!(f, "{does} and assigns pod CIDRs to new nodes itself; {fix}")
            }
            Remark::OperatorAssigns(others) => write!(
                f,
                "in ipam `{0}`, Cilium's operator assigns the next node's pod CIDR, not these pools. Either keep it so, and use the files for `doctor` and `capacity`; or move the cluster to ipam `{1}` (`cilium-ipam migrate --to-ipam {1}`), in which pools assign; or {others}",
                IpamMode::ClusterPool,
                IpamMode::Kubernetes
            ),
            Remark::SeveralBlocks => write!(
                f,
                "ipam `{0}` gives a node several blocks, and files give one of each family: only the first of each node is checked. `{0}` ends with Cilium 1.14: move to `multi-pool` or `cluster-pool`",
                IpamMode::V2BETA
            ),
            Remark::PodPoolLeftOut(name, why) => write!(
                f,
                "CiliumPodIPPool `{}` {}is in no file: nodes that hold its blocks are misplaced until an IPPool has its name and CIDRs",
                name.escape_debug(),
                why.as_ref()
                    .map_or(String::new(), |why| format!("{why}. It "))
            ),
            Remark::Chained(mode) => write!(
                f,
                "with cni-chaining-mode {} another CNI plugin gives Pods their addresses: these blocks have only Cilium's own addresses, so pools decide nothing about Pods",
                mode.escape_debug()
            ),
            Remark::NotCollected(resources) => {
                write!(
                    f,
                    "the source has no {}: plan the files for the cluster itself before you apply them",
                    joined(resources, ", ")
                )
            }
            Remark::Public(cidrs) => write!(
                f,
                "{} is public address space: if it is not yours, choose other CIDRs",
                joined(cidrs, ", ")
            ),
        }
    }
}

impl fmt::Display for PoolNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolNodes::All => f.write_str("of the cluster"),
            PoolNodes::WithLabel { key, value } => write!(f, "with {key}={value}"),
            PoolNodes::Fallback => f.write_str("without the label"),
        }
    }
}

/// Proposes pools that give every node the block that it holds.
pub fn propose(observed: &Observed, options: &ProposalOptions) -> Proposal {
    let own = suggestion::own_pod_pool(observed).filter(|_| options.split == Split::None);
    let others = in_other_use(observed, own.map(|(name, _)| name));
    propose_beside(observed, options, &others)
}

/// Like [`propose`], with the addresses that no pool may have, merged.
pub(crate) fn propose_beside(
    observed: &Observed,
    options: &ProposalOptions,
    others: &[Range],
) -> Proposal {
    let sizes = groups::sizes(observed, options);
    let groups = groups::groups(observed, &options.split, &sizes);
    let (held, overlapping) = groups::distinct_blocks(&groups);
    let mut proposal = Proposal {
        remarks: overlapping,
        ..Proposal::default()
    };
    let mut shares: Vec<PerFamily<Share>> = groups.iter().map(|_| PerFamily::NONE).collect();
    for family in sizes.families() {
        let Some(size) = sizes.get(family) else {
            continue;
        };
        let division = divided(observed, options, &groups, &held, *size, others);
        proposal.unassigned.extend(division.unassigned);
        for (of_group, share) in shares.iter_mut().zip(division.shares) {
            *of_group.get_mut(family) = Some(share);
        }
    }
    proposal.name_pools(observed, &groups, shares, &sizes);
    proposal.remark_on_labels(&groups, &options.split);
    proposal.remarks.extend(operator_assigns(observed));
    proposal
}

/// In ipam `cluster-pool`, Cilium's operator usually serves new nodes, even if every node has a
/// block now.
fn operator_assigns(observed: &Observed) -> Option<Remark> {
    let assigns = |node| observed.block_allocator(node) == BlockAllocator::Operator;
    let is_cluster_pool = observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool);
    let assigns = is_cluster_pool && observed.nodes.values().any(|node| assigns(node));
    let others = || BlockedReason::Operator(OperatorObstacle::Gives).unblock();
    assigns.then(|| Remark::OperatorAssigns(others()))
}

fn divided(
    observed: &Observed,
    options: &ProposalOptions,
    groups: &[Group<'_>],
    held: &[HeldBlock],
    size: BlockSize,
    others: &[Range],
) -> Division {
    let family = size.family();
    let cidrs = options.cidrs.iter().copied();
    let cidrs: Vec<Block> = cidrs.filter(|cidr| cidr.family() == family).collect();
    let held: Vec<HeldBlock> = held
        .iter()
        .copied()
        .filter(|held| held.block.family() == family)
        .collect();
    let demands: Vec<_> = groups
        .iter()
        .map(|group| group.demand(family, observed))
        .collect();
    division::divide(&cidrs, size, &demands, &held, others)
}

/// Addresses that no node may get: those of Services, machines, LoadBalancers, and of Pods in ipam
/// `multi-pool`, except those of the pool `own`.
pub(crate) fn in_other_use(observed: &Observed, own: Option<&str>) -> Vec<Range> {
    let of_pods = observed
        .pod_pools
        .iter()
        .filter(|(name, _)| Some(name.as_str()) != own)
        .flat_map(|(_, pool)| pool.cidrs().map(Block::range));
    merge(
        observed
            .used_by_others()
            .map(|(range, _)| range)
            .chain(of_pods),
    )
}

impl Proposal {
    fn name_pools(
        &mut self,
        observed: &Observed,
        groups: &[Group<'_>],
        shares: Vec<PerFamily<Share>>,
        wished: &PerFamily<BlockSize>,
    ) {
        let mut names = Names::default();
        let mut outside: Vec<Block> = Vec::new();
        for (group, share) in groups.iter().zip(shares) {
            let mut cidrs = Vec::new();
            let mut sizes = PerFamily::NONE;
            for family in share.families() {
                let Some(share) = share.get(family) else {
                    continue;
                };
                if share.lacking > 0 {
                    let remark = Remark::NoRoom(group.selected.clone(), family, share.lacking);
                    self.remarks.push(remark);
                }
                cidrs.extend(&share.cidrs);
                outside.extend(&share.outside);
                if !share.cidrs.is_empty() {
                    *sizes.get_mut(family) = group.sizes(wished).get(family).copied();
                }
            }
            group.take_over_pod_pool(observed, &mut cidrs, &mut sizes);
            if cidrs.is_empty() {
                continue;
            }
            let Some(name) = names.of(observed, group) else {
                continue;
            };
            if matches!(group.purpose, Purpose::Keep(_)) {
                let remark = Remark::OtherSize(name.clone(), group.nodes.len());
                self.remarks.push(remark);
            }
            self.pools.push(group.pool(name, cidrs, sizes));
        }
        self.remark_on_addresses(observed, &outside);
    }

    /// `outside` are held blocks outside the wished CIDRs.
    fn remark_on_addresses(&mut self, observed: &Observed, outside: &[Block]) {
        if let Some(first) = outside.iter().min() {
            self.remarks
                .push(Remark::OutsideCidrs(outside.len(), *first));
        }
        let left_out = observed.pod_pools.keys().filter(|name| {
            observed.is_multi_pool() && self.pools.iter().all(|pool| pool.name.as_str() != *name)
        });
        self.remarks
            .extend(left_out.map(|name| Remark::PodPoolLeftOut(name.clone(), None)));
        let cidrs = self
            .pools
            .iter()
            .flat_map(|pool| pool.cidrs.iter().copied());
        self.public = cidrs.filter(|cidr| !is_private(*cidr)).collect();
        if !self.public.is_empty() {
            self.remarks.push(Remark::Public(self.public.clone()));
        }
    }

    fn remark_on_labels(&mut self, groups: &[Group<'_>], split: &Split) {
        let Split::ByLabel { key, .. } = split else {
            return;
        };
        let unusable = groups
            .iter()
            .filter(|group| group.selected == PoolNodes::Fallback)
            .flat_map(|group| &group.nodes)
            .filter(|node| node.labels.contains_key(key))
            .count();
        if unusable > 0 {
            self.remarks.push(Remark::UnusableLabel(unusable));
        }
        let several = groups.iter().filter_map(groups::of_group);
        self.remarks.extend(several.map(Remark::SeveralPlaces));
    }
}

/// Names of pools, each once.
#[derive(Default)]
struct Names(BTreeSet<PoolName>);

impl Names {
    fn of(&mut self, observed: &Observed, group: &Group<'_>) -> Option<PoolName> {
        let base = group.base_name(observed)?;
        let numbered = (2..).map_while(|number| format!("{base}-{number}").parse().ok());
        let name = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| !self.0.contains(name))?;
        self.0.insert(name.clone());
        Some(name)
    }
}
