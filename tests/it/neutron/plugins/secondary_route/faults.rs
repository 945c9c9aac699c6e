//! Runs that are killed before each message to the kernel, or whose messages fail; namespaces that
//! vanish; garbage; what a CHECK notices; two ways into one Pod.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{or_skip, wait_until};

use super::ground::{ELSEWHERE_ON_NODE, Ground, OF_NODE, PORT};
use crate::neutron::support::{fault, finish};

const ADDRESSES: [&str; 2] = ["10.7.0.5/24", "fd07::5/64"];

/// Counts the changes that a program sends to the kernel (`RTM_NEW…`, `RTM_DEL…`, `RTM_SET…`). Kills
/// the program before one of them, or fails it.
const INTERPOSER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
static long number(const char *name) { const char *text = getenv(name); return text ? atol(text) : -1; }
ssize_t send(int socket, const void *message, size_t length, int flags) {
    static long changes;
    uint16_t kind = ((const uint16_t *)message)[2];
    if (kind >= 16 && kind % 4 != 2) {
        changes++;
        if (changes == number("KILL_BEFORE")) kill(getpid(), SIGKILL);
        if (changes == number("FAIL_AT")) { errno = EIO; return -1; }
    }
    ssize_t (*real)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    return real(socket, message, length, flags);
}
"#;

/// The interposer as a library.
struct Interposer {
    folder: TempDir,
}

impl Interposer {
    fn new() -> testbed::Result<Interposer> {
        let folder = TempDir::new().unwrap();
        let source = folder.path().join("interposer.c");
        std::fs::write(&source, INTERPOSER).unwrap();
        let interposer = Interposer { folder };
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]);
        let built = compiler.arg(interposer.library()).arg(source).status();
        match built {
            Ok(status) if status.success() => Ok(interposer),
            other => Err(testbed::Error::missing(
                "a C compiler",
                format!("{other:?}"),
            )),
        }
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("interposer.so")
    }
}

fn one_pod() -> testbed::Result<(Ground, Value)> {
    let ground = Ground::new()?;
    ground.add_pod("a");
    ground.connect("a", "eth0", ADDRESSES);
    let configuration = ground.configuration("pods", "a", ADDRESSES);
    Ok((ground, configuration))
}

#[test]
fn a_kill_or_a_failure_anywhere_leaves_nothing() {
    let (ground, configuration) = or_skip!(one_pod());
    let interposer = or_skip!(Interposer::new());
    let library = interposer.library();
    let run = |command: &str, fault: &str, at: usize| {
        let at = at.to_string();
        let variables = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            (fault, at.as_str()),
        ];
        finish(ground.start(&configuration, command, "a", &variables))
    };
    let done = |command: &str| ground.run(&configuration, command, "a").expect(0);
    let before = ground.state(&["a"]);
    let mut at = 1;
    while run("ADD", "KILL_BEFORE", at).code != 0 {
        done("ADD");
        done("CHECK");
        done("DEL");
        assert_eq!(ground.state(&["a"]), before, "an ADD after a kill at {at}");
        assert_ne!(run("ADD", "KILL_BEFORE", at).code, 0);
        done("DEL");
        assert_eq!(ground.state(&["a"]), before, "a DEL after a kill at {at}");
        let (code, _) = fault(&run("ADD", "FAIL_AT", at));
        assert_eq!(code, 5, "at {at}");
        assert_eq!(ground.state(&["a"]), before, "an ADD that fails at {at}");
        at += 1;
    }
    assert!(at > 20, "an ADD of two families has more than {at} changes");
    let mut at = 1;
    while run("DEL", "KILL_BEFORE", at).code != 0 {
        done("DEL");
        assert_eq!(
            ground.state(&["a"]),
            before,
            "a DEL after a kill of it at {at}"
        );
        done("ADD");
        assert_eq!(fault(&run("DEL", "FAIL_AT", at)).0, 5, "at {at}");
        done("DEL");
        assert_eq!(ground.state(&["a"]), before, "a DEL that failed at {at}");
        done("ADD");
        at += 1;
    }
    assert!(at > 3, "a DEL deletes a link and two rules");
    assert_eq!(ground.state(&["a"]), before);
}

