//! Which `CiliumNodeConfig`s make a pool the default of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::lb::PoolAction;
use super::{PodPoolChange, PodPoolObject, PodPoolPlan, PodPoolSpec};
use crate::openstack::SubnetPools;
use crate::plan::blocked::{BlockedReason, NodeConfigObstacle, PodPoolObstacle};
use crate::plan::change::Target;
use ipam_cilium::observed::{
    DEFAULT_POOL_SETTING, Node, NodeConfig, NodeConfigApi, Observed, ObservedKind, SettingSource,
};
use ipam_core::model::{Hazard, NodeName, PoolName};
use ipam_desired::{Desired, Pool, PoolState};

/// Prefix of the names of our `CiliumNodeConfig`s.
const PREFIX: &str = "cilium-ipam-pool-";

/// Longest name of an object, in bytes.
const LONGEST: usize = 253;

pub(super) fn decide(desired: &Desired, observed: &Observed, plan: &mut PodPoolPlan) {
    let ties = ties(desired, observed);
    let subnets = SubnetPools::resolve(desired, observed);
    for pool in desired
        .pools
        .values()
        .filter(|pool| pool.state == PoolState::Active)
    {
        let name = name_of(pool);
        let is_blocked = plan
            .blocked
            .iter()
            .any(|blocked| blocked.target == Target::PodPool(pool.name.to_string()));
        let wanted = match is_blocked {
            true => Err(BlockedReason::NodeConfig(
                NodeConfigObstacle::ChosenPoolBlocked(pool.name.clone()),
            )),
            false => wanted(pool, &name, &ties, desired, observed),
        };
        let wanted = match (wanted, subnets.unresolved()) {
            (Ok(Some(_)), Some(unresolved)) => {
                Err(BlockedReason::NeutronUnknown(Box::new(unresolved.clone())))
            }
            (wanted, _) => wanted,
        };
        match wanted {
            Ok(Some(change)) => plan.changes.push(change),
            Ok(None) => plan.unchanged.push(Target::NodeConfig(name)),
            Err(reason) => {
                let origin = Some(pool.origin.clone());
                plan.blocked.push(super::Blocked {
                    target: Target::NodeConfig(name),
                    reason,
                    origin,
                });
            }
        }
    }
    let stays = |config: &NodeConfig| {
        desired
            .pools
            .values()
            .any(|pool| name_of(pool) == config.name)
    };
    for config in observed
        .node_configs
        .iter()
        .filter(|config| config.is_ours() && config.name.starts_with(PREFIX))
    {
        let Some(pool) = config
            .default_pool()
            .and_then(|pool| pool.parse::<PoolName>().ok())
        else {
            continue;
        };
        if stays(config) {
            continue;
        }
        match deletion(pool, config, observed) {
            Ok(change) => plan.changes.push(change),
            Err(reason) => {
                let target = Target::NodeConfig(config.name.clone());
                plan.blocked.push(super::Blocked {
                    target,
                    reason,
                    origin: None,
                });
            }
        }
    }
}

/// The better pool has the later name: zero-padded priority, then number of requirements.
fn name_of(pool: &Pool) -> String {
    let (priority, requirements) = pool.rank();
    let priority = i64::from(priority) - i64::from(i32::MIN);
    format!("{PREFIX}{priority:010}-{requirements:04}-{}", pool.name)
}

/// Pools that tie with another one on some node. Cilium would take the later name, while everything
/// else here takes the earlier one.
fn ties<'d>(
    desired: &'d Desired,
    observed: &'d Observed,
) -> BTreeMap<&'d PoolName, (&'d PoolName, &'d NodeName)> {
    let mut ranked: Vec<&Pool> = desired
        .pools
        .values()
        .filter(|pool| pool.state == PoolState::Active)
        .collect();
    ranked.sort_by(|a, b| Pool::best_first(a, b));
    let mut ties = BTreeMap::new();
    for node in observed.nodes.values() {
        let mut matching = ranked
            .iter()
            .filter(|pool| pool.selector.matches(&node.labels));
        let Some(best) = matching.next() else {
            continue;
        };
        for other in matching.take_while(|other| other.rank() == best.rank()) {
            ties.entry(&other.name).or_insert((&best.name, &node.name));
        }
    }
    ties
}

/// The change that makes a pool the default of its nodes; `None` if it is their default already.
fn wanted(
    pool: &Pool,
    name: &str,
    ties: &BTreeMap<&PoolName, (&PoolName, &NodeName)>,
    desired: &Desired,
    observed: &Observed,
) -> Result<Option<PodPoolChange>, BlockedReason> {
    let (api, namespace) = place(observed)?;
    if let Some(obstacle) = obstacle(pool, name, ties, observed) {
        return Err(BlockedReason::NodeConfig(obstacle));
    }
    let after = PodPoolSpec::Choice {
        nodes: pool.selector.clone(),
        pool: pool.name.to_string(),
    };
    let seen = observed.node_config(name);
    let before = seen.map(|seen| PodPoolSpec::Choice {
        nodes: seen.nodes.clone(),
        pool: seen.default_pool().unwrap_or_default().to_owned(),
    });
    if before.as_ref() == Some(&after) {
        return Ok(None);
    }
    let disturbed = disturbed(observed, |node| {
        let is_best = best(desired, node).is_some_and(|best| best.name == pool.name);
        let now = observed.default_pool(node);
        let loses = seen.is_some_and(|seen| decides(seen, node, observed))
            && !pool.selector.matches(&node.labels);
        (is_best && now != pool.name.as_str()) || loses
    });
    Ok(Some(PodPoolChange {
        action: if seen.is_some() {
            PoolAction::Update
        } else {
            PoolAction::Create
        },
        object: PodPoolObject::Choice(api, namespace, name.to_owned()),
        pool: pool.name.clone(),
        hazard: hazard(&disturbed),
        disturbed,
        before,
        after: Some(after),
        guard: seen.map(|seen| seen.version.clone()).unwrap_or_default(),
        origin: Some(pool.origin.clone()),
    }))
}

