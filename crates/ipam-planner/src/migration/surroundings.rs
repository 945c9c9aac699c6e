//! The part of a cluster that decides whether one node may get certain blocks, found by address.
//!
//! A plan of the whole cluster for each node of a migration would cost the square of their number. It
//! must never decide anything itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{HOSTNAME_LABEL, node_config_name};
use ipam_cilium::observed::{NodeConfigs, Observed, StoredClaims};
use ipam_core::claims::Claims;
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Range, RangeIndex};

/// An observed cluster, indexed for questions about single nodes.
#[derive(Debug)]
pub struct Surroundings {
    whole: Observed,
    /// What belongs to no node.
    rest: Observed,
    /// Nodes by the blocks that they show, and by the addresses of their machines.
    users: RangeIndex<NodeName>,
    claimed: RangeIndex<Block>,
    configs: ConfigPlaces,
    by_hostname: BTreeMap<String, Vec<NodeName>>,
}

/// Places of `CiliumNodeConfig`s.
#[derive(Debug)]
struct ConfigPlaces {
    /// By the ranges that they set.
    by_range: RangeIndex<usize>,
    by_uid: BTreeMap<String, Vec<usize>>,
}

impl Surroundings {
    pub fn new(whole: Observed) -> Surroundings {
        let shown = whole.shown_blocks();
        let shown = shown.map(|(name, block)| (block.range(), name.clone()));
        let machines = whole.nodes.values().flat_map(|node| {
            let addresses = node.addresses.iter();
            addresses.map(|address| (Range::from(*address), node.name.clone()))
        });
        let held = whole.claims.claims.held();
        let mut by_hostname: BTreeMap<String, Vec<NodeName>> = BTreeMap::new();
        for node in whole.nodes.values() {
            if let Some(hostname) = node.labels.get(HOSTNAME_LABEL) {
                let names = by_hostname.entry(hostname.clone()).or_default();
                names.push(node.name.clone());
            }
        }
        Surroundings {
            users: RangeIndex::new(shown.chain(machines)),
            claimed: RangeIndex::new(held.map(|(block, _)| (block.range(), block))),
            configs: ConfigPlaces::new(&whole.node_configs),
            by_hostname,
            rest: without_nodes(&whole),
            whole,
        }
    }

    /// The whole cluster.
    pub fn whole(&self) -> &Observed {
        &self.whole
    }

    /// The part that decides whether the node may get these blocks, and how they are written.
    pub(super) fn of(&self, node: &NodeName, blocks: &[Block]) -> Observed {
        let claimed = self.claims_at(blocks);
        let names = self.names(node, blocks, &claimed);
        let mut part = Observed {
            node_configs: self.node_configs(blocks, &names, &claimed),
            claims: claimed,
            ..self.rest.clone()
        };
        for name in names {
            let node = self.whole.nodes.get(&name).cloned();
            let cilium_node = self.whole.cilium_nodes.get(&name).cloned();
            part.nodes.extend(node.map(|node| (name.clone(), node)));
            part.cilium_nodes.extend(cilium_node.map(|one| (name, one)));
        }
        part
    }

    /// The claims of blocks that overlap these.
    fn claims_at(&self, blocks: &[Block]) -> StoredClaims {
        let at = blocks
            .iter()
            .flat_map(|block| self.claimed.overlapping(&block.range()))
            .map(|(_, block)| *block);
        let StoredClaims { claims, version } = &self.whole.claims;
        let Claims {
            in_flight,
            quarantined,
        } = claims;
        let mut some = Claims::default();
        for block in at {
            let (claim, last) = (in_flight.get(&block), quarantined.get(&block));
            some.in_flight.extend(claim.map(|one| (block, one.clone())));
            some.quarantined
                .extend(last.map(|one| (block, one.clone())));
        }
        StoredClaims {
            claims: some,
            version: version.clone(),
        }
    }

    /// The node, those that have addresses of the blocks, and those with its hostname.
    fn names(
        &self,
        node: &NodeName,
        blocks: &[Block],
        claimed: &StoredClaims,
    ) -> BTreeSet<NodeName> {
        let users = blocks
            .iter()
            .flat_map(|block| self.users.overlapping(&block.range()))
            .map(|(_, name)| name);
        let claimants = claimed.claims.held().map(|(_, name)| name);
        let seen = self.whole.nodes.get(node);
        let hostname = seen.and_then(|node| node.labels.get(HOSTNAME_LABEL));
        let namesakes = hostname.and_then(|hostname| self.by_hostname.get(hostname));
        let namesakes = namesakes.into_iter().flatten();
        let all = users.chain(claimants).chain(namesakes).chain([node]);
        all.cloned().collect()
    }

    /// The settings of these nodes, those that set these blocks, and those that claims write.
    fn node_configs(
        &self,
        blocks: &[Block],
        names: &BTreeSet<NodeName>,
        claimed: &StoredClaims,
    ) -> NodeConfigs {
        let all = &self.whole.node_configs;
        let nodes = names.iter().filter_map(|name| self.whole.nodes.get(name));
        let selecting = nodes.flat_map(|node| all.selecting(&node.labels));
        let own = names
            .iter()
            .filter_map(|name| all.named(&node_config_name(name)));
        let setting = blocks
            .iter()
            .flat_map(|block| self.configs.by_range.overlapping(&block.range()))
            .map(|(_, place)| place);
        let claims = claimed.claims.in_flight.values();
        let written = claims.filter_map(|claim| self.configs.by_uid.get(&claim.uid));
        let places = setting.chain(written.flatten());
        let some: BTreeMap<_, _> = selecting
            .chain(own)
            .chain(places.map(|place| &all[*place]))
            .map(|config| (&config.name, config))
            .collect();
        NodeConfigs::new(some.into_values().cloned().collect())
    }
}

impl ConfigPlaces {
    fn new(configs: &NodeConfigs) -> ConfigPlaces {
        let ranges = configs.iter().enumerate().flat_map(|(place, config)| {
            let ranges = config.ranges();
            ranges.map(move |block| (block.range(), place))
        });
        let by_range = RangeIndex::new(ranges);
        let mut by_uid: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, config) in configs.iter().enumerate() {
            let uid = config.version.uid.clone();
            by_uid.entry(uid).or_default().push(place);
        }
        ConfigPlaces { by_range, by_uid }
    }
}

/// What belongs to no node, and may have a say in its blocks.
fn without_nodes(whole: &Observed) -> Observed {
    let Observed {
        nodes: _,
        cilium_nodes: _,
        at,
        claims: _,
        migration: _,
        cilium,
        definitions,
        unattributed,
        tombstones,
        service_ranges,
        primary_family,
        address_pools_served,
        address_pools,
        pod_pools_served,
        pod_pools,
        services: _,
        unread_annotations: _,
        allocators,
        node_configs_served,
        node_configs: _,
        announcing: _,
        ports: _,
        subnets: _,
        blind_spots,
        findings: _,
    } = whole;
    let mut rest = Observed {
        at: *at,
        cilium: cilium.clone(),
        definitions: definitions.clone(),
        unattributed: unattributed.clone(),
        tombstones: tombstones.clone(),
        service_ranges: service_ranges.clone(),
        primary_family: *primary_family,
        address_pools_served: *address_pools_served,
        address_pools: address_pools.clone(),
        pod_pools_served: *pod_pools_served,
        pod_pools: pod_pools.clone(),
        allocators: allocators.clone(),
        node_configs_served: *node_configs_served,
        blind_spots: blind_spots.clone(),
        ..Observed::default()
    };
    // One for each node.
    rest.cilium.agents.clear();
    rest
}
