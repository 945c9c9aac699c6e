//! Allowed addresses of VMs' ports at a real Neutron, planned and applied with everything else.

use serde_json::{Value, json};
use testbed::openstack::{DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER, Options};
use testbed::{Fault, OpenStack, or_skip};

use super::support::stack;
use crate::safety_arguments::running;
use crate::support::{Folder, KUBERNETES, Ran, TextAssertions, args, cluster, holds, node, pool};

const VM: &str = "11111111-9d65-4b7e-8d1e-6f0c1d5a9b11";
const FULL_VM: &str = "22222222-9d65-4b7e-8d1e-6f0c1d5a9b11";
const MOVED_VM: &str = "44444444-9d65-4b7e-8d1e-6f0c1d5a9b11";
const NEW_VM: &str = "33333333-9d65-4b7e-8d1e-6f0c1d5a9b11";
const POLICY: &str = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {neutron: {allowedAddressPairs: PodCIDRs}}\n";
const APPLY: [&str; 2] = ["apply", "--auto-approve"];

/// The address of the nodes that have several ports.
const ADDRESS: &str = "10.9.0.7";

/// A node that is a VM and holds a block.
fn vm(name: &str, id: &str, block: &str) -> String {
    let status = format!(
        r#""status":{{"addresses":[{{"type":"InternalIP","address":"{ADDRESS}"}}]}},"spec""#
    );
    let node = node(
        name,
        "a",
        &format!("\"providerID\":\"openstack:///{id}\",{}", holds(block)),
    );
    node.replacen("\"spec\"", &status, 1)
}

fn person(stack: &OpenStack, nodes: &[String], policy: &str) -> Folder {
    let files = [
        pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        policy.to_owned(),
    ];
    let folder = Folder::new(&[
        (
            "cluster.json",
            cluster("1.19.3", KUBERNETES, nodes).as_str(),
        ),
        ("pools/a.yaml", &files.join("---\n")),
    ]);
    let auth = json!({
        "auth_url": stack.keystone_url(), "username": MEMBER_USER, "password": MEMBER_PASSWORD,
        "project_name": MEMBER_PROJECT, "user_domain_id": DOMAIN, "project_domain_id": DOMAIN,
    });
    folder.write(
        "clouds.yaml",
        json!({"clouds": {"lab": {"auth": auth}}}).to_string(),
    );
    folder
}

fn run(folder: &Folder, verb: &[&str]) -> Ran {
    folder.run(&[verb, &["--cluster", "cluster.json"]].concat())
}

fn changes(folder: &Folder) -> Vec<Value> {
    let plan = run(folder, &["plan", "-o", "json", "--fail-on", "never"])
        .expect(0)
        .json();
    assert_eq!(plan["format_version"], "1.13");
    plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["kind"] == "Port")
        .cloned()
        .collect()
}

fn port(stack: &OpenStack, network: &str, owner: &str, vm: &str, more: &Value) -> String {
    let mut port = json!({"device_id": vm, "device_owner": owner});
    more.as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| port[key] = value.clone());
    stack.create_port(network, &port).unwrap()
}

/// The ranges that a port lets out.
fn pairs(stack: &OpenStack, port: &str) -> Vec<String> {
    let port = stack
        .as_member()
        .get(&format!("/v2.0/ports/{port}"))
        .unwrap();
    let pairs = port["port"]["allowed_address_pairs"].as_array().unwrap();
    let mut ranges: Vec<String> = pairs
        .iter()
        .map(|pair| pair["ip_address"].as_str().unwrap().to_owned())
        .collect();
    ranges.sort();
    ranges
}

/// Another client allows these as well.
fn let_out(stack: &OpenStack, port: &str, ranges: &[String]) {
    let path = format!("/v2.0/ports/{port}");
    let mut pairs = stack.as_member().get(&path).unwrap()["port"]["allowed_address_pairs"].take();
    let list = pairs.as_array_mut().unwrap();
    list.extend(ranges.iter().map(|range| json!({"ip_address": range})));
    stack
        .as_member()
        .put(&path, &json!({"port": {"allowed_address_pairs": pairs}}))
        .unwrap();
}

