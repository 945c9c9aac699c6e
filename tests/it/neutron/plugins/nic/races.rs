//! More Pods than NICs, at once and killed at any moment.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{Random, fresh_seed, or_skip};

use super::support::{Handover, Machine, lasting};
use crate::neutron::plugins::node::Node;
use crate::neutron::support::{addresses, fault, finish, stack};

const NICS: u32 = 8;
const PODS: usize = 16;
const ROUNDS: usize = 3;

#[test]
fn no_nic_is_given_twice_whoever_is_killed() {
    let stack = or_skip!(stack(&Options::default()));
    let machine = or_skip!(Machine::new(&stack));
    let node = &machine.node;
    let seed = fresh_seed();
    let mut random = Random::new(seed);
    let handover = Handover::new(&stack, node, "races", "10.1.0");
    let nics: Vec<String> = (0..NICS).map(|nic| format!("nic{nic}")).collect();
    for (host, nic) in (10..).zip(&nics) {
        handover.veth(nic, &format!("up{host}"), host);
        if random.below(2) == 0 {
            node.ip(None, &format!("link set {nic} up mtu 1400 alias of-{nic}"));
        }
    }
    let before: Vec<Value> = nics.iter().map(|nic| lasting(node, nic)).collect();
    let pods: Vec<String> = (0..PODS).map(|pod| format!("p{pod:02}")).collect();
    pods.iter().for_each(|pod| node.add_pod(pod));
    let configuration = handover.configuration(&json!({"any": {"names": ["nic*"]}}));
    twice_at_once(&handover, &configuration, &pods[0]);
    for round in 0..ROUNDS {
        let context = format!("seed {seed}, round {round}");
        let killed = all_at_once(
            &handover,
            &configuration,
            "ADD",
            &pods,
            &mut random,
            Killed::Some,
        );
        assert!(killed > 0, "{context}");
        no_two_have_one(node, &pods, &context);
        // As a runtime does: Pods without a NIC are deleted, some plugins are killed again, and the
        // others retry.
        all_at_once(
            &handover,
            &configuration,
            "DEL",
            &pods[..PODS / 2],
            &mut random,
            Killed::Some,
        );
        no_two_have_one(node, &pods, &context);
        all_at_once(
            &handover,
            &configuration,
            "DEL",
            &pods[..PODS / 2],
            &mut random,
            Killed::None,
        );
        let asked = &pods[PODS / 2..];
        let children: Vec<Child> = asked
            .iter()
            .map(|pod| handover.start(&configuration, "ADD", pod))
            .collect();
        let mut given = BTreeMap::new();
        for (pod, child) in asked.iter().zip(children) {
            let ran = finish(child);
            if ran.code == 0 {
                let other = given.insert(addresses(&ran.json()), pod);
                assert_eq!(other, None, "{context}: {pod}");
            } else {
                assert_eq!(fault(&ran).0, 11, "{context}: {}", ran.stdout);
            }
        }
        // A NIC that one ADD looked at while another one asked may be left.
        all_at_once(
            &handover,
            &configuration,
            "ADD",
            asked,
            &mut random,
            Killed::None,
        );
        assert_eq!(
            node.links(None).len(),
            1 + nics.len(),
            "{context}: each of the eight has one"
        );
        let rest = if round % 2 == 0 { "DEL" } else { "GC" };
        if rest == "DEL" {
            all_at_once(
                &handover,
                &configuration,
                rest,
                &pods,
                &mut random,
                Killed::None,
            );
        } else {
            let mut configuration = configuration.clone();
            configuration["cni.dev/valid-attachments"] = json!([]);
            handover.run(&configuration, rest, &pods[0]).expect(0);
        }
        let after: Vec<Value> = nics.iter().map(|nic| lasting(node, nic)).collect();
        assert_eq!(
            (after, handover.records()),
            (before.clone(), 0),
            "{context}"
        );
    }
}

fn twice_at_once(handover: &Handover<'_>, configuration: &Value, pod: &str) {
    let twice = [0, 1]
        .map(|_| handover.start(configuration, "ADD", pod))
        .map(|child| finish(child).expect(0).stdout);
    assert_eq!(twice[0], twice[1]);
    assert_eq!(handover.records(), 1);
    handover.run(configuration, "DEL", pod).expect(0);
}

/// Whether some plugins are killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    Some,
    None,
}

/// Returns how many did not end by themselves.
fn all_at_once(
    handover: &Handover<'_>,
    configuration: &Value,
    command: &str,
    pods: &[String],
    random: &mut Random,
    fate: Killed,
) -> usize {
    let mut children: Vec<Child> = Vec::new();
    for (index, pod) in pods.iter().enumerate() {
        let mut child = handover.start(configuration, command, pod);
        if fate == Killed::Some && index % 2 == 0 {
            std::thread::sleep(Duration::from_millis(random.below(120) as u64));
            child.kill().unwrap();
        }
        children.push(child);
    }
    let ended = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap().status.code());
    ended.filter(Option::is_none).count()
}

/// Each NIC is in one place: the node's and the Pods' links together are as many as there are.
fn no_two_have_one(node: &Node, pods: &[String], context: &str) {
    let of_pods: usize = pods.iter().map(|pod| node.links(Some(pod)).len() - 1).sum();
    // `lo`, the peers, and what is there of the NICs.
    let of_node = node.links(None).len() - 1 - NICS as usize;
    assert_eq!(of_pods + of_node, NICS as usize, "{context}");
    assert!(
        pods.iter().all(|pod| node.links(Some(pod)).len() <= 2),
        "{context}"
    );
}
