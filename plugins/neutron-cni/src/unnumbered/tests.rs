//! Settings, previous results, and secondary routes between random addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fastrand::Rng;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::*;
use crate::cni::{Attachment, CniError, ErrorCode, SpecVersion};
use crate::nic::{Kind, Link, MAIN_TABLE, Mac, State};

fn attachment(container: &str) -> Attachment {
    Attachment {
        container: container.parse().unwrap(),
        interface: "eth0".parse().unwrap(),
    }
}

fn settings(more: &Value) -> Result<PtpSettings, CniError> {
    let mut written = json!({"cniVersion": "1.1.0", "name": "pods", "type": "cni-unnumbered-ptp"});
    for (key, value) in more.as_object().unwrap() {
        written[key] = value.clone();
    }
    PtpSettings::read(written.to_string().as_bytes())
}

fn previous(result: &Value) -> Result<Previous, CniError> {
    let interface = "eth0".parse().unwrap();
    settings(&json!({"prevResult": result}))
        .unwrap()
        .previous(&interface)
}

fn on_eth0(addresses: &[IpAddr]) -> Previous {
    let ips: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"address": IpNet::from(*address), "interface": 0}))
        .collect();
    let interfaces = json!([{"name": "eth0", "mac": "m", "sandbox": "/run/netns/a"}]);
    previous(&json!({"interfaces": interfaces, "ips": ips})).unwrap()
}

fn link(name: &str, alias: Option<String>) -> Link {
    Link {
        index: 7,
        name: name.to_owned(),
        other_names: BTreeSet::new(),
        alias,
        mtu: 1500,
        mac: None,
        permanent: None,
        pci: None,
        driver: None,
        device: None,
        kind: Kind::Veth,
        state: State::Up,
        modes: 0,
        master: None,
        below: None,
        is_from_elsewhere: true,
        addresses: Vec::new(),
    }
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    let net = |text: &&str| serde_json::from_value(json!(text)).unwrap();
    texts.iter().map(net).collect()
}

#[test]
fn routes_are_canonical_and_lead_away() {
    let wanted = |routes: Value| settings(&json!({ "routes": routes })).unwrap().wanted();
    let good = json!([{"dst": "10.96.0.0/12"}, {"dst": "fd00:96::/112"}, {"dst": "192.0.2.7/32"}]);
    assert_eq!(wanted(good).unwrap().routes.len(), 3);
    let many: Vec<Value> = (0..65)
        .map(|host| json!({"dst": format!("192.0.2.{host}/32")}))
        .collect();
    for bad in [
        json!("10.96.0.0/12"),
        json!([{"dst": "10.96.0.1/12"}]),
        json!([{"dst": "10.96.0.0"}]),
        json!([{"dst": "010.96.0.0/12"}]),
        json!([{"dst": "::ffff:10.96.0.0/108"}]),
        json!([{"dst": "FD00:96::/112"}]),
        json!([{"dst": "0.0.0.0/0"}]),
        json!([{"dst": "::/0"}]),
        json!([{"dst": "127.0.0.0/8"}]),
        json!([{"dst": "128.0.0.0/1"}]),
        json!([{"dst": "fe80::/64"}]),
        json!([{"dst": "169.254.0.0/16"}]),
        json!([{"dst": "10.96.0.0/12"}, {"dst": "10.96.7.0/24"}]),
        json!([{"dst": "10.96.0.0/12"}, {"dst": "10.96.0.0/12"}]),
        json!([{"dst": "10.96.0.0/12", "gw": "10.0.0.1"}]),
        json!([{"dst": 7}]),
        json!([{"dst": "\u{1b}[2J"}]),
        json!(many),
    ] {
        let error = wanted(bad.clone()).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidConfiguration, "{bad}");
        assert!(!error.message.contains('\u{1b}'), "{error:?}");
    }
}

