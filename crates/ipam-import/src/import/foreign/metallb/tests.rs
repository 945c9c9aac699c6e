//! MetalLB's objects, as its documentation prints them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::import::foreign::tests::{broken, hostile};
use crate::import::foreign::{ADDRESS_POOL_LABEL, config_text, legacy_config};
use ipam_cilium::lbipam::AddressPoolManifest;
use ipam_core::model::Labels;

pub(super) fn object(kind: &str, name: &str, spec: Value) -> Value {
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

pub(super) fn names<'r>(remarks: impl IntoIterator<Item = &'r Remark>) -> BTreeSet<RemarkName> {
    remarks.into_iter().map(|remark| remark.name).collect()
}

fn spec(found: &ForeignPools, place: usize) -> Value {
    json!(found.address_pools[place].manifest)["spec"].clone()
}

#[test]
fn the_simple_pool_of_the_documentation() {
    let found = metallb(&[
        object(
            "IPAddressPool",
            "example",
            json!({"addresses": [
                "192.168.10.0/24", "192.168.9.1-192.168.9.5", "fc00:f853:0ccd:e799::/124",
            ]}),
        ),
        object("L2Advertisement", "empty", json!({})),
    ]);
    assert_eq!(
        spec(&found, 0),
        json!({
            "blocks": [
                {"cidr": "192.168.10.0/24"},
                {"start": "192.168.9.1", "stop": "192.168.9.5"},
                {"cidr": "fc00:f853:ccd:e799::/124"},
            ],
            "allowFirstLastIPs": "Yes",
        })
    );
    assert_eq!(
        found.announcements[0].object,
        json!({
            "apiVersion": "cilium.io/v2alpha1", "kind": "CiliumL2AnnouncementPolicy",
            "metadata": {"name": "empty"}, "spec": {"loadBalancerIPs": true},
        })
    );
    assert_eq!(names(found.all_remarks()), [RemarkName::L2Announced].into());
}

#[test]
fn service_allocation_becomes_a_selector_only_if_it_is_exact() {
    let pool = |allocation: Value| {
        let spec = json!({"addresses": ["192.168.20.0/30"], "serviceAllocation": allocation});
        let found = metallb(&[object("IPAddressPool", "p", spec)]);
        let selector = found.address_pools[0]
            .manifest
            .spec
            .service_selector
            .clone();
        let selector = selector.map(|selector| selector.selector().unwrap().to_string());
        (selector, names(found.all_remarks()))
    };
    let exact = |selector: &str| {
        (
            Some(selector.to_owned()),
            [RemarkName::ServiceAllocation].into(),
        )
    };
    let bar = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["bar"]}]});
    assert_eq!(
        pool(json!({"namespaces": ["b", "a"], "serviceSelectors": [bar]})),
        exact("app=bar,io.kubernetes.service.namespace in (a,b)")
    );
    assert_eq!(
        pool(json!({"serviceSelectors": [bar, {"matchLabels": {"app": "baz"}}]})),
        exact("app in (bar,baz)")
    );
    let of_all = (None, [RemarkName::ServiceAllocation].into());
    assert_eq!(pool(json!({"priority": 0})), of_all);
    for inexact in [
        // As the documentation prints it.
        json!({"priority": 50, "namespaces": ["namespace-a"],
            "namespaceSelectors": [{"matchLabels": {"foo": "bar"}}], "serviceSelectors": [bar]}),
        json!({"serviceSelectors": [bar, {"matchLabels": {"other": "baz"}}]}),
        json!({"serviceSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}),
    ] {
        assert_eq!(pool(inexact), exact("cilium-ipam.io/address-pool=p"));
    }
}

#[test]
fn an_allocation_without_selectors_depends_on_the_release() {
    let selector = |image: &str| {
        let controller = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "controller", "namespace": "lb"},
            "spec": {"template": {"spec": {"containers": [{"image": image}]}}}});
        let mut pool = object(
            "IPAddressPool",
            "p",
            json!({"addresses": ["192.168.20.0/30"], "serviceAllocation": {}}),
        );
        pool["metadata"]["namespace"] = json!("lb");
        let elsewhere = object(
            "IPAddressPool",
            "q",
            json!({"addresses": ["192.168.30.0/30"]}),
        );
        let found = metallb(&[controller, pool, elsewhere]);
        assert_eq!(found.address_pools.len(), 1);
        assert!(names(&found.remarks).contains(&RemarkName::OtherNamespace));
        found.address_pools[0]
            .manifest
            .spec
            .service_selector
            .is_some()
    };
    assert!(selector("quay.io/metallb/controller:v0.14.9"));
    assert!(!selector("quay.io/metallb/controller:v0.15.2@sha256:00"));
}

