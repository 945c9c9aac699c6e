//! Refused requests: the NIC stays in place and unchanged, and no record of it is kept.

use std::path::Path;

use serde_json::{Value, json};
use testbed::OpenStack;

use super::support::{Handover, lasting, told};
use crate::neutron::plugins::node::Node;
use crate::neutron::support::{fault, finish};

pub fn nothing_moves_when_something_is_wrong(stack: &OpenStack, node: &Node) {
    let handover = Handover::new(stack, node, "wrong", "10.20.0");
    node.ip(None, "link add nic0 type veth peer name up0");
    node.ip(None, "link set nic0 up");
    node.add_pod("a");
    let before = lasting(node, "nic0");
    let unmoved = |code: u64, words: &str, ran: &crate::support::Ran| {
        let (answered, message) = fault(ran);
        assert!(
            answered == code && message.contains(words),
            "{answered} {message}"
        );
        assert_eq!(
            (
                lasting(node, "nic0"),
                node.links(Some("a")),
                handover.records()
            ),
            (before.clone(), vec!["lo".to_owned()], 0)
        );
    };
    let configuration = handover.configuration(&json!({"name": "nic0"}));
    let run = |configuration: &Value| handover.run(configuration, "ADD", "a");
    unmoved(7, "no port with the hardware address", &run(&configuration));
    let port = stack
        .create_port(
            &handover.network,
            &json!({"mac_address": before["mac"], "fixed_ips": []}),
        )
        .unwrap();
    unmoved(7, "has no address", &run(&configuration));
    stack
        .as_member()
        .delete(&format!("/v2.0/ports/{port}"))
        .unwrap();
    ports_of_two_networks(stack, &handover, &before["mac"], &unmoved);
    handover.port("nic0", 7);
    requests_that_cannot_be(node, &handover, &configuration, &unmoved);
    neutron_is_away(stack, &handover, &configuration, &unmoved);
    a_name_that_the_pod_has(node, &handover, &configuration);
    a_port_that_changed(stack, node, &handover, &configuration);
    assert_eq!(lasting(node, "nic0"), before);
    node.ip(None, "link delete nic0");
    node.remove_pod("a");
}

type Unmoved<'u> = &'u dyn Fn(u64, &str, &crate::support::Ran);

fn ports_of_two_networks(
    stack: &OpenStack,
    handover: &Handover<'_>,
    mac: &Value,
    unmoved: Unmoved<'_>,
) {
    let other = stack.create_network("other").unwrap();
    stack
        .create_subnet(&other, "10.21.0.0/24", &json!({}))
        .unwrap();
    let ports = [&handover.network, &other].map(|network| {
        stack
            .create_port(network, &json!({"mac_address": mac}))
            .unwrap()
    });
    let run = |nic: Value| handover.run(&handover.configuration(&nic), "ADD", "a");
    let ambiguous = run(json!({"name": "nic0"}));
    unmoved(7, "several ports", &ambiguous);
    assert!(
        ports
            .iter()
            .all(|port| ambiguous.stdout.contains(port.as_str())),
        "{}",
        ambiguous.stdout
    );
    let elsewhere = stack.create_network("elsewhere").unwrap();
    unmoved(
        7,
        "none of the configured networks",
        &run(json!({"name": "nic0", "networks": [elsewhere]})),
    );
    let named = handover.configuration(&json!({"name": "nic0", "networks": [other]}));
    let result = handover.run(&named, "ADD", "a").expect(0).json();
    assert!(
        result["ips"][0]["address"]
            .as_str()
            .unwrap()
            .starts_with("10.21.0."),
        "{result}"
    );
    handover.run(&named, "DEL", "a").expect(0);
    ports.iter().for_each(|port| {
        drop(
            stack
                .as_member()
                .delete(&format!("/v2.0/ports/{port}"))
                .unwrap(),
        )
    });
}

