//! `allowed_address_pairs` of a VM's port, with several writers at the same time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use testbed::openstack::Options;
use testbed::{Fault, OpenStack, or_skip};

use super::daemon::{Daemon, DaemonSet, in_pool};
use super::support::{Plugin, stack};
use crate::chart::Installed;
use crate::operator::GROUP;
use crate::server::kubernetes;

/// Daemons that write, and the addresses that each allows.
const WRITERS: usize = 6;
const ADDRESSES: usize = 4;
/// How often another writer replaces all pairs. Without a bound, no writer would finish on a busy
/// machine.
const OVERWRITES: usize = 10;

#[test]
fn nobody_loses_a_pair() {
    let stack = or_skip!(stack(&Options {
        max_allowed_address_pair: 40,
        ..Options::default()
    }));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    six_writers_and_one_who_overwrites(&stack, &network);
    a_pool_without_room(&stack, &network);
    a_no_of_another_kind(&stack, &network);
    what_comes_and_goes(&stack, &network);
    ranges_instead_of_addresses(&stack, &network);
}

/// As Nova makes it.
fn port_of_vm(stack: &OpenStack, network: &str) -> String {
    stack
        .create_port(
            network,
            &json!({"device_id": "vm-1", "device_owner": "compute:nova", "name": "vm"}),
        )
        .unwrap()
}

/// Allows the addresses of its ports on this port.
fn plugin(stack: &OpenStack, network: &str, node: &str, port: &str) -> Plugin {
    Plugin::new(stack, network, node).with("allowedAddressPairs", json!({"port": port}))
}

fn pairs(stack: &OpenStack, port: &str) -> BTreeSet<String> {
    let read = stack
        .as_member()
        .get(&format!("/v2.0/ports/{port}"))
        .unwrap();
    let pairs = read["port"]["allowed_address_pairs"]
        .as_array()
        .unwrap()
        .clone();
    pairs
        .iter()
        .map(|pair| pair["ip_address"].as_str().unwrap().to_owned())
        .collect()
}

/// As a client that names no revision.
fn overwrite(stack: &OpenStack, port: &str, addresses: &[&str]) {
    let pairs: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"ip_address": address}))
        .collect();
    stack
        .as_member()
        .put(
            &format!("/v2.0/ports/{port}"),
            &json!({"port": {"allowed_address_pairs": pairs}}),
        )
        .unwrap();
}

