//! Plans of pools on a hand-written cluster: which Services get an address, and which results
//! depend on chance.

mod groups;

use serde_json::{Value, json};

use super::*;
use crate::plan::{AddressPoolChange, AddressPoolObject, PoolAction};
use ipam_cilium::lbipam::{AddressPoolApi, AddressPoolManifest};
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
    observed_on("1.19.3", pools, services)
}

fn observed_on(version: &str, pools: &[Value], services: &[Value]) -> Observed {
    let mut reader = Reader::default();
    let image = format!("quay.io/cilium/cilium:v{version}");
    let agent = json!({"metadata": {"namespace": "kube-system", "name": "cilium", "labels": {"k8s-app": "cilium"}},
        "spec": {"template": {"spec": {"containers": [{"name": "cilium-agent", "image": image}]}}}});
    reader
        .object(ObservedKind::CiliumDaemonSet, &agent.to_string())
        .unwrap();
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

fn owned_change(
    action: PoolAction,
    name: &str,
    specs: (Option<AddressPoolManifest>, Option<AddressPoolManifest>),
) -> Change {
    let object = AddressPoolObject {
        api: AddressPoolApi::V2,
        name: name.parse().unwrap(),
    };
    let guard = ObjectVersion::default();
    AddressPoolChange::new(action, object, specs, guard).into()
}

/// A change of the pool to this block.
fn change(observed: &Observed, name: &str, block: &str) -> Change {
    let next = observed_of(&[pool(name, block)], &[]);
    let manifest = |observed: &Observed| observed.address_pools[name].manifest.clone();
    let specs = (Some(manifest(observed)), Some(manifest(&next)));
    owned_change(PoolAction::Update, name, specs)
}

/// A line for each Service with a predicted effect when the block of pool `a` changes.
fn told(services: &[Value], before: &str, after: &str) -> Vec<String> {
    let observed = observed_of(&[pool("a", before)], services);
    let change = change(&observed, "a", after);
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
        service("any", &[], None),
        service("holder", &["10.8.0.1"], Some("10.8.0.1")),
        service("picky", &[], Some("10.7.0.1")),
    ];
    assert_eq!(
        told(&services, "10.8.0.1-10.8.0.1", "10.7.0.1-10.7.0.1"),
        [
            "any: may get an IPv4 address of a",
            "holder: no_pool",
            "picky: may get 10.7.0.1, already_allocated"
        ]
    );
}

#[test]
fn those_between_the_first_and_the_last_are_told_too() {
    let waiting = ["b", "c", "d"].map(|name| service(name, &[], None));
    let all: Vec<Value> = [service("a", &["10.7.0.1"], None)]
        .into_iter()
        .chain(waiting)
        .collect();
    for block in ["10.7.0.1-10.7.0.2", "10.7.0.1-10.7.0.3"] {
        assert_eq!(
            told(&all, "10.7.0.1-10.7.0.1", block),
            ["b", "c", "d"].map(|name| format!("{name}: may get an IPv4 address of a")),
            "{block}"
        );
    }
}

#[test]
fn what_one_change_leaves_to_chance_stays_so_after_another_one() {
    // Up to 1.18.1, one that waits may take an address of an edited block before its holder.
    let services = [
        service("a", &["10.7.0.1"], None),
        service("any", &[], None),
        service("picky", &[], Some("10.7.0.4")),
    ];
    let observed = observed_on(
        "1.17.6",
        &[
            pool("a", "10.7.0.1-10.7.0.1"),
            pool("b", "10.9.0.1-10.9.0.9"),
        ],
        &services,
    );
    let edit = change(&observed, "a", "10.7.0.1-10.7.0.4");
    let other = change(&observed, "b", "10.9.0.1-10.9.0.8");
    for changes in [vec![&edit], vec![&edit, &other]] {
        let effects = effects(changes.iter().copied(), &observed);
        let of_picky = effects
            .services
            .iter()
            .find(|one| one.service.name() == "picky");
        let certainty = of_picky.map(|one| one.gains[0].certainty);
        assert_eq!(
            certainty,
            Some(Certainty::LeftToChance),
            "{}",
            changes.len()
        );
    }
}

#[test]
fn addresses_of_the_other_family_are_not_room() {
    // Up to 1.18.1, `picky` may take the address of an edited block, and `a` the last one.
    let services = [
        service("a", &["10.7.0.1"], None),
        service("any", &[], None),
        service("picky", &[], Some("10.7.0.1")),
    ];
    for more in [&[][..], &["fd00::1-fd00::ffff"]] {
        let of = |blocks: &[&str]| {
            let mut pool = pool("a", blocks[0]);
            let all = blocks.iter().filter_map(|block| block.split_once('-'));
            let all = all.map(|(start, stop)| json!({"start": start, "stop": stop}));
            pool["spec"]["blocks"] = all.collect();
            pool
        };
        let before = of(&[&["10.7.0.1-10.7.0.1"], more].concat());
        let after = of(&[&["10.7.0.1-10.7.0.2"], more].concat());
        let observed = observed_on("1.17.6", std::slice::from_ref(&before), &services);
        let mut edit = change(&observed, "a", "10.7.0.1-10.7.0.2");
        if let Change::AddressPool(edit) = &mut edit {
            let next = observed_of(&[after], &[]);
            edit.after = Some(next.address_pools["a"].manifest.clone());
        }
        let effects = effects([&edit], &observed);
        let mut services = effects.services.iter();
        let any = services.find(|one| one.service.name() == "any");
        let certainty = any.map(|one| one.gains[0].certainty);
        assert_eq!(certainty, Some(Certainty::LeftToChance), "{more:?}");
    }
}

/// Up to 1.18.1, the holders of the kept half, those of the lost half and those that wait are
/// served in any order: on a real 1.16.6, `f` stayed without an address.
#[test]
fn nothing_is_certain_where_too_few_addresses_are_given_anew() {
    let held = ["a", "b", "c", "d"].into_iter().zip(0..);
    let mut services: Vec<_> = held
        .map(|(name, last)| service(name, &[&format!("10.7.0.{last}")], None))
        .collect();
    services.extend(["e", "f"].map(|name| service(name, &[], None)));
    let before = pool("a", "10.7.0.0-10.7.0.3");
    for (range, expected) in [
        ("10.7.0.2-10.7.0.5", Certainty::LeftToChance),
        ("10.7.0.2-10.7.0.9", Certainty::Certain),
    ] {
        let observed = observed_on("1.16.6", std::slice::from_ref(&before), &services);
        let edit = change(&observed, "a", range);
        let effects = effects([&edit], &observed);
        for name in ["e", "f"] {
            let mut services = effects.services.iter();
            let one = services.find(|one| one.service.name() == name);
            let certainty = one.map(|one| one.gains[0].certainty);
            assert_eq!(certainty, Some(expected), "{name} of {range}");
        }
    }
}

/// A busy operator 1.16.6 served one that waited before a holder.
#[test]
fn holders_of_a_moved_block_are_usually_served_before_those_that_wait() {
    let services = [
        service("a", &["10.7.0.1"], None),
        service("b", &["10.7.0.2"], None),
        service("c", &[], None),
    ];
    assert_eq!(
        told(&services, "10.7.0.1-10.7.0.2", "10.8.0.1-10.8.0.2"),
        ["a", "b"].map(|name| format!("{name}: may get an IPv4 address of a"))
    );
}
