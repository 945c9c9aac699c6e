//! Nodes whose agents wait for a block: the families that they lack, the cause where it can be
//! computed, and allocators that soon have none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster_cidr_use::{self, RangeUse};
use super::finding;
use super::orphans::Orphans;
use ipam_cilium::observed::{AnnotationReads, ModeSeen, Node, Observed, ObservedKind};
use ipam_core::model::{Finding, IpamMode, NodeName, Severity};
use ipam_core::net::Family;
use ipam_core::text::joined;
use ipam_desired::Policy;
use ipam_plan::allocators::{OtherAllocator, described, fix};
use ipam_plan::capacity::waiting;
use ipam_plan::check::operator_settings;
use ipam_plan::plan::{BlockedReason, Plan, Target, WritePathObstacle};

/// What a node lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lack {
    families: Vec<Family>,
    spec: Spec,
}

impl Lack {
    /// Whether the allocator has no block for these nodes.
    fn is_caused_by(&self, range: &RangeUse<'_>) -> bool {
        self.spec == Spec::Open && range.is_full() && self.families.contains(&range.family())
    }
}

/// `spec.podCIDRs` of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spec {
    /// It can be written, or does not matter.
    Open,
    /// It has the other family only, and the annotation is not read.
    Final,
}

/// Why nodes wait.
#[derive(Default)]
struct Cause {
    /// Follows the message.
    why: Option<String>,
    evidence: Vec<String>,
    help: String,
}

/// An agent waits indefinitely until its node has a block of each enabled family.
pub(super) fn nodes(
    observed: &Observed,
    plan: Option<&Plan>,
    orphans: &Orphans<'_>,
) -> Vec<Finding> {
    let mut groups: BTreeMap<Lack, Vec<&Arc<Node>>> = BTreeMap::new();
    for node in observed.nodes.values() {
        let families = waiting::lacks(observed, node);
        let is_told = orphans.keep_from(&node.name) || has_operator_error(observed, node);
        if !families.is_empty() && !is_told {
            let spec = spec(observed, node);
            groups
                .entry(Lack { families, spec })
                .or_default()
                .push(node);
        }
    }
    let uses = cluster_cidr_use::of_allocators(observed);
    let nearly = uses
        .iter()
        .filter(|one| !groups.keys().any(|lack| lack.is_caused_by(one)));
    let nearly: Vec<Finding> = nearly.filter_map(RangeUse::nearly_exhausted).collect();
    let findings = groups.iter().map(|(lack, nodes)| {
        let cause = match observed.cilium.mode() {
            ModeSeen::Known(IpamMode::Kubernetes) => {
                in_kubernetes(observed, plan, &uses, lack, nodes)
            }
            _ => in_cilium_node(observed, lack, nodes),
        };
        of_lack(observed, lack, nodes, cause)
    });
    findings.chain(nearly).collect()
}

fn spec(observed: &Observed, node: &Node) -> Spec {
    let is_kubernetes = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
    let reads = matches!(observed.annotation_reads(node), AnnotationReads::Yes(_));
    match is_kubernetes && !node.spec.is_empty() && !reads {
        true => Spec::Final,
        false => Spec::Open,
    }
}

fn of_lack(observed: &Observed, lack: &Lack, nodes: &[&Arc<Node>], cause: Cause) -> Finding {
    let names: Vec<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    let have = if names.len() == 1 { "has" } else { "have" };
    let families = joined(
        lack.families.iter().map(|family| format!("no {family}")),
        " and ",
    );
    let why = cause.why.map_or_else(String::new, |why| format!(": {why}"));
    let message = format!("{} {have} {families} block{why}", super::named(&names));
    let is_kubernetes = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
    let line = |node: &&Arc<Node>| {
        let name = &node.name;
        match (is_kubernetes, node.spec.is_empty()) {
            (true, true) => {
                format!("Node `{name}`: no spec.podCIDRs, and no annotation that is read")
            }
            (true, false) => format!(
                "Node `{name}`: spec.podCIDRs {}, and no annotation that is read",
                super::spaced(node.spec.iter())
            ),
            (false, _) => {
                format!("CiliumNode `{name}`: {families} block, and no error of the operator")
            }
        }
    };
    let finding = finding(Severity::Warning, "node-without-block", message);
    super::about_nodes(finding, names.iter().copied())
        .seen(cause.evidence)
        .seen(nodes.iter().map(line))
        .causes("their agents wait indefinitely, and no Pod starts there")
        .help(cause.help)
}