#[test]
fn pools_of_one_name_and_requests_for_others_are_named() {
    let config = json!({"address-pools": [
        {"name": "p", "protocol": "bgp", "addresses": ["192.0.2.80/32"]},
        {"name": "p", "protocol": "bgp", "addresses": ["192.0.2.90"]},
        {"name": "q", "protocol": "bgp", "addresses": ["192.0.2.91"]},
    ]});
    let mut objects = legacy_config(&config);
    let asks = |pool: &str| json!({"metallb.universe.tf/address-pool": pool});
    objects.push(service("gone", "192.0.2.90", asks("r")));
    objects.push(service("kept", "192.0.2.91", asks("q")));
    let found = metallb(&objects);
    let pools: Vec<&str> = found
        .address_pools
        .iter()
        .map(|pool| pool.name.as_str())
        .collect();
    assert_eq!(pools, ["p", "q"]);
    assert_eq!(
        spec(&found, 1)["blocks"],
        json!([{"cidr": "192.0.2.91/32"}])
    );
    use RemarkName::*;
    assert_eq!(
        names(&found.remarks),
        [NameTwice, AddressOutsidePools, PoolRequested].into()
    );
    assert_eq!(found.announcements.len(), 1);
}

#[test]
fn a_shared_address_with_the_key_of_cilium_needs_nothing() {
    let keys = json!({"metallb.io/allow-shared-ip": "k", "lbipam.cilium.io/sharing-key": "k"});
    let found = metallb(&[
        object("IPAddressPool", "p", json!({"addresses": ["192.0.2.0/24"]})),
        service("shared", "192.0.2.9", keys),
    ]);
    assert_eq!(
        names(found.all_remarks()),
        [RemarkName::ServicePinned].into()
    );
}

#[test]
fn services_of_several_namespaces_share_by_two_annotations() {
    let texts = |namespace: &str| {
        let key = json!({"metallb.io/allow-shared-ip": "k"});
        let mut other = service("other", "192.0.2.9", key.clone());
        other["metadata"]["namespace"] = json!(namespace);
        let pool = object("IPAddressPool", "p", json!({"addresses": ["192.0.2.0/24"]}));
        let found = metallb(&[pool, service("shared", "192.0.2.9", key), other]);
        let texts = found.all_remarks().map(|remark| remark.text.clone());
        texts.collect::<Vec<_>>().join("\n")
    };
    let command = "shop shared lbipam.cilium.io/sharing-key=k";
    assert!(texts("shop").contains(&format!("{command}`")));
    let with_namespaces = format!("{command} lbipam.cilium.io/sharing-cross-namespace='*'`");
    assert!(texts("edge").contains(&with_namespaces));
}

#[test]
fn what_cilium_does_to_a_service_that_waits() {
    let waits = |annotations: Value| {
        let mut waiting = service("waits", "", annotations);
        waiting["status"] = json!({});
        let pool = object("IPAddressPool", "p", json!({"addresses": ["192.0.2.9/32"]}));
        let found = metallb(&[pool, service("web", "192.0.2.9", json!({})), waiting]);
        found.remarks.iter().map(|one| one.text.clone()).collect()
    };
    let texts: Vec<String> = waits(json!({"metallb.io/loadBalancerIPs": "10.9.9.9"}));
    assert!(
        texts[0].contains("Cilium gives it another address"),
        "{texts:?}"
    );
    assert!(texts[0].contains("`lbipam.cilium.io/ips`"), "{texts:?}");
    let request =
        json!({"metallb.io/loadBalancerIPs": "10.9.9.9", "lbipam.cilium.io/ips": "10.9.9.9"});
    assert!(waits(request)[0].contains("Cilium does not give it"));
    let texts: Vec<String> = waits(json!({"metallb.io/address-pool": "p"}));
    assert!(texts[0].contains("which is full"), "{texts:?}");
    assert!(!texts[0].contains("pin it"), "{texts:?}");
}

