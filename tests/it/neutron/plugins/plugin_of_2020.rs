//! The plugin of 2020 beside ours, in front of the same real Neutron.
//!
//! This repository neither has that plugin nor builds it: `CNI_IPAM_NEUTRON_2020` says where a
//! binary of it lies (github.com/yaoice/cni-ipam-neutron, commit ff9f9956). Without one, only our
//! column of the table is measured.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::openstack::{MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER, Options};
use testbed::{Fault, OpenStack, or_skip, wait_until};

use crate::neutron::support::{finish, stack, start_of, variables};
use crate::support::{Ran, node_program};

/// Where a binary of the plugin of 2020 lies.
const BINARY: &str = "CNI_IPAM_NEUTRON_2020";

/// [`MEMBER_PASSWORD`] as that plugin wants it: hexadecimal, enciphered with the key that stands in
/// its public source.
const OBFUSCATED_PASSWORD: &str = "eb2bf985532529d29931";

/// The domain of all users by its name, which is all that the plugin of 2020 takes.
const DOMAIN_NAME: &str = "Default";

const PORTS: &str = "/v2.0/ports";
const LOGINS: &str = "/v3/auth/tokens";

/// How long to wait for a plugin that Neutron does not answer. Ours is configured to give up after
/// 10 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is measured, for the plugin of 2020 and for ours.
const TABLE: [(&str, &str, &str); 14] = [
    ("newest supported CNI", "0.3.1", "1.1.0"),
    ("ports after two ADDs of one interface", "2", "1"),
    ("ports left after a DEL of it", "1", "0"),
    (
        "ports left after an ADD on a network without subnet",
        "0",
        "0",
    ),
    (
        "ports left after an ADD that could not read the subnet",
        "1",
        "0",
    ),
    (
        "ports after an ADD that was killed waiting for Neutron, and another ADD",
        "2",
        "1",
    ),
    ("ports left after a DEL of it", "1", "0"),
    ("addresses on a network with IPv4 and IPv6", "1", "2"),
    ("is an address given that CNI_ARGS asks for", "no", "yes"),
    (
        "ports left of a container with two interfaces after DEL of one, said twice",
        "0",
        "1",
    ),
    (
        "is a port left alone that only has the name of a container, after a DEL",
        "no",
        "yes",
    ),
    ("logins for 8 ADDs", "8", "1"),
    ("requests of an ADD, once others have been", "4", "1"),
    (
        "does it end when Neutron takes a request and says nothing",
        "no",
        "yes",
    ),
];

#[test]
fn what_has_become_of_the_plugin_of_2020() {
    let stack = or_skip!(stack(&Options::default()));
    let folder = tempfile::tempdir().unwrap();
    let ours = measure(&Candidate::ours(&stack, folder.path()));
    let binary = std::env::var_os(BINARY).map(PathBuf::from);
    let theirs = binary.map(|binary| measure(&Candidate::of_2020(&stack, binary)));
    if theirs.is_none() {
        eprintln!("no plugin of 2020 here: {BINARY} is not set");
    }
    let cell = |row: usize| theirs.as_ref().map_or("?", |theirs| theirs[row].as_str());
    let measured: Vec<_> = (0..TABLE.len())
        .map(|row| (TABLE[row].0, cell(row), ours[row].as_str()))
        .collect();
    for (what, theirs, ours) in &measured {
        eprintln!("{what:<76} {theirs:>6} {ours:>6}");
    }
    let known = |row: &(&'static str, &'static str, &'static str)| match theirs {
        Some(_) => *row,
        None => (row.0, "?", row.2),
    };
    assert_eq!(measured, TABLE.iter().map(known).collect::<Vec<_>>());
}

/// A plugin that is measured.
struct Candidate<'s> {
    stack: &'s OpenStack,
    name: &'static str,
    program: PathBuf,
    /// The part of its configuration that says who asks, and how.
    ipam: Value,
}

impl<'s> Candidate<'s> {
    fn ours(stack: &'s OpenStack, folder: &Path) -> Self {
        let program = node_program("cni-ipam-neutron").into();
        let more =
            json!({"node": "n1", "stateDirectory": folder.join("state"), "deadlineSeconds": 10});
        Self::new(stack, "ours", program, MEMBER_PASSWORD, &more)
    }

