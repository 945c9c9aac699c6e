//! What happens to a node and its Pods, and that the ports afterwards are those of its Pods.

use serde_json::json;
use testbed::openstack::Options;
use testbed::{ContainerNode, Ending, OpenStack, or_skip};

use super::machine::{DAEMON, Disk, Machine, PORT, manifest};
use super::ways::one_port;
use crate::neutron::plugins::secondary_route::neutron_network;
use crate::neutron::support::{Plugin, stack};

/// Of the network's configuration.
const FILE: &str = "10-one-port.conflist";

#[test]
fn after_each_event_of_a_node_the_ports_are_those_of_its_pods() {
    let stack = or_skip!(stack(&Options::default()));
    let network = neutron_network(&stack);
    let plugin = Plugin::new(&stack, &network, "n1").with("deadlineSeconds", json!(10));
    let list = one_port(&plugin);
    let mut machine = or_skip!(Machine::new(&stack, &[(FILE, &list)]));
    machine.start_daemon(1);
    machine.create("a", &json!({}));
    machine.wait_for_ports(&network, &["a"]);
    a_static_pod(&machine, &network);
    a_sandbox_ends(&machine, &network);
    programs_restart(&mut machine, &network);
    openstack_is_away(&machine, &stack, &network);
    a_pod_is_evicted(&machine, &network);
    the_node_reboots(&mut machine, &network);
    the_runtime_loses_its_state(&mut machine, &network);
    the_configuration_becomes_wrong(&machine, &list);
    // containerd 2.4.2 sends neither CHECK nor GC.
    let sent = machine.cni_commands();
    assert_eq!(sent, ["ADD", "DEL", "STATUS"].map(str::to_owned).into());
}

fn a_static_pod(machine: &Machine<'_>, network: &str) {
    let mut pod = manifest("static", &json!({}));
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    machine
        .node
        .add_static_pod("static.json", &pod.to_string())
        .unwrap();
    machine.wait("the mirror Pod", || {
        machine.pods().contains(&"static-n1".to_owned())
    });
    machine.wait_for_ports(network, &["a", "static-n1"]);
    machine.node.remove_static_pod("static.json").unwrap();
    machine.wait("it to go", || machine.pods() == ["a"]);
    machine.wait_for_ports(network, &["a"]);
}

/// The kubelet makes a new one for the same Pod.
fn a_sandbox_ends(machine: &Machine<'_>, network: &str) {
    let before = machine.port_ids(network);
    let sandbox = machine.node.sandbox("a").unwrap();
    let kill = format!("tasks kill --signal SIGKILL {sandbox}");
    machine.node.ctr(&kill).unwrap();
    machine.wait("a new sandbox", || {
        machine
            .node
            .sandbox("a")
            .is_ok_and(|newest| newest != sandbox)
    });
    machine.wait("its container", || restarts(machine, "a") == 1);
    machine.wait_for_ports(network, &["a"]);
    assert!(machine.port_ids(network).is_disjoint(&before), "a new port");
}

/// Each of them is killed and starts again. Pods go on, and Pods come and go afterwards.
fn programs_restart(machine: &mut Machine<'_>, network: &str) {
    let before = machine.running("a");
    for name in ["containerd", "kubelet", DAEMON] {
        for ending in [Ending::Killed, Ending::Terminated] {
            machine.node.restart(name, ending).unwrap();
            machine.create("b", &json!({}));
            machine.wait_for_ports(network, &["a", "b"]);
            machine.delete("b");
            machine.wait("it to go", || machine.pods() == ["a"]);
            machine.wait_for_ports(network, &["a"]);
        }
    }
    assert_eq!(machine.running("a"), before);
    assert_eq!(restarts(machine, "a"), 1);
}

