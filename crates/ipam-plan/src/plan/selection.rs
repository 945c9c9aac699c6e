//! Limits a plan to some objects, as `--target` and `--exclude` ask.
//!
//! The whole plan is made first. So the limit never changes which block a node gets.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::change::{Change, Target, node_changes};
use super::{Blocked, Drift, Plan, effects};
use ipam_cilium::observed::{Node, Observed};
use ipam_core::model::{Finding, NodeName, Selector, ServiceName};
use ipam_core::text::joined;
use ipam_desired::Desired;

/// Objects that a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// A node, with the port of the node's VM.
    Node(NodeName),
    /// A pool of any kind by its name, with the nodes that use the pool.
    Pool(String),
    /// A Service.
    Service(ServiceName),
    /// The nodes with these labels.
    Labels(Selector),
}

impl FromStr for Selected {
    type Err = String;

    fn from_str(text: &str) -> Result<Selected, String> {
        if let Some(selector) = text.strip_prefix("label:") {
            let selector = selector.parse::<Selector>();
            return selector
                .map(Selected::Labels)
                .map_err(|error| error.to_string());
        }
        let (kind, name) = text.split_once('/').unwrap_or(("", text));
        let error = |error: &dyn fmt::Display| error.to_string();
        match kind.to_ascii_lowercase().as_str() {
            "node" | "nodes" | "no" => name.parse().map(Selected::Node).map_err(|e| error(&e)),
            "pool" | "pools" | "ippool" | "ippools" if !name.is_empty() => {
                Ok(Selected::Pool(name.to_owned()))
            }
            "service" | "services" | "svc" => {
                name.parse().map(Selected::Service).map_err(|e| error(&e))
            }
            _ => Err(format!(
                "write it as node/{name}, pool/{name}, service/NAMESPACE/NAME or label:KEY=VALUE"
            )),
        }
    }
}

impl fmt::Display for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selected::Node(name) => write!(f, "node/{name}"),
            Selected::Pool(name) => write!(f, "pool/{name}"),
            Selected::Service(name) => write!(f, "service/{name}"),
            Selected::Labels(selector) => write!(f, "label:{selector}"),
        }
    }
}

ipam_core::serde_as_text! { Selected: "object to select" }

/// The objects to which a plan is limited. An empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Only these; empty for all.
    pub targets: Vec<Selected>,
    /// Of those, without these.
    pub excluded: Vec<Selected>,
}

/// Counts of what a limited plan leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Changes.
    pub changes: usize,
    /// Blocked changes.
    pub blocked: usize,
    /// Nodes with a misplaced block.
    pub misplaced: usize,
    /// Nodes with a field that differs from what it should show.
    pub drifted: usize,
    /// Findings about nodes outside the plan.
    pub findings: usize,
}

impl Selection {
    pub const EVERYTHING: &'static Selection = &Selection {
        targets: Vec::new(),
        excluded: Vec::new(),
    };

    pub fn is_everything(&self) -> bool {
        let Selection { targets, excluded } = self;
        targets.is_empty() && excluded.is_empty()
    }

    /// The flags that give this limit: `--target 'node/n1' --exclude 'pool/a'`.
    pub fn flags(&self) -> String {
        let Selection { targets, excluded } = self;
        let targets = targets.iter().map(|one| format!("--target '{one}'"));
        let excluded = excluded.iter().map(|one| format!("--exclude '{one}'"));
        joined(targets.chain(excluded), " ")
    }

    /// Selected objects that exist neither in the files nor in the cluster.
    pub fn unknown<'s>(
        &'s self,
        desired: &'s Desired,
        observed: &'s Observed,
    ) -> impl Iterator<Item = &'s Selected> {
        self.targets
            .iter()
            .chain(&self.excluded)
            .filter(|one| !is_known(one, desired, observed))
    }
}

