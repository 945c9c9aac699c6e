//! The warm pool: Pods start while OpenStack is away, no port has two of them, and none is left
//! over.

use std::collections::BTreeSet;
use std::fs;
use std::process::Child;
use std::time::Duration;

use serde_json::json;
use testbed::openstack::{Database, Options};
use testbed::{OpenStack, Random, fresh_seed, or_skip};

use crate::neutron::daemon::{DaemonSet, in_pool};
use crate::neutron::support::{Plugin, addresses, fault, finish, ports, stack};

fn network(stack: &OpenStack, name: &str, cidr: &str) -> String {
    let network = stack.create_network(name).unwrap();
    stack.create_subnet(&network, cidr, &json!({})).unwrap();
    network
}

#[test]
fn pods_start_without_openstack_as_long_as_the_pool_lasts() {
    let stack = or_skip!(stack(&Options::default()));
    let network = network(&stack, "pods", "10.1.0.0/24");
    let plugin = Plugin::new(&stack, &network, "n1").with("deadlineSeconds", json!(25));
    let plugin = plugin.with("warmPool", json!({"free": 3, "most": 4}));
    let set = DaemonSet::new(&[&plugin]);
    let daemon = set.start();
    daemon.wait_until("the pool to be filled", || in_pool(&plugin, "free") == 3);
    assert_eq!(daemon.end(), 0);
    while_openstack_is_away(&stack, &plugin);
    // `d` may have a port of its own by now: it asked Neutron once.
    plugin.run("DEL", "d").expect(0);
    let daemon = set.start();
    daemon.wait_until("the pool to be filled again", || {
        in_pool(&plugin, "free") == 3
    });
    assert_eq!(
        ports(&stack, &network).len(),
        6,
        "three in use and three free: {}",
        set.log()
    );
    fills_after_a_deletion(&stack, &network, &plugin, &set);
    ["a", "b", "c"]
        .into_iter()
        .for_each(|container| plugin.del(container));
    daemon.wait_until("what is too much to go", || {
        in_pool(&plugin, "free") == 4
            && in_pool(&plugin, "going") == 0
            && ports(&stack, &network).len() == 4
    });
    drop(daemon);
    switched_off(&stack, &network, plugin);
}

/// Three Pods get the three ports of the pool, however often they request them; the fourth waits.
fn while_openstack_is_away(stack: &OpenStack, plugin: &Plugin) {
    stack.neutron().stop();
    stack.keystone().stop();
    let started: Vec<Child> = ["a", "b", "c", "a", "b", "c"]
        .map(|container| plugin.start("ADD", container))
        .into();
    let given: Vec<String> = started
        .into_iter()
        .flat_map(|child| addresses(&finish(child).expect(0).json()))
        .collect();
    assert_eq!(given[..3], given[3..], "twice at once is the same");
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 3, "{given:?}");
    let (code, message) = plugin.refused("ADD", "d");
    assert!(
        code == 11 && message.contains("does not answer"),
        "{code} {message}"
    );
    plugin.del("b");
    assert_eq!(
        plugin.refused("ADD", "d").0,
        11,
        "it may have a port of its own already"
    );
    assert_eq!(
        plugin.add("e"),
        given[1..2],
        "what one gives back another gets"
    );
    let asking = json!({"args": {"cni": {"ips": [given[0]]}}});
    assert_eq!(
        fault(&plugin.run_with("ADD", "f", &asking)).0,
        11,
        "who asks for an address asks Neutron"
    );
    plugin.del("e");
    assert_eq!(plugin.add("b"), given[1..2]);
    stack.keystone().start().unwrap();
    stack.neutron().start().unwrap();
    let (prev, wrong) = (
        json!({"ips": [{"address": given[0]}]}),
        json!({"ips": [{"address": "10.1.0.250/24"}]}),
    );
    plugin
        .run_with("CHECK", "a", &json!({"prevResult": prev}))
        .expect(0);
    assert_eq!(
        fault(&plugin.run_with("CHECK", "a", &json!({"prevResult": wrong}))).0,
        101
    );
    plugin.run("DEL", "f").expect(0);
}