#[test]
fn addresses_that_end_in_0_or_255_are_left_out() {
    let pool = |addresses: &str| {
        let spec = json!({"addresses": [addresses], "avoidBuggyIPs": true});
        metallb(&[object("IPAddressPool", "p", spec)])
    };
    let blocks = |addresses: &str| spec(&pool(addresses), 0)["blocks"].clone();
    assert_eq!(
        blocks("192.168.10.0/23"),
        json!([
            {"start": "192.168.10.1", "stop": "192.168.10.254"},
            {"start": "192.168.11.1", "stop": "192.168.11.254"},
        ])
    );
    assert_eq!(
        blocks("10.0.0.255-10.0.2.0"),
        json!([{"start": "10.0.1.1", "stop": "10.0.1.254"}])
    );
    assert_eq!(blocks("fd00::/120"), json!([{"cidr": "fd00::/120"}]));
    assert_eq!(blocks("10.0.0.0/12").as_array().unwrap().len(), 4096);
    let wide = pool("10.0.0.0/11");
    assert_eq!(spec(&wide, 0)["blocks"], json!([{"cidr": "10.0.0.0/11"}]));
    assert_eq!(
        names(wide.all_remarks()),
        [RemarkName::BuggyAddresses].into()
    );
}

#[test]
fn a_service_outside_of_all_pools_has_a_remark() {
    let pool = object(
        "IPAddressPool",
        "p",
        json!({"addresses": ["192.168.20.0/30"]}),
    );
    let found = metallb(&[pool.clone(), service("web", "10.9.9.9", json!({}))]);
    assert_eq!(found.service_pins, []);
    assert_eq!(
        names(&found.remarks),
        [RemarkName::AddressOutsidePools].into()
    );
    assert!(
        found.remarks[0].text.contains("`10.9.9.9`"),
        "{:?}",
        found.remarks
    );
    // A Service without an address lacks nothing.
    let mut pending = service("web", "", json!({}));
    pending["status"] = json!({});
    assert!(metallb(&[pool, pending]).remarks.is_empty());
}

#[test]
fn services_keep_their_addresses() {
    let found = metallb(&[
        object(
            "IPAddressPool",
            "cheap",
            json!({"addresses": ["192.168.10.0/24"]}),
        ),
        object(
            "IPAddressPool",
            "expensive",
            json!({"addresses": ["42.176.25.64/30"], "autoAssign": false}),
        ),
        service("plain", "192.168.10.7", json!({})),
        service(
            "shared",
            "192.168.10.8",
            json!({"metallb.universe.tf/allow-shared-ip": "it's", "metallb.io/loadBalancerIPs": "192.168.10.8"}),
        ),
        service(
            "special",
            "42.176.25.65",
            json!({"metallb.io/address-pool": "expensive"}),
        ),
        service("elsewhere", "203.0.113.1", json!({})),
        service(
            "moves",
            "192.168.10.9",
            json!({"metallb.io/loadBalancerIPs": "192.168.10.10"}),
        ),
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "waits", "namespace": "shop"},
            "spec": {"type": "LoadBalancer", "loadBalancerIP": "192.168.10.11",
                "loadBalancerClass": "metallb.io/x"}}),
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "cluster", "namespace": "shop"}, "spec": {"type": "ClusterIP"}}),
    ]);
    let pins: Vec<(String, Vec<String>, Vec<RemarkName>)> = found
        .service_pins
        .iter()
        .map(|pin| {
            (
                pin.service.to_string(),
                pin.addresses.iter().map(ToString::to_string).collect(),
                pin.remarks.iter().map(|remark| remark.name).collect(),
            )
        })
        .collect();
    let pin = |name: &str, ip: &str, remarks: &[RemarkName]| {
        (
            format!("shop/{name}"),
            vec![ip.to_owned()],
            remarks.to_vec(),
        )
    };
    use RemarkName::*;
    assert_eq!(
        pins,
        [
            pin("moves", "192.168.10.9", &[AddressRequested]),
            pin("plain", "192.168.10.7", &[ServicePinned]),
            pin("shared", "192.168.10.8", &[ServicePinned, SharingKey]),
            pin(
                "special",
                "42.176.25.65",
                &[ServicePinned, NotAutomatic, PoolRequested]
            ),
            pin(
                "waits",
                "192.168.10.11",
                &[AddressRequested, LoadBalancerClass]
            ),
        ]
    );
    let texts: Vec<&str> = found
        .all_remarks()
        .map(|remark| remark.text.as_str())
        .collect();
    let has = |part: &str| texts.iter().any(|text| text.contains(part));
    assert!(has(
        "kubectl label service --namespace shop special cilium-ipam.io/address-pool=expensive"
    ));
    assert!(has(r"shared lbipam.cilium.io/sharing-key='it'\''s'"));
    // A Service with the label gets the pool.
    let selector = found.address_pools[1]
        .manifest
        .spec
        .service_selector
        .clone()
        .unwrap();
    let labelled: Labels = [(ADDRESS_POOL_LABEL.to_owned(), "expensive".to_owned())].into();
    assert!(selector.selector().unwrap().matches(&labelled));
}

