use serde_json::{Value, json};

use super::*;
use crate::plan::{AddressPoolChange, PoolAction};
use ipam_cilium::lbipam::{AddressPoolApi, Translation};
use ipam_cilium::observed::Reader;
use ipam_core::model::ObjectVersion;

fn pool(name: &str, block: &str) -> Value {
    let (start, stop) = block.split_once('-').unwrap();
    json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"blocks": [{"start": start, "stop": stop}]}})
}

/// A Service that requests an address, or holds one that it did not request.
fn service(name: &str, held: &[&str], requested: Option<&str>) -> Value {
    let annotation = requested.map(|address| json!({"lbipam.cilium.io/ips": address}));
    let ingress: Vec<Value> = held.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"metadata": {"namespace": "shop", "name": name, "annotations": annotation},
        "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
        "status": {"loadBalancer": {"ingress": ingress}}})
}

fn observed_of(pools: &[Value], services: &[Value]) -> Observed {
    let mut reader = Reader::default();
    for pool in pools {
        reader
            .object(ObservedKind::LoadBalancerPool, &pool.to_string())
            .unwrap();
    }
    for service in services {
        reader
            .object(ObservedKind::Service, &service.to_string())
            .unwrap();
    }
    reader.finish("2026-01-02T00:00:00Z".parse().unwrap())
}

/// What is told of each Service when pool `a` becomes this block.
fn told(services: &[Value], before: &str, after: &str) -> Vec<String> {
    let observed = observed_of(&[pool("a", before)], services);
    let next = observed_of(&[pool("a", after)], &[]);
    let manifest = |observed: &Observed| observed.address_pools["a"].manifest.clone();
    let change = Change::AddressPool(Box::new(AddressPoolChange {
        action: PoolAction::Update,
        name: "a".parse().unwrap(),
        api: AddressPoolApi::V2,
        before: Some(manifest(&observed)),
        after: Some(manifest(&next)),
        translation: Translation::None,
        author: None,
        hazard: Hazard::None,
        guard: ObjectVersion::default(),
        origin: None,
    }));
    let effects = effects([&change], &observed);
    let text = |effect: &ServiceEffect| {
        let gains = effect.gains.iter().map(ToString::to_string);
        let pending = effect.pending.iter().map(|why| why.reason().to_owned());
        let all: Vec<String> = gains.chain(pending).collect();
        format!("{}: {}", effect.service.name(), all.join(", "))
    };
    effects.services.iter().map(text).collect()
}

fn one_holds_two_wait() -> [Value; 3] {
    [
        service("a", &["10.7.0.1"], None),
        service("b", &[], None),
        service("c", &[], None),
    ]
}

#[test]
fn room_for_all_is_sure() {
    assert_eq!(
        told(
            &one_holds_two_wait(),
            "10.7.0.1-10.7.0.1",
            "10.7.0.1-10.7.0.3"
        ),
        [
            "b: gets an IPv4 address of a",
            "c: gets an IPv4 address of a"
        ]
    );
}

#[test]
fn chance_decides_who_gets_the_only_room() {
    assert_eq!(
        told(
            &one_holds_two_wait(),
            "10.7.0.1-10.7.0.1",
            "10.7.0.1-10.7.0.2"
        ),
        [
            "b: may get an IPv4 address of a",
            "c: may get an IPv4 address of a"
        ]
    );
}

#[test]
fn another_service_may_take_the_address_that_one_requests() {
    let services = [
        service("any", &["10.8.0.1"], None),
        service("picky", &[], Some("10.7.0.1")),
    ];
    assert_eq!(
        told(&services, "10.8.0.1-10.8.0.1", "10.7.0.1-10.7.0.1"),
        [
            "any: may get an IPv4 address of a, out_of_ips",
            "picky: may get 10.7.0.1, already_allocated"
        ]
    );
}
