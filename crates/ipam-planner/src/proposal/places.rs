//! Racks of one name in several data centres: one value of the label that divides the nodes, and
//! several places by a wider one.

use std::collections::BTreeSet;
use std::fmt;

use super::PoolNodes;
use super::groups::{Group, Purpose};

/// Last parts of the keys of labels that name places wider than a rack.
const WIDER: [&str; 6] = ["region", "zone", "datacenter", "data-center", "dc", "site"];

/// Places that a message names; more are counted.
const NAMED: usize = 4;

/// One value of a label in several places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeveralPlaces {
    /// `rack=a`.
    pub label: String,
    /// The key of the wider label.
    pub wider: String,
    /// Its values.
    pub places: BTreeSet<String>,
}

impl fmt::Display for SeveralPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first: Vec<&str> = self.places.iter().map(String::as_str).take(NAMED).collect();
        let more = match self.places.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        write!(
            f,
            "nodes with {} are in {} places by the label `{}` ({}{more}), and get one pool: if these are different racks of one name, write a pool for each, whose nodeSelector has both labels",
            self.label.escape_debug(),
            self.places.len(),
            self.wider.escape_debug(),
            first.join(", ").escape_debug()
        )
    }
}

/// The first wider label that tells the nodes of a group apart.
pub(super) fn of_group(group: &Group<'_>) -> Option<SeveralPlaces> {
    let PoolNodes::WithLabel { key, value } = &group.selected else {
        return None;
    };
    if group.purpose != Purpose::Give {
        return None;
    }
    let labels = group.nodes.iter().flat_map(|node| &node.labels);
    let is_wider = |other: &&String| {
        let last = other.rsplit('/').next().unwrap_or_default();
        *other != key && WIDER.contains(&last)
    };
    let keys: BTreeSet<&String> = labels.map(|(key, _)| key).filter(is_wider).collect();
    keys.into_iter().find_map(|wider| {
        let nodes = group.nodes.iter();
        let places: BTreeSet<String> = nodes
            .filter_map(|node| node.labels.get(wider).cloned())
            .collect();
        (places.len() > 1).then(|| SeveralPlaces {
            label: format!("{key}={value}"),
            wider: wider.clone(),
            places,
        })
    })
}
