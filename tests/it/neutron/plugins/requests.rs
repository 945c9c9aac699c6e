//! Requests of runtimes and people, and the addresses that they get.

use serde_json::{Value, json};
use testbed::openstack::{ADMIN_PASSWORD, ADMIN_PROJECT, ADMIN_USER, Options};
use testbed::{OpenStack, or_skip};

use crate::neutron::support::{Plugin, addresses, fault, finish, ports, stack, start, variables};

#[test]
fn what_is_asked_for_is_given() {
    let stack = or_skip!(stack(&Options::default()));
    the_commands_that_users_know(&stack);
    one_port_and_few_requests(&stack);
    both_families_and_what_the_subnet_says(&stack);
    addresses_that_are_asked_for(&stack);
    later_networks_when_one_is_full(&stack);
    checked_against_what_is_there(&stack);
    garbage_of_this_node_alone(&stack);
    a_del_deletes_only_its_own_port(&stack);
    a_node_keeps_its_name(&stack);
    a_network_of_another_project(&stack);
}

/// The words of the plugin of 2020, with a user, a network and a URL of this Neutron.
fn the_commands_that_users_know(stack: &OpenStack) {
    let network = stack.create_network("old").unwrap();
    let pools = json!({"gateway_ip": "203.0.113.1", "allocation_pools": [{"start": "203.0.113.2", "end": "203.0.113.2"}]});
    stack
        .create_subnet(&network, "203.0.113.0/24", &pools)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let url = stack.keystone_url();
    let input = format!(
        r#"{{"cniVersion":"0.3.1","name":"examplenet","ipam":{{"name":"myipam","type":"ipam-neutron","stateDirectory":{state:?},"openstackConf":{{"username":"{ADMIN_USER}","password":"{ADMIN_PASSWORD}","project":"{ADMIN_PROJECT}","domain":"default","authUrl":"{url}"}},"neutronConf":{{"networks":["{network}"]}}}}}}"#
    );
    let run = |command: &str| {
        let mut variables = variables(command, "example");
        variables[3].1 = "dummy0";
        finish(start(&input, &variables)).expect(0).stdout
    };
    let given = r#"{"cniVersion":"0.3.1","ips":[{"version":"4","address":"203.0.113.2/24","gateway":"203.0.113.1"}],"dns":{}}"#;
    assert_eq!(run("ADD"), given);
    assert_eq!(run("ADD"), given, "asked again it is the same");
    let all = || {
        stack
            .as_admin()
            .get(&format!("/v2.0/ports?network_id={network}"))
            .unwrap()["ports"]
            .clone()
    };
    assert_eq!(all().as_array().unwrap().len(), 1);
    assert_eq!(run("DEL"), "");
    assert_eq!(all(), json!([]));
    assert_eq!(run("DEL"), "");
}

fn one_port_and_few_requests(stack: &OpenStack) {
    let network = stack.create_network("few").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(stack, &network, "n1");
    let (neutron, keystone) = (stack.neutron().faults(), stack.keystone().faults());
    [neutron, keystone]
        .into_iter()
        .for_each(testbed::Faults::clear);
    let children: Vec<_> = (0..6)
        .map(|container| plugin.start("ADD", &format!("c{container}")))
        .collect();
    for child in children {
        finish(child).expect(0);
    }
    assert_eq!(
        keystone.count("POST", "/v3/auth/tokens"),
        1,
        "of several at once one logs in"
    );
    assert_eq!(neutron.count("POST", "/v2.0/ports"), 6);
    neutron.clear();
    let given = plugin.add("c7");
    assert_eq!(
        neutron.requests().len(),
        1,
        "the subnet is known: {:?}",
        neutron.requests()
    );
    assert_eq!(plugin.add("c7"), given);
    assert_eq!(ports(stack, &network).len(), 7);
    neutron.clear();
    plugin.run("STATUS", "").expect(0);
    assert_eq!(
        (neutron.requests().len(), keystone.count("*", "/")),
        (0, 1),
        "STATUS asks nobody"
    );
    for container in 0..8 {
        plugin.del(&format!("c{container}"));
    }
    assert_eq!(ports(stack, &network), [""; 0]);
}

