//! Compares routes with the blocks of Pods and the addresses of Services: missing, stale, from the
//! wrong node, too specific.
//!
//! The reference is the node where Pods run, not the routes that a node announces: a difference
//! between the two is a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Route, RouteDump, Usage};
use crate::doctor::{finding, named, spaced};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{Finding, NodeName, ObjectRef, Severity};
use ipam_core::net::{Block, Family, Range, RangeIndex, merge};
use ipam_core::text::joined;
use ipam_desired::Desired;

struct Audit<'o> {
    observed: &'o Observed,
    /// Blocks with the node whose Pods live there.
    homes: RangeIndex<(&'o NodeName, Block)>,
    /// Nodes by the addresses of the machines.
    machines: BTreeMap<IpAddr, &'o NodeName>,
    /// Addresses of Services of type LoadBalancer.
    services: BTreeSet<IpAddr>,
    /// Address space of the cluster, merged and sorted. Routes outside are not judged.
    ours: Vec<Range>,
}

/// Audits the routes of all routers together. Each file may hold one family only, so a route is
/// missing only if no file has it.
pub(crate) fn audit(
    route_dumps: &[RouteDump],
    desired: Option<&Desired>,
    observed: &Observed,
) -> Vec<Finding> {
    if route_dumps.is_empty() || !observed.knows_pod_blocks() {
        return Vec::new();
    }
    let audit = Audit::new(desired, observed);
    let mut findings: Vec<Finding> = route_dumps
        .iter()
        .flat_map(|route_dump| {
            route_dump
                .routes
                .iter()
                .flat_map(|route| audit.route(route_dump, route))
        })
        .collect();
    findings.extend(audit.missing(route_dumps));
    findings.extend(audit.unknown_origins(route_dumps));
    findings
}

