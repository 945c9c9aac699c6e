//! Ipam `multi-pool`: each pool of the files becomes a `CiliumPodIPPool` and a `CiliumNodeConfig`
//! that makes it the default of its nodes.
//!
//! Cilium's operator hands out the blocks here, on the demand of each agent, so no block of a node
//! is planned. If several `CiliumNodeConfig`s select a node, the last by name wins
//! (`pkg/option/resolver/resolver.go` @ 1.20). So the name carries the rank of the pool. The size
//! of a pool's blocks cannot be changed.
//!
//! What other writers of CiliumPodIPPools left: pools that cannot be read, and reserved ranges.
//!
//! Changes of `CiliumPodIPPool`s and of the `CiliumNodeConfig`s that choose among them.

mod choices;
mod pools;

use serde_json::{Value, json};

use super::Plan;
use super::blocked::{BlockedReason, CommonObstacle, PinObstacle, PodPoolObstacle};
use super::change::{Change, Target};
use super::document::EditDocument;
use super::owned::{Owned, OwnedChange};
use ipam_cilium::lbipam::WrittenSelector;
use ipam_cilium::observed::{
    DEFAULT_POOL_SETTING, NodeConfig, NodeConfigApi, Observed, PodPoolApi, PodRanges, SeenPodPool,
};
use ipam_core::model::{PerFamily, Selector, WritePath, WritePathChoice};
use ipam_core::net::{Block, Family, Range, covers, merge};
use ipam_desired::{Desired, Pool};

pub use choices::priority_in;

/// Whether Cilium's operator hands out blocks from pools of Pods.
pub(super) fn are_used(observed: &Observed, choice: WritePathChoice) -> bool {
    let is_asked = matches!(
        choice,
        WritePathChoice::Auto | WritePathChoice::Forced(WritePath::PodIpPool)
    );
    is_asked && observed.is_multi_pool()
}

pub(super) fn plan(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    pools::decide(desired, observed, plan);
    choices::decide(desired, observed, plan);
    for pin in desired.pins.values() {
        let target = Target::Node(pin.node.clone());
        plan.block(target, Some(&pin.origin), PinObstacle::InMultiPool);
    }
    plan.changes.sort_by_key(order);
}

/// A pool is created before it is chosen, and deleted after it is no longer chosen.
fn order(change: &Change) -> Option<(bool, bool, PodPoolObject)> {
    match change {
        Change::PodPool(change) => {
            let is_choice = matches!(change.object, PodPoolObject::Choice(..));
            let is_deletion = change.after.is_none();
            let object = change.object.clone();
            Some((is_deletion, is_choice != is_deletion, object))
        }
        Change::AddressPool(_) | Change::Service(_) | Change::Port(_) | Change::Node(_) => None,
    }
}

/// Whether the CIDRs of all other pools are known. One that is not could overlap.
pub(super) fn others_are_readable(pool: &Pool, observed: &Observed) -> Result<(), BlockedReason> {
    let mut others = observed.pod_pools.iter();
    let unreadable = others.find_map(|(name, seen)| {
        let text = seen.unreadable.first()?;
        (name.as_str() != pool.name.as_str())
            .then(|| format!("CiliumPodIPPool {}: {text}", name.escape_debug()))
    });
    match unreadable {
        Some(text) => Err(CommonObstacle::PodCidrUnreadable(text).into()),
        None => Ok(()),
    }
}

/// Whether the CIDRs still contain the pool's `reservedRanges`, which a change leaves alone.
pub(super) fn reserved_stay(
    seen: &SeenPodPool,
    after: &PerFamily<PodRanges>,
) -> Result<(), BlockedReason> {
    let cidrs = after.iter().flat_map(|now| &now.cidrs);
    let cidrs = merge(cidrs.map(|cidr| cidr.range()));
    let was = merge(seen.cidrs().map(Block::range));
    let is_lost = |reserved: &&Range| covers(&was, reserved) && !covers(&cidrs, reserved);
    match seen.reserved.iter().find(is_lost) {
        Some(reserved) => Err(PodPoolObstacle::Reserved(*reserved).into()),
        None => Ok(()),
    }
}

/// One change of one object that makes a pool of the files work in ipam `multi-pool`.
pub type PodPoolChange = OwnedChange<PodPoolObject>;

/// The object that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPoolObject {
    /// A `CiliumPodIPPool`: version and name.
    Pool(PodPoolApi, String),
    /// A `CiliumNodeConfig`: version, namespace and name.
    Choice(NodeConfigApi, String, String),
}

/// The spec of such an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPoolSpec {
    /// The ranges of a pool.
    Pool(PerFamily<PodRanges>),
    /// The nodes that use a pool.
    Choice {
        /// The nodes that use the pool.
        nodes: Selector,
        /// Name of the `CiliumPodIPPool`.
        pool: String,
    },
}

impl Owned for PodPoolObject {
    type Spec = PodPoolSpec;

    fn target(&self) -> Target {
        match self {
            PodPoolObject::Pool(_, name) => Target::PodPool(name.clone()),
            PodPoolObject::Choice(_, _, name) => Target::NodeConfig(name.clone()),
        }
    }

    fn write_path(&self) -> String {
        "pod-ip-pool".to_owned()
    }

    fn texts(spec: &PodPoolSpec) -> Vec<String> {
        match spec {
            PodPoolSpec::Pool(ranges) => ranges
                .iter()
                .flat_map(|r| &r.cidrs)
                .map(Block::to_string)
                .collect(),
            PodPoolSpec::Choice { nodes, .. } => vec![nodes.to_string()],
        }
    }

    fn edit(spec: Option<&PodPoolSpec>) -> EditDocument {
        EditDocument::PodPool(spec.map(PodPoolSpec::to_json))
    }
}

impl From<&SeenPodPool> for PodPoolSpec {
    fn from(seen: &SeenPodPool) -> PodPoolSpec {
        PodPoolSpec::Pool(seen.ranges.clone())
    }
}

impl From<&NodeConfig> for PodPoolSpec {
    fn from(seen: &NodeConfig) -> PodPoolSpec {
        PodPoolSpec::Choice {
            nodes: seen.nodes.clone(),
            pool: seen.default_pool().unwrap_or_default().to_owned(),
        }
    }
}

impl PodPoolSpec {
    /// `spec` of the object as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            PodPoolSpec::Pool(families) => {
                let mut spec = json!({});
                for ranges in families.iter() {
                    let key = match ranges.size.family() {
                        Family::Ipv4 => "ipv4",
                        Family::Ipv6 => "ipv6",
                    };
                    let cidrs: Vec<String> = ranges.cidrs.iter().map(ToString::to_string).collect();
                    spec[key] = json!({"cidrs": cidrs, "maskSize": ranges.size.prefix_len()});
                }
                spec
            }
            PodPoolSpec::Choice { nodes, pool } => {
                json!({"nodeSelector": WrittenSelector::from(nodes), "defaults": {DEFAULT_POOL_SETTING: pool}})
            }
        }
    }
}
