//! Reads Nodes and CiliumNodes as Cilium's ParseNode does.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::kind::ObservedKind;
use super::view::{
    CiliumNodeView, ManagedFields, NodeAddress, NodeSpec, NodeView, PodCidrAnnotations,
    RequestedPool, owning_node,
};
use super::{
    AgentTrace, Author, CiliumNode, ClusterCidrs, Distribution, HoldingField, Node, ObjectVersion,
    OperatorAttention, Protection,
};
use ipam_core::model::{Labels, NodeName, PerFamily};
use ipam_core::net::{Address, Block, Family, Range};

/// A parsed object of a frequent kind. A cache keeps it, so that it is not parsed again.
#[derive(Clone, Debug)]
pub enum Understood {
    /// A Node.
    Node(Arc<Node>),
    /// A CiliumNode.
    CiliumNode(Arc<CiliumNode>),
}

impl Understood {
    /// `None` for other kinds, and for invalid objects: reading the object itself reports the
    /// fault.
    pub fn of(kind: ObservedKind, json: &str) -> Option<Understood> {
        match kind {
            ObservedKind::Node => read_node(&serde_json::from_str(json).ok()?)
                .0
                .map(|node| Understood::Node(Arc::new(node))),
            ObservedKind::CiliumNode => read_cilium_node(&serde_json::from_str(json).ok()?)
                .0
                .map(|node| Understood::CiliumNode(Arc::new(node))),
            _ => None,
        }
    }

    /// The name of the object.
    pub fn name(&self) -> &NodeName {
        match self {
            Understood::Node(node) => &node.name,
            Understood::CiliumNode(node) => &node.name,
        }
    }

    /// The resourceVersion of the object.
    pub fn resource_version(&self) -> &str {
        match self {
            Understood::Node(node) => &node.resource_version,
            Understood::CiliumNode(node) => &node.version.resource_version,
        }
    }
}

/// The Node. If its name is invalid, only the blocks that it shows.
pub(super) fn read_node(view: &NodeView<'_>) -> (Option<Node>, Vec<Block>) {
    let metadata = &view.metadata;
    let mut shown = Vec::new();
    let (spec, unreadable_spec) = read_spec(&view.spec, &mut shown);
    let mut unreadable_annotation = None;
    let none = PodCidrAnnotations::default();
    let annotations = metadata.annotations.as_ref().unwrap_or(&none);
    let annotation = read_annotations(annotations.newer(), &mut shown, &mut unreadable_annotation);
    let old_annotation =
        read_annotations(annotations.older(), &mut shown, &mut unreadable_annotation);
    let Ok(name) = metadata.name.parse() else {
        return (None, shown);
    };
    let node = Node {
        name,
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        created: metadata.creation_timestamp.clone().unwrap_or_default(),
        labels: metadata.labels.clone().unwrap_or_default(),
        spec,
        annotation,
        old_annotation,
        shown,
        unreadable_spec,
        unreadable_annotation,
        attention: attention(annotations.ignore.as_deref()),
        protection: match annotations.protected.as_deref() {
            Some("true") => Protection::Protected,
            _ => Protection::None,
        },
        migration: annotations.migration.as_deref().map(str::to_owned),
        addresses: machine_addresses(&view.status.addresses),
        provider_id: view.spec.provider_id.as_deref().map(str::to_owned),
        authors: metadata.managed_fields.iter().flat_map(authors).collect(),
        distribution: Distribution::of_node(
            metadata.labels.as_ref(),
            &view.status.info.kubelet_version,
            &view.status.info.os_image,
            view.spec.provider_id.as_deref().unwrap_or_default(),
        ),
        cluster_cidrs: annotations
            .k3s_arguments
            .as_deref()
            .and_then(|text| ClusterCidrs::of_k3s(text, machine_family(&view.status.addresses)))
            .map(Box::new),
        pod_limit: pod_limit(&view.status.allocatable.pods),
    };
    (Some(node), Vec::new())
}

