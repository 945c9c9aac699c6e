//! Pools for ipam `multi-pool`: the `CiliumPodIPPool`s of the cluster, as they are.

use super::evidence::{RangeSource, add_holders};
use super::{Evidence, ImportRequest, Inferred, InferredPool, Objects, Obstacle};
use crate::check::is_private;
use crate::plan::priority_in;
use ipam_cilium::observed::{DEFAULT_POOL_SETTING, NodeConfig, Observed, SeenPodPool};
use ipam_core::model::{PerFamily, PoolName, Selector};
use ipam_desired::PoolState;

pub(super) fn infer(observed: &Observed, request: &ImportRequest) -> Result<Inferred, Obstacle> {
    if observed.pod_pools.is_empty() {
        return Err(Obstacle::NothingToImport);
    }
    let setting = observed.common_setting(DEFAULT_POOL_SETTING);
    let default = setting.map_or("default", |setting| setting.value);
    let mut pools = Vec::new();
    // Pools without a selector rank by their order: the default of all nodes comes first.
    let mut fallback = 0;
    for (name, seen) in &observed.pod_pools {
        let chosen = chosen_by(observed, name);
        let priority = match chosen {
            Some(config) => priority_of(config),
            None if name == default => 0,
            None => {
                fallback -= 1;
                fallback
            }
        };
        pools.push(pool(name, seen, chosen, priority, request)?);
    }
    let mut inferred = Inferred {
        pools,
        ..Inferred::default()
    };
    let cidrs = inferred.pools.iter().flat_map(|pool| &pool.cidrs);
    inferred.public = cidrs.filter(|cidr| !is_private(**cidr)).copied().collect();
    add_holders(observed, &mut inferred.pools);
    Ok(inferred)
}

/// Our own configs carry the priority of their pool in their name.
fn priority_of(config: &NodeConfig) -> i32 {
    match config.is_ours() {
        true => priority_in(&config.name).unwrap_or_default(),
        false => 0,
    }
}

/// The last `CiliumNodeConfig` that makes the pool the default of some nodes. The last one wins.
fn chosen_by<'o>(observed: &'o Observed, pool: &str) -> Option<&'o NodeConfig> {
    let mut configs = observed.node_configs.iter();
    configs.rfind(|config| config.default_pool() == Some(pool))
}

fn pool(
    name: &str,
    seen: &SeenPodPool,
    chosen: Option<&NodeConfig>,
    priority: i32,
    request: &ImportRequest,
) -> Result<InferredPool, Obstacle> {
    let inexpressible = |why: String| Obstacle::Inexpressible(name.to_owned(), why);
    let parsed: PoolName = name.parse().map_err(|_| {
        inexpressible("has a name that no IPPool can have: rename it in Cilium first".to_owned())
    })?;
    if let Some(text) = seen.unreadable.first() {
        return Err(inexpressible(format!(
            "is invalid: {text}; fix it in the cluster first"
        )));
    }
    let cidrs: Vec<_> = seen.cidrs().collect();
    if cidrs.is_empty() {
        return Err(inexpressible(
            "has no CIDRs: delete it, or add some".to_owned(),
        ));
    }
    let mut sizes = PerFamily::NONE;
    for ranges in seen.ranges.iter().filter(|ranges| !ranges.cidrs.is_empty()) {
        *sizes.get_mut(ranges.size.family()) = Some(ranges.size);
    }
    let state = match seen.is_ours() || request.objects == Objects::Adopted {
        true => PoolState::Active,
        false => PoolState::Disabled,
    };
    Ok(InferredPool {
        name: parsed,
        cidrs,
        sizes,
        selector: chosen.map_or_else(Selector::default, |config| config.nodes.clone()),
        priority,
        state,
        evidence: Evidence::new(RangeSource::PodPool),
    })
}