#[test]
fn del_and_gc_free_what_vanished_and_keep_the_rest() {
    let (ground, of_a) = or_skip!(one_pod());
    let before = ground.state(&[]);
    ground.run(&of_a, "ADD", "a").expect(0);
    ground.node.remove_pod("a");
    ground.run(&of_a, "DEL", "a").expect(0);
    ground.run(&of_a, "DEL", "a").expect(0);
    // The kernel removes the other end in its own time.
    wait_until("the pair to go", testbed::PATIENCE, || {
        Ok((ground.state(&[]) == before).then_some(()))
    })
    .unwrap();
    let pods = ["b", "c", "d"];
    let configurations = pods.map(|pod| {
        ground.add_pod(pod);
        let host = 10 + u32::from(pod.as_bytes()[0]);
        let addresses = [format!("10.7.0.{host}/24"), format!("fd07::{host}/64")];
        let addresses = addresses.each_ref().map(String::as_str);
        ground.connect(pod, "eth0", addresses);
        let network = if pod == "d" { "blue" } else { "pods" };
        let configuration = ground.configuration(network, pod, addresses);
        ground.run(&configuration, "ADD", pod).expect(0);
        configuration
    });
    let nothing = json!([]);
    let of_b = json!([{"containerID": "b", "ifname": "eth0"}]);
    let gc = |valid: &Value| {
        let mut configuration = configurations[0].clone();
        configuration["cni.dev/valid-attachments"] = valid.clone();
        ground.run(&configuration, "GC", "b").expect(0);
    };
    let check = |index: usize| {
        ground
            .run(&configurations[index], "CHECK", pods[index])
            .code
    };
    gc(&of_b);
    assert_eq!(
        [check(0), check(1), check(2)],
        [0, 1, 0],
        "of the other network"
    );
    gc(&nothing);
    assert_eq!([check(0), check(1), check(2)], [1, 1, 0]);
    ground.run(&configurations[2], "DEL", "d").expect(0);
    assert_eq!(ground.state(&[]), before);
}

#[test]
fn a_check_notices_what_is_gone() {
    let (ground, configuration) = or_skip!(one_pod());
    let result = ground.run(&configuration, "ADD", "a").expect(0).json();
    let node_end = result["interfaces"][1]["name"].as_str().unwrap();
    let node = &ground.node;
    let lost = |pod: Option<&str>, words: &str, told: &str| {
        ground.run(&configuration, "ADD", "a").expect(0);
        ground.run(&configuration, "CHECK", "a").expect(0);
        node.ip(pod, words);
        let (code, message) = fault(&ground.run(&configuration, "CHECK", "a"));
        assert!(code == 101 && message.contains(told), "{words}: {message}");
    };
    lost(Some("a"), "route del 10.96.0.0/12", "10.96.0.0/12");
    lost(Some("a"), "-6 route del fd00:96::/112", "fd00:96::/112");
    lost(Some("a"), "rule del from 10.7.0.5", "rule");
    lost(
        Some("a"),
        "neighbour flush dev ptp-eth0 nud permanent",
        "neighbour",
    );
    lost(Some("a"), "link set ptp-eth0 down", "ptp-eth0");
    lost(None, "route del 10.7.0.5/32", "10.7.0.5/32");
    lost(
        None,
        &format!("link set {node_end} address 02:00:00:00:00:01"),
        node_end,
    );
    lost(None, &format!("link del {node_end}"), node_end);
    ground.run(&configuration, "ADD", "a").expect(0);
    // The kernel removes routes whose source address goes.
    node.ip(None, &format!("address del {}/24 dev up0", OF_NODE[0]));
    let (code, message) = fault(&ground.run(&configuration, "CHECK", "a"));
    assert!(code == 101 && message.contains("10.7.0.5/32"), "{message}");
    node.ip(Some("a"), "address del 10.7.0.5/24 dev eth0");
    let (code, message) = fault(&ground.run(&configuration, "CHECK", "a"));
    assert!(code == 101 && message.contains("10.7.0.5"), "{message}");
    let (code, message) = fault(&ground.run(&configuration, "ADD", "a"));
    assert_eq!(code, 5, "an address that the Pod does not have: {message}");
}

