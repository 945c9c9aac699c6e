//! Neutron's lists and objects: pages, and security groups.

use serde_json::json;
use testbed::openstack::Options;
use testbed::or_skip;

use super::support::{Plugin, ports, stack};

#[test]
fn lists_are_read_to_their_end_and_ports_have_the_security_groups_that_are_named() {
    let stack = or_skip!(stack(&Options {
        largest_page: Some(2),
        ..Options::default()
    }));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let group = json!({"security_group": {"name": "pods"}});
    let group = stack
        .as_member()
        .post("/v2.0/security-groups", &group)
        .unwrap();
    let group = group["security_group"]["id"].clone();
    let plugin = Plugin::new(&stack, &network, "n1").with("securityGroups", json!([group]));
    for container in ["a", "b", "c", "d", "e"] {
        plugin.add(container);
    }
    let of_project = stack
        .as_admin()
        .get(&format!(
            "/v2.0/ports?network_id={network}&fields=security_groups"
        ))
        .unwrap();
    let first = of_project["ports"].as_array().unwrap();
    assert_eq!(first.len(), 2, "so long is a page");
    assert!(
        first
            .iter()
            .all(|port| port["security_groups"] == json!([group])),
        "{first:?}"
    );
    stack.neutron().faults().clear();
    let valid = json!({"cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth0"}]});
    plugin.run_with("GC", "", &valid).expect(0);
    assert!(
        stack.neutron().faults().count("GET", "/v2.0/ports") >= 3,
        "page by page"
    );
    assert_eq!(
        ports(&stack, &network).len(),
        1,
        "those of later pages, too"
    );
    plugin.run_with("CHECK", "c", &json!({})).expect(0);
    plugin.del("c");
    let unknown = plugin.with(
        "securityGroups",
        json!(["782ec9ac-44f9-4318-8c67-a2fed2ccca4f"]),
    );
    let (code, message) = unknown.refused("ADD", "a");
    assert!(
        code == 7 && message.contains("782ec9ac"),
        "{code} {message}"
    );
    assert_eq!(ports(&stack, &network), [""; 0]);
}