/// Why no `CiliumNodeConfig` of this name can make the pool the default of its nodes.
fn obstacle(
    pool: &Pool,
    name: &str,
    ties: &BTreeMap<&PoolName, (&PoolName, &NodeName)>,
    observed: &Observed,
) -> Option<NodeConfigObstacle> {
    let version = observed.cilium.version;
    if !version.is_some_and(|(version, _)| version.is_at_least(15, 0)) {
        return Some(NodeConfigObstacle::DefaultPoolNotRead);
    }
    if let Some(why) = observed.cilium.overriding_is_off(DEFAULT_POOL_SETTING) {
        return Some(NodeConfigObstacle::SettingOfAnother(why));
    }
    if name.len() > LONGEST {
        return Some(NodeConfigObstacle::CannotBeSelected(format!(
            "its name is too long for a CiliumNodeConfig: {name}"
        )));
    }
    if let Some((other, node)) = ties.get(&pool.name) {
        let tied = ((*other).clone(), (*node).clone());
        return Some(NodeConfigObstacle::PoolsTied(Box::new(tied)));
    }
    if let Some(setting) = overriding_setting(pool, name, observed) {
        return Some(NodeConfigObstacle::SettingOfAnother(setting));
    }
    let seen = observed.node_config(name);
    seen.filter(|seen| !seen.is_ours())
        .map(|_| NodeConfigObstacle::OfAnother(name.to_owned()))
}

/// The setting that wins over the `CiliumNodeConfig` of this name on some node of the pool.
fn overriding_setting(pool: &Pool, name: &str, observed: &Observed) -> Option<String> {
    let arguments = &observed.cilium.agent_arguments;
    if arguments.contains_key(DEFAULT_POOL_SETTING) {
        return Some(format!(
            "{DEFAULT_POOL_SETTING} is set by an argument of the agent"
        ));
    }
    let is_later = |config: &&NodeConfig| !config.is_ours() && config.name.as_str() > name;
    let selects_node_of_pool = |config: &NodeConfig| {
        let mut nodes = observed
            .nodes
            .values()
            .filter(|node| pool.selector.matches(&node.labels));
        nodes.any(|node| config.nodes.matches(&node.labels))
    };
    let rival = observed
        .node_configs
        .iter()
        .filter(is_later)
        .find(|config| config.default_pool().is_some() && selects_node_of_pool(config))?;
    Some(format!(
        "{DEFAULT_POOL_SETTING} is set by CiliumNodeConfig `{}`",
        rival.name.escape_debug()
    ))
}

/// Nodes whose running agents take addresses of another pool when they restart, beside those that
/// they have. `changes` tells for which nodes the choice changes.
fn disturbed(observed: &Observed, changes: impl Fn(&Node) -> bool) -> BTreeSet<NodeName> {
    let runs = |name: &NodeName| {
        observed
            .cilium_nodes
            .get(name)
            .is_some_and(|node| !node.allocated.is_empty())
    };
    let nodes = observed
        .nodes
        .values()
        .filter(|node| runs(&node.name) && changes(node));
    nodes.map(|node| node.name.clone()).collect()
}

/// Whether this `CiliumNodeConfig` decides for a node now.
fn decides(config: &NodeConfig, node: &Node, observed: &Observed) -> bool {
    let setting = observed.setting(&node.labels, DEFAULT_POOL_SETTING);
    setting.is_some_and(|setting| setting.source == SettingSource::NodeConfig(&config.name))
}

/// The pool that should be the default of a node.
fn best<'d>(desired: &'d Desired, node: &Node) -> Option<&'d Pool> {
    let active = desired
        .pools
        .values()
        .filter(|pool| pool.state == PoolState::Active);
    active
        .filter(|pool| pool.selector.matches(&node.labels))
        .min_by(|a, b| Pool::best_first(a, b))
}

fn hazard(disturbed: &BTreeSet<NodeName>) -> Hazard {
    if disturbed.is_empty() {
        Hazard::None
    } else {
        Hazard::Disruptive
    }
}

fn deletion(
    pool: PoolName,
    config: &NodeConfig,
    observed: &Observed,
) -> Result<PodPoolChange, BlockedReason> {
    let (api, namespace) = place(observed)?;
    let before = PodPoolSpec::Choice {
        nodes: config.nodes.clone(),
        pool: pool.to_string(),
    };
    let disturbed = disturbed(observed, |node| decides(config, node, observed));
    Ok(PodPoolChange {
        action: PoolAction::Delete,
        object: PodPoolObject::Choice(api, namespace, config.name.clone()),
        pool,
        before: Some(before),
        after: None,
        hazard: hazard(&disturbed),
        disturbed,
        guard: config.version.clone(),
        origin: None,
    })
}

fn place(observed: &Observed) -> Result<(NodeConfigApi, String), BlockedReason> {
    if let Some(spot) = observed.blind_spot(ObservedKind::CiliumNodeConfig) {
        return Err(BlockedReason::PodPool(PodPoolObstacle::Hidden(
            spot.why.clone(),
        )));
    }
    let api = observed
        .node_config_api()
        .ok_or(BlockedReason::NodeConfig(NodeConfigObstacle::NotServed))?;
    let namespace = observed
        .cilium
        .namespace
        .clone()
        .ok_or(BlockedReason::NoCilium)?;
    Ok((api, namespace))
}