    fn of_2020(stack: &'s OpenStack, program: PathBuf) -> Self {
        Self::new(stack, "2020", program, OBFUSCATED_PASSWORD, &json!({}))
    }

    fn new(
        stack: &'s OpenStack,
        name: &'static str,
        program: PathBuf,
        password: &str,
        more: &Value,
    ) -> Self {
        let openstack = json!({
            "username": MEMBER_USER, "password": password, "project": MEMBER_PROJECT, "domain": DOMAIN_NAME,
            "authUrl": stack.keystone_url(),
        });
        let mut ipam = json!({"type": "ipam-neutron", "openstackConf": openstack});
        ipam.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Self {
            stack,
            name,
            program,
            ipam,
        }
    }

    /// A network with these subnets, and no port anywhere: the plugin of 2020 finds them on all
    /// networks.
    fn network(&self, subnets: &[&str]) -> String {
        for port in self.stack.ports("").unwrap() {
            self.stack
                .as_member()
                .delete(&format!("{PORTS}/{}", port["id"].as_str().unwrap()))
                .unwrap();
        }
        let network = self.stack.create_network(self.name).unwrap();
        for subnet in subnets {
            self.stack
                .create_subnet(&network, subnet, &json!({}))
                .unwrap();
        }
        network
    }

    fn start(&self, network: &str, command: &str, container: &str, more: &[(&str, &str)]) -> Child {
        let mut ipam = self.ipam.clone();
        ipam["neutronConf"] = json!({"networks": [network]});
        let input = json!({"cniVersion": "0.3.1", "name": "examplenet", "ipam": ipam});
        let mut variables: Vec<(&str, &str)> = variables(command, container).to_vec();
        variables.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
        variables.extend(more);
        start_of(&self.program, &input.to_string(), &variables)
    }

    fn run(&self, network: &str, command: &str, container: &str) -> Ran {
        finish(self.start(network, command, container, &[]))
    }

    fn ports(&self, network: &str) -> String {
        self.stack
            .ports(&format!("network_id={network}"))
            .unwrap()
            .len()
            .to_string()
    }
}

