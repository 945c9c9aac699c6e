//! What the daemon deletes, and what it keeps.

use std::fs;

use serde_json::json;
use testbed::openstack::Options;
use testbed::{OpenStack, or_skip};

use crate::neutron::daemon::{Daemon, DaemonSet, in_pool};
use crate::neutron::support::{Plugin, addresses, finish, ports, stack, start, variables};

#[test]
fn only_what_nobody_has_any_more_is_deleted() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    the_runtime_forgot_and_the_network_namespace_went(&stack, &network);
    without_evidence(&stack, &network);
    a_port_of_the_pool_whose_holder_vanished(&stack, &network);
    ports_of_kuryr_are_left_alone(&stack, &network);
}

/// As Kuryr creates them, and with names that our ports have.
fn ports_of_kuryr_are_left_alone(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n3").with("warmPool", json!({"free": 1}));
    for (owner, device) in [
        ("compute:kuryr", "vanished/eth0"),
        ("compute:kuryr", "place-0011223344556677"),
        ("compute:kuryr", ""),
        ("trunk:subport", "vanished/eth0"),
    ] {
        let kuryr = json!({"device_id": device, "device_owner": owner, "name": "n3/examplenet"});
        stack.create_port(network, &kuryr).unwrap();
    }
    let of_kuryr = || {
        let mut ports = stack.ports(&format!("network_id={network}")).unwrap();
        ports.retain(|port| !port["device_owner"].as_str().unwrap().starts_with("cilium"));
        ports
    };
    let before = of_kuryr();
    let set = DaemonSet::new(&[&plugin]);
    let daemon = set.start();
    daemon.wait_until("the pool to be filled", || in_pool(&plugin, "free") == 1);
    plugin.add("vanished");
    plugin.del("vanished");
    let gc = json!({"cni.dev/valid-attachments": []});
    plugin.run_with("GC", "", &gc).expect(0);
    looks_again(stack, &daemon);
    drop(daemon);
    assert_eq!(of_kuryr(), before, "{}", set.log());
}

/// An ADD that names a network namespace.
fn add_in(plugin: &Plugin, container: &str, netns: &std::path::Path) -> Vec<String> {
    let mut variables = variables("ADD", container);
    variables[2].1 = netns.to_str().unwrap();
    addresses(
        &finish(start(&plugin.configuration.to_string(), &variables))
            .expect(0)
            .json(),
    )
}

/// Number of rounds of the daemon before the test concludes that it keeps something.
const LOOKS: usize = 5;

fn looks_again(stack: &OpenStack, daemon: &Daemon<'_>) {
    let faults = stack.neutron().faults();
    let before = faults.count("GET", "/v2.0/ports");
    daemon.wait_until("some more looks", || {
        faults.count("GET", "/v2.0/ports") >= before + LOOKS
    });
}

fn the_runtime_forgot_and_the_network_namespace_went(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n1");
    let set = DaemonSet::new(&[&plugin]);
    let (there, gone) = (plugin.folder().join("there"), plugin.folder().join("gone"));
    [&there, &gone]
        .into_iter()
        .for_each(|netns| fs::write(netns, "").unwrap());
    add_in(&plugin, "alive", &there);
    let remembered = add_in(&plugin, "remembered", &gone);
    set.remember("remembered", &remembered);
    add_in(&plugin, "vanished", &gone);
    add_in(&plugin, "unseen", std::path::Path::new("/nowhere/here/ns"));
    Plugin::new(stack, network, "n2").add("vanished");
    let theirs = json!({"device_id": "vanished/eth0", "device_owner": "cilium-ipam:pod", "name": "somebody else's"});
    stack.create_port(network, &theirs).unwrap();
    fs::remove_file(&gone).unwrap();
    let daemon = set.start();
    let expected = [
        "alive/eth0",
        "remembered/eth0",
        "unseen/eth0",
        "vanished/eth0",
        "vanished/eth0",
    ];
    daemon.wait_until("the port of the vanished one to go", || {
        ports(stack, network) == expected
    });
    looks_again(stack, &daemon);
    assert_eq!(ports(stack, network), expected, "{}", set.log());
    set.forget("remembered");
    daemon.wait_until("what is not remembered any more to go", || {
        ports(stack, network).len() == 4
    });
    drop(daemon);
    ["alive", "unseen"]
        .into_iter()
        .for_each(|pod| plugin.del(pod));
    Plugin::new(stack, network, "n2").del("vanished");
    let left = stack.ports(&format!("network_id={network}")).unwrap();
    assert_eq!(
        (left.len(), left[0]["name"].as_str().unwrap()),
        (1, "somebody else's")
    );
    stack
        .as_member()
        .delete(&format!("/v2.0/ports/{}", left[0]["id"].as_str().unwrap()))
        .unwrap();
}

/// A state that cannot be read does not mean that an attachment has ended.
fn without_evidence(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n1");
    let set = DaemonSet::new(&[&plugin]);
    let gone = plugin.folder().join("gone");
    add_in(&plugin, "a", &gone);
    fs::write(set.results().join("strange"), "{}").unwrap();
    let daemon = set.start();
    looks_again(stack, &daemon);
    assert_eq!(ports(stack, network), ["a/eth0"], "{}", set.log());
    fs::remove_file(set.results().join("strange")).unwrap();
    fs::remove_dir(set.results()).unwrap();
    looks_again(stack, &daemon);
    assert_eq!(ports(stack, network), ["a/eth0"], "{}", set.log());
    fs::create_dir(set.results()).unwrap();
    daemon.wait_until("it to go", || ports(stack, network).is_empty());
}

fn a_port_of_the_pool_whose_holder_vanished(stack: &OpenStack, network: &str) {
    let plugin = Plugin::new(stack, network, "n1").with("warmPool", json!({"free": 1, "most": 1}));
    let set = DaemonSet::new(&[&plugin]);
    assert_eq!(set.once(), 0, "{}", set.log());
    let (there, gone) = (plugin.folder().join("there"), plugin.folder().join("gone"));
    fs::write(&there, "").unwrap();
    let [first] = add_in(&plugin, "a", &gone).try_into().unwrap();
    let daemon = set.start();
    daemon.wait_until("it to be free again", || {
        set.log().contains("a/eth0 is gone")
    });
    drop(daemon);
    assert_eq!(set.once(), 0, "{}", set.log());
    assert_eq!(ports(stack, network).len(), 1);
    let again = add_in(&plugin, "b", &there);
    eprintln!("{first} first, {again:?} then");
    assert_eq!(ports(stack, network).len(), 1, "it came of the pool");
}