/// The CiliumNode. If its name is invalid, only its blocks, which stay reserved.
pub(super) fn read_cilium_node(view: &CiliumNodeView<'_>) -> (Option<CiliumNode>, Vec<Block>) {
    let mut unreadable = Vec::new();
    let (mut pod_cidrs, mut near) = (Vec::new(), Vec::new());
    for text in &view.spec.ipam.pod_cidrs {
        match Block::lenient(text) {
            Ok(block) => pod_cidrs.push(block),
            Err(_) => {
                near.extend(nearest(text));
                unreadable.push(format!(
                    "CiliumNode.spec.ipam.podCIDRs: {}",
                    text.escape_debug()
                ));
            }
        }
    }
    let metadata = &view.metadata;
    let Ok(name) = metadata.name.parse() else {
        pod_cidrs.extend(near);
        return (None, pod_cidrs);
    };
    let lenient = |texts: &Vec<String>| {
        texts
            .iter()
            .filter_map(|text| Block::lenient(text).ok())
            .collect()
    };
    let allocated = view.spec.ipam.pools.allocated.iter();
    let owner = metadata
        .owner_references
        .first()
        .map(|owner| format!("its owner, a {}", owner.kind));
    let is_kept = metadata.annotations.do_not_gc.as_deref() == Some("true");
    let node = CiliumNode {
        name,
        version: ObjectVersion {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        },
        attention: attention(metadata.annotations.ignore.as_deref()),
        pod_cidrs,
        near,
        unreadable,
        allocated: allocated
            .map(|pool| (pool.pool.clone(), lenient(&pool.cidrs)))
            .collect(),
        requested: view
            .spec
            .ipam
            .pools
            .requested
            .iter()
            .map(requested)
            .collect(),
        agent: match view.spec.addresses.is_empty() {
            true => AgentTrace::Unseen,
            false => AgentTrace::Started,
        },
        operator_error: view
            .status
            .ipam
            .operator_status
            .error
            .clone()
            .filter(|error| !error.is_empty()),
        owner: owning_node(&metadata.owner_references),
        managed_by: metadata.labels.managed_by.clone(),
        keeper: if is_kept {
            Some("the annotation cilium.io/do-not-gc".to_owned())
        } else {
            owner
        },
        authors: metadata.managed_fields.iter().flat_map(authors).collect(),
    };
    (Some(node), Vec::new())
}

fn requested(view: &RequestedPool) -> (String, PerFamily<u64>) {
    let mut needed = PerFamily::NONE;
    *needed.get_mut(Family::Ipv4) = count(&view.needed.ipv4);
    *needed.get_mut(Family::Ipv6) = count(&view.needed.ipv6);
    (view.pool.clone(), needed)
}

/// The definition allows every integer. What is no count may be any.
fn count(written: &Value) -> Option<u64> {
    let is_negative = written.as_i64().is_some_and(|number| number <= 0);
    let is_none = written.is_null() || is_negative;
    (!is_none).then(|| written.as_u64().unwrap_or(u64::MAX))
}

/// Internal addresses first. The order does not depend on kubelet's.
fn machine_addresses(written: &[NodeAddress<'_>]) -> Vec<IpAddr> {
    let read = |written: &NodeAddress<'_>| {
        let address = written.address.parse::<Address>().ok().map(IpAddr::from)?;
        Some((written.kind != "InternalIP", address))
    };
    let sorted: BTreeSet<(bool, IpAddr)> = written.iter().filter_map(read).collect();
    let mut addresses: Vec<IpAddr> = sorted.into_iter().map(|(_, address)| address).collect();
    let mut seen = BTreeSet::new();
    addresses.retain(|address| seen.insert(*address));
    addresses
}

