//! Many Pods come and go while every program of the node is killed at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::openstack::{Database, Options};
use testbed::{Ending, OpenStack, Random, fresh_seed, or_skip};

use super::machine::{DAEMON, Machine};
use super::ways::one_port;
use crate::neutron::plugins::secondary_route::neutron_network;
use crate::neutron::support::{Plugin, stack};

/// Pods that are created at once.
const WAVE: usize = 20;
/// Longest pause between two kills.
const PAUSE_MILLIS: usize = 10_000;
/// Pods whose start is measured, one after another.
const MEASURED: usize = 20;

/// The test kills servers and starts them again. The runtime calls killed plugins again.
const SERVERS: [&str; 3] = ["kubelet", "containerd", DAEMON];
const PLUGINS: &str = "plugins";

#[test]
#[ignore = "slow: 40 Pods and more, two minutes of both cores"]
fn no_port_is_left_or_given_twice_by_40_pods_and_kills() {
    let stack = or_skip!(two_workers());
    let machine = or_skip!(Churn::new(&stack, json!({"free": 4, "most": 8})));
    machine.come_and_go(40);
}

#[test]
#[ignore = "slow: 1,000 Pods, half an hour"]
fn no_port_is_left_or_given_twice_by_1000_pods_and_kills() {
    let stack = or_skip!(two_workers());
    or_skip!(Churn::new(&stack, Value::Null)).come_and_go(1_000);
}

/// Prints the time from a Pod's creation until it is ready, for ours and for host-local.
#[test]
#[ignore = "slow: 40 Pods, one after another"]
fn the_time_of_a_pod_beside_that_of_host_local() {
    let stack = or_skip!(two_workers());
    let ours = measure(&or_skip!(Churn::new(&stack, Value::Null)).machine);
    let ranges = json!([[{"subnet": "10.7.0.0/24"}], [{"subnet": "fd07::/64"}]]);
    let ipam = json!({"type": "host-local", "ranges": ranges});
    let main = json!({"type": "macvlan", "master": "up0", "mode": "bridge", "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "local", "plugins": [main]}).to_string();
    let local = or_skip!(Machine::new(&stack, &[("10-local.conflist", &list)]));
    let theirs = measure(&local);
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

/// A machine with its daemon, its network of Neutron, and what was killed so far.
struct Churn<'s> {
    machine: Machine<'s>,
    network: String,
    random: Random,
    kills: BTreeMap<&'static str, usize>,
}

impl<'s> Churn<'s> {
    fn new(stack: &'s OpenStack, warm_pool: Value) -> testbed::Result<Churn<'s>> {
        let network = neutron_network(stack);
        let plugin = Plugin::new(stack, &network, "n1").with("warmPool", warm_pool);
        let mut machine = Machine::new(stack, &[("10-one-port.conflist", &one_port(&plugin))])?;
        machine.start_daemon(10);
        let seed = fresh_seed();
        eprintln!("seed {seed}");
        Ok(Churn {
            machine,
            network,
            random: Random::new(seed),
            kills: BTreeMap::new(),
        })
    }

    /// Creates and deletes Pods in waves, until this number is reached and each program was killed.
    fn come_and_go(mut self, pods: usize) {
        let start = Instant::now();
        let mut done = 0;
        while done < pods || self.kills.len() <= SERVERS.len() {
            self.wave(done);
            done += WAVE;
            let seconds = start.elapsed().as_secs();
            eprintln!("{done} Pods, {seconds} s, {:?}", self.kills);
        }
        let machine = &self.machine;
        machine.wait("only free ports to be left", || {
            machine.pods_ports(&self.network).is_empty()
        });
        let links = machine.shell("ip -o link | grep -c ': unp' || true");
        assert_eq!(links.trim(), "0", "pairs are left");
    }

    /// Pods that start, are compared with their ports, and go.
    fn wave(&mut self, first: usize) {
        let names: Vec<String> = (first..first + WAVE)
            .map(|number| format!("p{number:04}"))
            .collect();
        for name in &names {
            self.machine.create(name, &json!({}));
        }
        self.kill_until(|machine| names.iter().all(|name| machine.is_ready(name)));
        let machine = &self.machine;
        let given: Vec<String> = names
            .iter()
            .flat_map(|name| machine.running(name))
            .collect();
        let distinct: BTreeSet<&String> = given.iter().collect();
        assert_eq!(
            (given.len(), distinct.len()),
            (2 * WAVE, 2 * WAVE),
            "{given:?}"
        );
        let at_neutron = machine.ports(&self.network).concat();
        let at_neutron: BTreeSet<&String> = at_neutron.iter().collect();
        assert!(distinct.is_subset(&at_neutron), "{given:?} {at_neutron:?}");
        for name in &names {
            self.machine.delete(name);
        }
        self.kill_until(|machine| machine.pods().is_empty());
    }

    /// Kills one program after another, until something is so. That must come about while kills go
    /// on.
    fn kill_until(&mut self, is_so: impl Fn(&Machine<'_>) -> bool) {
        let Churn {
            machine,
            random,
            kills,
            ..
        } = self;
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
