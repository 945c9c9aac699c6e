//! What goes wrong at Neutron, on the way to it, and on the node. After each the ports are what
//! they were.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use testbed::openstack::Options;
use testbed::{Fault, OpenStack, or_skip, wait_until};

use crate::neutron::support::{Plugin, fault, finish, ports, stack, variables};
use crate::support::{Ran, node_program};

#[test]
fn nothing_leaks_whatever_goes_wrong() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    a_network_without_a_subnet(&stack);
    no_address_and_no_quota(&stack, &network);
    answers_that_do_not_come(&stack, &network);
    a_run_that_is_killed_between_request_and_answer(&stack, &network);
    the_subnet_cannot_be_read(&stack, &network);
    neutron_is_away(&stack, &network);
    the_disk_is_full(&stack, &network);
}

fn plugin(stack: &OpenStack, network: &str) -> Plugin {
    Plugin::new(stack, network, "n1").with("deadlineSeconds", json!(10))
}

/// The first requests to a Neutron that has just started take longer.
fn patient(plugin: Plugin) -> Plugin {
    plugin.with("deadlineSeconds", json!(60))
}

fn a_network_without_a_subnet(stack: &OpenStack) {
    let network = stack.create_network("bare").unwrap();
    let (code, message) = patient(plugin(stack, &network)).refused("ADD", "a");
    assert!(
        code == 7 && message.contains("no subnet"),
        "{code} {message}"
    );
    assert_eq!(ports(stack, &network), [""; 0]);
}

fn no_address_and_no_quota(stack: &OpenStack, network: &str) {
    let small = stack.create_network("small").unwrap();
    let one = json!({"allocation_pools": [{"start": "10.2.0.2", "end": "10.2.0.2"}]});
    stack.create_subnet(&small, "10.2.0.0/24", &one).unwrap();
    let on_small = plugin(stack, &small);
    let racing = ["a", "b"]
        .map(|container| on_small.start("ADD", container))
        .map(finish);
    let [won, lost]: [Vec<&Ran>; 2] =
        [0, 1].map(|code| racing.iter().filter(|ran| ran.code == code).collect());
    assert_eq!(
        (won.len(), fault(lost[0]).0),
        (1, 11),
        "two for the last address"
    );
    assert_eq!(ports(stack, &small).len(), 1);
    ["a", "b"]
        .into_iter()
        .for_each(|container| on_small.del(container));
    stack.set_quota(0).unwrap();
    let (code, message) = plugin(stack, network).refused("ADD", "a");
    assert!(code == 11 && message.contains("quota"), "{code} {message}");
    stack.set_quota(-1).unwrap();
    assert_eq!(ports(stack, network), [""; 0]);
}

fn answers_that_do_not_come(stack: &OpenStack, network: &str) {
    let plugin = plugin(stack, network);
    let faults = stack.neutron().faults();
    plugin.add("warm");
    for fault in [Fault::unavailable(), Fault::Close, Fault::Lose] {
        for (command, method) in [("ADD", "POST"), ("DEL", "GET"), ("DEL", "DELETE")] {
            if command == "DEL" {
                plugin.add("a");
            }
            // If Neutron acted but its answer got lost, the next look finds the result.
            let times = if fault == Fault::Lose { 1 } else { 2 };
            faults.next(times, method, "/v2.0/ports", fault.clone());
            plugin.run(command, "a").expect(0);
            assert_eq!(faults.pending(), 0, "{fault:?} {command} {method}");
            let there = ports(stack, network);
            assert_eq!(
                there.contains(&"a/eth0".to_owned()),
                command == "ADD",
                "{fault:?} {method} {there:?}"
            );
        }
    }
    for fault in [
        Fault::Silence,
        Fault::Withhold,
        Fault::Drip(Duration::from_millis(200)),
    ] {
        faults.next(1, "POST", "/v2.0/ports", fault.clone());
        let (code, message) = plugin.refused("ADD", "a");
        assert!(
            code == 11 && message.contains("no answer in time"),
            "{fault:?} {code} {message}"
        );
        assert_eq!(ports(stack, network), ["warm/eth0"], "{fault:?}");
    }
    plugin.del("warm");
}