fn is_known(selected: &Selected, desired: &Desired, observed: &Observed) -> bool {
    match selected {
        Selected::Node(name) => observed.nodes.contains_key(name),
        Selected::Pool(name) => {
            desired.pools.keys().any(|pool| pool.as_str() == name)
                || desired
                    .neutron_pools
                    .keys()
                    .any(|pool| pool.as_str() == name)
                || desired
                    .address_pools
                    .keys()
                    .any(|pool| pool.as_str() == name)
                || observed.address_pools.contains_key(name)
                || observed.pod_pools.contains_key(name)
        }
        Selected::Service(name) => {
            observed.services.contains_key(name) || desired.service_pins.contains_key(name)
        }
        Selected::Labels(selector) => observed
            .nodes
            .values()
            .any(|node| selector.matches(&node.labels)),
    }
}

impl Plan {
    /// The part of the plan that is about the selected objects, with what it leaves out.
    #[must_use]
    pub fn limited_to(
        mut self,
        selection: &Selection,
        desired: &Desired,
        observed: &Observed,
    ) -> Plan {
        if selection.is_everything() {
            return self;
        }
        let members = Members::new(selection, &self, desired, observed);
        let left_out = LeftOut {
            changes: members.retain_changes(&mut self.changes),
            blocked: retain(&mut self.blocked, |blocked: &Blocked| {
                members.has(&blocked.target)
            }),
            misplaced: members.retain_nodes(&mut self.misplaced, |one| &one.node),
            drifted: members.retain_nodes(&mut self.drift, Drift::node),
            findings: retain(&mut self.findings, |finding| members.has_finding(finding)),
        };
        self.unchanged.retain(|target| members.has(target));
        // Effects and refusals describe all changes together, and some changes are left out now.
        self.effects = effects(&self.changes, observed);
        self.judge(desired, observed);
        self.selection = selection.clone();
        self.left_out = Some(left_out);
        self
    }
}

