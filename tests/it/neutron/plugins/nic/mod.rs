//! `cni-vm-nic` on a node that is a network namespace, with links whose ports a real Neutron has.

mod device;
mod races;
mod refused;
mod secondary_route;
mod support;

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{OpenStack, or_skip, wait_until};

use self::support::{Handover, Machine, lasting, told};
use super::node::Node;
use crate::neutron::support::{addresses, fault, finish, stack};

#[test]
fn a_nic_goes_to_a_pod_and_comes_back_as_it_was() {
    let stack = or_skip!(stack(&Options::default()));
    let machine = or_skip!(Machine::new(&stack));
    let node = &machine.node;
    a_veth_by_name(&stack, node);
    a_tap_by_its_hardware_address(&stack, node);
    any_free_one(&stack, node);
    one_that_has_addresses(&stack, node);
    both_families_and_other_routes(&stack, node);
    what_a_pod_did_to_it(&stack, node);
    names_and_modes_of_a_pod(&stack, node);
    one_that_changes_while_neutron_is_asked(&stack, &machine);
    a_record_that_nobody_can_read(&stack, node);
    networks_that_vanish(&stack, node);
    the_versions_of_the_specification(&stack, node);
    garbage(&stack, node);
    refused::nothing_moves_when_something_is_wrong(&stack, node);
    assert_eq!(node.links(None), ["lo"]);
}

fn a_veth_by_name(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "byname", "10.1.0");
    handover.veth("nic0", "up0", 7);
    let before = lasting(node, "nic0");
    node.network_with("byname", &handover.configuration(&json!({"name": "nic0"})));
    let ports = stack.ports("").unwrap();
    node.add_pod("a");
    node.cnitool("status", "byname", "a", "eth0").expect(0);
    let result = node.cnitool("add", "byname", "a", "eth0").expect(0).json();
    assert_eq!(addresses(&result), ["10.1.0.7/24"], "{result}");
    let interface = json!([{"name": "eth0", "mac": before["mac"], "sandbox": node.netns("a"), "mtu": told(node, Some("a"), "eth0")["mtu"]}]);
    assert_eq!(
        (&result["interfaces"], &result["ips"][0]["interface"]),
        (&interface, &json!(0))
    );
    assert_eq!(
        result["routes"],
        json!([{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}])
    );
    assert_eq!(
        told(node, Some("a"), "eth0")["mtu"],
        1500,
        "that of Neutron's network"
    );
    assert!(node.reaches(Some("a"), "10.1.0.1"));
    assert!(
        node.ip(Some("a"), "route get 192.0.2.1")
            .contains("via 10.1.0.1 dev eth0")
    );
    node.cnitool("check", "byname", "a", "eth0").expect(0);
    node.cnitool("del", "byname", "a", "eth0").expect(0);
    node.cnitool("del", "byname", "a", "eth0").expect(0);
    assert_eq!(
        (node.links(Some("a")), handover.records()),
        (vec!["lo".to_owned()], 0)
    );
    assert_eq!(lasting(node, "nic0"), before);
    assert_eq!(stack.ports("").unwrap(), ports, "ports are only looked at");
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

fn a_tap_by_its_hardware_address(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "bymac", "10.2.0");
    node.ip(None, "tuntap add dev tap0 mode tap");
    node.ip(None, "link set tap0 mtu 1400 alias spare");
    handover.port("tap0", 7);
    let before = lasting(node, "tap0");
    let configuration =
        handover.configuration(&json!({"mac": before["mac"].as_str().unwrap().to_uppercase()}));
    node.add_pod("a");
    let result = handover.run(&configuration, "ADD", "a").expect(0).json();
    assert_eq!(addresses(&result), ["10.2.0.7/24"]);
    assert_eq!(told(node, Some("a"), "eth0")["mtu"], 1500);
    let again = handover.run(&configuration, "ADD", "a").expect(0).json();
    assert_eq!(again, result, "twice is the same");
    handover.run(&configuration, "CHECK", "a").expect(0);
    handover.run(&configuration, "DEL", "a").expect(0);
    assert_eq!(lasting(node, "tap0"), before);
    node.ip(None, "link delete tap0");
    node.remove_pod("a");
}

