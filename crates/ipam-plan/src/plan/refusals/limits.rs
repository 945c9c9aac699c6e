//! Limits of one apply: on nodes that get a block, lose one, or need a restart of their agent.

use std::collections::{BTreeMap, BTreeSet};

use super::{Refusal, disturbed, ports};
use crate::plan::change::{Action, Change, NodeChange, node_changes};
use crate::plan::ports::PortChange;
use ipam_cilium::observed::Observed;
use ipam_core::model::{Hazard, LimitName, Limited, Measure, NodeName, Rule, grouped_digits};
use ipam_desired::Policy;

/// One refusal for each limit that these changes exceed.
pub(super) fn refusals(changes: &[Change], policy: &Policy, observed: &Observed) -> Vec<Refusal> {
    exceeded(changes, policy, observed)
        .into_iter()
        .map(Exceeded::into_refusal)
        .collect()
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
    /// Number of nodes in `changed`, in the whole cluster, that only the ports of their VMs add.
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
                    " ({} of them: the port of the VM would allow more addresses)",
                    grouped_digits(some)
                )
            }
            (some, Limited::Disruptive) => {
                format!(
                    " ({} of them: the port of the VM would allow fewer addresses)",
                    grouped_digits(some)
                )
            }
        };
        let message = format!(
            "{changed} of {nodes} nodes{place} {verb}{by_ports}, and {name} = {value} allows {allowed}"
        );
        let help = format!(
            "apply fewer at a time with `--target`, raise the limit where it is set, or plan again with `--waive {name}`"
        );
        Refusal {
            rule: Rule("policy-limit"),
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

/// A removed range may cut off Pods.
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
            // One refusal for each limit, about the domain that exceeds it most: the other domains
            // follow once that one is fixed.
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

/// Changed nodes and all nodes of each failure domain; nodes without the label form one domain.
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