#[test]
fn ports_of_vms_let_the_pod_cidrs_of_their_nodes_out() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("vms").unwrap();
    stack
        .create_subnet(&network, "10.9.0.0/24", &json!({}))
        .unwrap();
    let foreign_mac = json!({"ip_address": "10.20.8.0/24", "mac_address": "fa:16:3e:00:00:01"});
    let before = json!({"fixed_ips": [{"ip_address": ADDRESS}], "allowed_address_pairs": [
        {"ip_address": "203.0.113.9"}, {"ip_address": "10.20.9.0/24"}, {"ip_address": "10.21.0.0/16"}, foreign_mac,
    ]});
    let vms = port(&stack, &network, "compute:nova", VM, &before);
    let others = port(&stack, &network, "baremetal:rack", VM, &json!({}));
    let open = json!({"port_security_enabled": false, "security_groups": []});
    let open = port(&stack, &network, "compute:nova", VM, &open);
    nobody_who_did_not_ask_is_helped(&stack, &vms);
    planned_and_applied(&stack, &vms);
    somebody_else_writes_meanwhile(&stack, &vms);
    a_node_that_joins(&stack, &network);
    a_pair_follows_the_block_that_was_taken_back(&stack, &network);
    a_port_that_is_full(&stack, &network);
    assert_eq!(
        (pairs(&stack, &others).len(), pairs(&stack, &open).len()),
        (0, 0),
        "neither is a VM's guarded port"
    );
    a_port_that_goes_meanwhile(&stack, &vms);
}

fn nobody_who_did_not_ask_is_helped(stack: &OpenStack, port: &str) {
    let folder = person(stack, &[vm("n1", VM, "10.20.0.0/24")], "");
    assert!(changes(&folder).is_empty());
    run(&folder, &APPLY).expect(0);
    assert_eq!(pairs(stack, port).len(), 4);
}

fn planned_and_applied(stack: &OpenStack, port: &str) {
    let folder = person(stack, &[vm("n1", VM, "10.20.0.0/24")], POLICY);
    let planned = changes(&folder);
    assert_eq!(planned.len(), 1, "{planned:#?}");
    assert_eq!(
        (planned[0]["name"].as_str().unwrap(), &planned[0]["hazard"]),
        (port, &json!("disruptive"))
    );
    assert_eq!(
        (&planned[0]["after"], &planned[0]["before"]),
        (&json!(["10.20.0.0/24"]), &json!(["10.20.9.0/24"]))
    );
    let drift = &run(&folder, &["plan", "-o", "json"]).expect(0).json()["drift"][0];
    assert_eq!(
        (drift["kind"].as_str(), drift["name"].as_str()),
        (Some("Port"), Some(port))
    );
    assert_eq!(
        (&drift["expected"], &drift["seen"]),
        (&json!("10.20.0.0/24"), &json!("10.20.9.0/24"))
    );
    let shown = run(&folder, &["plan"]).expect(0).stdout;
    shown.assert_has(&format!(
        "Port/{port}  allowed_address_pairs for node n1 shows 10.20.9.0/24"
    ));
    shown.assert_has("missing: 10.20.0.0/24; stale: 10.20.9.0/24");
    shown.assert_has("1 port to change");
    let was = pairs(stack, port);
    let limited = ["--auto-approve", "--limit", "disruptive-count=0"];
    run(&folder, &[&["apply"], &limited[..]].concat()).expect(5);
    assert_eq!(pairs(stack, port), was, "a limit counts it");
    run(&folder, &["plan", "--out", "plan.json"]).expect(0);
    let applied = run(&folder, &["apply", "--auto-approve"]).expect(0);
    assert!(
        applied
            .stdout
            .contains("1 change of pools, Services or address pairs follows the files"),
        "{}",
        applied.stdout
    );
    assert_eq!(
        pairs(stack, port),
        [
            "10.20.0.0/24",
            "10.20.8.0/24",
            "10.21.0.0/16",
            "203.0.113.9"
        ]
    );
    assert!(changes(&folder).is_empty(), "nothing is left to do");
    stack.neutron().stop();
    let saved = ["apply", "plan.json", "--trust-plan-file"];
    let stale = run(&folder, &saved).expect(4).stderr;
    assert!(
        stale.contains("its state is unknown"),
        "an invisible port does not count as gone: {stale}"
    );
    stack.neutron().start().unwrap();
}

