//! Which `CiliumNodeConfig`s make a pool the default of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::super::owned::PoolAction;
use super::{PodPoolChange, PodPoolObject, PodPoolSpec};
use crate::openstack::SubnetPools;
use crate::plan::blocked::{BlockedReason, NodeConfigObstacle};
use crate::plan::change::Target;
use crate::plan::write_path::node_config_place;
use crate::plan::{self, Plan};
use ipam_cilium::behaviours;
use ipam_cilium::observed::{
    CiliumKind, DEFAULT_POOL_SETTING, Node, NodeConfig, Observed, SettingSource,
};
use ipam_core::model::{Hazard, NodeName, PoolName, SelectorIndex};
use ipam_desired::{Desired, Pool, PoolState};

/// Prefix of the names of `CiliumNodeConfig`s that `cilium-ipam` writes.
pub(super) const PREFIX: &str = "cilium-ipam-pool-";

/// Longest name of an object, in bytes.
const LONGEST: usize = 253;

pub(super) fn decide(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    let deciders = Deciders::new(desired, observed);
    let subnets = SubnetPools::resolve(desired, observed);
    let blocked_pools: BTreeSet<Target> =
        plan.blocked.iter().map(|one| one.target.clone()).collect();
    for pool in desired
        .pools
        .values()
        .filter(|pool| pool.state == PoolState::Active)
    {
        let name = name_of(pool);
        let is_blocked = blocked_pools.contains(&Target::PodPool(pool.name.to_string()));
        let wanted = match is_blocked {
            true => Err(NodeConfigObstacle::ChosenPoolBlocked(pool.name.clone()).into()),
            false => wanted(pool, &name, &deciders),
        };
        let decided = subnets.only_resolved(wanted);
        plan.record(Target::NodeConfig(name), Some(&pool.origin), decided);
    }
    let names: BTreeSet<String> = desired.pools.values().map(name_of).collect();
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
        if names.contains(&config.name) {
            continue;
        }
        let decided = deletion(pool, config, &deciders).map(Some);
        plan.record(Target::NodeConfig(config.name.clone()), None, decided);
    }
}

/// The better pool has the later name: zero-padded priority, then number of requirements.
fn name_of(pool: &Pool) -> String {
    let (priority, requirements) = pool.rank();
    let priority = i64::from(priority) - i64::from(i32::MIN);
    format!("{PREFIX}{priority:010}-{requirements:04}-{}", pool.name)
}

/// The priority of the pool in the name of our `CiliumNodeConfig`; `None` for any other name.
pub fn priority_in(name: &str) -> Option<i32> {
    let (priority, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let priority: i64 = priority.parse().ok()?;
    (priority + i64::from(i32::MIN)).try_into().ok()
}

/// Which pools and which `CiliumNodeConfig`s decide for which nodes, found once for all pools.
struct Deciders<'d> {
    observed: &'d Observed,
    /// `CiliumNodeConfig`s of other owners that choose a pool.
    rivals: Vec<&'d NodeConfig>,
    /// Pools that tie with another one on some node. Cilium would take the later name, while
    /// everything else here takes the earlier one.
    ties: BTreeMap<&'d PoolName, (&'d PoolName, &'d NodeName)>,
    /// Nodes with running agents by the pool that should be their default.
    by_best: BTreeMap<&'d PoolName, Vec<&'d Node>>,
    /// Nodes with running agents by the `CiliumNodeConfig` that decides for them now.
    by_config: BTreeMap<&'d str, Vec<&'d Node>>,
}

impl<'d> Deciders<'d> {
    fn new(desired: &'d Desired, observed: &'d Observed) -> Deciders<'d> {
        let is_rival = |config: &&NodeConfig| !config.is_ours() && config.default_pool().is_some();
        let mut deciders = Deciders {
            observed,
            rivals: observed.node_configs.iter().filter(is_rival).collect(),
            ties: BTreeMap::new(),
            by_best: BTreeMap::new(),
            by_config: BTreeMap::new(),
        };
        let mut ranked: Vec<&Pool> = desired
            .pools
            .values()
            .filter(|pool| pool.state == PoolState::Active)
            .collect();
        ranked.sort_by(|a, b| Pool::best_first(a, b));
        let selectors = SelectorIndex::new(ranked.iter().map(|pool| &pool.selector));
        for node in observed.nodes.values() {
            let places = selectors.matching(&node.labels, |place| &ranked[place].selector);
            let mut matching = places.map(|place| ranked[place]);
            let best = matching.next();
            deciders.add(node, best);
            let Some(best) = best else { continue };
            for other in matching.take_while(|other| other.rank() == best.rank()) {
                let tie = (&best.name, &node.name);
                deciders.ties.entry(&other.name).or_insert(tie);
            }
        }
        deciders
    }

    fn add(&mut self, node: &'d Node, best: Option<&'d Pool>) {
        let cilium_node = self.observed.cilium_nodes.get(&node.name);
        let runs = cilium_node.is_some_and(|node| !node.allocated.is_empty());
        if !runs {
            return;
        }
        if let Some(best) = best {
            self.by_best.entry(&best.name).or_default().push(node);
        }
        let setting = self.observed.setting(&node.labels, DEFAULT_POOL_SETTING);
        if let Some(SettingSource::NodeConfig(name)) = setting.map(|setting| setting.source) {
            self.by_config.entry(name).or_default().push(node);
        }
    }

    /// Nodes whose running agents take addresses of another pool when they restart, beside those
    /// that they have, because the `CiliumNodeConfig` of this pool is written.
    fn disturbed(&self, pool: &Pool, seen: Option<&NodeConfig>) -> BTreeSet<NodeName> {
        let of_pool = self.by_best.get(&pool.name).into_iter().flatten();
        let gaining = of_pool.filter(|node| self.observed.default_pool(node) != pool.name.as_str());
        let decided = seen.and_then(|seen| self.by_config.get(seen.name.as_str()));
        let decided = decided.into_iter().flatten();
        let losing = decided.filter(|node| !pool.selector.matches(&node.labels));
        gaining
            .chain(losing)
            .map(|node| node.name.clone())
            .collect()
    }
}

