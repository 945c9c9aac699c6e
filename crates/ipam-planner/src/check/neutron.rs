//! Pools that are subnets of Neutron: which addresses they have, and who else has or would have
//! some of them.

use std::fmt;

use ipam_cilium::observed::{Observed, OtherUser, SeenSubnet};
use ipam_core::model::{Finding, ObjectRef, Origin, PoolName, Rule, Severity};
use ipam_core::net::{Block, Range};
use ipam_core::neutron::Id;
use ipam_desired::{Desired, NeutronPool};

/// Why the addresses of a pool are not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeutronTrouble {
    /// The pool.
    pub pool: PoolName,
    /// Its subnet.
    pub subnet: Id,
    /// Why.
    pub why: NeutronDoubt,
}

/// What speaks against what Neutron says of a subnet, or that it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeutronDoubt {
    /// Nobody asked.
    NotAsked,
    /// It could not be read, and why.
    Unread(String),
    /// There is none of that id.
    Missing,
    /// It is of another network than the files say: this one.
    OtherNetwork(Id),
}

impl fmt::Display for NeutronTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NeutronTrouble { pool, subnet, why } = self;
        match why {
            NeutronDoubt::NotAsked => write!(
                f,
                "Neutron was not asked for subnet {subnet} of pool `{pool}`"
            ),
            NeutronDoubt::Unread(why) => {
                write!(
                    f,
                    "subnet {subnet} of pool `{pool}` cannot be read: {}",
                    why.escape_debug()
                )
            }
            NeutronDoubt::Missing => write!(
                f,
                "Neutron has no subnet {subnet}, which pool `{pool}` names"
            ),
            NeutronDoubt::OtherNetwork(network) => {
                write!(
                    f,
                    "subnet {subnet} of pool `{pool}` is of network {network}, and not of the one that is named"
                )
            }
        }
    }
}

impl NeutronTrouble {
    /// The way out.
    pub fn unblock(&self) -> &'static str {
        match self.why {
            NeutronDoubt::NotAsked | NeutronDoubt::Unread(_) => {
                "let Neutron be asked: a clouds.yaml where OpenStack's clients look for it, or --clouds-file and --os-cloud"
            }
            NeutronDoubt::Missing => {
                "mend the id, see that the credentials are of the project that has it, or take the pool out of the files"
            }
            NeutronDoubt::OtherNetwork(_) => "mend the id of the network or that of the subnet",
        }
    }
}

/// The addresses of a pool.
///
/// # Errors
/// Why they are not known.
pub fn neutron_range(pool: &NeutronPool, observed: &Observed) -> Result<Block, NeutronTrouble> {
    let why = match observed.subnets.get(&pool.subnet) {
        Some(SeenSubnet::There { network, range }) if *network == pool.network => {
            return Ok(*range);
        }
        Some(SeenSubnet::There { network, .. }) => NeutronDoubt::OtherNetwork(network.clone()),
        Some(SeenSubnet::Missing) => NeutronDoubt::Missing,
        Some(SeenSubnet::Unread(why)) => NeutronDoubt::Unread(why.clone()),
        None => NeutronDoubt::NotAsked,
    };
    Err(NeutronTrouble {
        pool: pool.name.clone(),
        subnet: pool.subnet.clone(),
        why,
    })
}

/// The addresses of all such pools, as far as they are known.
pub fn neutron_ranges<'d>(
    desired: &'d Desired,
    observed: &'d Observed,
) -> impl Iterator<Item = (&'d NeutronPool, Block)> {
    desired
        .neutron_pools
        .values()
        .filter_map(|pool| Some((pool, neutron_range(pool, observed).ok()?)))
}

/// The first pool whose addresses are not known: until they are, nobody knows what is free.
pub fn neutron_trouble(desired: &Desired, observed: &Observed) -> Option<NeutronTrouble> {
    desired
        .neutron_pools
        .values()
        .find_map(|pool| neutron_range(pool, observed).err())
}

/// Somebody in the files who would have addresses of a subnet.
#[derive(Clone, Copy, Debug)]
pub enum NeutronRival<'d> {
    /// Another pool.
    Pool(&'d PoolName),
    /// A pool of LoadBalancer addresses.
    AddressPool(&'d str),
}

/// Two who would have the same addresses.
#[derive(Clone, Debug)]
pub struct NeutronOverlap<'d> {
    /// The pool that is a subnet.
    pub pool: &'d NeutronPool,
    /// Its addresses.
    pub range: Block,
    /// The other.
    pub rival: NeutronRival<'d>,
    /// Its addresses.
    pub rival_range: Range,
    origin: &'d Origin,
}

impl NeutronOverlap<'_> {
    /// In one sentence.
    pub fn message(&self) -> String {
        let NeutronOverlap {
            pool,
            range,
            rival,
            rival_range,
            origin: _,
        } = self;
        let rival = match rival {
            NeutronRival::Pool(name) => format!("pool `{name}`"),
            NeutronRival::AddressPool(name) => format!("CiliumLoadBalancerIPPool `{name}`"),
        };
        format!(
            "{rival} overlaps pool `{}`, subnet {} of Neutron: {rival_range} and {range}",
            pool.name, pool.subnet
        )
    }
}

