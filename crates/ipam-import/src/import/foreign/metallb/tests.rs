//! Many ranges, and objects of MetalLB with faults. `foreign/tests/cases/metallb` has the other cases.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::import::foreign::config_text;
use crate::import::foreign::tests::{broken, hostile};
use ipam_cilium::lbipam::AddressPoolManifest;

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "namespace": "metallb-system"}, "spec": spec,
    })
}

fn service(name: &str, ip: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": ip}]}},
    })
}

#[test]
fn the_configuration_of_old_versions_is_a_text() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "config", "namespace": "metallb-system"},
        "data": {"config": "address-pools: []"}});
    assert_eq!(config_text(&map), Some("address-pools: []"));
}

#[test]
fn a_pool_is_divided_into_up_to_4096_ranges() {
    let spec = json!({"addresses": ["10.0.0.0/12"], "avoidBuggyIPs": true});
    let found = metallb(&[object("IPAddressPool", "p", spec)]);
    assert_eq!(found.address_pools[0].manifest.spec.ranges().count(), 4096);
}

proptest! {
    #[test]
    fn no_broken_field_breaks_the_import(
        faults in prop::collection::vec((0..4_usize, 0..40_usize, hostile()), 0..4),
    ) {
        let mut objects = [
            object("IPAddressPool", "p", json!({"addresses": ["192.0.2.0/24"], "avoidBuggyIPs": true,
                "serviceAllocation": {"serviceSelectors": [{"matchLabels": {"a": "b"}}]}})),
            object("L2Advertisement", "l2", json!({"nodeSelectors": [{"matchLabels": {"a": "b"}}],
                "interfaces": ["eth0"]})),
            object("BGPAdvertisement", "bgp", json!({"communities": ["1:2"], "localPref": 1})),
            service("web", "192.0.2.7", json!({"metallb.io/allow-shared-ip": "k"})),
        ];
        for (object, place, by) in &faults {
            broken(&mut objects[*object], *place, by);
        }
        let found = metallb(&objects);
        let manifests: Vec<AddressPoolManifest> =
            found.address_pools.into_iter().map(|pool| pool.manifest).collect();
        for manifest in manifests {
            prop_assert!(manifest.spec.ranges().count() > 0);
        }
    }
}
