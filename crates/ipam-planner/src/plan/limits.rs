//! What keeps a plan from being applied as a whole: limits, protections, and blindness.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Action, Change, NodeChange, Reason, node_changes};
use super::lb::{self, Effects};
use super::pairs::PortChange;
use super::pod_pools::PodPoolObject;
use crate::check::{self, NeutronOverlap, NeutronRival};
use ipam_cilium::observed::{Observed, Protection};
use ipam_core::alloc::PassedOver;
use ipam_core::model::{
    Hazard, LimitName, Limited, Measure, NodeName, PoolName, Rule, Waiver, grouped_digits,
};
use ipam_desired::{Desired, Policy};

/// Why changes may not be applied together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Stable code.
    pub rule: Rule,
    /// What is refused.
    pub message: String,
    /// The way out.
    pub help: String,
    /// The waiver that it would take; protections cannot be waived.
    pub waiver: Option<Waiver>,
}

impl Refusal {
    /// Whether one of these lets it pass.
    pub fn is_waived(&self, waivers: &BTreeSet<Waiver>) -> bool {
        self.waiver
            .is_some_and(|needed| waivers.iter().any(|waiver| waiver.covers(needed)))
    }
}

/// Everything that speaks against applying these changes, which do this to Services.
pub fn refusals(
    changes: &[Change],
    effects: &Effects,
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    let nodes: Vec<&NodeChange> = node_changes(changes).collect();
    let mut refusals: Vec<Refusal> = exceeded(changes, &desired.policy, observed)
        .into_iter()
        .map(Exceeded::into_refusal)
        .collect();
    refusals.extend(protected_nodes(changes, desired, observed));
    refusals.extend(protected_pools(&nodes, desired, observed));
    refusals.extend(last_pod_pools(changes, observed));
    refusals.extend(blindness(changes, observed));
    refusals.extend(over_subnets(changes, desired, observed));
    refusals.extend(lb::refusals(changes, effects, desired, observed));
    refusals.sort();
    refusals
}

/// The limits that these changes exceed.
pub fn exceeded_limits(changes: &[Change], policy: &Policy, observed: &Observed) -> Vec<LimitName> {
    exceeded(changes, policy, observed)
        .into_iter()
        .map(|exceeded| exceeded.name)
        .collect()
}

struct Exceeded {
    name: LimitName,
    value: u32,
    changed: usize,
    /// Of these, in the whole cluster, the ones that only their VMs' ports make so.
    by_ports: usize,
    nodes: usize,
    allowed: usize,
    domain: Option<String>,
}

impl Exceeded {
    fn into_refusal(self) -> Refusal {
        let Exceeded {
            name,
            value,
            changed,
            by_ports,
            nodes,
            allowed,
            domain,
        } = self;
        let verb = match name.limited {
            Limited::Assign => "would get a block",
            Limited::Disruptive => "would need a restart of their agent",
            Limited::Release => "would lose a block",
        };
        let place = match domain.as_deref() {
            None => String::new(),
            Some("") => " without a failure domain".to_owned(),
            Some(domain) => format!(" in failure domain `{domain}`"),
        };
        let [changed, nodes, allowed] = [changed, nodes, allowed].map(grouped_digits);
        let by_ports = match (by_ports, name.limited) {
            (0, _) | (_, Limited::Release) => String::new(),
            (some, Limited::Assign) => {
                format!(
                    " ({} of them: the port of the VM would let more addresses out)",
                    grouped_digits(some)
                )
            }
            (some, Limited::Disruptive) => {
                format!(
                    " ({} of them: the port of the VM would let fewer addresses out)",
                    grouped_digits(some)
                )
            }
        };
        let message = format!(
            "{changed} of {nodes} nodes{place} {verb}{by_ports}, and {name} = {value} allows {allowed}"
        );
        let help = format!(
            "apply fewer at a time, raise the limit where it is set, or plan again with --waive {name}"
        );
        Refusal {
            rule: Rule("limit"),
            message,
            help,
            waiver: Some(name.into()),
        }
    }
}

fn limited(change: &NodeChange) -> Option<Limited> {
    match (change.action, change.hazard) {
        (Action::Release, _) => Some(Limited::Release),
        (_, Hazard::Disruptive | Hazard::Destructive) => Some(Limited::Disruptive),
        (Action::Assign, Hazard::None) => Some(Limited::Assign),
        (Action::Update, Hazard::None) => None,
    }
}

/// Nodes whose agents take addresses of another pool when they start again.
fn disturbed(changes: &[Change]) -> impl Iterator<Item = &NodeName> {
    changes
        .iter()
        .flat_map(|change| match change {
            Change::PodPool(change) => Some(&change.disturbed),
            Change::AddressPool(_) | Change::Service(_) | Change::Port(_) | Change::Node(_) => None,
        })
        .flatten()
}

fn ports(changes: &[Change]) -> impl Iterator<Item = &PortChange> {
    changes.iter().filter_map(|change| match change {
        Change::Port(change) => Some(&**change),
        Change::AddressPool(_) | Change::Service(_) | Change::PodPool(_) | Change::Node(_) => None,
    })
}

