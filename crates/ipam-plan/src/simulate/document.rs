//! A simulation as JSON.

use serde::Serialize;

use super::{First, GroupOutcome, Left, Simulation};
use ipam_core::model::Labels;

/// Output of `simulate -o json`.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationDocument {
    format_version: &'static str,
    /// What the new nodes get, in the order of the arguments.
    pub groups: Vec<GroupDocument>,
    /// Number of nodes that leave.
    pub removed: usize,
    /// The first new node without a block; null if all get one.
    pub first_without: Option<FirstDocument>,
    /// The first new node with a block of a later pool, because a better one is full; null if there is
    /// none.
    pub first_outside: Option<FirstDocument>,
    /// Free blocks of each supply afterwards.
    pub left: Vec<LeftDocument>,
    /// What to do about supplies that are full, as sentences.
    pub needs: Vec<String>,
    /// Why nothing can be said about a supply.
    pub unknown: Vec<String>,
}

/// New nodes with the same labels.
#[derive(Clone, Debug, Serialize)]
pub struct GroupDocument {
    pub labels: Labels,
    pub count: usize,
    /// Where the nodes get their blocks.
    pub given: Vec<GivenDocument>,
    /// Nodes without a block.
    pub without: Vec<WithoutDocument>,
    /// Number of nodes with a block of a later pool, because a better one is full.
    pub outside: usize,
}

/// Nodes with a block of one supply.
#[derive(Clone, Debug, Serialize)]
pub struct GivenDocument {
    /// As in `capacity`.
    pub kind: &'static str,
    pub name: String,
    pub nodes: usize,
}

/// Nodes without a block for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct WithoutDocument {
    pub why: String,
    pub nodes: usize,
}

/// A new node.
#[derive(Clone, Debug, Serialize)]
pub struct FirstDocument {
    /// Its number among all new nodes; 1 is the first.
    pub number: usize,
    /// The index of its group.
    pub group: usize,
    pub why: String,
}

/// Free blocks of a supply and a family.
#[derive(Clone, Debug, Serialize)]
pub struct LeftDocument {
    pub kind: &'static str,
    pub name: String,
    pub family: String,
    pub free: u128,
    pub total: u128,
}

impl SimulationDocument {
    pub fn new(simulation: &Simulation) -> SimulationDocument {
        SimulationDocument {
            format_version: "1.0",
            groups: simulation.groups.iter().map(GroupDocument::new).collect(),
            removed: simulation.removed,
            first_without: simulation.first_without.as_ref().map(FirstDocument::new),
            first_outside: simulation.first_outside.as_ref().map(FirstDocument::new),
            left: simulation.left.iter().map(LeftDocument::new).collect(),
            needs: simulation.needs.clone(),
            unknown: simulation
                .unknown
                .iter()
                .map(|unknown| format!("{}: {}", unknown.of, unknown.why))
                .collect(),
        }
    }

    /// Number of new nodes without a block.
    pub fn without(&self) -> usize {
        let without = self.groups.iter().flat_map(|group| &group.without);
        without.map(|without| without.nodes).sum()
    }
}

impl GroupDocument {
    fn new(group: &GroupOutcome) -> GroupDocument {
        let given = group.given.iter().map(|(of, nodes)| GivenDocument {
            kind: of.kind(),
            name: of.name().to_owned(),
            nodes: *nodes,
        });
        let without = group.without.iter().map(|(why, nodes)| WithoutDocument {
            why: why.clone(),
            nodes: *nodes,
        });
        GroupDocument {
            labels: group.labels.clone(),
            count: group.count,
            given: given.collect(),
            without: without.collect(),
            outside: group.outside,
        }
    }
}

impl FirstDocument {
    fn new(first: &First) -> FirstDocument {
        FirstDocument {
            number: first.number,
            group: first.group,
            why: first.why.clone(),
        }
    }
}

impl LeftDocument {
    fn new(left: &Left) -> LeftDocument {
        LeftDocument {
            kind: left.of.kind(),
            name: left.of.name().to_owned(),
            family: left.family.to_string(),
            free: left.free,
            total: left.total,
        }
    }
}
