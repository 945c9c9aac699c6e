//! Which NICs can be taken.

use serde_json::json;

use crate::nic::tests::machine::link;
use crate::nic::*;

fn selection(nic: &serde_json::Value) -> Selection {
    NicSettings::read(&json!({"neutron": {}, "nic": nic}))
        .unwrap()
        .selection
}

fn names(links: &[Link], nic: &serde_json::Value) -> (Vec<String>, Vec<String>) {
    let (free, refusals) = candidates(links, &selection(nic), &[]);
    let refusals = refusals
        .into_iter()
        .map(|refusal| refusal.to_string())
        .collect();
    (
        free.iter().map(|link| link.name.clone()).collect(),
        refusals,
    )
}

#[test]
fn nics_that_the_node_needs_are_never_taken() {
    let of = |id: &str, index, kind: &str| link(id, index, Kind::Other(kind.to_owned()));
    let mut links = vec![
        of("lo", 1, "loopback"),
        of("br0", 2, "bridge"),
        link("eth10", 3, Kind::Physical),
        link("eth2", 4, Kind::Physical),
        Link {
            master: Some(2),
            ..link("eth3", 5, Kind::Veth)
        },
        link("eth4", 6, Kind::Physical),
        Link {
            below: Some(6),
            ..of("eth4.7", 7, "vlan")
        },
        Link {
            is_from_elsewhere: true,
            ..link("eth5", 8, Kind::Veth)
        },
        Link {
            mac: None,
            ..link("eth6", 9, Kind::Tap)
        },
    ];
    let (free, refusals) = names(&links, &json!({"any": {"names": ["*"]}}));
    assert_eq!(free, ["eth2", "eth10"]);
    assert_eq!(refusals.len(), 3, "{refusals:?}");
    for name in ["lo", "br0", "eth3", "eth4", "eth4.7", "eth6", "nothing"] {
        assert_eq!(names(&links, &json!({"name": name})).0, [""; 0], "{name}");
    }
    assert_eq!(
        names(&links, &json!({"name": "eth5"})).0,
        ["eth5"],
        "an explicit name selects it"
    );
    links[2].other_names.insert("enp0s3".to_owned());
    assert_eq!(names(&links, &json!({"name": "enp0s3"})).0, ["eth10"]);
    assert_eq!(names(&links, &json!({"pci": "0000:00:04.0"})).0, ["eth2"]);
    assert_eq!(
        names(&links, &json!({"any": {"drivers": ["eth2", "veth"]}})).0,
        ["eth2"]
    );
}

#[test]
fn nics_with_addresses_are_taken_only_with_take_configured() {
    let mut link = link("eth1", 4, Kind::Physical);
    let default = NodeRoute::new(
        "::/0".parse().unwrap(),
        super::super::link::Gateway::None,
        None,
    );
    let [any, named, restored] = [
        json!({"any": {"names": ["eth*"]}}),
        json!({"name": "eth1"}),
        json!({"name": "eth1", "takeConfigured": "restore"}),
    ]
    .map(|nic| selection(&nic));
    link.addresses
        .push(NodeAddress::new("fe80::1/64".parse().unwrap()));
    assert_eq!(
        is_available(&link, &[], &any),
        Ok(()),
        "each link has a link-local address"
    );
    assert!(is_available(&link, &[default], &named).is_err());
    link.addresses
        .push(NodeAddress::new("10.0.0.1/24".parse().unwrap()));
    assert!(is_available(&link, &[], &any).is_err() && is_available(&link, &[], &named).is_err());
    assert_eq!(is_available(&link, &[], &restored), Ok(()));
    let tunnel = NodeRoute {
        unknown: vec![9],
        ..NodeRoute::new(
            "10.9.0.0/16".parse().unwrap(),
            super::super::link::Gateway::None,
            None,
        )
    };
    assert!(
        is_available(&link, &[tunnel], &restored).is_err(),
        "it could not be restored"
    );
}
