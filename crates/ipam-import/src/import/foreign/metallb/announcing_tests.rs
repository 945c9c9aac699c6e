//! Advertisements and peers of MetalLB.

use super::tests::{names, object};
use super::*;
use serde_json::json;

#[test]
fn l2_advertisements() {
    let pools = [
        object(
            "IPAddressPool",
            "first-pool",
            json!({"addresses": ["192.0.2.0/30"]}),
        ),
        object(
            "IPAddressPool",
            "second-pool",
            json!({"addresses": ["192.0.2.4/30"]}),
        ),
    ];
    let l2 =
        |specs: &[Value]| {
            let mut objects = pools.to_vec();
            objects.extend(specs.iter().enumerate().map(|(place, spec)| {
                object("L2Advertisement", &format!("l2-{place}"), spec.clone())
            }));
            metallb(&objects)
        };
    let host = |name: &str| json!({"matchLabels": {"kubernetes.io/hostname": name}});
    let found = l2(&[json!({
        "ipAddressPools": ["first-pool", "second-pool"],
        "nodeSelectors": [host("NodeA"), host("NodeB")], "interfaces": ["eth0.7"],
    })]);
    assert_eq!(
        found.announcements[0].object["spec"],
        json!({
            "loadBalancerIPs": true,
            "nodeSelector": {"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["NodeA", "NodeB"]},
            ]},
            "interfaces": [r"^eth0\.7$"],
        })
    );
    // Two that differ only in their pools mean one of all pools.
    let split = l2(&[
        json!({"ipAddressPools": ["first-pool"]}),
        json!({"ipAddressPools": ["second-pool"]}),
    ]);
    assert_eq!(split.announcements.len(), 1);
    for (inexact, reason) in [
        (
            json!({"ipAddressPools": ["first-pool"]}),
            "it announces some pools only (`first-pool`)",
        ),
        (
            json!({"nodeSelectors": [host("a"), {"matchLabels": {"rack": "b"}}]}),
            "`nodeSelectors`: it has alternatives that differ in more than the values of one label",
        ),
        (
            json!({"preferredNodeSelectors": [{"weight": 1, "preference": host("a")}]}),
            "Cilium prefers no nodes",
        ),
    ] {
        let found = l2(&[inexact]);
        assert!(found.announcements.is_empty());
        let [remark] = &found.remarks[..] else {
            panic!("{:?}", found.remarks);
        };
        assert_eq!(remark.name, RemarkName::L2NotExpressible);
        assert!(remark.text.contains(reason), "{remark}");
    }
}

#[test]
fn bgp_advertisements() {
    let pool = object("IPAddressPool", "p", json!({"addresses": ["192.0.2.0/24"]}));
    let community = object(
        "Community",
        "community1",
        json!({"communities": [{"name": "NO_ADVERTISE", "value": "65535:65282"}]}),
    );
    let bgp = |spec: Value| {
        metallb(&[
            pool.clone(),
            community.clone(),
            object("BGPAdvertisement", "adv", spec),
        ])
    };
    let found = bgp(json!({
        "ipAddressPools": ["p"], "communities": ["NO_ADVERTISE", "large:1:2:3"], "localPref": 150,
        "aggregationLength": 26, "aggregationLengthV6": 128,
    }));
    assert_eq!(
        found.announcements[0].object["spec"]["advertisements"],
        json!([{
            "advertisementType": "Service",
            "service": {"addresses": ["LoadBalancerIP"], "aggregationLengthIPv4": 26},
            "selector": {"matchExpressions": [
                {"key": "cilium-ipam.io/not-advertised", "operator": "DoesNotExist"},
            ]},
            "attributes": {
                "localPreference": 150,
                "communities": {"standard": ["65535:65282"], "large": ["1:2:3"]},
            },
        }])
    );
    for inexact in [
        json!({"peers": ["peer"]}),
        json!({"nodeSelectors": [{"matchLabels": {"a": "b"}}]}),
        json!({"ipAddressPools": ["unknown"]}),
        json!({"communities": ["UNKNOWN"]}),
    ] {
        let found = bgp(inexact);
        assert!(found.announcements.is_empty());
        assert_eq!(
            names(&found.remarks),
            [RemarkName::BgpNotExpressible].into()
        );
    }
}

