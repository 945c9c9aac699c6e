//! What an import takes over as it is: the `CiliumPodIPPool`s of ipam `multi-pool`, the pools of
//! LoadBalancer addresses, and the write path in use.

use super::evidence::{RangeSource, add_holders};
use super::{
    Evidence, ImportRequest, Inferred, InferredAddressPool, InferredPool, InferredWritePath,
    ManifestUse, Objects, Obstacle,
};
use crate::proposal::Remark;
use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_cilium::observed::{
    BlockAllocator, DEFAULT_POOL_SETTING, HoldingField, ModeSeen, NodeConfig, Observed, Reading,
    SeenAddressPool, SeenPodPool,
};
use ipam_core::model::{
    IpamMode, OWNER_LABEL, PerFamily, PoolName, Selector, WritePath, WritePathChoice,
};
use ipam_desired::PoolState;
use ipam_plan::check::is_private;
use ipam_plan::plan::priority_in;

pub(super) fn infer(observed: &Observed, request: &ImportRequest) -> Result<Inferred, Obstacle> {
    if observed.pod_pools.is_empty() {
        return Err(Obstacle::NothingToImport);
    }
    let setting = observed.common_setting(DEFAULT_POOL_SETTING);
    let default = setting.map_or("default", |setting| setting.value);
    let mut pools = Vec::new();
    let mut left_out = Vec::new();
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
        match pool(name, seen, chosen, priority, request) {
            Ok(pool) => pools.push(pool),
            Err(why) => left_out.push((name.clone(), why)),
        }
    }
    if let ([], [(name, why), ..]) = (&pools[..], &left_out[..]) {
        return Err(Obstacle::Inexpressible(name.clone(), why.clone()));
    }
    let left_out = left_out.into_iter();
    let mut inferred = Inferred {
        pools,
        remarks: left_out
            .map(|(name, why)| Remark::PodPoolLeftOut(name, Some(why)))
            .collect(),
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

/// # Errors
/// Fails if no file can express the pool, with the reason.
fn pool(
    name: &str,
    seen: &SeenPodPool,
    chosen: Option<&NodeConfig>,
    priority: i32,
    request: &ImportRequest,
) -> Result<InferredPool, String> {
    let parsed: PoolName = name
        .parse()
        .map_err(|_| "has a name that no IPPool can have: rename it in Cilium first".to_owned())?;
    if let Some(text) = seen.unreadable.first() {
        return Err(format!("is invalid: {text}; fix it in the cluster first"));
    }
    let cidrs: Vec<_> = seen.cidrs().collect();
    if cidrs.is_empty() {
        return Err("has no CIDRs: delete it, or add some".to_owned());
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

/// Annotation in which `kubectl apply` keeps the whole last document.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn infer_services(
    observed: &Observed,
    request: &ImportRequest,
    inferred: &mut Inferred,
) {
    let rules = observed.lb_rules();
    for service in observed.services.values() {
        let hostnames = service.hostnames_that_go(&rules);
        let named = hostnames.map(|one| (service.name.clone(), one.address()));
        inferred.hostnames.extend(named);
    }
    let Some(api) = observed.address_pool_api() else {
        return;
    };
    let pools = observed.address_pools.values();
    inferred.address_pools = pools
        .map(|seen| InferredAddressPool {
            name: seen.name.clone(),
            api,
            manifest: without_server_fields(seen),
            use_of: match seen.is_ours() || request.objects == Objects::Adopted {
                true => ManifestUse::Declared,
                false => ManifestUse::Commented,
            },
        })
        .collect();
    let served = observed
        .services
        .values()
        .filter(|service| rules.serves(service) && !service.ingress.is_empty());
    inferred.served_services = served.count();
}

fn without_server_fields(seen: &SeenAddressPool) -> AddressPoolManifest {
    let mut manifest = seen.manifest.clone();
    manifest.labels.remove(OWNER_LABEL.0);
    manifest.annotations.remove(LAST_APPLIED);
    manifest
}

pub(super) fn infer_write_path(observed: &Observed) -> InferredWritePath {
    let ModeSeen::Known(mode) = observed.cilium.mode() else {
        return InferredWritePath::default();
    };
    let forced = |path| InferredWritePath {
        used: Some(path),
        choice: WritePathChoice::Forced(path),
    };
    match mode {
        IpamMode::Kubernetes => forced(of_nodes(observed)),
        IpamMode::MultiPool => forced(WritePath::PodIpPool),
        IpamMode::ClusterPool => {
            let is_external = |node| observed.block_allocator(node) == BlockAllocator::External;
            match observed.nodes.values().all(|node| is_external(node)) {
                true => forced(WritePath::CiliumNode),
                // By its name, this path is used even beside an operator that allocates.
                false => InferredWritePath {
                    used: Some(WritePath::CiliumNode),
                    choice: WritePathChoice::Auto,
                },
            }
        }
        _ => InferredWritePath::default(),
    }
}

/// In ipam `kubernetes`: the field from which agents read the blocks that nodes hold.
fn of_nodes(observed: &Observed) -> WritePath {
    let held = observed.nodes.values().flat_map(|node| {
        let held = observed.holds(node);
        held.iter().copied().collect::<Vec<_>>()
    });
    let read: Vec<HoldingField> = held
        .filter(|holding| holding.reading == Reading::Read)
        .map(|holding| holding.field)
        .collect();
    let is_annotation = |field: &HoldingField| {
        matches!(
            field,
            HoldingField::Annotation | HoldingField::OldAnnotation
        )
    };
    if read.contains(&HoldingField::Setting) {
        WritePath::NodeConfig
    } else if !read.is_empty() && read.iter().all(is_annotation) {
        WritePath::NodeAnnotation
    } else {
        WritePath::NodeSpec
    }
}