#[test]
fn the_configuration_of_old_versions() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "config", "namespace": "metallb-system"},
        "data": {"config": "address-pools: []"}});
    assert_eq!(config_text(&map), Some("address-pools: []"));
    let objects = legacy_config(&json!({
        "peers": [{"my-asn": 64512, "peer-asn": 64512, "peer-address": "10.96.0.100"}],
        "address-pools": [
            {"name": "my-ip-space", "protocol": "bgp", "addresses": ["198.51.100.0/24"],
                "bgp-advertisements": [
                    {"aggregation-length": 32, "localpref": 100, "communities": ["64512:1234"]}]},
        ],
    }));
    let mut all = vec![map];
    all.extend(objects);
    let found = metallb(&all);
    assert_eq!(
        spec(&found, 0)["blocks"],
        json!([{"cidr": "198.51.100.0/24"}])
    );
    assert_eq!(
        found.announcements[0].object["spec"]["advertisements"][0]["attributes"],
        json!({"localPreference": 100, "communities": {"standard": ["64512:1234"]}})
    );
    assert_eq!(
        names(found.all_remarks()),
        [RemarkName::BgpAnnounced, RemarkName::BgpPeer].into()
    );
    // MetalLB 0.13 had the same as an object.
    let old = object(
        "AddressPool",
        "l2",
        json!({"protocol": "layer2", "addresses": ["198.51.100.0/24"], "autoAssign": false}),
    );
    let found = metallb(&[old]);
    assert_eq!(found.announcements.len(), 1);
    assert!(
        found.address_pools[0]
            .manifest
            .spec
            .service_selector
            .is_some()
    );
}

#[test]
fn faults() {
    let found = metallb(&[
        object(
            "IPAddressPool",
            "a",
            json!({"addresses": ["192.0.2.0/24", "nonsense", "9.9.9.9"]}),
        ),
        object(
            "IPAddressPool",
            "b",
            json!({"addresses": ["192.0.2.128/25"]}),
        ),
        object(
            "IPAddressPool",
            "c",
            json!({"addresses": ["192.0.3.9-192.0.3.1"]}),
        ),
        object(
            "IPAddressPool",
            "NO_NAME",
            json!({"addresses": ["192.0.4.0/24"]}),
        ),
        object("IPAddressPool", "e", json!({"addresses": "192.0.5.0/24"})),
    ]);
    assert_eq!(found.address_pools.len(), 1);
    assert_eq!(
        names(&found.address_pools[0].remarks),
        [RemarkName::AddressInvalid].into()
    );
    assert_eq!(
        names(&found.remarks),
        [RemarkName::PoolsOverlap, RemarkName::ObjectUnreadable].into()
    );
}

#[test]
fn the_order_of_pools_is_lost() {
    let allocation = |priority: u64| {
        json!({"addresses": [format!("192.0.{priority}.0/24")],
            "serviceAllocation": {"priority": priority, "namespaces": ["a"]}})
    };
    let found = metallb(&[
        object("IPAddressPool", "p1", allocation(1)),
        object("IPAddressPool", "p2", allocation(2)),
        object(
            "IPAddressPool",
            "any",
            json!({"addresses": ["192.0.9.0/24"]}),
        ),
    ]);
    let preferred: Vec<(&str, bool)> = found
        .address_pools
        .iter()
        .map(|pool| {
            let is_preferred = names(&pool.remarks).contains(&RemarkName::Priority);
            (pool.name.as_str(), is_preferred)
        })
        .collect();
    assert_eq!(preferred, [("any", false), ("p1", true), ("p2", true)]);
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
