//! Many Pods come and go while every program of the node is killed at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::openstack::{Database, Options};
use testbed::{Ending, OpenStack, Random, fresh_seed, or_skip};

use super::machine::{DAEMON, Machine};
use super::ways::one_port;
use crate::neutron::second_way::neutron_network;
use crate::neutron::support::{Plugin, stack};

/// Pods that are created at once.
const WAVE: usize = 20;
/// Longest pause between two kills.
const PAUSE_MILLIS: usize = 4_000;
/// Pods whose start is measured, one after another.
const MEASURED: usize = 20;

/// What is killed: servers start again; plugins are called again by the runtime.
const SERVERS: [&str; 3] = ["kubelet", "containerd", DAEMON];
const PLUGINS: &str = "plugins";

#[test]
fn no_port_is_left_or_given_twice_by_60_pods_and_kills() {
    let stack = or_skip!(two_workers());
    come_and_go(or_skip!(machine(&stack)), 60);
}

#[test]
#[ignore = "slow: 1,000 Pods, a quarter of an hour"]
fn no_port_is_left_or_given_twice_by_1000_pods_and_kills() {
    let stack = or_skip!(two_workers());
    come_and_go(or_skip!(machine(&stack)), 1_000);
}

/// Prints the time from a Pod's creation until it is ready, for ours and for host-local.
#[test]
#[ignore = "slow: 40 Pods, one after another"]
fn the_time_of_a_pod_beside_that_of_host_local() {
    let stack = or_skip!(two_workers());
    let ours = measure(&or_skip!(machine(&stack)).0);
    let ranges = json!([[{"subnet": "10.7.0.0/24"}], [{"subnet": "fd07::/64"}]]);
    let ipam = json!({"type": "host-local", "ranges": ranges});
    let main = json!({"type": "macvlan", "master": "up0", "mode": "bridge", "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "local", "plugins": [main]}).to_string();
    let theirs = measure(&or_skip!(Machine::new(
        &stack,
        &[("10-local.conflist", &list)]
    )));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    eprintln!("one port of Neutron: {ours:?}, host-local: {theirs:?}, ratio {ratio:.2} (medians)");
}

fn two_workers() -> testbed::Result<testbed::openstack::Borrowed> {
    let database = Database::MariaDb;
    stack(&Options {
        database,
        ..Options::default()
    })
}

/// A machine, and its network of Neutron.
fn machine(stack: &OpenStack) -> testbed::Result<(Machine<'_>, String)> {
    let network = neutron_network(stack);
    let list = one_port(&Plugin::new(stack, &network, "n1"));
    let mut machine = Machine::new(stack, &[("10-one-port.conflist", &list)])?;
    machine.start_daemon();
    Ok((machine, network))
}

fn come_and_go((mut machine, network): (Machine<'_>, String), pods: usize) {
    let seed = fresh_seed();
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let mut kills = BTreeMap::new();
    let start = Instant::now();
    let names: Vec<String> = (0..pods).map(|number| format!("p{number:04}")).collect();
    for wave in names.chunks(WAVE) {
        for name in wave {
            machine.create(name, &json!({}));
        }
        kill_until(&mut machine, &mut random, &mut kills, |machine| {
            wave.iter().all(|name| machine.is_ready(name))
        });
        let given: Vec<String> = wave.iter().flat_map(|name| machine.running(name)).collect();
        let distinct: BTreeSet<&String> = given.iter().collect();
        assert_eq!(
            (given.len(), distinct.len()),
            (2 * wave.len(), given.len()),
            "{given:?}"
        );
        let at_neutron: BTreeSet<String> = machine.ports(&network).concat().into_iter().collect();
        assert!(
            given.iter().all(|one| at_neutron.contains(one)),
            "{given:?} {at_neutron:?}"
        );
        for name in wave {
            machine.delete(name);
        }
        kill_until(&mut machine, &mut random, &mut kills, |machine| {
            machine.pods().is_empty()
        });
    }
    machine.wait_for_ports(&network, &[]);
    let links = machine.shell("ip -o link | grep -c ': unp' || true");
    assert_eq!(links.trim(), "0", "pairs are left");
    let seconds = start.elapsed().as_secs();
    eprintln!("pods={pods} kills={kills:?} ports_left=0 addresses_twice=0 seconds={seconds}");
}

/// Kills one program after another, until something is so. That must come about while kills go on.
fn kill_until(
    machine: &mut Machine<'_>,
    random: &mut Random,
    kills: &mut BTreeMap<&'static str, usize>,
    is_so: impl Fn(&Machine<'_>) -> bool,
) {
    let start = Instant::now();
    while !is_so(machine) {
        let waited = start.elapsed();
        assert!(
            waited < 2 * testbed::PATIENCE,
            "{}",
            machine.node.log("kubelet")
        );
        std::thread::sleep(Duration::from_millis(random.below(PAUSE_MILLIS) as u64));
        // Plugins as often as all servers together.
        let victim = SERVERS.get(random.below(2 * SERVERS.len())).copied();
        match victim {
            Some(server) => machine.node.restart(server, Ending::Killed).unwrap(),
            None if machine.kill_plugins() => {}
            None => continue,
        }
        *kills.entry(victim.unwrap_or(PLUGINS)).or_default() += 1;
    }
}

/// The median.
fn measure(machine: &Machine<'_>) -> Duration {
    let mut times: Vec<Duration> = (0..MEASURED)
        .map(|number| {
            let name = format!("m{number}");
            let start = Instant::now();
            machine.create(&name, &json!({}));
            machine.running(&name);
            let took = start.elapsed();
            machine.delete(&name);
            machine.wait("it to go", || machine.pods().is_empty());
            took
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