fn a_run_that_is_killed_between_request_and_answer(stack: &OpenStack, network: &str) {
    let plugin = plugin(stack, network);
    let killed = |container: &str| {
        stack.neutron().faults().clear();
        stack
            .neutron()
            .faults()
            .next(1, "POST", "/v2.0/ports", Fault::Withhold);
        let mut child = plugin.start("ADD", container);
        let device = format!("{container}/eth0");
        wait_until("the port", testbed::PATIENCE, || {
            Ok(ports(stack, network).contains(&device).then_some(()))
        })
        .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    };
    killed("a");
    plugin.add("a");
    assert_eq!(ports(stack, network), ["a/eth0"], "it is found");
    plugin.del("a");
    killed("b");
    plugin.del("b");
    killed("c");
    plugin
        .run_with("GC", "", &json!({"cni.dev/valid-attachments": []}))
        .expect(0);
    assert_eq!(ports(stack, network), [""; 0]);
}

fn the_subnet_cannot_be_read(stack: &OpenStack, network: &str) {
    let plugin = plugin(stack, network);
    let answer = Fault::Answer {
        status: 500,
        body: "{}".to_owned(),
    };
    stack
        .neutron()
        .faults()
        .next(100, "GET", "/v2.0/subnets", answer.clone());
    let (code, message) = plugin.refused("ADD", "a");
    assert_eq!(code, 11, "{message}");
    stack.neutron().faults().clear();
    assert_eq!(ports(stack, network), [""; 0], "the port was taken back");
    stack
        .neutron()
        .faults()
        .next(2, "GET", "/v2.0/subnets", answer);
    plugin.add("a");
    plugin.del("a");
}

fn neutron_is_away(stack: &OpenStack, network: &str) {
    let plugin = plugin(stack, network);
    plugin.add("a");
    stack.neutron().stop();
    assert_eq!(plugin.refused("ADD", "b").0, 11);
    assert_eq!(plugin.refused("DEL", "a").0, 11, "the runtime asks again");
    assert_eq!(plugin.refused("CHECK", "a").0, 11);
    let valid = json!({"cni.dev/valid-attachments": []});
    assert_eq!(fault(&plugin.run_with("GC", "", &valid)).0, 11);
    plugin.run("STATUS", "").expect(0);
    stack.neutron().start().unwrap();
    assert_eq!(ports(stack, network), ["a/eth0"]);
    patient(plugin).del("a");
    assert_eq!(ports(stack, network), [""; 0]);
}

/// On a file system of its own, in a mount namespace of its own, where not even a lock can be made.
fn the_disk_is_full(stack: &OpenStack, network: &str) {
    let plugin = plugin(stack, network);
    let state = plugin.state();
    std::fs::create_dir(&state).unwrap();
    let on_a_full_disk = |command: &str, container: &str| {
        let script = r#"mount -t tmpfs -o size=4k,nr_inodes=2,mode=700 none "$STATE" && : > "$STATE/full" && exec "$PLUGIN""#;
        let mut shell = Command::new("unshare");
        shell
            .args(["--mount", "sh", "-c", script])
            .env("STATE", &state);
        shell
            .env("PLUGIN", node_program("cni-ipam-neutron"))
            .envs(variables(command, container));
        let input = plugin.folder().join("configuration.json");
        std::fs::write(&input, plugin.configuration.to_string()).unwrap();
        let output = shell
            .stdin(std::fs::File::open(input).unwrap())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    };
    let (code, message) = fault(&on_a_full_disk("ADD", "a"));
    assert!(
        code == 5 && message.contains("No space left"),
        "{code} {message}"
    );
    assert_eq!(ports(stack, network), [""; 0]);
    plugin.add("a");
    on_a_full_disk("DEL", "a").expect(0);
    assert_eq!(
        ports(stack, network),
        [""; 0],
        "an address is given back all the same"
    );
}