/// Not the one with an address, nor the member of a bridge, nor that below another link, nor the
/// one without a port, nor the end of a Pod's pair.
fn any_free_one(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "any", "10.3.0");
    for (index, name) in ["any0", "any1", "any2", "any3", "any4", "any5"]
        .into_iter()
        .enumerate()
    {
        handover.veth(
            name,
            &format!("up{index}"),
            10 + u32::try_from(index).unwrap(),
        );
    }
    node.ip(None, "address add 10.9.9.1/24 dev any0");
    node.ip(None, "link add bridge0 type bridge");
    node.ip(None, "link set any1 master bridge0");
    node.ip(None, "link add link any2 name sub0 type macvlan");
    let port = &stack
        .ports(&format!(
            "mac_address={}",
            told(node, None, "any3")["address"].as_str().unwrap()
        ))
        .unwrap()[0];
    stack
        .as_member()
        .delete(&format!("/v2.0/ports/{}", port["id"].as_str().unwrap()))
        .unwrap();
    node.add_pod("other");
    node.ip(
        None,
        &format!("link set up4 netns {}", node.netns("other").display()),
    );
    let configuration = handover
        .configuration(&json!({"any": {"names": ["an?*"]}, "networks": [handover.network]}));
    ["a", "b"].into_iter().for_each(|pod| node.add_pod(pod));
    let racing = ["a", "b"]
        .map(|pod| handover.start(&configuration, "ADD", pod))
        .map(finish);
    let [won, lost]: [Vec<_>; 2] =
        [0, 1].map(|code| racing.iter().filter(|ran| ran.code == code).collect());
    assert_eq!((won.len(), lost.len()), (1, 1), "{racing:?}");
    assert_eq!(addresses(&won[0].json()), ["10.3.0.15/24"]);
    assert_eq!(fault(lost[0]).0, 11, "two for the last one");
    let (code, message) = fault(&handover.run(&configuration, "ADD", "other"));
    assert!(
        code == 11
            && message.contains("any0 has an address")
            && message.contains("any1 is a member"),
        "{message}"
    );
    let elsewhere = handover.configuration(
        &json!({"any": {"names": ["any*"]}, "networks": [stack.create_network("x").unwrap()]}),
    );
    ["a", "b"]
        .into_iter()
        .for_each(|pod| drop(handover.run(&configuration, "DEL", pod).expect(0)));
    assert_eq!(fault(&handover.run(&elsewhere, "ADD", "a")).0, 11);
    let mut asked = configuration.clone();
    asked["runtimeConfig"] = json!({"mac": "02:00:00:00:00:99"});
    assert_eq!(fault(&handover.run(&asked, "ADD", "a")).0, 11);
    asked["runtimeConfig"] = json!({"mac": told(node, None, "any5")["address"]});
    handover.run(&asked, "ADD", "a").expect(0);
    handover.run(&asked, "DEL", "a").expect(0);
    assert_eq!(handover.records(), 0);
    ["any0", "any1", "any2", "any3", "any4", "any5", "bridge0"]
        .into_iter()
        .for_each(|link| drop(node.ip(None, &format!("link delete {link}"))));
    ["a", "b", "other"]
        .into_iter()
        .for_each(|pod| node.remove_pod(pod));
}

fn one_that_has_addresses(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "configured", "10.4.0");
    handover.veth("nic0", "up0", 7);
    node.ip(None, "link set nic0 mtu 1442 alias uplink");
    node.ip(
        None,
        "address add 10.9.0.5/24 broadcast 10.9.0.255 dev nic0",
    );
    node.ip(None, "address add 10.9.1.5/24 dev nic0 label nic0:vip");
    node.ip(None, "address add fd00:9::5/64 dev nic0 nodad");
    node.ip(None, "link set nic0 up");
    node.ip(
        None,
        "route add 192.0.2.0/24 via 10.9.0.1 dev nic0 metric 50 mtu 1300",
    );
    node.ip(
        None,
        "route add default via 10.9.0.1 dev nic0 table 100 src 10.9.0.5",
    );
    node.ip(None, "-6 route add 2001:db8::/32 via fd00:9::1 dev nic0");
    let before = lasting(node, "nic0");
    node.add_pod("a");
    let (code, message) = fault(&handover.run(
        &handover.configuration(&json!({"name": "nic0"})),
        "ADD",
        "a",
    ));
    assert!(
        code == 7 && message.contains("default route"),
        "{code} {message}"
    );
    assert_eq!(lasting(node, "nic0"), before);
    let configuration =
        handover.configuration(&json!({"name": "nic0", "takeConfigured": "restore"}));
    handover.run(&configuration, "ADD", "a").expect(0);
    assert!(!node.links(None).contains(&"nic0".to_owned()));
    let gone = handover.run(&configuration, "DEL", "a").expect(0);
    assert_eq!((gone.stderr.as_str(), lasting(node, "nic0")), ("", before));
    node.ip(
        None,
        "route add 198.51.100.0/24 nexthop via 10.9.0.1 dev nic0 nexthop via 10.4.0.9 dev up0",
    );
    let (code, message) = fault(&handover.run(&configuration, "ADD", "a"));
    assert!(
        code == 7 && message.contains("could not be restored"),
        "{code} {message}"
    );
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