fn both_families_and_what_the_subnet_says(stack: &OpenStack) {
    let network = stack.create_network("both").unwrap();
    let more = json!({"dns_nameservers": ["10.2.0.53"], "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.2.0.9"}]});
    let v4 = stack.create_subnet(&network, "10.2.0.0/24", &more).unwrap();
    stack
        .create_subnet(&network, "fd00:2::/64", &json!({"gateway_ip": "fd00:2::1"}))
        .unwrap();
    let plugin = Plugin::new(stack, &network, "n1").with("routes", json!([{"dst": "0.0.0.0/0"}]));
    let result = plugin.run("ADD", "a").expect(0).json();
    assert_eq!(
        plugin.run("ADD", "a").expect(0).json(),
        result,
        "in the same order"
    );
    assert!(
        result["ips"][0]["address"]
            .as_str()
            .unwrap()
            .starts_with("10.2.0."),
        "{result}"
    );
    let given = addresses(&result);
    assert!(
        given[0].ends_with("/24") && given[1].starts_with("fd00:2::") && given[1].ends_with("/64"),
        "{given:?}"
    );
    let gateway =
        |result: &Value, index: usize| result["ips"][index]["gateway"].as_str().unwrap().to_owned();
    let mut gateways = [gateway(&result, 0), gateway(&result, 1)];
    gateways.sort();
    assert_eq!(gateways, ["10.2.0.1", "fd00:2::1"]);
    assert_eq!(
        result["routes"],
        json!([{"dst": "0.0.0.0/0"}, {"dst": "10.9.0.0/16", "gw": "10.2.0.9"}])
    );
    assert_eq!(result["dns"], json!({"nameservers": ["10.2.0.53"]}));
    plugin.del("a");

    let resolv = plugin.folder().join("resolv.conf");
    std::fs::write(&resolv, "nameserver 10.2.0.54\nsearch pods.example\n").unwrap();
    let plugin = plugin
        .with("subnets", json!([v4]))
        .with("gateways", json!(["169.254.1.1"]));
    let plugin = plugin
        .with("resolvConf", json!(resolv))
        .with("mtu", json!("network"));
    let result = plugin.run("ADD", "b").expect(0).json();
    assert_eq!(
        (addresses(&result).len(), gateway(&result, 0).as_str()),
        (1, "169.254.1.1")
    );
    assert_eq!(
        result["dns"],
        json!({"nameservers": ["10.2.0.54"], "search": ["pods.example"]})
    );
    let network_mtu = stack
        .as_member()
        .get(&format!("/v2.0/networks/{network}"))
        .unwrap()["network"]["mtu"]
        .clone();
    assert_eq!(
        result["routes"][0]["dst"], "169.254.1.1/32",
        "the gateway is of no subnet"
    );
    assert_eq!(
        result["routes"][1],
        json!({"dst": "0.0.0.0/0", "mtu": network_mtu})
    );
    plugin.del("b");
    assert_eq!(ports(stack, &network), [""; 0]);
}