/// An undo takes the block from the node, and the next plan the pair from the port.
fn a_pair_follows_the_block_that_was_taken_back(stack: &OpenStack, network: &str) {
    let of_vm = port(stack, network, "compute:nova", MOVED_VM, &json!({}));
    let id = format!("\"providerID\":\"openstack:///{MOVED_VM}\",\"podCIDR\"");
    let items: Vec<String> = running(&[("n1", "a")])
        .iter()
        .map(|item| item.replacen("\"podCIDR\"", &id, 1))
        .collect();
    let settings = r#""ipam":"kubernetes","enable-ipv6":"true","annotate-k8s-node":"true""#;
    let folder = person(stack, &[], POLICY);
    folder.write("cluster.json", cluster("1.19.3", settings, &items));
    let both = "{cidrs: [10.20.0.0/16, \"fd00:20::/48\"], blockSize: {ipv4: 24, ipv6: 64}}";
    folder.write(
        "pools/a.yaml",
        [pool("rack", both), POLICY.to_owned()].join("---\n"),
    );
    let undo = args("apply --auto-approve --waive disruptive-percent --undo-out undo.json");
    run(&folder, &undo).expect(0);
    assert_eq!(pairs(stack, &of_vm), ["10.20.0.0/24", "fd00:20::/64"]);
    let saved: Value = serde_json::from_str(&folder.read("undo.json")).unwrap();
    let kinds = saved["changes"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|change| &change["kind"]).collect();
    assert_eq!(kinds, ["Node"]);
    run(&folder, &["apply", "undo.json", "--auto-approve"]).expect(0);
    assert_eq!(pairs(stack, &of_vm), ["10.20.0.0/24", "fd00:20::/64"]);
    // A range that no pool has any more would count as foreign.
    let reverted = [
        pool("rack", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pool(
            "old",
            "{cidrs: [\"fd00:20::/48\"], blockSize: {ipv6: 64}, disabled: true}",
        ),
        POLICY.to_owned(),
    ];
    folder.write("pools/a.yaml", reverted.join("---\n"));
    run(&folder, &undo).expect(0);
    assert_eq!(pairs(stack, &of_vm), ["10.20.0.0/24"]);
}

fn somebody_else_writes_meanwhile(stack: &OpenStack, port: &str) {
    let folder = person(stack, &[vm("n1", VM, "10.20.0.0/24")], POLICY);
    let_out(stack, port, &["10.20.9.0/24".to_owned()]);
    run(&folder, &["plan", "--out", "plan.json"]).expect(0);
    let_out(stack, port, &["198.51.100.7".to_owned()]);
    let changed = Fault::Answer {
        status: 412,
        body: String::new(),
    };
    stack.neutron().faults().clear();
    stack
        .neutron()
        .faults()
        .next(1, "PUT", "/v2.0/ports", changed);
    run(&folder, &["apply", "plan.json", "--trust-plan-file"]).expect(0);
    assert_eq!(
        stack.neutron().faults().count("PUT", "/v2.0/ports"),
        2,
        "one that lost a race is planned again"
    );
    let now = pairs(stack, port);
    assert!(
        now.contains(&"198.51.100.7".to_owned()) && now.contains(&"10.20.0.0/24".to_owned()),
        "{now:?}"
    );
}

/// Its block and its pair come with one apply.
fn a_node_that_joins(stack: &OpenStack, network: &str) {
    let of_vm = port(stack, network, "compute:nova", NEW_VM, &json!({}));
    let joins = node(
        "n9",
        "a",
        &format!("\"providerID\":\"openstack:///{NEW_VM}\""),
    );
    let folder = person(stack, &[joins], POLICY);
    let told = run(&folder, &APPLY).expect(0).all();
    assert_eq!(pairs(stack, &of_vm), ["10.20.0.0/24"], "{told}");
    told.assert_has("+10.20.0.0/24");
    assert!(changes(&folder).is_empty());
}

fn a_port_that_is_full(stack: &OpenStack, network: &str) {
    let theirs: Vec<String> = (0..10)
        .map(|number| format!("203.0.113.{number}"))
        .collect();
    let full = port(stack, network, "compute:nova", FULL_VM, &json!({}));
    let_out(stack, &full, &theirs);
    let folder = person(stack, &[vm("n2", FULL_VM, "10.20.2.0/24")], POLICY);
    let told = run(&folder, &APPLY).expect(1).all();
    told.assert_has("max_allowed_address_pair");
    assert_eq!(pairs(stack, &full).len(), 10);
}

fn a_port_that_goes_meanwhile(stack: &OpenStack, port: &str) {
    let folder = person(stack, &[vm("n1", VM, "10.20.3.0/24")], POLICY);
    run(&folder, &["plan", "--out", "plan.json"]).expect(0);
    // Members may not delete a port that a VM seems to have (Neutron 29).
    stack
        .as_admin()
        .delete(&format!("/v2.0/ports/{port}"))
        .unwrap();
    let stale = run(&folder, &["apply", "plan.json", "--trust-plan-file"])
        .expect(4)
        .stderr;
    stale.assert_has("but it is gone");
    stack.neutron().stop();
    let told = run(&folder, &["plan"]).expect(2).all();
    told.assert_has("address-pairs-unread");
    stack.neutron().start().unwrap();
}
