//! OpenStack as the planner needs it: the addresses of the pools that are subnets of Neutron. Pure:
//! it reads only what was observed, and never asks Neutron.
//!
//! Pools that are subnets of Neutron: their addresses, and which pools of the files overlap them.

use std::fmt;

use crate::plan::BlockedReason;
use ipam_cilium::observed::{Observed, SeenSubnet};
use ipam_core::model::{Origin, PoolName};
use ipam_core::net::{Block, Range};
use ipam_core::neutron::Id;
use ipam_desired::{Desired, NeutronPool};

/// A pool whose addresses are unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnresolvedSubnet {
    /// Name of the pool in the files.
    pub pool: PoolName,
    /// Id of the pool's subnet.
    pub subnet: Id,
    /// Why its addresses are unknown.
    pub why: Reason,
}

/// Why the addresses of a subnet are unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Neutron was not asked for the subnet.
    NotAsked,
    /// The subnet could not be read, with the error.
    Unread(String),
    /// Neutron has no subnet with this id.
    Missing,
    /// The subnet belongs to this network, and not to the one that the files name.
    OtherNetwork(Id),
}

impl fmt::Display for UnresolvedSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnresolvedSubnet { pool, subnet, why } = self;
        match why {
            Reason::NotAsked => write!(
                f,
                "Neutron was not asked for subnet {subnet} of pool `{pool}`"
            ),
            Reason::Unread(why) => {
                let why = why.escape_debug();
                write!(f, "subnet {subnet} of pool `{pool}` cannot be read: {why}")
            }
            Reason::Missing => write!(
                f,
                "Neutron has no subnet {subnet}, which pool `{pool}` names"
            ),
            Reason::OtherNetwork(network) => {
                write!(
                    f,
                    "subnet {subnet} of pool `{pool}` is of network {network}, and not of the one that is named"
                )
            }
        }
    }
}

impl UnresolvedSubnet {
    /// How to make the addresses of the subnet known: a sentence in the imperative.
    pub fn help(&self) -> &'static str {
        match self.why {
            Reason::NotAsked | Reason::Unread(_) => {
                "let Neutron be asked: a clouds.yaml where OpenStack's clients look for it, or --clouds-file and --os-cloud"
            }
            Reason::Missing => {
                "fix the id, check that the credentials are of the project that has it, or remove the pool from the files"
            }
            Reason::OtherNetwork(_) => "fix the id of the network or that of the subnet",
        }
    }
}

/// Every pool that is a subnet of Neutron, with its addresses or why they are unknown.
#[derive(Clone, Debug)]
pub struct SubnetPools<'d> {
    desired: &'d Desired,
    pools: Vec<(&'d NeutronPool, Result<Block, UnresolvedSubnet>)>,
}

impl<'d> SubnetPools<'d> {
    /// Looks up the subnet of each pool of the files.
    pub fn resolve(desired: &'d Desired, observed: &Observed) -> SubnetPools<'d> {
        let pools = desired
            .neutron_pools
            .values()
            .map(|pool| (pool, SubnetPools::range(pool, observed)));
        SubnetPools {
            desired,
            pools: pools.collect(),
        }
    }

    /// The addresses of one pool.
    ///
    /// # Errors
    /// Fails if they are unknown, with the reason.
    pub fn range(pool: &NeutronPool, observed: &Observed) -> Result<Block, UnresolvedSubnet> {
        let why = match observed.subnets.get(&pool.subnet) {
            Some(SeenSubnet::There { network, range }) if *network == pool.network => {
                return Ok(*range);
            }
            Some(SeenSubnet::There { network, .. }) => Reason::OtherNetwork(network.clone()),
            Some(SeenSubnet::Missing) => Reason::Missing,
            Some(SeenSubnet::Unread(why)) => Reason::Unread(why.clone()),
            None => Reason::NotAsked,
        };
        Err(UnresolvedSubnet {
            pool: pool.name.clone(),
            subnet: pool.subnet.clone(),
            why,
        })
    }

    /// Each pool with the addresses of its subnet, or why they are unknown.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (&'d NeutronPool, Result<Block, &UnresolvedSubnet>)> {
        self.pools
            .iter()
            .map(|(pool, range)| (*pool, range.as_ref().copied()))
    }