fn both_families_and_other_routes(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "both", "10.5.0");
    let subnet = json!({"host_routes": [{"destination": "2001:db8:7::/48", "nexthop": "fd00:5::9"}], "dns_nameservers": ["fd00:5::53"]});
    stack
        .create_subnet(&handover.network, "fd00:5::/64", &subnet)
        .unwrap();
    node.ip(None, "link add nic0 type veth peer name up0");
    let mac = told(node, None, "nic0")["address"].clone();
    stack
        .create_port(&handover.network, &json!({"mac_address": mac}))
        .unwrap();
    node.ip(None, "address add fd00:5::1/64 dev up0 nodad");
    node.ip(None, "link set up0 up");
    let mut configuration = handover.configuration(&json!({"name": "nic0"}));
    node.add_pod("a");
    let result = handover.run(&configuration, "ADD", "a").expect(0).json();
    assert_eq!(
        (addresses(&result).len(), &result["dns"]),
        (2, &json!({"nameservers": ["fd00:5::53"]})),
        "{result}"
    );
    assert_eq!(result["routes"].as_array().unwrap().len(), 3, "{result}");
    assert!(node.reaches(Some("a"), "fd00:5::1"));
    assert!(
        node.ip(Some("a"), "route get 2001:db8:7::1")
            .contains("via fd00:5::9 dev eth0")
    );
    handover.run(&configuration, "DEL", "a").expect(0);
    configuration["routes"] =
        json!([{"dst": "198.51.100.0/24"}, {"dst": "203.0.113.0/24", "gw": "10.77.0.1"}]);
    configuration["dns"] = json!({"nameservers": ["192.0.2.53"], "search": ["example"]});
    let result = handover.run(&configuration, "ADD", "a").expect(0).json();
    assert_eq!(result["dns"], configuration["dns"]);
    let way = |address: &str| node.ip(Some("a"), &format!("route get {address}"));
    assert!(
        way("198.51.100.1").contains("via 10.5.0.1")
            && way("203.0.113.1").contains("via 10.77.0.1")
    );
    handover.run(&configuration, "DEL", "a").expect(0);
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

fn what_a_pod_did_to_it(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "meddled", "10.6.0");
    handover.veth("nic0", "up0", 7);
    node.ip(None, "link set nic0 up");
    let before = lasting(node, "nic0");
    let configuration = handover.configuration(&json!({"name": "nic0"}));
    node.add_pod("a");
    handover.run(&configuration, "ADD", "a").expect(0);
    node.ip(Some("a"), "link set eth0 down");
    let (code, message) = fault(&handover.run(&configuration, "CHECK", "a"));
    assert!(code == 101 && message.contains("switched off"), "{message}");
    node.ip(
        Some("a"),
        "link set eth0 name mine address 02:00:00:00:00:77 mtu 1280",
    );
    let (code, message) = fault(&handover.run(&configuration, "CHECK", "a"));
    assert!(code == 101 && message.contains("no eth0"), "{message}");
    // Another link has its name on the node now.
    node.ip(None, "link add nic0 type veth peer name up1");
    handover.run(&configuration, "DEL", "a").expect(0);
    let links = node.links(None);
    let spare = links
        .iter()
        .find(|link| link.starts_with("nic") && *link != "nic0")
        .unwrap();
    assert_eq!(lasting(node, spare), before, "{links:?}");
    node.ip(None, &format!("link delete {spare}"));
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

