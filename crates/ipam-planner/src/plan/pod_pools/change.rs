//! Changes of `CiliumPodIPPool`s and of the `CiliumNodeConfig`s that choose among them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::plan::change::Target;
use crate::plan::lb::PoolAction;
use ipam_cilium::lbipam::WrittenSelector;
use ipam_cilium::observed::{
    DEFAULT_POOL_SETTING, NodeConfig, NodeConfigApi, PodPoolApi, PodRanges, SeenPodPool,
};
use ipam_core::model::{Hazard, NodeName, ObjectVersion, Origin, PerFamily, PoolName, Selector};
use ipam_core::net::{Block, Family};

/// One change of one object that makes a pool of the files work in ipam `multi-pool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPoolChange {
    /// What it does.
    pub action: PoolAction,
    /// The object.
    pub object: PodPoolObject,
    /// The pool of the files.
    pub pool: PoolName,
    /// Its spec now; `None` for one that is created.
    pub before: Option<PodPoolSpec>,
    /// Its spec afterwards; `None` for one that is deleted.
    pub after: Option<PodPoolSpec>,
    /// What it means for workloads.
    pub hazard: Hazard,
    /// Nodes with running agents that take addresses of another pool when they restart.
    pub disturbed: BTreeSet<NodeName>,
    /// The observed object; empty for one that is created.
    pub guard: ObjectVersion,
    /// The pool in the files.
    pub origin: Option<Origin>,
    /// Fields of a deleted object that the files cannot bring back.
    pub lost_fields: Vec<String>,
}

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
        /// The nodes.
        nodes: Selector,
        /// The `CiliumPodIPPool`.
        pool: String,
    },
}

impl PodPoolObject {
    /// The target of its change.
    pub fn target(&self) -> Target {
        match self {
            PodPoolObject::Pool(_, name) => Target::PodPool(name.clone()),
            PodPoolObject::Choice(_, _, name) => Target::NodeConfig(name.clone()),
        }
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
    /// The CIDRs, or the pool that is chosen.
    pub fn texts(&self) -> Vec<String> {
        match self {
            PodPoolSpec::Pool(ranges) => ranges
                .iter()
                .flat_map(|r| &r.cidrs)
                .map(Block::to_string)
                .collect(),
            PodPoolSpec::Choice { nodes, .. } => vec![nodes.to_string()],
        }
    }

    /// As `spec` of the object.
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