/// IPv6 if the machine has no IPv4 address.
fn machine_family(written: &[NodeAddress<'_>]) -> Family {
    let addresses = machine_addresses(written);
    match addresses.iter().any(IpAddr::is_ipv4) || addresses.is_empty() {
        true => Family::Ipv4,
        false => Family::Ipv6,
    }
}

/// A quantity of Kubernetes. Servers write the number of Pods without a suffix.
fn pod_limit(written: &Value) -> Option<u64> {
    written.as_u64().or_else(|| written.as_str()?.parse().ok())
}

fn attention(ignore: Option<&str>) -> OperatorAttention {
    match ignore {
        Some(text) if text.eq_ignore_ascii_case("true") => OperatorAttention::Ignored,
        _ => OperatorAttention::Served,
    }
}

/// ParseNode reads one CIDR per family, and none from a list with more.
fn read_spec(spec: &NodeSpec<'_>, shown: &mut Vec<Block>) -> (PerFamily<Block>, Option<String>) {
    let single = spec.pod_cidr.as_deref().filter(|text| !text.is_empty());
    let listed = spec.pod_cidrs.iter().map(|text| text.as_ref());
    let listed: Vec<&str> = if spec.pod_cidrs.is_empty() {
        single.into_iter().collect()
    } else {
        listed.collect()
    };
    let mut blocks = PerFamily::NONE;
    let mut fault = None;
    for text in &listed {
        match Block::lenient(text) {
            Ok(block) if blocks.get(block.family()).is_none() => blocks.offer(block),
            Ok(block) => {
                fault = Some(format!(
                    "spec.podCIDRs has two {} blocks: {}",
                    block.family(),
                    listed.join(", ")
                ))
            }
            Err(_) => fault = Some(format!("spec.podCIDRs: {}", text.escape_debug())),
        }
    }
    shown.extend(listed.into_iter().chain(single).filter_map(nearest));
    (blocks, fault)
}

/// The block of a text; if Cilium does not read it, the address at its start. An agent that started
/// on an earlier value may use the block around that address.
fn nearest(text: &str) -> Option<Block> {
    let text = text.trim();
    let start = text
        .find(|c: char| !(c.is_ascii_hexdigit() || matches!(c, '.' | ':')))
        .unwrap_or(text.len());
    let address = || text[..start].parse::<Address>().ok().map(IpAddr::from);
    Block::lenient(text)
        .ok()
        .or_else(|| Range::from(address()?).largest_block())
}

/// A newer key with an invalid value still hides the older key (`pkg/annotation/k8s.go` Get).
fn read_annotations(
    keys: [(&'static str, Option<&str>, Family); 2],
    shown: &mut Vec<Block>,
    fault: &mut Option<String>,
) -> PerFamily<Block> {
    let mut blocks = PerFamily::NONE;
    for (key, text, family) in keys {
        let Some(text) = text else { continue };
        match Block::lenient(text) {
            Ok(block) => {
                shown.push(block);
                if block.family() == family {
                    blocks.offer(block);
                } else {
                    *fault = Some(format!(
                        "annotation {key} holds the {} block {block}",
                        block.family()
                    ));
                }
            }
            Err(_) if text.is_empty() => {
                *fault = Some(format!(
                    "annotation {key} is empty, and hides the older key"
                ))
            }
            Err(_) => {
                shown.extend(nearest(text));
                *fault = Some(format!("annotation {key}: {}", text.escape_debug()));
            }
        }
    }
    blocks
}

fn authors(entry: &ManagedFields) -> Vec<Author> {
    let Some(fields) = &entry.fields else {
        return Vec::new();
    };
    let spec = fields
        .spec
        .as_ref()
        .filter(|spec| spec.pod_cidr.is_some() || spec.pod_cidrs.is_some());
    let annotations = fields
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.annotations.as_ref());
    let newer = annotations.filter(|a| a.ipv4.is_some() || a.ipv6.is_some());
    let older = annotations.filter(|a| a.old_ipv4.is_some() || a.old_ipv6.is_some());
    let of_cilium_node = fields
        .spec
        .as_ref()
        .filter(|spec| spec.ipam.pod_cidrs.is_some());
    let owned = [
        spec.map(|_| HoldingField::NodeSpec),
        of_cilium_node.map(|_| HoldingField::CiliumNode),
        newer.map(|_| HoldingField::Annotation),
        older.map(|_| HoldingField::OldAnnotation),
    ];
    let author = |field| Author {
        manager: entry.manager.clone(),
        time: entry.time.clone().unwrap_or_default(),
        field,
    };
    owned.into_iter().flatten().map(author).collect()
}

impl Node {
    /// A Node that does not exist yet: it holds nothing, and nothing is known of its machine.
    pub fn joining(
        name: NodeName,
        labels: Labels,
        created: String,
        pod_limit: Option<u64>,
    ) -> Node {
        Node {
            uid: format!("uid-{name}"),
            resource_version: "0".to_owned(),
            name,
            created,
            labels,
            spec: PerFamily::NONE,
            annotation: PerFamily::NONE,
            old_annotation: PerFamily::NONE,
            shown: Vec::new(),
            unreadable_spec: None,
            unreadable_annotation: None,
            attention: OperatorAttention::default(),
            protection: Protection::None,
            migration: None,
            addresses: Vec::new(),
            provider_id: None,
            authors: Vec::new(),
            distribution: None,
            cluster_cidrs: None,
            pod_limit,
        }
    }
}