fn names_and_modes_of_a_pod(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "names", "10.11.0");
    handover.veth("nic0", "up0", 7);
    ["own0", "own1"].iter().for_each(|name| {
        drop(node.ip(None, &format!("link property add dev nic0 altname {name}")))
    });
    node.ip(None, "link set nic0 allmulticast on");
    let before = lasting(node, "nic0");
    let configuration = handover.configuration(&json!({"name": "own1"}));
    node.add_pod("a");
    let meddled = |pod: Option<&str>, name: &str| {
        for change in [
            "add dev LINK altname nic0",
            "add dev LINK altname theirs",
            "del dev LINK altname own0",
        ] {
            node.ip(
                pod,
                &format!("link property {}", change.replace("LINK", name)),
            );
        }
        node.ip(
            pod,
            &format!("link set {name} promisc on allmulticast off arp off"),
        );
    };
    let first = handover.run(&configuration, "ADD", "a").expect(0).json();
    meddled(Some("a"), "eth0");
    handover.run(&configuration, "DEL", "a").expect(0);
    assert_eq!(
        (lasting(node, "nic0"), handover.records()),
        (before.clone(), 0)
    );
    // One that the Pod called otherwise is handed over anew, and nothing else passes for it.
    handover.run(&configuration, "ADD", "a").expect(0);
    node.ip(Some("a"), "link set eth0 down name mine");
    node.ip(Some("a"), "link add eth0 type veth peer name peer0");
    let (code, message) = fault(&handover.run(&configuration, "ADD", "a"));
    assert!(code == 5 && message.contains("exists"), "{code} {message}");
    assert_eq!(
        (lasting(node, "nic0"), handover.records()),
        (before.clone(), 0)
    );
    node.ip(Some("a"), "link delete eth0");
    handover.run(&configuration, "ADD", "a").expect(0);
    node.ip(Some("a"), "link set eth0 down name mine");
    assert_eq!(
        handover.run(&configuration, "ADD", "a").expect(0).json(),
        first
    );
    assert_eq!(node.links(Some("a")), ["eth0", "lo"]);
    handover.run(&configuration, "DEL", "a").expect(0);
    assert_eq!(lasting(node, "nic0"), before);
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

fn one_that_changes_while_neutron_is_asked(stack: &OpenStack, machine: &Machine) {
    let node = &machine.node;
    let handover = Handover::new(stack, node, "changing", "10.12.0");
    handover.veth("nic0", "up0", 7);
    let configuration =
        handover.configuration(&json!({"name": "nic0", "takeConfigured": "restore"}));
    node.add_pod("a");
    let held = machine.hold();
    let running = handover.start(&configuration, "ADD", "a");
    wait_until("the record", testbed::PATIENCE, || {
        Ok((handover.records() == 1).then_some(()))
    })
    .unwrap();
    node.ip(None, "address add 10.99.0.5/24 dev nic0");
    let before = lasting(node, "nic0");
    drop(held);
    let (code, message) = fault(&finish(running));
    assert!(
        code == 11 && message.contains("was changed"),
        "{code} {message}"
    );
    assert_eq!(
        (lasting(node, "nic0"), handover.records()),
        (before.clone(), 0)
    );
    handover.run(&configuration, "ADD", "a").expect(0);
    handover.run(&configuration, "DEL", "a").expect(0);
    assert_eq!(lasting(node, "nic0"), before);
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

/// The NIC of an unreadable record is left alone; all others work.
fn a_record_that_nobody_can_read(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "unreadable", "10.13.0");
    ["nic0", "nic1"]
        .into_iter()
        .zip([7, 8])
        .for_each(|(name, host)| handover.veth(name, &format!("up{host}"), host));
    let mut configuration = handover.configuration(&json!({"any": {"names": ["nic*"]}}));
    ["a", "b"].into_iter().for_each(|pod| node.add_pod(pod));
    handover.run(&configuration, "ADD", "a").expect(0);
    let digits = "0123456789abcdef0123456789abcdef";
    let broken = handover.folder().join(digits).with_extension("json");
    std::fs::write(&broken, "{").unwrap();
    node.set_alias("nic1", &format!("cni-vm-nic {digits}"));
    let (code, message) = fault(&handover.run(&configuration, "ADD", "b"));
    assert!(code == 11 && message.contains(digits), "{code} {message}");
    node.ip(None, "link set nic1 alias mine");
    handover.run(&configuration, "ADD", "b").expect(0);
    configuration["cni.dev/valid-attachments"] = json!([]);
    let (code, message) = fault(&handover.run(&configuration, "GC", "a"));
    assert!(code == 5 && message.contains(digits), "{code} {message}");
    assert_eq!(
        (handover.records(), node.links(None).len()),
        (1, 5),
        "all others are back"
    );
    std::fs::remove_file(broken).unwrap();
    for (name, pod) in [("nic0", "a"), ("nic1", "b")] {
        node.ip(None, &format!("link delete {name}"));
        node.remove_pod(pod);
    }
}

