//! The finding about an object that shows much of a pool, with the fields that show it.

use std::collections::{BTreeMap, BTreeSet};

use super::addresses;
use super::budget::PoolShare;
use crate::plan::drift;
use ipam_cilium::observed::{HoldingField, Node, Observed};
use ipam_core::model::{Finding, NodeName, ObjectRef, Rule, Severity, grouped_digits};
use ipam_core::net::{Block, Range};

/// Values of one field that are listed; further ones are counted.
const LISTED: usize = 3;

/// How an object shows addresses.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// By the addresses of its machine.
    Machine,
    /// By fields that no agent reads.
    Unread,
    /// By fields that are in use.
    Held,
    /// By fields that show the block from which it was moved.
    Left,
}

/// An object that shows more of a pool than its share.
pub(super) struct Excess {
    object: ObjectRef,
    kind: Kind,
    share: PoolShare,
    /// The fields that show it, each with its object, some values and its last writer.
    sources: Vec<String>,
}

impl Excess {
    /// One for each of these pools.
    pub(super) fn new(
        object: &ObjectRef,
        kind: Kind,
        shares: Vec<PoolShare>,
        sources: impl Fn() -> Vec<String>,
    ) -> Vec<Excess> {
        let excess = |share| Excess {
            object: object.clone(),
            kind,
            share,
            sources: sources(),
        };
        shares.into_iter().map(excess).collect()
    }

    pub(super) fn finding(&self) -> Finding {
        let Excess {
            object,
            kind,
            share: PoolShare { pool, shows, keeps },
            sources,
        } = self;
        let (all, kept) = (grouped_digits(*shows), grouped_digits(*keeps));
        let by = if sources.is_empty() {
            String::new()
        } else {
            format!(" ({})", sources.join("; "))
        };
        let claims = |what: &str| {
            (
                Severity::Error,
                format!(
                    "{object} claims {all} blocks of pool `{pool}` by {what}{by}; {kept} of them are kept free"
                ),
                "check who writes these fields; the pool gives the other blocks to nodes",
            )
        };
        let (severity, message, help) = match kind {
            Kind::Machine => claims("the addresses of its machine"),
            Kind::Unread => claims("fields that no agent reads"),
            Kind::Held => (
                Severity::Warning,
                format!("{object} holds {all} blocks of pool `{pool}`{by}"),
                "check that the node needs a block of this size, or drain and re-create it",
            ),
            Kind::Left => (
                Severity::Warning,
                format!(
                    "{object} still shows {all} blocks of pool `{pool}`, and its Pods live elsewhere{by}"
                ),
                "nothing is wrong with the node, which was moved: re-create its Node object with the block of its Pods, and the pool has these blocks again",
            ),
        };
        Finding::new(severity, Rule("one-node-fills-pool"), message)
            .about(object.clone())
            .help(help)
            .seen(sources.iter().cloned())
    }
}

/// `Node/m status.addresses: 10.0.0.1, 10.0.1.1 and 254 more`.
pub(super) fn source_of_addresses(node: &Node) -> String {
    let addresses: BTreeSet<Range> = addresses(node).collect();
    let addresses: Vec<String> = addresses
        .iter()
        .map(|range| range.first().to_string())
        .collect();
    format!(
        "{} status.addresses: {}",
        ObjectRef::node(&node.name),
        first_few(&addresses)
    )
}

/// The fields that show these blocks for a node, each with its last writer if the server kept it.
pub(super) fn sources_of_blocks(
    observed: &Observed,
    name: &NodeName,
    blocks: &[Block],
) -> Vec<String> {
    let mut fields: BTreeMap<HoldingField, BTreeSet<Block>> = BTreeMap::new();
    let shown = drift::all_shown(observed, name).filter(|(_, block)| blocks.contains(block));
    for (field, block) in shown {
        fields.entry(field).or_default().insert(block);
    }
    let source = |(field, blocks): (HoldingField, BTreeSet<Block>)| {
        let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        let (kind, field_name) = match field {
            HoldingField::CiliumNode => ("CiliumNode", "spec.ipam.podCIDRs"),
            HoldingField::Allocated => ("CiliumNode", "spec.ipam.pools.allocated"),
            HoldingField::NodeSpec
            | HoldingField::Annotation
            | HoldingField::OldAnnotation
            | HoldingField::Setting => ("Node", field.as_str()),
        };
        let author = drift::author(observed, name, field).map(|(manager, time)| {
            let (manager, time) = (manager.escape_debug(), time.escape_debug());
            format!(", written by {manager} at {time}")
        });
        format!(
            "{kind}/{name} {field_name}: {}{}",
            first_few(&blocks),
            author.unwrap_or_default()
        )
    };
    fields.into_iter().map(source).collect()
}

fn first_few(values: &[String]) -> String {
    let listed: Vec<&str> = values.iter().take(LISTED).map(String::as_str).collect();
    let listed = listed.join(", ");
    match values.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed} and {} more", grouped_digits(more)),
    }
}