fn requests_that_cannot_be(
    node: &Node,
    handover: &Handover<'_>,
    configuration: &Value,
    unmoved: Unmoved<'_>,
) {
    let at = |netns: &Path, interface: &str| {
        finish(handover.start_at(configuration, "ADD", "a", netns, interface))
    };
    for netns in ["/dev/null", "/etc/hostname", "/nothing", "/"] {
        unmoved(4, "CNI_NETNS", &at(Path::new(netns), "eth0"));
    }
    unmoved(4, "the node's own", &at(&node.own_netns(), "eth0"));
    unmoved(4, "`%`", &at(&node.netns("a"), "eth%d"));
    unmoved(4, "CNI_IFNAME", &at(&node.netns("a"), "../../eth0"));
    for (pointer, value) in [
        ("/nic", json!({"name": "nic0", "force": true})),
        ("/nic", json!({"any": {}})),
        ("/nic", json!({"any": {"names": [""]}})),
        ("/nic", json!({"pci": "../../0000:00:05.0"})),
        ("/nic", json!({"name": "x".repeat(100_000)})),
        ("/neutron/stateDirectory", json!("here")),
        ("/neutron/node", json!("../n1")),
        ("/runtimeConfig", json!({"deviceID": "nic0"})),
        ("/routes", json!([{"dst": "everywhere"}])),
        ("/dns", json!("192.0.2.53")),
    ] {
        let mut configuration = configuration.clone();
        configuration["runtimeConfig"] = json!({});
        configuration["routes"] = json!([]);
        configuration["dns"] = json!({});
        *configuration.pointer_mut(pointer).unwrap() = value;
        let ran = handover.run(&configuration, "ADD", "a");
        assert!(ran.stdout.len() < 2_000, "{}", ran.stdout);
        unmoved(7, "", &ran);
    }
    let missing = handover.configuration(&json!({"name": "nothing"}));
    unmoved(
        11,
        "this node has no such NIC `nothing` (`nic.name`)",
        &handover.run(&missing, "ADD", "a"),
    );
    unmoved(
        7,
        "loopback",
        &handover.run(&handover.configuration(&json!({"name": "lo"})), "ADD", "a"),
    );
}

fn neutron_is_away(
    stack: &OpenStack,
    handover: &Handover<'_>,
    configuration: &Value,
    unmoved: Unmoved<'_>,
) {
    stack.neutron().stop();
    let mut hasty = configuration.clone();
    hasty["neutron"]["deadlineSeconds"] = json!(10);
    unmoved(11, "does not answer", &handover.run(&hasty, "ADD", "a"));
    handover.run(&hasty, "STATUS", "a").expect(0);
    stack.neutron().start().unwrap();
    handover.run(configuration, "ADD", "a").expect(0);
    stack.neutron().stop();
    handover.run(&hasty, "DEL", "a").expect(0);
    stack.neutron().start().unwrap();
    unmoved(
        4,
        "CNI_NETNS",
        &finish(handover.start_at(configuration, "ADD", "a", Path::new(""), "eth0")),
    );
}

fn a_name_that_the_pod_has(node: &Node, handover: &Handover<'_>, configuration: &Value) {
    let before = lasting(node, "nic0");
    node.ip(Some("a"), "link add eth0 type veth peer name peer0");
    let (code, message) = fault(&handover.run(configuration, "ADD", "a"));
    assert!(code == 5 && message.contains("exists"), "{code} {message}");
    assert_eq!(
        (lasting(node, "nic0"), handover.records()),
        (before.clone(), 0)
    );
    node.ip(Some("a"), "link delete eth0");
    // A route that another link of the Pod has.
    node.ip(Some("a"), "link add other0 type veth peer name peer0");
    node.ip(Some("a"), "link set other0 up");
    node.ip(Some("a"), "address add 10.55.0.2/24 dev other0");
    node.ip(Some("a"), "route add default via 10.55.0.1");
    let (code, message) = fault(&handover.run(configuration, "ADD", "a"));
    assert!(
        code == 5 && message.contains("route of the Pod to 0.0.0.0/0"),
        "{code} {message}"
    );
    assert_eq!((lasting(node, "nic0"), handover.records()), (before, 0));
    node.ip(Some("a"), "link delete other0");
}

fn a_port_that_changed(
    stack: &OpenStack,
    node: &Node,
    handover: &Handover<'_>,
    configuration: &Value,
) {
    let result = handover.run(configuration, "ADD", "a").expect(0).json();
    let mac = told(node, Some("a"), "eth0")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let port = stack.ports(&format!("mac_address={mac}")).unwrap()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let fixed = json!({"port": {"fixed_ips": [{"ip_address": "10.20.0.9"}]}});
    stack
        .as_member()
        .put(&format!("/v2.0/ports/{port}"), &fixed)
        .unwrap();
    let mut checked = configuration.clone();
    checked["prevResult"] = result;
    let (code, message) = fault(&handover.run(&checked, "CHECK", "a"));
    assert!(
        code == 101 && message.contains("10.20.0.7"),
        "{code} {message}"
    );
    handover.run(configuration, "DEL", "a").expect(0);
    let (code, message) = fault(&handover.run(&checked, "CHECK", "a"));
    assert!(
        code == 101 && message.contains("has no NIC"),
        "{code} {message}"
    );
}