    /// The pools whose addresses are known.
    pub fn ranges(&self) -> impl Iterator<Item = (&'d NeutronPool, Block)> {
        self.iter()
            .filter_map(|(pool, range)| Some((pool, range.ok()?)))
    }

    /// The first pool whose addresses are unknown. Until they are known, no block is known to be
    /// free.
    pub fn unresolved(&self) -> Option<&UnresolvedSubnet> {
        self.iter().find_map(|(_, range)| range.err())
    }

    /// Blocks a change while the addresses of a subnet are unknown.
    pub(crate) fn only_resolved<C>(
        &self,
        decided: Result<Option<C>, BlockedReason>,
    ) -> Result<Option<C>, BlockedReason> {
        match (decided, self.unresolved()) {
            (Ok(Some(_)), Some(unresolved)) => Err(unresolved.clone().into()),
            (decided, _) => decided,
        }
    }

    /// Every pool of the files that overlaps a subnet.
    pub fn overlaps(&self) -> Vec<SubnetOverlap<'d>> {
        let candidates = self.candidates();
        let mut overlaps = Vec::new();
        for (pool, range) in self.ranges() {
            for (other, other_range, origin) in &candidates {
                if !self.is_counted_elsewhere(other, pool) && other_range.overlaps(&range.range()) {
                    overlaps.push(SubnetOverlap {
                        pool,
                        range,
                        other: *other,
                        other_range: *other_range,
                        origin,
                    });
                }
            }
        }
        overlaps
    }

    /// All pools of the files with their ranges.
    fn candidates(&self) -> Vec<(Overlapping<'d>, Range, &'d Origin)> {
        let of_nodes = self.desired.pools.values().flat_map(|pool| {
            let of_pool = |range: &'d ipam_desired::PoolRange| {
                let owner = Overlapping::Pool(&pool.name);
                (owner, range.block.range(), &range.origin)
            };
            pool.ranges.iter().map(of_pool)
        });
        let balancers = self.desired.address_pools.values().flat_map(|pool| {
            pool.ranges.iter().map(|range| {
                let owner = Overlapping::AddressPool(pool.name.as_str());
                (owner, range.range, &range.origin)
            })
        });
        let subnets = self.ranges().map(|(pool, range)| {
            let owner = Overlapping::Pool(&pool.name);
            (owner, range.range(), &pool.subnet_origin)
        });
        of_nodes.chain(balancers).chain(subnets).collect()
    }

    /// Whether `other` is the pool itself, or a subnet with an earlier name: each pair of subnets
    /// counts once, for the earlier one.
    fn is_counted_elsewhere(&self, other: &Overlapping<'_>, pool: &NeutronPool) -> bool {
        match other {
            Overlapping::Pool(name) => {
                self.desired.neutron_pools.contains_key(*name) && **name <= pool.name
            }
            Overlapping::AddressPool(_) => false,
        }
    }
}

/// A pool of the files that overlaps a subnet.
#[derive(Clone, Copy, Debug)]
pub enum Overlapping<'d> {
    /// A pool of nodes, or another subnet.
    Pool(&'d PoolName),
    /// A pool of LoadBalancer addresses.
    AddressPool(&'d str),
}

/// A subnet and a pool that overlaps it.
#[derive(Clone, Debug)]
pub struct SubnetOverlap<'d> {
    /// The pool that is a subnet.
    pub pool: &'d NeutronPool,
    /// Addresses of the subnet.
    pub range: Block,
    /// The pool that overlaps the subnet.
    pub other: Overlapping<'d>,
    /// The addresses of the other pool.
    pub other_range: Range,
    /// The place of the other range in the files.
    pub origin: &'d Origin,
}

impl SubnetOverlap<'_> {
    /// How to end the overlap.
    pub const HELP: &'static str =
        "give each pool addresses of its own; Neutron gives those of a subnet to ports";

    /// The overlap in one sentence.
    pub fn message(&self) -> String {
        let SubnetOverlap {
            pool,
            range,
            other,
            other_range,
            origin: _,
        } = self;
        let other = match other {
            Overlapping::Pool(name) => format!("pool `{name}`"),
            Overlapping::AddressPool(name) => format!("CiliumLoadBalancerIPPool `{name}`"),
        };
        format!(
            "{other} overlaps pool `{}`, subnet {} of Neutron: {other_range} and {range}",
            pool.name, pool.subnet
        )
    }
}