/// A Pod is deleted while OpenStack does not answer, and another one is created.
fn openstack_is_away(machine: &Machine<'_>, stack: &OpenStack, network: &str) {
    machine.create("gone", &json!({}));
    machine.wait_for_ports(network, &["a", "gone"]);
    stack.neutron().stop();
    stack.keystone().stop();
    machine.delete("gone");
    machine.create("late", &json!({}));
    let fails = |what: &str, pod: &str| {
        let log = machine.node.log("kubelet");
        log.lines()
            .any(|line| line.contains(what) && line.contains(&format!("default/{pod}")))
    };
    machine.wait("an ADD and a DEL to fail", || {
        fails("CreatePodSandboxError", "late") && fails("KillPodSandboxError", "gone")
    });
    assert!(machine.pod("gone")["metadata"]["deletionTimestamp"].is_string());
    let of_a = machine.running("a").swap_remove(0);
    machine.client_of_node(None, &of_a, PORT);
    stack.keystone().start().unwrap();
    stack.neutron().start().unwrap();
    machine.wait("both", || machine.pods() == ["a", "late"]);
    machine.wait_for_ports(network, &["a", "late"]);
    machine.delete("late");
    machine.wait("it to go", || machine.pods() == ["a"]);
    machine.wait_for_ports(network, &["a"]);
}

/// It writes more into its volume than it may. Its object stays; its sandbox and its port do not.
fn a_pod_is_evicted(machine: &Machine<'_>, network: &str) {
    let writes = "dd if=/dev/zero of=/data/file bs=1M count=4; exec sleep 1000";
    let volume = json!({
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
        "containers": [{"name": "main", "image": ContainerNode::IMAGE, "imagePullPolicy": "Never",
            "command": ["sh", "-c", writes], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    });
    machine.create("full", &volume);
    machine.wait("the eviction", || {
        let status = machine.pod("full")["status"].clone();
        status["phase"] == "Failed" && status["reason"] == "Evicted"
    });
    machine.wait_for_ports(network, &["a"]);
    machine.delete("full");
    machine.wait("it to go", || machine.pods() == ["a"]);
}

/// Without a call of any plugin. Neutron still has the ports of all Pods; two of them are deleted
/// from the cluster while the node is off.
fn the_node_reboots(machine: &mut Machine<'_>, network: &str) {
    for pod in ["b", "c", "kept"] {
        machine.create(pod, &json!({}));
    }
    machine.wait_for_ports(network, &["a", "b", "c", "kept"]);
    machine.delete("a");
    machine.wait("it to go", || machine.pods() == ["b", "c", "kept"]);
    machine.node.end("kubelet", Ending::Killed).unwrap();
    machine.delete_at_once("b");
    machine.delete_at_once("c");
    let before = machine.port_ids(network);
    machine.reboot(Disk::Whole);
    machine.start_daemon(1);
    machine.wait("the restart", || restarts(machine, "kept") == 1);
    machine.wait_for_ports(network, &["kept"]);
    assert!(machine.port_ids(network).is_disjoint(&before), "new ports");
}

/// It no longer knows the sandboxes of before. The caches of CNI's results still have them.
fn the_runtime_loses_its_state(machine: &mut Machine<'_>, network: &str) {
    machine.reboot(Disk::WithoutContainerd);
    machine.start_daemon(1);
    machine.wait("the restart", || restarts(machine, "kept") == 2);
    machine.wait_for_ports(network, &["kept"]);
}

/// containerd asks the plugin for its status, and the kubelet tells the reason.
fn the_configuration_becomes_wrong(machine: &Machine<'_>, list: &str) {
    let path = machine.node.networks().join(FILE);
    let wrong = list.replace(r#""deadlineSeconds":10"#, r#""deadlineSeconds":5"#);
    assert_ne!(wrong, list);
    std::fs::write(&path, wrong).unwrap();
    let ready = || machine.node_condition("Ready");
    machine.wait("the reason", || {
        let message = ready()["message"].to_string();
        message.contains("`ipam.deadlineSeconds` is `5`; expected a whole number from 10 to 110")
    });
    assert_eq!(ready()["status"], "False");
    std::fs::write(&path, list).unwrap();
    machine.wait("the Node", || ready()["status"] == "True");
}

fn restarts(machine: &Machine<'_>, pod: &str) -> u64 {
    let count = &machine.pod(pod)["status"]["containerStatuses"][0]["restartCount"];
    count.as_u64().unwrap_or_default()
}