#[test]
fn unknown_and_unfit_fields_are_refused_for_an_add_alone() {
    for bad in [
        json!({"ipam": {}}),
        json!({"route": []}),
        json!({"mtu": 0}),
        json!({"mtu": 100}),
        json!({"mtu": 65_536}),
        json!({"mtu": "1500"}),
        json!({"mtu": 1000, "routes": [{"dst": "fd00:96::/112"}]}),
        json!({"interface": ""}),
        json!({"interface": "veth%d"}),
        json!({"interface": "a/b"}),
        json!({"interface": 7}),
    ] {
        let settings = settings(&bad).unwrap();
        let error = settings.wanted().unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidConfiguration, "{bad}");
    }
    let of_runtime = json!({"cni.dev/valid-attachments": [], "runtimeConfig": {}, "mtu": 1000});
    assert_eq!(
        settings(&of_runtime).unwrap().wanted().unwrap().mtu,
        Some(1000)
    );
    for (bad, code) in [
        (json!({"name": "../x"}), ErrorCode::InvalidConfiguration),
        (json!({"plugins": []}), ErrorCode::InvalidConfiguration),
        (json!({"cniVersion": "9"}), ErrorCode::IncompatibleVersion),
    ] {
        assert_eq!(settings(&bad).unwrap_err().code, code, "{bad}");
    }
}

#[test]
fn a_previous_result_is_passed_on_with_two_more_interfaces() {
    let result = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "host", "mac": "h"}, {"name": "eth0", "mac": "m", "sandbox": "/n", "pciID": "p"}],
        "ips": [{"address": "10.7.0.5/24", "gateway": "10.7.0.1", "interface": 1}, {"address": "192.0.2.1/24", "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.0.0.53"]},
    });
    let read = previous(&result).unwrap();
    assert_eq!(read.addresses, addresses(&["10.7.0.5"]));
    let end = |name, sandbox| ShownEnd {
        name,
        mac: Mac([2; 6]),
        mtu: 1400,
        sandbox,
    };
    let ends = [end("unp0", None), end("ptp-eth0", Some("/n"))];
    let shown =
        |version| -> Value { serde_json::from_str(&read.with_ends(&ends, version)).unwrap() };
    let mut expected = result.clone();
    let interfaces = expected["interfaces"].as_array_mut().unwrap();
    let mac = "02:02:02:02:02:02";
    interfaces.push(json!({"name": "unp0", "mac": mac, "mtu": 1400}));
    interfaces.push(json!({"name": "ptp-eth0", "mac": mac, "mtu": 1400, "sandbox": "/n"}));
    assert_eq!(shown(SpecVersion::V1_1_0), expected);
    assert!(shown(SpecVersion::V1_0_0)["interfaces"][2]["mtu"].is_null());
}

#[test]
fn previous_results_that_fit_no_pod_are_refused() {
    let eth0 = json!([{"name": "eth0", "sandbox": "/n"}]);
    let with = |ips: Value| json!({"interfaces": eth0, "ips": ips});
    let many = |count| -> Vec<Value> {
        (0..count)
            .map(|host| json!({"address": format!("10.7.{}.{}/16", host / 256, host % 256)}))
            .collect()
    };
    for bad in [
        Value::Null,
        json!("x"),
        json!({}),
        with(json!([])),
        with(json!({})),
        with(json!([{"address": "10.7.0.5"}])),
        with(json!([{"address": "10.7.0.5/33"}])),
        with(json!([{"address": "127.0.0.1/8"}])),
        with(json!([{"address": "0.0.0.0/8"}])),
        with(json!([{"address": "ff02::1/128"}])),
        with(json!([{"address": "10.7.0.5/24", "interface": 1}])),
        with(json!([{"address": "10.7.0.5/24", "interface": -1}])),
        with(json!([{"address": "10.7.0.5/24", "interface": "eth0"}])),
        with(json!(many(17))),
        with(json!(many(300))),
        json!({"interfaces": [{"name": "eth0"}], "ips": [{"address": "10.7.0.5/24", "interface": 0}]}),
    ] {
        let error = previous(&bad).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidConfiguration, "{bad}");
    }
}

#[test]
fn names_follow_from_the_attachment() {
    let key = |network, container| WayKey::new(network, &attachment(container));
    let (one, other) = (key("pods", "c1"), key("pods", "c2"));
    assert_eq!(one, key("pods", "c1"));
    assert_ne!(one.node_end(), other.node_end());
    assert_ne!(key("blue", "c1").node_end(), one.node_end());
    assert_eq!(one.node_end().len(), 15);
    assert_ne!(one.macs()[0], one.macs()[1]);
    let marked = link("renamed", Some(one.mark()));
    assert!(one.is_node_end(&marked) && !other.is_node_end(&marked));
    assert!(is_of_network("pods", &marked) && !is_of_network("blue", &marked));
    let unmarked = link(&one.node_end(), None);
    assert!(one.is_node_end(&unmarked) && is_unmarked_end(&unmarked));
    assert!(!is_unmarked_end(&link("unplugged0", None)));
    assert!(!one.is_node_end(&link(&one.node_end(), Some("mine".to_owned()))));
}