fn addresses_that_are_asked_for(stack: &OpenStack) {
    let network = stack.create_network("asked").unwrap();
    let first = stack
        .create_subnet(&network, "10.3.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(stack, &network, "n1");
    let with_arguments = |container: &str, arguments: &str| {
        let mut variables = variables("ADD", container).to_vec();
        variables.push(("CNI_ARGS", arguments));
        finish(start(&plugin.configuration.to_string(), &variables))
    };
    let asked = with_arguments("a", "IgnoreUnknown=1;K8S_POD_NAME=web-0;IP=10.3.0.77")
        .expect(0)
        .json();
    assert_eq!(addresses(&asked), ["10.3.0.77/24"]);
    let (code, message) = fault(&with_arguments("b", "IP=10.3.0.77"));
    assert_eq!(code, 11, "{message}");
    let (code, message) = fault(&with_arguments("b", "IP=10.4.0.77"));
    assert_eq!(code, 7, "{message}");
    let capability = json!({"runtimeConfig": {"ips": ["10.3.0.78/24"]}});
    assert_eq!(
        addresses(&plugin.run_with("ADD", "c", &capability).expect(0).json()),
        ["10.3.0.78/24"]
    );
    let other = stack
        .create_subnet(&network, "10.3.1.0/24", &json!({}))
        .unwrap();
    let six = stack
        .create_subnet(&network, "fd00:3::/64", &json!({}))
        .unwrap();
    let subnets = json!([first, six]);
    let plugin = Plugin::new(stack, &network, "n1").with("subnets", subnets);
    let capability = json!({"runtimeConfig": {"ips": ["10.3.1.78"]}});
    let (code, message) = fault(&plugin.run_with("ADD", "d", &capability));
    assert!(
        code == 7 && message.contains("10.3.1.78"),
        "it is of {other}, which is not allowed: {code} {message}"
    );
    let capability = json!({"runtimeConfig": {"ips": ["10.3.0.80"]}});
    let given = plugin.run_with("ADD", "d", &capability).expect(0).json();
    assert_eq!(given["ips"][0]["address"], "10.3.0.80/24");
    assert!(
        addresses(&given)[1].starts_with("fd00:3::"),
        "of the other family any: {given}"
    );
    plugin.del("d");
    let (code, _) = fault(&with_arguments("c", "IP=10.3.0.79"));
    assert_eq!(code, 11, "its port has another one already");
    assert_eq!(ports(stack, &network), ["a/eth0", "c/eth0"]);
}

fn later_networks_when_one_is_full(stack: &OpenStack) {
    let [small, large] = ["small", "large"].map(|name| stack.create_network(name).unwrap());
    let one = json!({"allocation_pools": [{"start": "10.5.0.2", "end": "10.5.0.2"}]});
    stack.create_subnet(&small, "10.5.0.0/24", &one).unwrap();
    stack
        .create_subnet(&large, "10.6.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(stack, &small, "n1").with("neutronConf", Value::Null);
    let plugin = plugin.with("networks", json!([small, large]));
    assert_eq!(plugin.add("a"), ["10.5.0.2/24"]);
    let second = plugin.add("b");
    assert!(second[0].starts_with("10.6.0."), "{second:?}");
    plugin.del("a");
    assert_eq!(plugin.add("b"), second, "it stays where it is");
    assert_eq!(
        (ports(stack, &small).len(), ports(stack, &large).len()),
        (0, 1)
    );
}

fn checked_against_what_is_there(stack: &OpenStack) {
    let network = stack.create_network("checked").unwrap();
    stack
        .create_subnet(&network, "10.7.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(stack, &network, "n1");
    let given = plugin.run("ADD", "a").expect(0).json();
    assert_eq!(
        plugin
            .run_with("CHECK", "a", &json!({"prevResult": given}))
            .expect(0)
            .stdout,
        ""
    );
    let mut more = given.clone();
    more["ips"]
        .as_array_mut()
        .unwrap()
        .push(json!({"address": "192.0.2.7/24"}));
    plugin
        .run_with("CHECK", "a", &json!({"prevResult": more}))
        .expect(0);
    let other = json!({"prevResult": {"ips": [{"address": "10.7.0.250/24"}]}});
    let (code, message) = fault(&plugin.run_with("CHECK", "a", &other));
    assert!(
        code == 101 && message.contains("10.7.0.250"),
        "{code} {message}"
    );
    let id = stack.ports(&format!("network_id={network}")).unwrap()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    stack
        .as_member()
        .delete(&format!("/v2.0/ports/{id}"))
        .unwrap();
    let (code, message) = fault(&plugin.run_with("CHECK", "a", &json!({"prevResult": given})));
    assert!(code == 101 && message.contains("gone"), "{code} {message}");
    plugin.del("a");
    let plugin = plugin.version("0.3.1");
    assert_eq!(plugin.refused("CHECK", "a").0, 1, "CHECK came with 0.4.0");
    assert_eq!(plugin.refused("GC", "").0, 1);
    assert_eq!(plugin.refused("STATUS", "").0, 1);
    let known = plugin.run("VERSION", "").expect(0).json();
    assert_eq!(
        known,
        json!({"cniVersion": "0.3.1", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]})
    );
}

fn garbage_of_this_node_alone(stack: &OpenStack) {
    let network = stack.create_network("garbage").unwrap();
    stack
        .create_subnet(&network, "10.8.0.0/24", &json!({}))
        .unwrap();
    let one = Plugin::new(stack, &network, "n1").with("cluster", json!("blue"));
    let other = Plugin::new(stack, &network, "n1").with("cluster", json!("green"));
    ["a", "b", "c"]
        .into_iter()
        .for_each(|container| drop(one.add(container)));
    other.add("d");
    stack
        .create_port(
            &network,
            &json!({"name": "blue/n1/examplenet", "device_id": "router"}),
        )
        .unwrap();
    let with_router = ["a/eth0", "b/eth0", "c/eth0", "d/eth0", "router"];
    one.run("GC", "").expect(0);
    assert_eq!(
        ports(stack, &network),
        with_router,
        "a runtime that lists nothing says nothing"
    );
    let valid = json!({"cni.dev/valid-attachments": [{"containerID": "b", "ifname": "eth0"}, {"containerID": "z", "ifname": "eth0"}]});
    one.run_with("GC", "", &valid).expect(0);
    assert_eq!(ports(stack, &network), ["b/eth0", "d/eth0", "router"]);
    let torn = json!({"cni.dev/valid-attachments": [{"containerID": "b"}]});
    assert_eq!(fault(&one.run_with("GC", "", &torn)).0, 7);
    one.run_with("GC", "", &json!({"cni.dev/valid-attachments": null}))
        .expect(0);
    assert_eq!(
        ports(stack, &network),
        ["d/eth0", "router"],
        "null is an empty list"
    );
}

/// Runtimes send a DEL until it succeeds, and once more if they are not sure.
fn a_del_deletes_only_its_own_port(stack: &OpenStack) {
    let network = stack.create_network("apart").unwrap();
    stack
        .create_subnet(&network, "10.12.0.0/24", &json!({}))
        .unwrap();
    let foreign = json!({"name": "c", "device_id": "a-server"});
    stack.create_port(&network, &foreign).unwrap();
    let plugin = Plugin::new(stack, &network, "n1");
    let run = |command: &str, interface: &str| {
        let mut variables = variables(command, "c");
        variables[3].1 = interface;
        finish(start(&plugin.configuration.to_string(), &variables)).expect(0);
    };
    run("ADD", "eth0");
    run("ADD", "net1");
    assert_eq!(ports(stack, &network), ["a-server", "c/eth0", "c/net1"]);
    run("DEL", "net1");
    run("DEL", "net1");
    assert_eq!(ports(stack, &network), ["a-server", "c/eth0"]);
    run("DEL", "eth0");
    assert_eq!(
        ports(stack, &network),
        ["a-server"],
        "its name is that of the container"
    );
}

fn a_node_keeps_its_name(stack: &OpenStack) {
    let network = stack.create_network("named").unwrap();
    stack
        .create_subnet(&network, "10.11.0.0/24", &json!({}))
        .unwrap();
    let plugin = Plugin::new(stack, &network, "n1");
    plugin.add("a");
    let plugin = plugin.with("node", json!("n2"));
    let (code, message) = plugin.refused("ADD", "b");
    assert!(
        code == 7 && message.contains("n1") && message.contains("n2"),
        "{code} {message}"
    );
    plugin.del("a");
    assert_eq!(
        ports(stack, &network),
        [""; 0],
        "what it had is found all the same"
    );
}

/// In this network, a member may choose neither MAC addresses nor IP addresses.
fn a_network_of_another_project(stack: &OpenStack) {
    let body = json!({"network": {"name": "shared", "shared": true}});
    let network = stack.as_admin().post("/v2.0/networks", &body).unwrap()["network"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let subnet =
        json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.10.0.0/24"}});
    stack.as_admin().post("/v2.0/subnets", &subnet).unwrap();
    let plugin = Plugin::new(stack, &network, "n1");
    let given = plugin.add("a");
    assert_eq!(plugin.add("a"), given);
    let asked = json!({"runtimeConfig": {"ips": ["10.10.0.77"]}});
    let (code, message) = fault(&plugin.run_with("ADD", "b", &asked));
    assert!(code == 100 && message.contains("role"), "{code} {message}");
    assert_eq!(ports(stack, &network), ["a/eth0"]);
    plugin.del("a");
    assert_eq!(ports(stack, &network), [""; 0]);
}