#[test]
fn what_cannot_work_is_refused_and_changes_nothing() {
    let (ground, configuration) = or_skip!(one_pod());
    let before = ground.state(&["a"]);
    let refused = |change: &dyn Fn(&mut Value), told: &str| {
        let mut changed = configuration.clone();
        change(&mut changed);
        let (code, message) = fault(&ground.run(&changed, "ADD", "a"));
        assert!(code == 7 && message.contains(told), "{code} {message}");
        assert_eq!(ground.state(&["a"]), before, "{told}");
    };
    refused(&|c| c["prevResult"] = Value::Null, "prevResult");
    refused(
        &|c| c["routes"] = json!([{"dst": "10.7.0.0/24"}]),
        "own address",
    );
    refused(
        &|c| c["routes"] = json!([{"dst": "10.96.0.1/12"}]),
        "host bits",
    );
    refused(&|c| c["ipam"] = json!({"type": "x"}), "remove `ipam`");
    let of_node = json!([{"address": format!("{}/24", OF_NODE[0])}]);
    refused(
        &|c| c["prevResult"]["ips"] = of_node.clone(),
        "one of this node",
    );
    ground.node.ip(Some("a"), "route add 10.96.0.0/12 dev eth0");
    let (code, message) = fault(&ground.run(&configuration, "ADD", "a"));
    assert!(code == 7 && message.contains("through eth0"), "{message}");
    ground.node.ip(Some("a"), "route del 10.96.0.0/12");
    ground
        .node
        .ip(Some("a"), "link add ptp-eth0 type veth peer name x");
    assert_eq!(fault(&ground.run(&configuration, "ADD", "a")).0, 5);
    ground.node.ip(Some("a"), "link del ptp-eth0");
    assert_eq!(ground.state(&["a"]), before);
    ground.run(&configuration, "STATUS", "a").expect(0);
    let versions = ground.run(&configuration, "VERSION", "a").expect(0).json();
    assert_eq!(versions["supportedVersions"][3], "1.1.0");
}

/// Each address is answered by its own pair, and the secondary route takes over when the first goes.
#[test]
fn a_pod_has_two_networks_with_a_secondary_route_each() {
    let (ground, first) = or_skip!(one_pod());
    let node = &ground.node;
    let before = ground.state(&["a"]);
    let addresses = ["10.8.0.5/24", "fd08::5/64"];
    ground.connect("a", "eth1", addresses);
    let mut second = ground.configuration("blue", "a", addresses);
    second["prevResult"]["interfaces"][0]["name"] = "eth1".into();
    let on_eth1 = |command: &str| {
        finish(ground.start(&second, command, "a", &[("CNI_IFNAME", "eth1")])).expect(0)
    };
    ground.run(&first, "ADD", "a").expect(0);
    on_eth1("ADD");
    ground.run(&first, "CHECK", "a").expect(0);
    on_eth1("CHECK");
    for address in ["10.7.0.5", "fd07::5", "10.8.0.5", "fd08::5"] {
        let seen = ground.connects(None, (address, PORT), Some("a"));
        let of_family = usize::from(address.contains(':'));
        assert_eq!(seen, OF_NODE[of_family].parse().ok(), "{address}");
    }
    let source = ground.connects(Some("a"), (ELSEWHERE_ON_NODE, PORT), None);
    assert_eq!(
        source,
        "10.7.0.5".parse().ok(),
        "the first way has no better one"
    );
    let way = |from: &str| node.ip(Some("a"), &format!("route get {} from {from}", OF_NODE[0]));
    assert!(
        way("10.7.0.5").contains("dev ptp-eth0"),
        "{}",
        way("10.7.0.5")
    );
    assert!(
        way("10.8.0.5").contains("dev ptp-eth1"),
        "{}",
        way("10.8.0.5")
    );
    ground.run(&first, "DEL", "a").expect(0);
    on_eth1("CHECK");
    let source = ground.connects(Some("a"), (ELSEWHERE_ON_NODE, PORT), None);
    assert_eq!(source, "10.8.0.5".parse().ok());
    on_eth1("DEL");
    node.ip(Some("a"), "link del eth1");
    assert_eq!(ground.state(&["a"]), before);
}