/// Sets a flag when it goes out of scope.
struct EndOnDrop<'f>(&'f AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Six daemons, each with addresses of its own, and another client that replaces the list each time
/// something is in it.
fn six_writers_and_one_who_overwrites(stack: &OpenStack, network: &str) {
    let vm = port_of_vm(stack, network);
    let plugin = |number| plugin(stack, network, &format!("n{number}"), &vm);
    let plugins: Vec<Plugin> = (0..WRITERS)
        .map(|number| plugin(number).with("warmPool", json!({"free": ADDRESSES})))
        .collect();
    let sets: Vec<DaemonSet> = plugins
        .iter()
        .map(|plugin| DaemonSet::new(&[plugin]))
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A failed assertion ends the other thread too, or the scope would wait for it for ever.
        let end = EndOnDrop(&is_over);
        let overwriting = scope.spawn(|| {
            let mut overwritten = 0;
            while overwritten < OVERWRITES && !is_over.load(Ordering::Relaxed) {
                if pairs(stack, &vm).len() > 1 {
                    overwrite(stack, &vm, &["192.0.2.1"]);
                    overwritten += 1;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            overwritten
        });
        let daemons: Vec<Daemon<'_>> = sets.iter().map(DaemonSet::start).collect();
        for (daemon, plugin) in daemons.iter().zip(&plugins) {
            daemon.wait_until("its pool to be full", || {
                in_pool(plugin, "free") == ADDRESSES
            });
        }
        drop(end);
        assert!(
            overwriting.join().unwrap() > 0,
            "nothing was ever in the way"
        );
        daemons[0].wait_until("all pairs to be there", || {
            pairs(stack, &vm).len() == WRITERS * ADDRESSES + 1
        });
        drop(daemons);
    });
    let listed = stack
        .ports(&format!(
            "network_id={network}&device_owner=cilium-ipam:pool"
        ))
        .unwrap();
    let mut wanted: BTreeSet<String> = listed
        .iter()
        .map(|port| {
            port["fixed_ips"][0]["ip_address"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(wanted.len(), WRITERS * ADDRESSES);
    wanted.insert("192.0.2.1".to_owned());
    assert_eq!(pairs(stack, &vm), wanted);
    for port in listed {
        stack
            .as_member()
            .delete(&format!("/v2.0/ports/{}", port["id"].as_str().unwrap()))
            .unwrap();
    }
    stack
        .as_admin()
        .delete(&format!("/v2.0/ports/{vm}"))
        .unwrap();
}

/// Pairs of Pods with their own ports, pairs of others, and more pairs than Neutron allows.
fn what_comes_and_goes(stack: &OpenStack, network: &str) {
    let vm = port_of_vm(stack, network);
    overwrite(stack, &vm, &["10.1.0.200", "192.0.2.0/24"]);
    let plugin = plugin(stack, network, "n1", &vm);
    let set = DaemonSet::new(&[&plugin]);
    let daemon = set.start();
    let bare = |address: &str| address.split('/').next().unwrap().to_owned();
    let [a, b] = ["a", "b"].map(|pod| bare(&plugin.add(pod)[0]));
    let theirs = ["10.1.0.200", "192.0.2.0/24"].map(str::to_owned);
    let with = |ours: &[&String]| -> BTreeSet<String> {
        theirs.iter().chain(ours.iter().copied()).cloned().collect()
    };
    daemon.wait_until("both to be let out", || {
        pairs(stack, &vm) == with(&[&a, &b])
    });
    plugin.del("a");
    daemon.wait_until("only one to be let out", || {
        pairs(stack, &vm) == with(&[&b])
    });
    let many: Vec<String> = (1..=38).map(|last| format!("198.51.100.{last}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    overwrite(stack, &vm, &many);
    let [c, d] = ["c", "d"].map(|pod| bare(&plugin.add(pod)[0]));
    daemon.wait_until("as many as may be", || {
        pairs(stack, &vm).len() == 40 && set.log().contains("max_allowed_address_pair")
    });
    overwrite(stack, &vm, &[]);
    daemon.wait_until("all to be let out", || {
        pairs(stack, &vm) == [&b, &c, &d].map(String::clone).into()
    });
    ["b", "c", "d"].into_iter().for_each(|pod| plugin.del(pod));
    daemon.wait_until("none to be let out", || pairs(stack, &vm).is_empty());
    let off = json!({"port": {"port_security_enabled": false, "security_groups": []}});
    stack
        .as_member()
        .put(&format!("/v2.0/ports/{vm}"), &off)
        .unwrap();
    plugin.add("e");
    drop(daemon);
    assert_eq!(
        set.once(),
        0,
        "nothing keeps packets from leaving: {}",
        set.log()
    );
    plugin.del("e");
    stack
        .as_admin()
        .delete(&format!("/v2.0/ports/{vm}"))
        .unwrap();
}

/// A pool without room makes no useless ports, and an error stays reported until the next look.
fn a_pool_without_room(stack: &OpenStack, network: &str) {
    let vm = port_of_vm(stack, network);
    let many: Vec<String> = (1..=40).map(|last| format!("198.51.100.{last}")).collect();
    overwrite(
        stack,
        &vm,
        &many.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let plugin = plugin(stack, network, "n1", &vm).with("warmPool", json!({"free": 2}));
    let set = DaemonSet::new(&[&plugin]);
    let daemon = set.start();
    daemon.wait_until("it to be told", || {
        set.log().contains("the warm pool gets no further ports")
    });
    stack.neutron().faults().clear();
    let looks = || {
        stack
            .neutron()
            .faults()
            .count("GET", &format!("/v2.0/ports/{vm}"))
    };
    daemon.wait_until("further looks", || looks() >= 4);
    assert_eq!(
        stack.neutron().faults().count("POST", "/v2.0/ports"),
        0,
        "{}",
        set.log()
    );
    drop(daemon);
    let making = plugin.state().join("pool/examplenet/making");
    assert_eq!(
        std::fs::read_dir(making).unwrap().count(),
        0,
        "nothing is left of what was tried"
    );
    let slow = set.start_with(&["--look", "3600"]);
    slow.wait_until("it to be told again", || {
        set.log().matches("max_allowed_address_pair").count() >= 3
    });
    let marker = set.log().len();
    // It goes round each second; the other network is read anew each time.
    set.add_network("broken.conf", "{");
    slow.wait_until("a further round", || {
        set.log()[marker..].contains("invalid JSON")
    });
    assert!(
        !set.log()[marker..].contains("recovered"),
        "{}",
        &set.log()[marker..]
    );
    drop(slow);
    overwrite(stack, &vm, &[]);
    stack
        .as_admin()
        .delete(&format!("/v2.0/ports/{vm}"))
        .unwrap();
}

/// A single refusal by Neutron does not mean that the port is full.
fn a_no_of_another_kind(stack: &OpenStack, network: &str) {
    let vm = port_of_vm(stack, network);
    let plugin = plugin(stack, network, "of-no", &vm).with("warmPool", json!({"free": 1}));
    let forbidden = Fault::Answer {
        status: 403,
        body: String::new(),
    };
    stack.neutron().faults().clear();
    stack
        .neutron()
        .faults()
        .next(1, "PUT", &format!("/v2.0/ports/{vm}"), forbidden);
    let set = DaemonSet::new(&[&plugin]);
    let daemon = set.start();
    daemon.wait_until("a port in the pool", || in_pool(&plugin, "free") == 1);
    assert!(!set.log().contains("no further ports"), "{}", set.log());
    assert_eq!(
        (
            stack.neutron().faults().count("PUT", "/v2.0/ports"),
            pairs(stack, &vm).len()
        ),
        (2, 1),
        "{}",
        set.log()
    );
    drop(daemon);
    stack
        .as_admin()
        .delete(&format!("/v2.0/ports/{vm}"))
        .unwrap();
}

fn ranges_instead_of_addresses(stack: &OpenStack, network: &str) {
    let vm = port_of_vm(stack, network);
    let ranges = json!({"port": vm, "ranges": ["10.1.0.0/25", "fd00::/64"]});
    let plugin = Plugin::new(stack, network, "n1").with("allowedAddressPairs", ranges);
    assert_eq!(DaemonSet::new(&[&plugin]).once(), 0);
    assert_eq!(
        pairs(stack, &vm),
        ["10.1.0.0/25", "fd00::/64"].map(str::to_owned).into()
    );
    let plugin = plugin.with(
        "allowedAddressPairs",
        json!({"port": vm, "ranges": ["10.1.0.0/25"]}),
    );
    assert_eq!(DaemonSet::new(&[&plugin]).once(), 0);
    assert_eq!(pairs(stack, &vm), ["10.1.0.0/25".to_owned()].into());
}

/// In a cluster that the chart was installed into.
#[test]
fn the_chart_runs_the_daemon_without_rights() {
    let installed = Installed::new(
        &kubernetes("1.19.3", None),
        "--set neutronNode.enabled=true --set neutronNode.port=9465",
    );
    let plane = &installed.server.plane;
    let daemon_set = plane
        .get("/apis/apps/v1/namespaces/kube-system/daemonsets/cilium-ipam-neutron-node")
        .unwrap();
    let pod = &daemon_set["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], json!(false));
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/neutron-node"]));
    assert_eq!(container["args"], json!(["--listen=127.0.0.1:9465"]));
    let probe = &container["livenessProbe"]["httpGet"];
    assert_eq!(
        (&probe["host"], &probe["port"]),
        (&json!("127.0.0.1"), &json!(9465))
    );
    installed.make(
        "cilium-ipam-upgrade",
        "--set neutronNode.enabled=true --set operator.enabled=false",
    );
    let left = |path: &str| {
        plane
            .list(&format!(
                "{path}?labelSelector=app.kubernetes.io/instance=cilium-ipam"
            ))
            .unwrap()
    };
    let apps = "/apis/apps/v1/namespaces/kube-system";
    assert_eq!(
        (
            left(&format!("{apps}/deployments")).len(),
            left(&format!("{apps}/daemonsets")).len()
        ),
        (0, 1)
    );
    assert_eq!(
        left("/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        Vec::<Value>::new()
    );
    assert_eq!(
        left("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
        Vec::<Value>::new()
    );
    // The server may still prepare the kind that the chart has just made.
    let served = || Ok(plane.list(&format!("{GROUP}/ippools")).ok());
    testbed::wait_until("the pools to be served", testbed::PATIENCE, served).unwrap();
}

pub fn clouds_file(stack: &OpenStack, folder: &std::path::Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    use testbed::openstack::{DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER};
    let auth = json!({"auth_url": stack.keystone_url(), "username": MEMBER_USER, "password": MEMBER_PASSWORD,
        "project_name": MEMBER_PROJECT, "user_domain_id": DOMAIN, "project_domain_id": DOMAIN});
    let path = folder.join("clouds.yaml");
    std::fs::write(
        &path,
        json!({"clouds": {"lab": {"auth": auth}}}).to_string(),
    )
    .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}