impl<'o> Audit<'o> {
    fn new(desired: Option<&Desired>, observed: &'o Observed) -> Audit<'o> {
        let homes: Vec<(&NodeName, Block)> = observed.pod_blocks().collect();
        let machines = observed
            .nodes
            .values()
            .flat_map(|node| node.addresses.iter().map(|address| (*address, &node.name)));
        let pools = desired.iter().flat_map(|desired| desired.pools.values());
        let pools = pools.flat_map(|pool| pool.ranges.iter().map(|range| range.block.range()));
        let families = Family::BOTH.into_iter();
        let cluster_pool = families.flat_map(|family| observed.operator_ranges(family));
        let blocks = homes.iter().map(|(_, block)| block.range());
        let balancers = observed.load_balancer_ranges().map(|(_, range)| range);
        let ours = merge(
            pools
                .chain(cluster_pool.map(|block| block.range()))
                .chain(blocks)
                .chain(balancers),
        );
        Audit {
            observed,
            homes: RangeIndex::new(
                homes
                    .into_iter()
                    .map(|(name, block)| (block.range(), (name, block))),
            ),
            machines: machines.collect(),
            services: observed
                .services
                .values()
                .flat_map(|service| service.ingress.iter().copied())
                .collect(),
            ours,
        }
    }

    fn route(&self, route_dump: &RouteDump, route: &Route) -> Vec<Finding> {
        let range = route.prefix.range();
        // A wider route than the cluster's space is an aggregate or the default route.
        let place = self
            .ours
            .partition_point(|ours| ours.first_and_family() <= range.first_and_family());
        let is_ours = place
            .checked_sub(1)
            .is_some_and(|before| self.ours[before].contains(&range));
        if route.paths.is_empty() || !is_ours {
            return Vec::new();
        }
        let homes: Vec<(&NodeName, Block)> = self
            .homes
            .overlapping(&range)
            .map(|(_, home)| *home)
            .collect();
        if let Some((owner, _)) = homes.iter().find(|(_, block)| *block == route.prefix) {
            return self
                .wrong_nodes(route_dump, route, owner)
                .into_iter()
                .collect();
        }
        if let Some((owner, block)) = homes.iter().find(|(_, block)| block.contains(route.prefix)) {
            return vec![self.too_specific(route_dump, route, owner, *block)];
        }
        // Addresses of Services may be announced together.
        let is_of_services = self
            .services
            .range(range.first()..=range.last())
            .next()
            .is_some();
        let is_blind = self.observed.blind_spot(ObservedKind::Service).is_some();
        let is_balanced = || {
            self.observed
                .load_balancer_ranges()
                .any(|(_, balancers)| balancers.overlaps(&range))
        };
        if !homes.is_empty() || is_of_services || (is_blind && is_balanced()) {
            return Vec::new();
        }
        vec![self.stale(route_dump, route)]
    }

    /// The nodes that a route leads to.
    fn leads_to(&self, route: &Route, usage: Usage) -> Vec<&'o NodeName> {
        let paths = route.paths.iter().filter(|path| path.usage == usage);
        let node = |hops: &Vec<IpAddr>| hops.iter().find_map(|hop| self.machines.get(hop)).copied();
        paths
            .filter_map(|path| node(&path.hops))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn evidence(&self, route_dump: &RouteDump, route: &Route) -> Vec<String> {
        let path = |path: &super::Path| {
            let used = if path.usage == Usage::Used {
                "in use"
            } else {
                "spare"
            };
            format!(
                "{}: {} by way of {} ({used})",
                route_dump.source.escape_debug(),
                route.prefix,
                spaced(&path.hops)
            )
        };
        route.paths.iter().map(path).collect()
    }

    fn wrong_nodes(
        &self,
        route_dump: &RouteDump,
        route: &Route,
        owner: &NodeName,
    ) -> Option<Finding> {
        let wrong = |usage| -> Vec<&NodeName> {
            self.leads_to(route, usage)
                .into_iter()
                .filter(|node| *node != owner)
                .collect()
        };
        let (used, spare) = (wrong(Usage::Used), wrong(Usage::Spare));
        let (severity, nodes, consequence) = match (used.is_empty(), spare.is_empty()) {
            (false, _) => (
                Severity::Error,
                used,
                format!(
                    "packets to the Pods of `{owner}` arrive at another node, and are lost when that one goes down"
                ),
            ),
            (true, false) => (
                Severity::Warning,
                spare,
                format!("when `{owner}` withdraws its route, packets to its Pods go there"),
            ),
            (true, true) => return None,
        };
        let message = format!(
            "routers hold {} from {}, but the Pods of node `{owner}` live there",
            route.prefix,
            named(&nodes)
        );
        let finding = finding(severity, "route-from-wrong-node", message)
            .about(ObjectRef::node(owner))
            .seen(self.evidence(route_dump, route));
        Some(finding.causes(consequence).help(
            "check the findings about that node: it announces another block than that of its Pods",
        ))
    }

    fn too_specific(
        &self,
        route_dump: &RouteDump,
        route: &Route,
        owner: &NodeName,
        block: Block,
    ) -> Finding {
        let message = format!(
            "routers hold {}, a part of {block}, in which the Pods of node `{owner}` live",
            route.prefix
        );
        let leads = self.leads_to(route, Usage::Used);
        let is_owner = !leads.is_empty() && leads.iter().all(|node| *node == owner);
        let (severity, consequence) = match is_owner {
            _ if leads.is_empty() => (
                Severity::Warning,
                "the longer prefix wins, and its next hop does not show its node".to_owned(),
            ),
            true => (
                Severity::Warning,
                "it leads to the right node, but takes an extra route in every router".to_owned(),
            ),
            false => (
                Severity::Error,
                format!("the longer prefix wins: packets to these Pods do not reach `{owner}`"),
            ),
        };
        let finding = finding(severity, "route-too-specific", message)
            .about(ObjectRef::node(owner))
            .seen(self.evidence(route_dump, route));
        finding
            .causes(consequence)
            .help("find its source and filter it at the routers: they need only the whole block of each node")
    }

    fn stale(&self, route_dump: &RouteDump, route: &Route) -> Finding {
        let message = format!(
            "routers hold {}, but it has no Pods and no Service address",
            route.prefix
        );
        let finding = finding(Severity::Warning, "route-stale", message)
            .seen(self.evidence(route_dump, route));
        let finding = finding
            .causes("packets to it go to a node that drops them, and the next node with this block is unreachable");
        finding.help("restart the agent that announces it, or remove the static route")
    }

    /// Routes to nodes' blocks whose next hop and peer are routers, not nodes.
    fn unknown_origins(&self, route_dumps: &[RouteDump]) -> Option<Finding> {
        let is_home = |route: &&Route| {
            self.homes
                .overlapping(&route.prefix.range())
                .any(|(_, (_, block))| *block == route.prefix)
        };
        let is_unknown = |route: &&Route| {
            !route.paths.is_empty() && self.leads_to(route, Usage::Used).is_empty()
        };
        let unknown: Vec<(&RouteDump, &Route)> = route_dumps
            .iter()
            .flat_map(|route_dump| {
                route_dump
                    .routes
                    .iter()
                    .filter(is_home)
                    .filter(is_unknown)
                    .map(move |route| (route_dump, route))
            })
            .collect();
        let (route_dump, first) = unknown.first()?;
        let message = format!(
            "{} of unknown origin: neither next hop nor peer is a node",
            routes(unknown.len())
        );
        let finding = finding(Severity::Info, "route-of-unknown-origin", message)
            .seen(self.evidence(route_dump, first));
        let finding = finding.causes("it is unknown whether they lead to the right node");
        Some(finding.help("pass the RIB of the routers that the nodes peer with"))
    }

    /// Blocks of announcing nodes without a route. Judges families with at least one route, or
    /// every family if there is no route at all.
    fn missing(&self, route_dumps: &[RouteDump]) -> Vec<Finding> {
        let routes = route_dumps
            .iter()
            .flat_map(|route_dump| &route_dump.routes)
            .filter(|route| !route.paths.is_empty());
        let held: BTreeSet<Block> = routes.map(|route| route.prefix).collect();
        let families: BTreeSet<Family> = held.iter().map(|block| block.family()).collect();
        let wider = RangeIndex::new(held.iter().map(|block| (block.range(), *block)));
        let mut findings = Vec::new();
        for (node, what) in self
            .observed
            .nodes
            .values()
            .filter_map(|node| Some((node, self.observed.announces(node)?)))
        {
            let is_judged =
                |block: &Block| families.is_empty() || families.contains(&block.family());
            let blocks = self
                .observed
                .pod_blocks_of(&node.name)
                .into_iter()
                .filter(is_judged);
            for block in blocks
                .filter(|block| !held.contains(block) && what.family_is_announced(block.family()))
            {
                let aggregate = wider
                    .overlapping(&block.range())
                    .map(|(_, wider)| *wider)
                    .find(|wider| wider.contains(block));
                findings.push(without_route(
                    route_dumps,
                    &node.name,
                    block,
                    aggregate,
                    held.len(),
                ));
            }
        }
        findings
    }
}

fn without_route(
    route_dumps: &[RouteDump],
    node: &NodeName,
    block: Block,
    aggregate: Option<Block>,
    held: usize,
) -> Finding {
    let sources = route_dumps.iter().map(|route_dump| &route_dump.source);
    let evidence = format!(
        "{}: {}, none of them to {block}",
        joined(sources, ", ").escape_debug(),
        routes(held)
    );
    let about = |severity, message: String| {
        finding(severity, "route-missing", message)
            .about(ObjectRef::node(node))
            .seen([evidence])
    };
    let Some(aggregate) = aggregate else {
        let finding = about(
            Severity::Error,
            format!("routers have no route to {block}, in which the Pods of node `{node}` live"),
        );
        let finding =
            finding.causes("clients outside the cluster cannot reach the Pods of this node");
        return finding.help(
            "check the BGP session of the node with `cilium bgp peers`, and the routers' filters",
        );
    };
    let message =
        format!("routers have no route to {block} of node `{node}` but the wider {aggregate}");
    let finding = about(Severity::Info, message)
        .causes("the router that announces the wider route must have a route to this node");
    finding.help("pass the RIB of the router that makes this summary with `--rib`, too")
}

fn routes(number: usize) -> String {
    if number == 1 {
        "1 route".to_owned()
    } else {
        format!("{number} routes")
    }
}
