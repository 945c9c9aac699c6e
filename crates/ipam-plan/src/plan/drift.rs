//! Drift: fields and ports that differ from their pin or from the field that Cilium reads, with the
//! last writer.

use std::collections::BTreeSet;

use ipnet::IpNet;

use ipam_cilium::observed::{HoldingField, ModeSeen, Node, Observed};
use ipam_core::model::{IpamMode, NodeName};
use ipam_core::net::{Block, Family};
use ipam_core::neutron::Id;
use ipam_desired::Pin;

/// A field or a port that differs from its expected value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drift {
    /// A field of an object in the cluster.
    Field(FieldDrift),
    /// The pairs of a VM's port.
    Pairs(PairsDrift),
}

impl Drift {
    /// The node whose field or port differs.
    pub fn node(&self) -> &NodeName {
        match self {
            Drift::Field(drift) => &drift.node,
            Drift::Pairs(drift) => &drift.node,
        }
    }
}

/// The pairs of the port of a node's VM, without foreign ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairsDrift {
    /// The node on the port's VM.
    pub node: NodeName,
    /// Id of the port in Neutron.
    pub port: Id,
    /// Ranges that the port should allow.
    pub expected: BTreeSet<IpNet>,
    /// Ranges that the port allows now.
    pub seen: BTreeSet<IpNet>,
}

/// A field of a node that shows another block than it should.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldDrift {
    pub node: NodeName,
    /// The field that differs.
    pub field: HoldingField,
    /// The block that the field should show.
    pub expected: Block,
    /// The block that the field shows now.
    pub seen: Block,
    /// Field manager and time of the last write, if the server kept them.
    pub author: Option<(String, String)>,
}

/// Compares every field of a node that may decide its block with its pin; without a pin, with the
/// field that Cilium prefers.
pub(super) fn of_node(observed: &Observed, node: &Node, pin: Option<&Pin>, drift: &mut Vec<Drift>) {
    let held = observed.holds(node);
    for family in Family::BOTH {
        // A setting of the node takes precedence over the fields of its Node.
        let is_set = held
            .get(family)
            .is_some_and(|holding| holding.field == HoldingField::Setting);
        let held = held.get(family).map(|holding| holding.block);
        let Some(expected) = pin.and_then(|pin| pin.blocks.get(family).copied()).or(held) else {
            continue;
        };
        for (field, seen) in shown(observed, node, family).filter(|(_, seen)| *seen != expected) {
            if is_set && field != HoldingField::CiliumNode && held == Some(expected) {
                continue;
            }
            let author = author(observed, &node.name, field);
            drift.push(Drift::Field(FieldDrift {
                node: node.name.clone(),
                field,
                expected,
                seen,
                author,
            }));
        }
    }
}

/// In ipam `cluster-pool` only the CiliumNode decides. kube-controller-manager fills Node.spec for
/// other readers, and older agents write annotations.
fn shown(
    observed: &Observed,
    node: &Node,
    family: Family,
) -> impl Iterator<Item = (HoldingField, Block)> {
    let of_node = [
        (HoldingField::NodeSpec, node.spec.get(family)),
        (HoldingField::Annotation, node.annotation.get(family)),
        (HoldingField::OldAnnotation, node.old_annotation.get(family)),
    ];
    let is_cluster_pool = observed.cilium.mode() == ModeSeen::Known(IpamMode::ClusterPool);
    let of_node = of_node.map(|(field, block)| {
        block
            .filter(|_| !is_cluster_pool)
            .map(|block| (field, *block))
    });
    let of_cilium_node = observed
        .cilium_nodes
        .get(&node.name)
        .into_iter()
        .flat_map(|other| &other.pod_cidrs);
    let of_cilium_node = of_cilium_node.filter(move |block| block.family() == family);
    of_node
        .into_iter()
        .flatten()
        .chain(of_cilium_node.map(|block| (HoldingField::CiliumNode, *block)))
}

/// Every block that a field of the Node or the CiliumNode of this name shows, read or not.
pub(super) fn all_shown<'o>(
    observed: &'o Observed,
    name: &'o NodeName,
) -> impl Iterator<Item = (HoldingField, Block)> + use<'o> {
    let node = observed.nodes.get(name).into_iter();
    let of_node = node.flat_map(|node| node.blocks_by_field());
    let of_cilium_node = observed
        .cilium_nodes
        .get(name)
        .into_iter()
        .flat_map(|node| {
            let pod_cidrs = node
                .pod_cidrs
                .iter()
                .map(|block| (HoldingField::CiliumNode, *block));
            let allocated = node.allocated.iter().flat_map(|(_, blocks)| blocks);
            pod_cidrs.chain(allocated.map(|block| (HoldingField::Allocated, *block)))
        });
    of_node.chain(of_cilium_node)
}

/// Field manager and time of the last write of a field.
pub(super) fn author(
    observed: &Observed,
    node: &NodeName,
    field: HoldingField,
) -> Option<(String, String)> {
    let of_cilium_node = observed
        .cilium_nodes
        .get(node)
        .into_iter()
        .flat_map(|other| &other.authors);
    let of_node = observed
        .nodes
        .get(node)
        .into_iter()
        .flat_map(|node| &node.authors);
    let of_field = of_node
        .chain(of_cilium_node)
        .filter(|author| author.field == field);
    of_field
        .max_by(|a, b| a.time.cmp(&b.time))
        .map(|author| (author.manager.clone(), author.time.clone()))
}