/// A client deletes a free port and a used one: the first is replaced, the second is reported.
fn fills_after_a_deletion(stack: &OpenStack, network: &str, plugin: &Plugin, set: &DaemonSet) {
    let listed = stack.ports(&format!("network_id={network}")).unwrap();
    let id = |address: &str| {
        let has = |port: &&serde_json::Value| {
            port["fixed_ips"][0]["ip_address"] == address.split('/').next().unwrap()
        };
        listed.iter().find(has).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let folder = plugin.state().join("pool/examplenet");
    let first_free = fs::read_dir(folder.join("free"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let free = first_free.to_string_lossy()[21..].to_owned();
    let used = id(&plugin.add("a")[0]);
    for port in [&free, &used] {
        stack
            .as_member()
            .delete(&format!("/v2.0/ports/{port}"))
            .unwrap();
    }
    let daemon = set;
    testbed::wait_until("both to be noticed", testbed::PATIENCE, || {
        let log = daemon.log();
        let told = log.contains(&format!("port {free} of the warm pool is gone"))
            && log.contains(&format!("port {used} of a/eth0 is gone"));
        Ok((told && in_pool(plugin, "free") == 3).then_some(()))
    })
    .unwrap_or_else(|_| panic!("{}", daemon.log()));
    let (code, message) = fault(&plugin.run_with("CHECK", "a", &json!({})));
    assert!(code == 101 && message.contains("gone"), "{code} {message}");
}

/// Without a pool in the configuration no port stays free; Pods keep their ports.
fn switched_off(stack: &OpenStack, network: &str, plugin: Plugin) {
    let kept = plugin.add("kept");
    let plugin = plugin.with("warmPool", json!(null));
    let set = DaemonSet::new(&[&plugin]);
    set.remember("kept", &kept);
    assert_eq!(set.once(), 0, "{}", set.log());
    assert_eq!(
        (in_pool(&plugin, "free"), ports(stack, network).len()),
        (0, 1),
        "{}",
        set.log()
    );
    assert_eq!(plugin.add("kept"), kept);
    plugin.del("kept");
    assert_eq!(set.once(), 0, "{}", set.log());
    assert_eq!(ports(stack, network), [""; 0]);
}

/// Containers, and how many are served at once.
const CONTAINERS: usize = 48;
const AT_ONCE: usize = 8;

#[test]
fn plugins_and_daemons_are_killed_and_no_port_has_two() {
    let stack = or_skip!(stack(&Options {
        database: Database::MariaDb,
        ..Options::default()
    }));
    let network = network(&stack, "pods", "10.1.0.0/24");
    let plugin =
        Plugin::new(&stack, &network, "n1").with("warmPool", json!({"free": 6, "most": 8}));
    let set = DaemonSet::new(&[&plugin]);
    let seed = fresh_seed();
    let mut random = Random::new(seed);
    let names: Vec<String> = (0..CONTAINERS)
        .map(|container| format!("c{container:02}"))
        .collect();
    for chunk in names.chunks(AT_ONCE) {
        let daemon = set.start();
        let pods: Vec<Child> = chunk.iter().map(|name| plugin.start("ADD", name)).collect();
        for (index, mut pod) in pods.into_iter().enumerate() {
            if index % 2 == 0 {
                std::thread::sleep(Duration::from_millis(random.below(60) as u64));
                pod.kill().unwrap();
            }
            pod.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(random.below(900) as u64));
        drop(daemon);
    }
    // As a runtime does that was killed itself: it asks again, and remembers.
    let daemon = set.start();
    let mut given = BTreeSet::new();
    for chunk in names.chunks(AT_ONCE) {
        let pods: Vec<(&String, Child)> = chunk
            .iter()
            .map(|name| (name, plugin.start("ADD", name)))
            .collect();
        for (name, pod) in pods {
            let address = addresses(&finish(pod).expect(0).json());
            set.remember(name, &address);
            given.extend(address);
        }
    }
    assert_eq!(
        given.len(),
        CONTAINERS,
        "each has an address of its own, seed {seed}"
    );
    daemon.wait_until("a full pool and nothing else", || {
        let there = ports(&stack, &network).len();
        let free = in_pool(&plugin, "free");
        (6..=8).contains(&free) && in_pool(&plugin, "going") == 0 && there <= CONTAINERS + 8
    });
    eprintln!(
        "seed {seed}: {} ports, {} held of the pool",
        ports(&stack, &network).len(),
        in_pool(&plugin, "held")
    );
    assert!(
        in_pool(&plugin, "held") > 0,
        "none came of the pool, seed {seed}"
    );
    for chunk in names.chunks(AT_ONCE) {
        let pods: Vec<Child> = chunk.iter().map(|name| plugin.start("DEL", name)).collect();
        pods.into_iter().for_each(|pod| drop(finish(pod).expect(0)));
        chunk.iter().for_each(|name| set.forget(name));
    }
    daemon.wait_until("only the pool to be left", || {
        let free = in_pool(&plugin, "free");
        let is_quiet = ["held", "going"]
            .iter()
            .all(|part| in_pool(&plugin, part) == 0);
        (6..=8).contains(&free) && is_quiet && ports(&stack, &network).len() == free
    });
    assert_eq!(daemon.end(), 0);
}