fn in_kubernetes(
    observed: &Observed,
    plan: Option<&Plan>,
    uses: &[RangeUse<'_>],
    lack: &Lack,
    nodes: &[&Arc<Node>],
) -> Cause {
    // A crashing allocator assigns nothing, and keeps `cilium-ipam` from assigning.
    let rival = OtherAllocator::of(observed, &Policy::default()).active();
    let full = uses.iter().find(|one| lack.is_caused_by(one));
    match (lack, rival, full) {
        (
            Lack {
                families,
                spec: Spec::Final,
            },
            _,
            _,
        ) => {
            let family = families.first().copied().unwrap_or(Family::Ipv4);
            let reason = BlockedReason::WritePath(WritePathObstacle::SpecIsWriteOnce(family));
            Cause {
                why: Some(reason.to_string()),
                help: format!(
                    "{}, or switch {family} off in cilium-config",
                    reason.unblock()
                ),
                ..Cause::default()
            }
        }
        (_, _, Some(full)) => Cause {
            why: Some(full.why()),
            evidence: full.evidence().into(),
            help: full.help(),
        },
        (_, Some(rival), None) => Cause {
            help: format!(
                "{}, and has to assign it: see its log and its ranges. For blocks of `cilium-ipam`: {}",
                described(rival),
                fix(rival)
            ),
            ..Cause::default()
        },
        (_, None, None) => Cause {
            help: by_plan(plan, nodes),
            ..Cause::default()
        },
    }
}

/// What a plan does for these nodes.
fn by_plan(plan: Option<&Plan>, nodes: &[&Arc<Node>]) -> String {
    let names: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    let is_meant = |target: &Target| match target {
        Target::Node(name) => names.contains(name),
        _ => false,
    };
    let blocked = plan.map(|plan| plan.blocked.iter()).into_iter().flatten();
    let blocked = blocked.filter(|blocked| is_meant(&blocked.target));
    let reasons: BTreeSet<&BlockedReason> = blocked.map(|blocked| &blocked.reason).collect();
    match (reasons.first(), nodes.first()) {
        (Some(first), _) => {
            let more = match reasons.len() - 1 {
                0 => "",
                _ => "; `cilium-ipam plan` shows further reasons",
            };
            format!(
                "`cilium-ipam plan` cannot assign one, because {first}: {}{more}",
                first.unblock()
            )
        }
        (None, Some(node)) => format!(
            "`cilium-ipam plan` assigns one; if it does not, `cilium-ipam explain {}` shows why",
            node.name
        ),
        (None, None) => String::new(),
    }
}

fn in_cilium_node(observed: &Observed, lack: &Lack, nodes: &[&Arc<Node>]) -> Cause {
    let knows_pools =
        observed.is_multi_pool() && observed.blind_spot(ObservedKind::PodIpPool).is_none();
    let default = nodes.first().map(|node| observed.default_pool(node));
    let pool = default.and_then(|name| Some((name, observed.pod_pools.get(name)?)));
    let lacking = pool.filter(|_| knows_pools).and_then(|(name, pool)| {
        let mut families = lack.families.iter();
        let family = families.find(|family| pool.ranges.get(**family).is_none())?;
        Some((name.escape_debug(), family))
    });
    match lacking {
        Some((pool, family)) => Cause {
            why: Some(format!("CiliumPodIPPool `{pool}` has no {family} CIDR")),
            help: format!(
                "add `spec.{}` to CiliumPodIPPool `{pool}`, or switch {family} off in cilium-config",
                family.to_string().to_lowercase()
            ),
            ..Cause::default()
        },
        None if operator_settings::keep_it_from_starting(observed) => Cause {
            help: "correct the settings of Cilium's operator first (operator-setting-rejected): it gives these nodes blocks when it starts".to_owned(),
            ..Cause::default()
        },
        None => Cause {
            help: "check that Cilium's operator runs and what it logs about these nodes; if it says nothing, restart it, and then their agents".to_owned(),
            ..Cause::default()
        },
    }
}

/// Whether Cilium's operator tells why the node has no block: that has a finding of its own.
fn has_operator_error(observed: &Observed, node: &Node) -> bool {
    let is_kubernetes = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
    let cilium_node = observed.cilium_nodes.get(&node.name);
    !is_kubernetes
        && cilium_node
            .is_some_and(|node| node.operator_error.is_some() || !node.unreadable.is_empty())
}