#[test]
fn a_password_of_a_peer_stays_secret() {
    let peer = json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "172.30.0.3",
        "password": "hunter2"});
    let found = metallb(&[object("BGPPeer", "peer", peer)]);
    assert!(!format!("{found:?}").contains("hunter2"));
    assert_eq!(
        found.announcements[0].object["spec"]["authSecretRef"],
        "peer"
    );
}

#[test]
fn a_peer_that_is_given_twice_becomes_one_draft() {
    let written = |nodes: &str| {
        json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "172.30.0.3",
            "nodeSelectors": [{"matchLabels": {"rack": nodes}}]})
    };
    let legacy = legacy_config(&json!({"peers": [{"my-asn": 64512, "peer-asn": 64513,
        "peer-address": "172.30.0.3", "node-selectors": [{"match-labels": {"rack": "a"}}]}]}));
    let peer = object("BGPPeer", "tor", written("a"));
    let one = metallb(std::slice::from_ref(&peer));
    let twice = [&[peer.clone(), peer.clone()][..], &legacy].concat();
    assert_eq!(metallb(&twice).announcements, one.announcements);
    assert_eq!(metallb(&twice).remarks, one.remarks);
    assert_eq!(one.announcements.len(), 2);

    let mut differing = peer.clone();
    differing["spec"]["holdTime"] = json!("9s");
    let found = metallb(&[peer.clone(), differing]);
    assert_eq!(found.announcements, one.announcements);
    assert!(found.remarks[0].text.contains("other settings"));

    // MetalLB's own conversion gives a peer of a ConfigMap this name.
    let first = object("BGPPeer", "peer1", written("a"));
    let other = legacy_config(&json!({"peers": [{"my-asn": 64512, "peer-asn": 64513,
        "peer-address": "172.30.0.99", "node-selectors": [{"match-labels": {"rack": "a"}}]}]}));
    let both = metallb(&[&[first][..], &other].concat()).announcements;
    let names = both
        .iter()
        .map(|one| one.object["metadata"]["name"].as_str());
    assert_eq!(
        names.flatten().collect::<Vec<_>>(),
        ["peer1", "peer1-2", "metallb"]
    );
    let peers = both[2].object["spec"]["bgpInstances"][0]["peers"].as_array();
    assert_eq!(peers.unwrap()[1]["peerAddress"], "172.30.0.99");

    // The top-of-rack routers of two racks may have one address.
    let of_racks = metallb(&[peer, object("BGPPeer", "other", written("b"))]);
    assert_eq!(of_racks.announcements.len(), 4);
}

#[test]
fn peers_become_drafts_of_cilium() {
    let found = metallb(&[
        object(
            "BGPPeer",
            "tor",
            json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "172.30.0.3",
            "peerPort": 1179, "holdTime": "1m30s", "keepaliveTime": "30s", "ebgpMultiHop": true}),
        ),
        object(
            "BGPPeer",
            "six",
            json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "fd00::3",
            "bfdProfile": "fast"}),
        ),
        object(
            "BGPPeer",
            "unnumbered",
            json!({"myASN": 64512, "peerASN": 64513, "interface": "eth0"}),
        ),
    ]);
    let objects: Vec<&Value> = found.announcements.iter().map(|one| &one.object).collect();
    let families = |afi: &str| {
        json!([{"afi": afi, "safi": "unicast",
        "advertisements": {"matchLabels": {"cilium-ipam.io/imported-from": "metallb"}}}])
    };
    assert_eq!(
        objects[0]["spec"],
        json!({"transport": {"peerPort": 1179}, "ebgpMultihop": 255, "families": families("ipv4"),
            "timers": {"holdTimeSeconds": 90, "keepAliveTimeSeconds": 30}})
    );
    assert_eq!(objects[1]["spec"], json!({"families": families("ipv6")}));
    assert_eq!(
        *objects[2],
        json!({"apiVersion": "cilium.io/v2", "kind": "CiliumBGPClusterConfig", "metadata": {"name": "metallb"},
            "spec": {"bgpInstances": [{"name": "as-64512", "localASN": 64512, "peers": [
                {"name": "tor", "peerASN": 64513, "peerAddress": "172.30.0.3", "peerConfigRef": {"name": "tor"}},
                {"name": "six", "peerASN": 64513, "peerAddress": "fd00::3", "peerConfigRef": {"name": "six"}}]}]}})
    );
    assert_eq!(objects.len(), 3);
    assert!(found.remarks[0].text.contains("`peerAddress` is ``"));
    assert!(
        found
            .all_remarks()
            .any(|remark| remark.text.contains("counterpart of bfdProfile"))
    );
}
