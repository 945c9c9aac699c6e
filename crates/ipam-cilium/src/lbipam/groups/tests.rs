//! Selectors, addresses, keys and versions that join pools and Services, and some that do not.

use super::*;
use crate::lbipam::test_objects::{pool, rules, service};
use crate::lbipam::{Annotation, FirstLast, Marking};

/// The names of each group.
fn names(pools: &[AddressPool], services: &[LbService]) -> Vec<String> {
    let groups = Groups::new(pools, services, &rules("1.19.3"));
    let line = |group: &Group| {
        let pools = group.pools.iter().map(String::as_str);
        let services = group.services.iter().map(ServiceName::name);
        pools.chain(services).collect::<Vec<_>>().join(" ")
    };
    groups.all().iter().map(line).collect()
}

fn blue_and_red() -> [AddressPool; 2] {
    [
        pool("b", "blue", &["10.0.0.0/24"]),
        pool("r", "red", &["10.0.1.0/24"]),
    ]
}

fn with_key(mut service: LbService, key: &str) -> LbService {
    let newer = Some(key.to_owned());
    service.sharing_key = Annotation { newer, older: None };
    service
}

#[test]
fn a_selector_joins() {
    let services = [
        service("one", "blue", &[], &[]),
        service("two", "red", &[], &[]),
        service("three", "red", &[], &[]),
        service("four", "green", &[], &[]),
    ];
    assert_eq!(
        names(&blue_and_red(), &services),
        ["b one", "r three two", "four"]
    );
}

#[test]
fn a_service_that_two_pools_select_joins_them() {
    let all = AddressPool {
        selector: None,
        ..pool("all", "", &["10.0.2.0/24"])
    };
    let pools = [blue_and_red().as_slice(), &[all]].concat();
    let blue = service("one", "blue", &[], &[]);
    assert_eq!(
        names(&pools, std::slice::from_ref(&blue)),
        ["all b one", "r"]
    );
    let red = service("two", "red", &[], &[]);
    assert_eq!(names(&pools, &[blue, red]), ["all b r one two"]);
}

#[test]
fn an_overlap_joins_whatever_is_in_use() {
    let mut pools = [
        pool("wide", "blue", &["10.0.0.0/16"]),
        pool("inside", "red", &["10.0.1.0/24"]),
        pool("inside-too", "green", &["10.0.3.0/24"]),
        pool("beside", "white", &["10.1.0.0/24"]),
    ];
    pools[0].marking = Marking::Conflicting;
    pools[1].state = crate::lbipam::ServingState::Disabled;
    pools[2].first_last = FirstLast::Allowed;
    assert_eq!(names(&pools, &[]), ["inside inside-too wide", "beside"]);
}

#[test]
fn an_address_joins_whether_it_is_held_or_requested() {
    let services = [
        service("holds", "white", &[], &["10.0.0.7"]),
        service("requests", "white", &["10.0.1.7"], &[]),
        service("holds-too", "white", &[], &["10.9.0.7"]),
        service("requests-too", "white", &["10.9.0.7"], &[]),
    ];
    assert_eq!(
        names(&blue_and_red(), &services),
        ["b holds", "r requests", "holds-too requests-too"]
    );
}

#[test]
fn a_sharing_key_joins() {
    let services = [
        with_key(service("one", "blue", &[], &[]), "web"),
        with_key(service("two", "red", &[], &[]), "web"),
        with_key(service("three", "white", &[], &[]), "mail"),
    ];
    assert_eq!(names(&blue_and_red(), &services), ["b r one two", "three"]);
}

#[test]
fn versions_of_one_name_join() {
    let [blue, red] = blue_and_red();
    let moved = AddressPool {
        name: blue.name.clone(),
        ..red.clone()
    };
    let services = [
        service("one", "blue", &[], &[]),
        service("two", "red", &[], &[]),
    ];
    assert_eq!(
        names(&[blue.clone(), moved], &services),
        ["b one two"],
        "a pool that comes to select others"
    );
    let pinned = service("one", "blue", &["10.0.1.7"], &[]);
    let [one, two] = services;
    assert_eq!(names(&[blue, red], &[one, two, pinned]), ["b r one two"]);
}

#[test]
fn services_of_other_controllers_are_in_no_group() {
    let other = LbService {
        class: Some("example.com/other".into()),
        ..service("one", "blue", &[], &[])
    };
    let groups = Groups::new(&blue_and_red(), [&other], &rules("1.19.3"));
    assert_eq!(groups.of_service(&other.name), None);
    assert_eq!(groups.of_pool("b"), Some(0));
    assert_eq!(groups.of_pool("r"), Some(1));
    assert_eq!(groups.of_pool("w"), None);
    assert_eq!(groups.all().len(), 2);
}