fn way(routes: &Value, own: &[&str], of_node: &[&str]) -> Result<SecondaryRoute, CniError> {
    let wanted = settings(&json!({ "routes": routes }))
        .unwrap()
        .wanted()
        .unwrap();
    let around = Surroundings {
        node_addresses: addresses(of_node).into_iter().collect(),
        sources: Vec::new(),
        mtus: vec![1500, 1400],
        pod_links: Vec::new(),
    };
    let key = WayKey::new("pods", &attachment("c1"));
    SecondaryRoute::new(key, "eth0", &wanted, &on_eth0(&addresses(own)), &around)
}

#[test]
fn contradictions_are_refused() {
    let message = |routes: Value, own: &[&str], of_node: &[&str]| {
        way(&routes, own, of_node).unwrap_err().message
    };
    let own = &["10.7.0.5"][..];
    assert!(message(json!([{"dst": "10.7.0.0/24"}]), own, &[]).contains("own address 10.7.0.5"));
    assert!(message(json!([{"dst": "fd00:96::/112"}]), own, &[]).contains("no IPv6 address"));
    assert!(message(json!([]), own, own).contains("one of this node"));
    let many: Vec<String> = (0..129).map(|host| format!("10.8.0.{host}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(message(json!([]), own, &many).contains("add their ranges"));
    assert!(way(&json!([{"dst": "10.8.0.0/24"}]), own, &many).is_ok());
    assert_eq!(way(&json!([]), own, &[]).unwrap().pair.mtu, 1400);
}

#[test]
fn a_further_way_has_the_next_metric_and_another_link_is_refused() {
    let first = way(&json!([{"dst": "10.96.0.0/12"}]), &["10.7.0.5"], &[]).unwrap();
    let wanted = settings(&json!({"routes": [{"dst": "10.96.0.0/12"}]})).unwrap();
    let second = |alias: Option<String>| {
        let around = Surroundings {
            mtus: vec![1500],
            pod_links: vec![(link("ptp-eth0", alias), first.routes(End::Pod))],
            ..Surroundings::default()
        };
        let key = WayKey::new("blue", &attachment("c1"));
        let previous = on_eth0(&addresses(&["10.8.0.5"]));
        SecondaryRoute::new(key, "eth1", &wanted.wanted().unwrap(), &previous, &around)
    };
    let metric = |way: &SecondaryRoute| {
        let mut routes = way.routes(End::Pod).into_iter();
        routes
            .find(|route| route.table == MAIN_TABLE)
            .unwrap()
            .metric
    };
    let mark = WayKey::new("pods", &attachment("c1")).mark();
    assert_eq!(metric(&first), Some(100));
    assert_eq!(metric(&second(Some(mark)).unwrap()), Some(101));
    let refused = second(None).unwrap_err().message;
    assert!(refused.contains("through ptp-eth0 already"), "{refused}");
}

fn random_address(random: &mut Rng) -> IpAddr {
    if random.bool() {
        IpAddr::from([10, random.u8(..2), random.u8(..4), random.u8(1..8)])
    } else {
        IpAddr::from([0xfd00, random.u16(..4), 0, 0, 0, 0, 0, random.u16(1..8)])
    }
}

fn random_way(random: &mut Rng) -> Option<(SecondaryRoute, Vec<IpAddr>, Surroundings)> {
    let mut own: Vec<IpAddr> = Vec::new();
    for _ in 0..random.usize(1..4) {
        let address = random_address(random);
        if !own.contains(&address) {
            own.push(address);
        }
    }
    let of_node: Vec<IpAddr> = (0..random.usize(..6))
        .map(|_| random_address(random))
        .collect();
    let mut sources = of_node.clone();
    sources.sort_by_key(IpAddr::is_ipv6);
    sources.dedup_by_key(|one| one.is_ipv6());
    let nets = (0..random.usize(..4)).map(|_| {
        let address = random_address(random);
        let length = if address.is_ipv4() { 24..=32 } else { 32..=128 };
        IpNet::new(address, random.u8(length)).unwrap().trunc()
    });
    let routes: Vec<Value> = nets.map(|net| json!({ "dst": net })).collect();
    let wanted = settings(&json!({ "routes": routes }))
        .unwrap()
        .wanted()
        .ok()?;
    let around = Surroundings {
        node_addresses: of_node.into_iter().collect(),
        sources,
        mtus: vec![1500],
        pod_links: Vec::new(),
    };
    let key = WayKey::new("pods", &attachment("c1"));
    let way = SecondaryRoute::new(key, "eth0", &wanted, &on_eth0(&own), &around).ok()?;
    Some((way, own, around))
}

/// Everything that an ADD makes, as a CHECK sees it.
fn seen(way: &SecondaryRoute, own: &[IpAddr]) -> Seen {
    let end = |end: End, name: &str, mac: Mac| SeenEnd {
        link: Link {
            mac: Some(mac),
            ..link(name, None)
        },
        routes: way.routes(end),
        neighbours: way.neighbours(end).into_iter().collect(),
    };
    let pair = &way.pair;
    Seen {
        ends: BTreeMap::from([
            (End::Node, end(End::Node, &pair.node_end, pair.node_mac)),
            (End::Pod, end(End::Pod, &pair.pod_end, pair.pod_mac)),
        ]),
        addresses: own.iter().copied().collect(),
        rules: way.rules().into_iter().collect(),
    }
}

#[test]
fn both_ends_reach_each_other_and_nothing_else_goes_through_the_pair() {
    let mut ways = 0;
    for seed in 0..3_000 {
        let Some((way, own, around)) = random_way(&mut Rng::with_seed(seed)) else {
            continue;
        };
        ways += 1;
        let of_pod = way.routes(End::Pod);
        let of_table = |is_main: bool| -> BTreeSet<IpNet> {
            let routes = of_pod
                .iter()
                .filter(|one| (one.table == MAIN_TABLE) == is_main);
            routes.map(|route| route.destination).collect()
        };
        assert_eq!(of_table(true), of_table(false), "{seed}");
        for route in &of_pod {
            let source = route.source.unwrap();
            assert!(own.contains(&source) && route.gateway.is_some(), "{seed}");
            assert_eq!(source.is_ipv4(), route.destination.addr().is_ipv4());
            assert!(
                !own.iter().any(|one| route.destination.contains(one)),
                "{seed}"
            );
        }
        for address in &around.node_addresses {
            let is_reached = of_pod.iter().any(|one| one.destination.contains(address));
            let has_family = own.iter().any(|one| one.is_ipv4() == address.is_ipv4());
            assert_eq!(is_reached, has_family, "{seed} {address}");
        }
        let of_node: Vec<IpNet> = way
            .routes(End::Node)
            .iter()
            .map(|one| one.destination)
            .collect();
        let own_nets: Vec<IpNet> = own.iter().copied().map(IpNet::from).collect();
        assert_eq!(of_node, own_nets, "{seed}");
        assert!(way.routes(End::Node).iter().all(|route| {
            route.source.is_some()
                || !around
                    .sources
                    .iter()
                    .any(|one| one.is_ipv4() == route.destination.addr().is_ipv4())
        }));
        assert_eq!(way.lacks(&seen(&way, &own)), [], "{seed}");
    }
    assert!(ways > 1_000, "{ways}");
}

#[test]
fn a_check_misses_each_part() {
    let routes = json!([{"dst": "10.96.0.0/12"}, {"dst": "fd00:96::/112"}]);
    let own = addresses(&["10.7.0.5", "fd07::5"]);
    let way = way(&routes, &["10.7.0.5", "fd07::5"], &[]).unwrap();
    let other = addresses(&["192.0.2.1"]).first().copied();
    let whole = seen(&way, &own);
    assert_eq!(way.lacks(&whole), []);
    let mut broken: Vec<Seen> = Vec::new();
    let mut with = |change: &dyn Fn(&mut Seen)| {
        let mut seen = whole.clone();
        change(&mut seen);
        broken.push(seen);
    };
    with(&|seen| seen.addresses.clear());
    with(&|seen| seen.rules.clear());
    for end in [End::Node, End::Pod] {
        with(&|seen| drop(seen.ends.remove(&end)));
        with(&|seen| seen.ends.get_mut(&end).unwrap().link.state = State::Down);
        with(&|seen| seen.ends.get_mut(&end).unwrap().link.mac = Some(Mac([2; 6])));
        with(&|seen| seen.ends.get_mut(&end).unwrap().neighbours.clear());
        for index in 0..way.routes(end).len() {
            with(&|seen| drop(seen.ends.get_mut(&end).unwrap().routes.remove(index)));
            with(&|seen| seen.ends.get_mut(&end).unwrap().routes[index].source = other);
        }
    }
    for seen in broken {
        assert!(!way.lacks(&seen).is_empty(), "{seen:?}");
    }
}
