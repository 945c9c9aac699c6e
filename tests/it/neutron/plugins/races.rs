//! Many concurrent runs of the plugin, killed at any moment, against a Neutron with two workers and
//! MariaDB.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use serde_json::json;
use testbed::openstack::{Database, Options};
use testbed::{OpenStack, Random, fresh_seed, or_skip};

use crate::neutron::support::{Plugin, finish, ports, stack};

/// Number of containers, and of concurrent runs of the plugin.
const CONTAINERS: usize = 64;
const AT_ONCE: usize = 8;

#[test]
fn every_container_has_one_port_whoever_is_killed() {
    let options = Options {
        database: Database::MariaDb,
        ..Options::default()
    };
    let stack = or_skip!(stack(&options));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(&stack, &network, "n1");
    let seed = fresh_seed();
    let mut random = Random::new(seed);
    let names: Vec<String> = (0..CONTAINERS)
        .map(|container| format!("c{container:02}"))
        .collect();
    let killed = killed_at_random(&plugin, &names, &mut random);
    assert!(
        (8..CONTAINERS).contains(&killed),
        "{killed} of {CONTAINERS} were killed, seed {seed}"
    );
    // A runtime that was killed itself repeats its ADDs.
    let mut given = BTreeMap::new();
    for chunk in names.chunks(AT_ONCE) {
        let asked: Vec<(&String, Child, Child)> = chunk
            .iter()
            .map(|name| (name, plugin.start("ADD", name), plugin.start("ADD", name)))
            .collect();
        for (name, one, other) in asked {
            let answers = [one, other].map(|child| finish(child).expect(0).stdout);
            assert_eq!(
                answers[0], answers[1],
                "twice at once is the same, seed {seed}"
            );
            given.insert(name.clone(), answers);
        }
    }
    let expected: Vec<String> = names.iter().map(|name| format!("{name}/eth0")).collect();
    assert_eq!(ports(&stack, &network), expected, "seed {seed}");
    all_go(&stack, &network, &plugin, &names);
}

/// Returns how many of the runs were killed before they ended.
fn killed_at_random(plugin: &Plugin, names: &[String], random: &mut Random) -> usize {
    let mut killed = 0;
    for chunk in names.chunks(AT_ONCE) {
        let mut children: Vec<Child> = chunk.iter().map(|name| plugin.start("ADD", name)).collect();
        // Kills all of them before the first wait: during a wait, the other runs would end.
        for child in children.iter_mut().step_by(2) {
            std::thread::sleep(Duration::from_millis(random.below(60) as u64));
            child.kill().unwrap();
        }
        for mut child in children {
            killed += usize::from(child.wait().unwrap().code().is_none());
        }
    }
    killed
}

/// Deletes half of the ports by DEL, the others by garbage collection.
fn all_go(stack: &OpenStack, network: &str, plugin: &Plugin, names: &[String]) {
    let (deleted, forgotten) = names.split_at(names.len() / 2);
    for chunk in deleted.chunks(AT_ONCE) {
        let children: Vec<Child> = chunk.iter().map(|name| plugin.start("DEL", name)).collect();
        children
            .into_iter()
            .for_each(|child| drop(finish(child).expect(0)));
    }
    assert_eq!(ports(stack, network).len(), forgotten.len());
    plugin
        .run_with("GC", "", &json!({"cni.dev/valid-attachments": []}))
        .expect(0);
    assert_eq!(ports(stack, network), [""; 0]);
}