/// What is not let out any more may be cut off.
fn limited_port(change: &PortChange) -> Limited {
    if change.removed.is_empty() {
        Limited::Assign
    } else {
        Limited::Disruptive
    }
}

fn exceeded(changes: &[Change], policy: &Policy, observed: &Observed) -> Vec<Exceeded> {
    let mut found = Vec::new();
    for (&name, &value) in &policy.limits {
        let concerned =
            node_changes(changes).filter(|change| limited(change) == Some(name.limited));
        let disturbed = disturbed(changes).filter(|_| name.limited == Limited::Disruptive);
        let of_ports = ports(changes)
            .filter(|change| limited_port(change) == name.limited)
            .map(|change| &change.node);
        let mut nodes: BTreeSet<&NodeName> = concerned
            .map(|change| &change.node)
            .chain(disturbed)
            .collect();
        let without_ports = nodes.len();
        nodes.extend(of_ports);
        let by_ports = nodes.len() - without_ports;
        match name.measure {
            Measure::Count | Measure::Percent => {
                let (changed, all) = (nodes.len(), observed.nodes.len());
                let allowed = name.measure.allows(value, all);
                if changed > allowed {
                    found.push(Exceeded {
                        name,
                        value,
                        changed,
                        by_ports,
                        nodes: all,
                        allowed,
                        domain: None,
                    });
                }
            }
            // One domain for each limit, the one that is hit hardest: the others follow when that
            // one is mended.
            Measure::DomainCount | Measure::DomainPercent => {
                let worst = by_domain(&nodes, policy, observed).into_iter().filter_map(
                    |(domain, (changed, all))| {
                        let allowed = name.measure.allows(value, all);
                        (changed > allowed)
                            .then(|| (changed - allowed, changed, all, allowed, domain))
                    },
                );
                if let Some((_, changed, nodes, allowed, domain)) = worst.max() {
                    let domain = Some(domain.escape_debug().to_string());
                    found.push(Exceeded {
                        name,
                        value,
                        changed,
                        by_ports,
                        nodes,
                        allowed,
                        domain,
                    });
                }
            }
        }
    }
    found
}

/// Changed nodes and all nodes of each failure domain; nodes without the label are a domain of
/// their own.
fn by_domain<'o>(
    changed: &BTreeSet<&NodeName>,
    policy: &Policy,
    observed: &'o Observed,
) -> BTreeMap<&'o str, (usize, usize)> {
    let mut domains: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for node in observed.nodes.values() {
        let domain = node
            .labels
            .get(&policy.failure_domain)
            .map_or("", String::as_str);
        let (hit, all) = domains.entry(domain).or_default();
        *hit += usize::from(changed.contains(&node.name));
        *all += 1;
    }
    domains
}

fn harms(change: &NodeChange) -> bool {
    change.hazard != Hazard::None || change.action == Action::Release
}

