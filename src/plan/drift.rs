//! Where the cluster shows something else than it should, and who wrote it.

use super::change::{Drift, FieldDrift};
use crate::desired::Pin;
use crate::net::{Block, Family};
use crate::observed::{HoldingField, Node, Observed};

/// Compares every field of a node with its pin, or else with the field that Cilium prefers.
pub(super) fn of_node(observed: &Observed, node: &Node, pin: Option<&Pin>, drift: &mut Vec<Drift>) {
    let held = observed.holds(node);
    for family in Family::BOTH {
        let held = held.get(family).map(|holding| holding.block);
        let Some(expected) = pin.and_then(|pin| pin.blocks.get(family).copied()).or(held) else { continue };
        for (field, seen) in shown(observed, node, family).filter(|(_, seen)| *seen != expected) {
            let author = author(node, field);
            drift.push(Drift::Field(FieldDrift { node: node.name.clone(), field, expected, seen, author }));
        }
    }
}

fn shown(observed: &Observed, node: &Node, family: Family) -> impl Iterator<Item = (HoldingField, Block)> {
    let of_node = [
        (HoldingField::NodeSpec, node.spec.get(family)),
        (HoldingField::Annotation, node.annotation.get(family)),
        (HoldingField::OldAnnotation, node.old_annotation.get(family)),
    ];
    let of_node = of_node.map(|(field, block)| block.map(|block| (field, *block)));
    let of_cilium_node = observed.cilium_node_shows(&node.name, family).map(|(block, field)| (field, block));
    of_node.into_iter().flatten().chain(of_cilium_node)
}

fn author(node: &Node, field: HoldingField) -> Option<(String, String)> {
    let of_field = node.authors.iter().filter(|author| author.field == field);
    of_field.max_by(|a, b| a.time.cmp(&b.time)).map(|author| (author.manager.clone(), author.time.clone()))
}