/// As at a crash of the runtime: the Pod's network goes, and these links with it.
fn networks_that_vanish(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "vanish", "10.7.0");
    for named in ["CNI_NETNS is the old path", ""] {
        handover.veth("nic0", "up0", if named.is_empty() { 8 } else { 7 });
        let configuration = handover.configuration(&json!({"name": "nic0"}));
        node.add_pod("a");
        let netns = node.netns("a");
        handover.run(&configuration, "ADD", "a").expect(0);
        node.remove_pod("a");
        let said = if named.is_empty() {
            std::path::Path::new("")
        } else {
            &netns
        };
        finish(handover.start_at(&configuration, "DEL", "a", said, "eth0")).expect(0);
        assert_eq!(handover.records(), 0);
        let is_gone = || Ok((node.links(None) == ["lo"]).then_some(()));
        wait_until("the pair to go", testbed::PATIENCE, is_gone).unwrap();
    }
}

fn the_versions_of_the_specification(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "versions", "10.8.0");
    handover.veth("nic0", "up0", 7);
    let mut configuration = handover.configuration(&json!({"name": "nic0"}));
    node.add_pod("a");
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        configuration["cniVersion"] = version.into();
        let versions = handover
            .run(&configuration, "VERSION", "a")
            .expect(0)
            .json();
        assert_eq!(
            (
                &versions["cniVersion"],
                versions["supportedVersions"].as_array().unwrap().len()
            ),
            (&json!(version), 4)
        );
        let result = handover.run(&configuration, "ADD", "a").expect(0).json();
        assert_eq!(
            (&result["cniVersion"], &result["ips"][0]["interface"]),
            (&json!(version), &json!(0))
        );
        assert_eq!(result["ips"][0]["version"].is_string(), version < "1.0.0");
        assert_eq!(
            result["interfaces"][0]["mtu"].is_number(),
            version == "1.1.0"
        );
        let mut checked = configuration.clone();
        checked["prevResult"] = result;
        let check = handover.run(&checked, "CHECK", "a");
        if version == "0.3.1" {
            assert_eq!(fault(&check).0, 1)
        } else {
            assert_eq!(check.expect(0).stdout, "")
        }
        for command in ["GC", "STATUS"] {
            let ran = handover.run(&configuration, command, "a");
            if version == "1.1.0" {
                assert_eq!(ran.expect(0).stdout, "")
            } else {
                assert_eq!(fault(&ran).0, 1)
            }
        }
        assert_eq!(
            node.links(Some("a")),
            ["eth0", "lo"],
            "GC without a list removes nothing"
        );
        handover.run(&configuration, "DEL", "a").expect(0);
    }
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

fn garbage(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "garbage", "10.9.0");
    ["nic0", "nic1"]
        .into_iter()
        .zip([7, 8])
        .for_each(|(name, host)| handover.veth(name, &format!("up{host}"), host));
    let mut configuration = handover.configuration(&json!({"any": {"names": ["nic*"]}}));
    for pod in ["a", "b"] {
        node.add_pod(pod);
        handover.run(&configuration, "ADD", pod).expect(0);
    }
    let collect = |configuration: &mut Value, valid: Value| {
        configuration["cni.dev/valid-attachments"] = valid;
        handover.run(configuration, "GC", "a").expect(0);
    };
    let mut of_another = handover.configuration(&json!({"any": {"names": ["nic*"]}}));
    of_another["name"] = "another".into();
    collect(&mut of_another, json!([]));
    assert_eq!(handover.records(), 2, "each network has its own garbage");
    collect(
        &mut configuration,
        json!([{"containerID": "b", "ifname": "eth0"}]),
    );
    assert_eq!(
        (node.links(Some("a")), node.links(Some("b"))),
        (
            vec!["lo".to_owned()],
            vec!["eth0".to_owned(), "lo".to_owned()]
        )
    );
    collect(&mut configuration, Value::Null);
    assert_eq!((handover.records(), node.links(None).len()), (0, 5));
    for (name, pod) in [("nic0", "a"), ("nic1", "b")] {
        node.ip(None, &format!("link delete {name}"));
        node.remove_pod(pod);
    }
}