/// The change that makes a pool the default of its nodes; `None` if it is their default already.
fn wanted(
    pool: &Pool,
    name: &str,
    deciders: &Deciders<'_>,
) -> Result<Option<PodPoolChange>, BlockedReason> {
    let (api, namespace) = node_config_place(deciders.observed)?;
    if let Some(obstacle) = obstacle(pool, name, deciders) {
        return Err(obstacle.into());
    }
    let after = PodPoolSpec::Choice {
        nodes: pool.selector.clone(),
        pool: pool.name.to_string(),
    };
    let spec = json!({"spec": after.to_json()});
    plan::keeps(
        deciders.observed,
        CiliumKind::NodeConfig,
        api.as_str(),
        &spec,
    )?;
    let seen = deciders.observed.node_config(name);
    let object = PodPoolObject::Choice(api, namespace, name.to_owned());
    let shown = seen.map(|seen| (&seen.labels, &seen.version, seen.into()));
    let is_as_wanted = |shown: &_, after: &_| Ok(shown == after);
    let Some(change) = PodPoolChange::towards(after, object, shown, is_as_wanted)? else {
        return Ok(None);
    };
    let disturbed = deciders.disturbed(pool, seen);
    let hazard = hazard(&disturbed);
    let reason = format!("makes pool {} the default of its nodes", pool.name);
    Ok(Some(PodPoolChange {
        pool: Some(pool.name.clone()),
        reason: reason + when(hazard),
        hazard,
        disturbed,
        origin: Some(pool.origin.clone()),
        ..change
    }))
}

/// Why no `CiliumNodeConfig` of this name can make the pool the default of its nodes.
fn obstacle(pool: &Pool, name: &str, deciders: &Deciders<'_>) -> Option<NodeConfigObstacle> {
    let observed = deciders.observed;
    if !observed.surely_has(behaviours::DEFAULT_POOL) {
        return Some(NodeConfigObstacle::DefaultPoolNotRead);
    }
    if let Some(why) = observed.cilium.overriding_is_off(DEFAULT_POOL_SETTING) {
        return Some(NodeConfigObstacle::ConfigConflict(why));
    }
    if name.len() > LONGEST {
        return Some(NodeConfigObstacle::CannotBeSelected(format!(
            "its name is too long for a CiliumNodeConfig: {name}"
        )));
    }
    if let Some((other, node)) = deciders.ties.get(&pool.name) {
        let tied = ((*other).clone(), (*node).clone());
        return Some(NodeConfigObstacle::PoolsTied(Box::new(tied)));
    }
    if let Some(setting) = overriding_setting(pool, name, deciders) {
        return Some(NodeConfigObstacle::ConfigConflict(setting));
    }
    let seen = observed.node_config(name);
    seen.filter(|seen| !seen.is_ours())
        .map(|_| NodeConfigObstacle::OfAnother(name.to_owned()))
}

/// The setting that wins over the `CiliumNodeConfig` of this name on some node of the pool.
fn overriding_setting(pool: &Pool, name: &str, deciders: &Deciders<'_>) -> Option<String> {
    let observed = deciders.observed;
    let argument = observed.cilium.agent_argument(DEFAULT_POOL_SETTING);
    if argument.is_some() {
        return Some(format!(
            "{DEFAULT_POOL_SETTING} is set by an argument of the agent"
        ));
    }
    let selects_node_of_pool = |config: &NodeConfig| {
        let mut nodes = observed
            .nodes
            .values()
            .filter(|node| pool.selector.matches(&node.labels));
        nodes.any(|node| config.nodes.matches(&node.labels))
    };
    let rival = deciders
        .rivals
        .iter()
        .find(|rival| rival.name.as_str() > name && selects_node_of_pool(rival))?;
    Some(format!(
        "{DEFAULT_POOL_SETTING} is set by CiliumNodeConfig `{}`",
        rival.name.escape_debug()
    ))
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
    deciders: &Deciders<'_>,
) -> Result<PodPoolChange, BlockedReason> {
    let (api, namespace) = node_config_place(deciders.observed)?;
    let before = PodPoolSpec::Choice {
        nodes: config.nodes.clone(),
        pool: pool.to_string(),
    };
    let decided = deciders.by_config.get(config.name.as_str());
    let decided = decided.into_iter().flatten();
    let disturbed: BTreeSet<NodeName> = decided.map(|node| node.name.clone()).collect();
    let hazard = hazard(&disturbed);
    let reason = format!("no file declares pool {pool}");
    Ok(PodPoolChange {
        pool: Some(pool),
        reason: reason + when(hazard),
        hazard,
        disturbed,
        lost_fields: other_settings(config),
        ..PodPoolChange::new(
            PoolAction::Delete,
            PodPoolObject::Choice(api, namespace, config.name.clone()),
            (Some(before), None),
            config.version.clone(),
        )
    })
}

/// A remark on when a change of a default pool takes effect.
fn when(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::None => "",
        Hazard::Disruptive | Hazard::Destructive => "; takes effect when agents restart",
    }
}

/// Settings of the `CiliumNodeConfig` other than the default pool, as paths of fields.
pub(super) fn other_settings(config: &NodeConfig) -> Vec<String> {
    let keys = config.defaults.keys();
    let others = keys.filter(|key| *key != DEFAULT_POOL_SETTING);
    others.map(|key| format!("spec.defaults.{key}")).collect()
}