fn protected_nodes(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Refusal> {
    let by_itself = |node: &NodeName| {
        observed
            .nodes
            .get(node)
            .is_some_and(|node| node.protection == Protection::Protected)
    };
    let by_policy = |node: &NodeName| desired.policy.protected.nodes.contains(node);
    let refusal = |(node, what): (&NodeName, &str)| {
        let by = if by_policy(node) {
            ""
        } else {
            " by its annotation cilium-ipam.io/protected"
        };
        Refusal {
            rule: Rule("protected-node"),
            message: format!("node `{node}` would {what}, and is protected{by}"),
            help: "take the protection away first, in a change of its own".to_owned(),
            waiver: None,
        }
    };
    let concerned = node_changes(changes)
        .filter(|change| harms(change))
        .map(|change| {
            let what = if change.action == Action::Release {
                "lose its block"
            } else {
                "need a restart of its agent"
            };
            (&change.node, what)
        });
    let disturbed = disturbed(changes).map(|node| (node, "take addresses of another pool"));
    let cut_off = ports(changes).filter(|change| !change.removed.is_empty());
    let cut_off = cut_off.map(|change| (&change.node, "let fewer addresses out"));
    concerned
        .chain(disturbed)
        .chain(cut_off)
        .filter(|(node, _)| by_policy(node) || by_itself(node))
        .map(refusal)
        .collect()
}

fn protected_pools(
    changes: &[&NodeChange],
    desired: &Desired,
    observed: &Observed,
) -> Vec<Refusal> {
    let protected = &desired.policy.protected.pools;
    let refusal = |message: String, help: &str| Refusal {
        rule: Rule("protected-pool"),
        message,
        help: format!("{help}take the protection away first, in a change of its own"),
        waiver: None,
    };
    let is_declared = |pool: &PoolName| {
        desired.pools.contains_key(pool) || desired.neutron_pools.contains_key(pool)
    };
    let is_balancer = |pool: &PoolName| {
        desired
            .address_pools
            .keys()
            .any(|name| name.as_str() == pool.as_str())
    };
    let gone = protected
        .iter()
        .filter(|pool| !is_declared(pool) && !is_balancer(pool));
    let gone = gone.map(|pool| {
        refusal(
            format!("pool `{pool}` is protected, and no file declares it"),
            "bring it back, or ",
        )
    });
    let holds = |change: &NodeChange, pool: &PoolName| {
        let shown = observed
            .nodes
            .get(&change.node)
            .into_iter()
            .flat_map(|node| &node.shown);
        let pool = desired.pools.get(pool);
        shown
            .copied()
            .any(|block| pool.is_some_and(|pool| pool.contains(block)))
    };
    let hit = changes.iter().filter(|change| harms(change));
    let hit = hit.filter_map(|change| {
        let concerns =
            |pool: &&PoolName| change.pool.as_ref() == Some(*pool) || holds(change, pool);
        Some((change, protected.iter().find(concerns)?))
    });
    let hit = hit.map(|(change, pool)| {
        let message = format!(
            "node `{}` has or would get a block of pool `{pool}`, which is protected, and its pods would be disturbed",
            change.node
        );
        refusal(message, "")
    });
    gone.chain(hit).collect()
}

/// What is taken away may be in use where nobody could look.
fn blindness(changes: &[Change], observed: &Observed) -> Option<Refusal> {
    let takes = |change: &&Change| match change {
        Change::Port(change) => !change.removed.is_empty(),
        other => other.hazard() == Hazard::Destructive,
    };
    let change = changes.iter().find(takes)?;
    let spot = observed.blind_spots.first()?;
    Some(Refusal {
        rule: Rule("destructive-while-blind"),
        message: match change {
            Change::Node(node) => {
                format!(
                    "node `{}` would lose a block while {} cannot be read",
                    node.node,
                    spot.kind.resource()
                )
            }
            Change::Port(port) => format!(
                "the port of node `{}` would let fewer addresses out while {} cannot be read",
                port.node,
                spot.kind.resource()
            ),
            other => format!(
                "{} would be changed while {} cannot be read, and Services may lose addresses by it",
                other.target(),
                spot.kind.resource()
            ),
        },
        help: "allow `list` on it; nothing is taken away in a cluster that is half seen".to_owned(),
        waiver: None,
    })
}

/// Whether a node gets a block of this pool; or of a worse one, as this one has too little beside
/// the subnet.
fn gives_instead(change: &NodeChange, pool: &PoolName) -> bool {
    let is_passed_over = || match &change.reason {
        Reason::LowestFree { passed_over } => passed_over
            .iter()
            .any(|passed| passed.pool == *pool && passed.why == PassedOver::Full),
        Reason::Pinned
        | Reason::MovedByPin { .. }
        | Reason::PinnedInPart
        | Reason::HeldElsewhere { .. }
        | Reason::Undo => false,
    };
    change.action != Action::Release && (change.pool.as_ref() == Some(pool) || is_passed_over())
}

/// Pools that give addresses of a subnet of Neutron are refused as those that overlap one another
/// are, but that is known only here.
fn over_subnets(changes: &[Change], desired: &Desired, observed: &Observed) -> Vec<Refusal> {
    if desired.neutron_pools.is_empty() {
        return Vec::new();
    }
    let gives = |change: &Change, rival: &NeutronRival<'_>| match (change, rival) {
        (Change::Node(change), NeutronRival::Pool(name)) => gives_instead(change, name),
        (Change::PodPool(change), NeutronRival::Pool(name)) => {
            change.after.is_some() && change.pool == **name
        }
        (Change::AddressPool(change), NeutronRival::AddressPool(name)) => {
            change.after.is_some() && change.name.as_str() == *name
        }
        (
            Change::Node(_)
            | Change::PodPool(_)
            | Change::Port(_)
            | Change::AddressPool(_)
            | Change::Service(_),
            _,
        ) => false,
    };
    let overlaps = check::neutron_overlaps(desired, observed).into_iter();
    let concerned =
        overlaps.filter(|overlap| changes.iter().any(|change| gives(change, &overlap.rival)));
    let refusal = |overlap: NeutronOverlap<'_>| Refusal {
        rule: Rule("neutron-overlap"),
        message: overlap.message(),
        help: "give each pool addresses of its own; Neutron gives those of a subnet to ports"
            .to_owned(),
        waiver: None,
    };
    concerned.map(refusal).collect()
}

/// A directory that has none of our pools any more is more often the wrong one than a wish.
fn last_pod_pools(changes: &[Change], observed: &Observed) -> Option<Refusal> {
    let is_deleted = |change: &&Change| match change {
        Change::PodPool(change) => {
            change.after.is_none() && matches!(change.object, PodPoolObject::Pool(_))
        }
        Change::AddressPool(_) | Change::Service(_) | Change::Port(_) | Change::Node(_) => false,
    };
    let count = changes.iter().filter(is_deleted).count();
    let is_left = observed
        .pod_pools
        .values()
        .filter(|pool| pool.is_ours())
        .count()
        > count;
    (count > 0 && !is_left).then(|| Refusal {
        rule: Rule("last-pod-pools"),
        message: format!(
            "the files have none of the CiliumPodIPPools that are ours, and all would be deleted ({count})"
        ),
        help: "check that it is the right directory, there is one for each cluster; or delete them by hand".to_owned(),
        waiver: None,
    })
}