/// Everybody in the files who would have addresses of a subnet.
pub fn neutron_overlaps<'d>(
    desired: &'d Desired,
    observed: &'d Observed,
) -> Vec<NeutronOverlap<'d>> {
    let subnets: Vec<(&NeutronPool, Block)> = neutron_ranges(desired, observed).collect();
    let of_nodes = desired.pools.values().flat_map(|pool| {
        pool.ranges.iter().map(|range| {
            (
                NeutronRival::Pool(&pool.name),
                range.block.range(),
                &range.origin,
            )
        })
    });
    let balancers = desired.address_pools.values().flat_map(|pool| {
        pool.ranges.iter().map(|range| {
            (
                NeutronRival::AddressPool(pool.name.as_str()),
                range.range,
                &range.origin,
            )
        })
    });
    let mut rivals: Vec<_> = of_nodes.chain(balancers).collect();
    rivals.extend(subnets.iter().map(|(pool, range)| {
        (
            NeutronRival::Pool(&pool.name),
            range.range(),
            &pool.subnet_origin,
        )
    }));
    let mut overlaps = Vec::new();
    for (pool, range) in &subnets {
        for (rival, rival_range, origin) in &rivals {
            // Of two subnets the later one is the rival, once.
            let is_same = matches!(rival, NeutronRival::Pool(name) if desired.neutron_pools.contains_key(*name) && **name <= pool.name);
            if !is_same && rival_range.overlaps(&range.range()) {
                let (rival, rival_range) = (*rival, *rival_range);
                overlaps.push(NeutronOverlap {
                    pool,
                    range: *range,
                    rival,
                    rival_range,
                    origin,
                });
            }
        }
    }
    overlaps
}

pub(super) fn overlapping(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |overlap: NeutronOverlap<'_>| {
        let about = match overlap.rival {
            NeutronRival::Pool(name) => ObjectRef::pool(name),
            NeutronRival::AddressPool(name) => ObjectRef::address_pool(name),
        };
        let finding =
            Finding::new(Severity::Error, Rule("neutron-overlap"), overlap.message()).about(about);
        let finding = finding.at(overlap.origin, format!("overlaps {}", overlap.range));
        let finding = finding.and(&overlap.pool.subnet_origin, "this subnet");
        finding
            .help("give each pool addresses of its own; Neutron gives those of a subnet to ports")
    };
    neutron_overlaps(desired, observed)
        .into_iter()
        .map(finding)
        .collect()
}

/// Each such pool with its addresses, or why they are not known.
pub(super) fn resolved(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |pool: &NeutronPool| match neutron_range(pool, observed) {
        Ok(range) => {
            let message = format!(
                "pool `{}` is subnet {} of Neutron, {range}; no node gets a block there",
                pool.name, pool.subnet
            );
            let finding = Finding::new(Severity::Info, Rule("neutron-subnet"), message)
                .about(ObjectRef::pool(&pool.name));
            finding.at(&pool.subnet_origin, range.to_string())
        }
        Err(trouble) => {
            let message = format!("{trouble}; nothing new is given until it is known what is free");
            let finding = Finding::new(Severity::Error, Rule("neutron-subnet-unknown"), message);
            let finding = finding
                .about(ObjectRef::pool(&pool.name))
                .at(&pool.subnet_origin, "not known");
            finding.help(trouble.unblock())
        }
    };
    desired.neutron_pools.values().map(finding).collect()
}

/// Nodes with blocks in a subnet, which they keep, and what else of the cluster has addresses of
/// it.
pub(super) fn held(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pool, range) in neutron_ranges(desired, observed) {
        for (node, block) in observed
            .shown_blocks()
            .filter(|(_, block)| block.overlaps(range))
        {
            let message = format!(
                "node `{node}` holds {block}, which overlaps pool `{}`, subnet {} of Neutron ({range})",
                pool.name, pool.subnet
            );
            let finding = Finding::new(Severity::Error, Rule("block-over-neutron-subnet"), message);
            let finding = finding
                .about(ObjectRef::node(node))
                .at(&pool.subnet_origin, "this subnet");
            findings.push(
                finding.help("drain the node and give it another block, or use another subnet"),
            );
        }
        // Of the LoadBalancer pools in the files is told there; nodes of a cloud may well have
        // addresses of the subnet.
        let is_told = |user: &OtherUser<'_>| match user {
            OtherUser::AddressPool(name) => desired
                .address_pools
                .keys()
                .any(|pool| pool.as_str() == *name),
            OtherUser::Machine(_) => true,
            OtherUser::ServiceCidr => false,
        };
        let others = observed
            .used_by_others()
            .filter(|(other, user)| other.overlaps(&range.range()) && !is_told(user));
        for (other, user) in others {
            let message = format!(
                "pool `{}`, subnet {} of Neutron ({range}), overlaps {other}, {user}",
                pool.name, pool.subnet
            );
            let finding = Finding::new(Severity::Error, Rule("neutron-overlap"), message);
            let finding = finding
                .about(ObjectRef::pool(&pool.name))
                .at(&pool.subnet_origin, "overlaps");
            findings.push(finding.help("use another subnet, or move the other range"));
        }
    }
    findings
}

/// Pools of the files that name the same subnet; that needs no Neutron.
pub(super) fn subnets_named_twice(desired: &Desired) -> Vec<Finding> {
    let mut pools: Vec<&NeutronPool> = desired.neutron_pools.values().collect();
    pools.sort_by(|a, b| (&a.subnet, &a.subnet_origin).cmp(&(&b.subnet, &b.subnet_origin)));
    let twice = pools
        .windows(2)
        .filter(|pair| pair[0].subnet == pair[1].subnet);
    let finding = |pair: &[&NeutronPool]| {
        let [first, second] = [pair[0], pair[1]];
        let message = format!(
            "pools `{}` and `{}` are the same subnet {}",
            first.name, second.name, first.subnet
        );
        let finding = Finding::new(Severity::Error, Rule("pool-overlap"), message)
            .about(ObjectRef::pool(&second.name));
        let finding = finding
            .at(&second.subnet_origin, "named again")
            .and(&first.subnet_origin, "first named here");
        finding.help("one pool for each subnet is enough")
    };
    twice.map(finding).collect()
}
