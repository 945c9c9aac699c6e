//! Ipam `kubernetes`: a `CiliumNodeConfig` moves a node that has a block already. When the agent
//! starts, it takes `ipv4-range` or `ipv6-range` in place of the Node's block
//! (`pkg/ipam/cell/ipam_init.go` ConfigureAndStartIPAM @ 1.20).
//!
//! The Node keeps the old block for ever, because the agent waits for one before it reads the
//! setting.

use std::collections::{BTreeMap, BTreeSet};

use super::super::blocked::{
    BlockedReason, CommonObstacle, NodeConfigObstacle, PodPoolObstacle, WritePathObstacle,
};
use super::super::change::{Edit, NodeConfigEdit, NodeConfigObject};
use super::Paths;
use ipam_cilium::observed::{
    ModeSeen, Node, NodeConfig, NodeConfigApi, Observed, ObservedKind, SettingSource, range_setting,
};
use ipam_core::model::{
    IpamMode, NodeName, Operator, PerFamily, Requirement, Selector, WritePath, WritePathChoice,
};
use ipam_core::net::Block;

/// The label by which a node is selected.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// The name of the `CiliumNodeConfig` of a node.
pub fn node_config_name(node: &NodeName) -> String {
    format!("cilium-ipam-{node}")
}

/// Whether pins may move nodes.
pub(crate) fn moves_nodes(observed: &Observed, choice: WritePathChoice) -> Moving {
    let is_read = observed.cilium.mode() == ModeSeen::Known(IpamMode::Kubernetes);
    match choice {
        WritePathChoice::Forced(WritePath::NodeConfig) if is_read => Moving::BySetting,
        _ => Moving::Never,
    }
}

/// How a node moves from its block to that of its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// Only a manual drain and re-creation moves the node.
    Never,
    /// A setting in a `CiliumNodeConfig` for this node moves it.
    BySetting,
}

impl Paths<'_> {
    /// The setting that moves a node to these blocks.
    pub(crate) fn by_node_config(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<Edit, BlockedReason> {
        let edit = self.node_config(node, blocks)?;
        Ok(Edit::NodeConfig(Box::new(edit)))
    }

    /// The `CiliumNodeConfig` of a node with these blocks, if any.
    pub(crate) fn node_config(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
    ) -> Result<NodeConfigEdit, BlockedReason> {
        let observed = self.observed;
        let (api, namespace) = node_config_place(observed)?;
        let name = node_config_name(&node.name);
        let hostname = self.hostname(node)?;
        if name.len() > 253 {
            return Err(NodeConfigObstacle::CannotBeSelected(format!(
                "its name is too long for a CiliumNodeConfig: {name}"
            ))
            .into());
        }
        let seen = observed.node_config(&name);
        if let Some(seen) = seen {
            check_owner(seen, node, &hostname)?;
        }
        self.check_precedence(node, blocks, &name)?;
        let object = match seen {
            Some(seen) => NodeConfigObject::Seen(seen.version.clone()),
            None => NodeConfigObject::New { hostname },
        };
        Ok(NodeConfigEdit {
            api,
            namespace,
            name,
            ranges: *blocks,
            removed: BTreeSet::new(),
            object,
        })
    }

    /// Whether Cilium takes the ranges from the `CiliumNodeConfig` of this name.
    fn check_precedence(
        &self,
        node: &Node,
        blocks: &PerFamily<Block>,
        name: &str,
    ) -> Result<(), BlockedReason> {
        let observed = self.observed;
        for family in blocks.families() {
            let key = range_setting(family);
            if let Some(why) = observed.cilium.overriding_is_off(key) {
                return Err(NodeConfigObstacle::ConfigConflict(why).into());
            }
            let source = observed
                .setting(&node.labels, key)
                .map(|setting| setting.source);
            let wins = match source {
                Some(SettingSource::Argument) => true,
                Some(SettingSource::NodeConfig(other)) => other > name,
                Some(SettingSource::ConfigMap) | None => false,
            };
            if let Some(source) = source.filter(|_| wins) {
                return Err(NodeConfigObstacle::ConfigConflict(format!(
                    "{key} is set by {source}"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// The value of the label that selects this node and no other.
    fn hostname(&self, node: &Node) -> Result<String, BlockedReason> {
        let hostname = node.labels.get(HOSTNAME_LABEL).cloned();
        let Some(hostname) = hostname.filter(|hostname| !hostname.is_empty()) else {
            return Err(NodeConfigObstacle::CannotBeSelected(format!(
                "it has no label {HOSTNAME_LABEL}"
            ))
            .into());
        };
        let hostnames = self.hostnames.get_or_init(|| by_hostname(self.observed));
        let mut nodes = hostnames.get(hostname.as_str()).into_iter().flatten();
        match nodes.find(|other| **other != node.name) {
            None => Ok(hostname),
            Some(other) => {
                let why = format!("node {other} has the same label {HOSTNAME_LABEL}");
                Err(NodeConfigObstacle::CannotBeSelected(why).into())
            }
        }
    }
}

/// The version of the API and the namespace in which a `CiliumNodeConfig` is written.
pub(in crate::plan) fn node_config_place(
    observed: &Observed,
) -> Result<(NodeConfigApi, String), BlockedReason> {
    if let Some(spot) = observed.blind_spot(ObservedKind::CiliumNodeConfig) {
        return Err(PodPoolObstacle::Hidden(spot.why.clone()).into());
    }
    let api = observed
        .node_config_api()
        .ok_or(NodeConfigObstacle::NotServed)?;
    let namespace = observed
        .cilium
        .namespace
        .clone()
        .ok_or(CommonObstacle::NoCilium)?;
    Ok((api, namespace))
}

/// Fails unless an existing `CiliumNodeConfig` belongs to `cilium-ipam` and selects only this node.
fn check_owner(seen: &NodeConfig, node: &Node, hostname: &str) -> Result<(), BlockedReason> {
    let alone = Requirement::new(HOSTNAME_LABEL, Operator::In([hostname.to_owned()].into()));
    let is_for_it = alone.is_ok_and(|alone| seen.nodes == Selector::all_of([alone]));
    if !seen.is_ours() || !seen.version.is_known() || !is_for_it {
        let name = seen.name.clone();
        return Err(NodeConfigObstacle::OfAnother(name).into());
    }
    if seen.owner.as_ref().is_some_and(|owner| *owner != node.uid) {
        return Err(WritePathObstacle::StaleOwner(WritePath::NodeConfig).into());
    }
    Ok(())
}

fn by_hostname(observed: &Observed) -> BTreeMap<String, Vec<NodeName>> {
    let mut nodes: BTreeMap<String, Vec<NodeName>> = BTreeMap::new();
    for node in observed.nodes.values() {
        if let Some(hostname) = node.labels.get(HOSTNAME_LABEL) {
            let nodes = nodes.entry(hostname.clone()).or_default();
            nodes.push(node.name.clone());
        }
    }
    nodes
}
