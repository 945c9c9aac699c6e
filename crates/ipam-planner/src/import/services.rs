//! Pools of LoadBalancer addresses as they are. Pins of Services are those of `lb freeze`.

use super::{ImportRequest, Inferred, InferredAddressPool, ManifestUse, Objects};
use ipam_cilium::lbipam::{AddressPoolManifest, ClassUse};
use ipam_cilium::observed::{Observed, SeenAddressPool};
use ipam_core::model::OWNER_LABEL;

/// `kubectl apply` keeps the whole last document in it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn infer(observed: &Observed, request: &ImportRequest, inferred: &mut Inferred) {
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
    let served = observed.services.values().filter(|service| {
        rules.class_use(service.class.as_deref()) == ClassUse::Ours && !service.ingress.is_empty()
    });
    inferred.served_services = served.count();
}

fn without_server_fields(seen: &SeenAddressPool) -> AddressPoolManifest {
    let mut manifest = seen.manifest.clone();
    manifest.labels.remove(OWNER_LABEL.0);
    manifest.annotations.remove(LAST_APPLIED);
    manifest
}