/// Our column, or theirs.
fn measure(candidate: &Candidate) -> Vec<String> {
    let mut column = vec![newest_version(candidate)];
    column.extend(asked_twice(candidate));
    column.push(without_subnet(candidate));
    column.push(with_a_subnet_that_cannot_be_read(candidate));
    column.extend(killed(candidate));
    column.push(families(candidate));
    column.push(asked_address(candidate));
    column.push(two_interfaces(candidate));
    column.push(somebody_elses(candidate));
    column.extend(costs(candidate));
    column.push(silence(candidate));
    column
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn newest_version(candidate: &Candidate) -> String {
    let known = candidate.run("none", "VERSION", "c").expect(0).json();
    known["supportedVersions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn asked_twice(candidate: &Candidate) -> [String; 2] {
    let network = candidate.network(&["10.1.0.0/24"]);
    (0..2).for_each(|_| drop(candidate.run(&network, "ADD", "c").expect(0)));
    let made = candidate.ports(&network);
    candidate.run(&network, "DEL", "c").expect(0);
    [made, candidate.ports(&network)]
}

fn without_subnet(candidate: &Candidate) -> String {
    let network = candidate.network(&[]);
    candidate.run(&network, "ADD", "c").expect(1);
    candidate.ports(&network)
}

fn with_a_subnet_that_cannot_be_read(candidate: &Candidate) -> String {
    let network = candidate.network(&["10.1.0.0/24"]);
    let faults = candidate.stack.neutron().faults();
    faults.next(
        100,
        "GET",
        "/v2.0/subnets",
        Fault::Answer {
            status: 500,
            body: "{}".to_owned(),
        },
    );
    candidate.run(&network, "ADD", "c").expect(1);
    faults.clear();
    candidate.ports(&network)
}

fn killed(candidate: &Candidate) -> [String; 2] {
    let network = candidate.network(&["10.1.0.0/24"]);
    let faults = candidate.stack.neutron().faults();
    faults.next(1, "POST", PORTS, Fault::Withhold);
    let mut first = candidate.start(&network, "ADD", "c", &[]);
    wait_until("the port", testbed::PATIENCE, || {
        Ok((candidate.ports(&network) == "1").then_some(()))
    })
    .unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    faults.clear();
    candidate.run(&network, "ADD", "c").expect(0);
    let made = candidate.ports(&network);
    candidate.run(&network, "DEL", "c").expect(0);
    [made, candidate.ports(&network)]
}

fn families(candidate: &Candidate) -> String {
    let network = candidate.network(&["10.1.0.0/24", "fd00:1::/64"]);
    let result = candidate.run(&network, "ADD", "c").expect(0).json();
    result["ips"].as_array().unwrap().len().to_string()
}

fn asked_address(candidate: &Candidate) -> String {
    let network = candidate.network(&["10.1.0.0/24"]);
    let asked = candidate.start(
        &network,
        "ADD",
        "c",
        &[("CNI_ARGS", "IgnoreUnknown=1;IP=10.1.0.77")],
    );
    yes_or_no(finish(asked).expect(0).json()["ips"][0]["address"] == "10.1.0.77/24")
}

/// Runtimes say DEL until it works, and once more when they are not sure.
fn two_interfaces(candidate: &Candidate) -> String {
    let network = candidate.network(&["10.1.0.0/24"]);
    let of = |command, interface| {
        finish(candidate.start(&network, command, "c", &[("CNI_IFNAME", interface)])).expect(0)
    };
    ["eth0", "net1"]
        .into_iter()
        .for_each(|interface| drop(of("ADD", interface)));
    assert_eq!(candidate.ports(&network), "2");
    (0..2).for_each(|_| drop(of("DEL", "net1")));
    candidate.ports(&network)
}

fn somebody_elses(candidate: &Candidate) -> String {
    let network = candidate.network(&["10.1.0.0/24"]);
    candidate
        .stack
        .create_port(&network, &json!({"name": "c", "device_id": "a-server"}))
        .unwrap();
    candidate.run(&network, "DEL", "c").expect(0);
    yes_or_no(candidate.ports(&network) == "1")
}

/// Logins, and requests to both services. Also says how long they took.
fn costs(candidate: &Candidate) -> [String; 2] {
    let network = candidate.network(&["10.1.0.0/24"]);
    let (neutron, keystone) = (
        candidate.stack.neutron().faults(),
        candidate.stack.keystone().faults(),
    );
    let mut candidate = Candidate {
        ipam: candidate.ipam.clone(),
        program: candidate.program.clone(),
        ..*candidate
    };
    if candidate.ipam["stateDirectory"].is_string() {
        let fresh = candidate.ipam["stateDirectory"]
            .as_str()
            .unwrap()
            .to_owned()
            + "-costs";
        candidate.ipam["stateDirectory"] = fresh.into();
    }
    [neutron, keystone]
        .into_iter()
        .for_each(testbed::Faults::clear);
    let mut times: Vec<Duration> = (0..8)
        .map(|number| timed_add(&candidate, &network, number))
        .collect();
    let logins = keystone.count("POST", LOGINS);
    [neutron, keystone]
        .into_iter()
        .for_each(testbed::Faults::clear);
    timed_add(&candidate, &network, 8);
    let requests = neutron.requests().len() + keystone.requests().len();
    times.sort();
    eprintln!(
        "{}: 8 ADDs one after another, median {:?}, slowest {:?}",
        candidate.name, times[4], times[7]
    );
    [logins.to_string(), requests.to_string()]
}

fn timed_add(candidate: &Candidate, network: &str, number: usize) -> Duration {
    let began = Instant::now();
    candidate
        .run(network, "ADD", &format!("c{number}"))
        .expect(0);
    began.elapsed()
}

fn silence(candidate: &Candidate) -> String {
    let network = candidate.network(&["10.1.0.0/24"]);
    let faults = candidate.stack.neutron().faults();
    faults.next(100, "POST", PORTS, Fault::Silence);
    let mut waiting = candidate.start(&network, "ADD", "c", &[]);
    let ends = wait_until("its end", PATIENCE, || Ok(waiting.try_wait().unwrap())).is_ok();
    // One that waits for ever is a child of this test.
    let _ = waiting.kill();
    waiting.wait().unwrap();
    faults.clear();
    yes_or_no(ends)
}