/// Keeps the items that fit, and returns the number of the others.
fn retain<T>(items: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> usize {
    let before = items.len();
    items.retain(fits);
    before - items.len()
}

/// The objects that a selection selects in one plan.
struct Members {
    /// Selected objects; `None` selects all.
    targets: Option<Objects>,
    excluded: Objects,
}

#[derive(Default)]
struct Objects {
    nodes: BTreeSet<NodeName>,
    pools: BTreeSet<String>,
    services: BTreeSet<ServiceName>,
}

impl Members {
    fn new(selection: &Selection, plan: &Plan, desired: &Desired, observed: &Observed) -> Members {
        let Selection { targets, excluded } = selection;
        let objects = |selected: &[Selected]| {
            let mut objects = Objects::default();
            for one in selected {
                objects.add(one, plan, desired, observed);
            }
            objects
        };
        Members {
            targets: (!targets.is_empty()).then(|| objects(targets)),
            excluded: objects(excluded),
        }
    }

    fn includes(&self, is_in: impl Fn(&Objects) -> bool) -> bool {
        self.targets.as_ref().is_none_or(&is_in) && !is_in(&self.excluded)
    }

    fn has_node(&self, node: &NodeName) -> bool {
        self.includes(|objects| objects.nodes.contains(node))
    }

    fn has_pool(&self, name: &str) -> bool {
        self.includes(|objects| objects.pools.contains(name))
    }

    fn has(&self, target: &Target) -> bool {
        match target {
            Target::Node(node) => self.has_node(node),
            Target::AddressPool(name) => self.has_pool(name.as_str()),
            Target::PodPool(name) | Target::NodeConfig(name) => self.has_pool(name),
            Target::Service(name) => self.includes(|objects| objects.services.contains(name)),
            // Only a change knows the node of its port, so a port always stays visible.
            Target::Port(_) => true,
        }
    }

    fn has_change(&self, change: &Change) -> bool {
        match change {
            Change::Port(change) => self.has_node(&change.node),
            Change::PodPool(change) => change
                .pool
                .as_ref()
                .is_some_and(|pool| self.has_pool(pool.as_str())),
            Change::AddressPool(_) | Change::Service(_) | Change::Node(_) => {
                self.has(&change.target())
            }
        }
    }

    /// Keeps the selected changes, and counts the others. A pin may need an address that a pool gets
    /// in the same plan, so it comes with all changes of pools, or not at all.
    fn retain_changes(&self, changes: &mut Vec<Change>) -> usize {
        let selects_pins = changes
            .iter()
            .any(|change| matches!(change, Change::Service(_)) && self.has_change(change));
        let is_excluded = |change: &Change| match change {
            Change::AddressPool(change) => {
                self.excluded.pools.contains(change.object.name.as_str())
            }
            Change::Service(_) | Change::Node(_) | Change::PodPool(_) | Change::Port(_) => false,
        };
        let lacks_pools = changes.iter().any(is_excluded);
        retain(changes, |change| match change {
            Change::AddressPool(_) if selects_pins => !is_excluded(change),
            Change::Service(_) => !lacks_pools && self.has_change(change),
            _ => self.has_change(change),
        })
    }

    /// Keeps the items of selected nodes, and counts the other nodes.
    fn retain_nodes<T>(&self, items: &mut Vec<T>, node: fn(&T) -> &NodeName) -> usize {
        let others: BTreeSet<NodeName> = items
            .iter()
            .map(node)
            .filter(|name| !self.has_node(name))
            .cloned()
            .collect();
        items.retain(|item| !others.contains(node(item)));
        others.len()
    }

    /// A finding without nodes is about everything.
    fn has_finding(&self, finding: &Finding) -> bool {
        let mut nodes = finding
            .subjects()
            .filter(|subject| subject.kind == "Node")
            .filter_map(|subject| subject.name.parse::<NodeName>().ok())
            .peekable();
        nodes.peek().is_none() || nodes.any(|node| self.has_node(&node))
    }
}

impl Objects {
    fn add(&mut self, selected: &Selected, plan: &Plan, desired: &Desired, observed: &Observed) {
        match selected {
            Selected::Node(name) => {
                self.nodes.insert(name.clone());
            }
            Selected::Service(name) => {
                self.services.insert(name.clone());
            }
            Selected::Labels(selector) => {
                let nodes = observed.nodes.values();
                let matching = nodes.filter(|node| selector.matches(&node.labels));
                self.nodes.extend(matching.map(|node| node.name.clone()));
            }
            Selected::Pool(name) => {
                self.pools.insert(name.clone());
                self.nodes.extend(users(name, plan, desired, observed));
            }
        }
    }
}

/// Nodes that get or hold a block of the pool, and those without a block that its selector matches.
fn users(name: &str, plan: &Plan, desired: &Desired, observed: &Observed) -> BTreeSet<NodeName> {
    let changed: BTreeSet<&NodeName> = node_changes(&plan.changes)
        .map(|change| &change.node)
        .collect();
    let mut users: BTreeSet<NodeName> = node_changes(&plan.changes)
        .filter(|change| {
            change
                .pool
                .as_ref()
                .is_some_and(|pool| pool.as_str() == name)
        })
        .map(|change| change.node.clone())
        .collect();
    let Some((_, pool)) = desired.pools.iter().find(|(pool, _)| pool.as_str() == name) else {
        return users;
    };
    let uses = |node: &Node| {
        let held = observed.holds(node);
        let waits = held.is_empty() && !changed.contains(&node.name);
        held.iter().any(|holding| pool.contains(holding.block))
            || (waits && pool.selector.matches(&node.labels))
    };
    let nodes = observed.nodes.values().filter(|node| uses(node));
    users.extend(nodes.map(|node| node.name.clone()));
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_objects_read_as_they_are_written() {
        for text in [
            "node/n1",
            "pool/edge",
            "service/web/shop",
            "label:rack=a,zone in (x,y)",
        ] {
            assert_eq!(text.parse::<Selected>().unwrap().to_string(), text);
        }
        for (other, ours) in [
            ("nodes/n1", "node/n1"),
            ("ippool/edge", "pool/edge"),
            ("svc/web/shop", "service/web/shop"),
        ] {
            assert_eq!(other.parse::<Selected>().unwrap().to_string(), ours);
        }
    }

    #[test]
    fn a_bare_name_gets_an_error_with_the_spellings() {
        for text in [
            "n1",
            "cluster/x",
            "pool/",
            "node/Not_A_Node",
            "label:",
            "service/shop",
        ] {
            assert!(text.parse::<Selected>().is_err(), "{text}");
        }
        let error = "n1".parse::<Selected>().unwrap_err();
        assert!(
            error.starts_with("write it as node/n1, pool/n1,"),
            "{error}"
        );
    }
}
