//! `neutron-node gc`: the ports of a permanently removed node, in a cluster with a real API server.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testbed::openstack::{MEMBER_PASSWORD, Options as StackOptions};
use testbed::{Fault, OpenStack, Options, Program, or_skip};

use crate::neutron::pairs::clouds_file;
use crate::neutron::support::{Plugin, finish, ports, stack};
use crate::server::{Server, kubernetes, node};
use crate::support::{Ran, TextAssertions, node_program};

const LIVING: &str = "11111111-4a0f-4d4b-8a3c-1f4f5a6b7c8d";
const REPLACEMENT: &str = "22222222-4a0f-4d4b-8a3c-1f4f5a6b7c8d";
const GONE: &str = "33333333-4a0f-4d4b-8a3c-1f4f5a6b7c8d";

/// An administrator's machine, with the cluster and the OpenStack that it reads.
struct Desk<'d> {
    server: &'d Server,
    clouds: &'d Path,
    stack: &'d OpenStack,
    network: &'d str,
}

impl Desk<'_> {
    fn gc(&self, more: &[&str]) -> Ran {
        self.gc_of(self.server.plane.kubeconfig(), more)
    }

    fn gc_of(&self, kubeconfig: &Path, more: &[&str]) -> Ran {
        let kubectl = self.server.programs.path(Program::Kubectl).unwrap();
        let gc = Command::new(node_program("neutron-node"))
            .args(["gc", "--node=n2", "--kubectl"])
            .arg(kubectl)
            .arg("--clouds-file")
            .arg(self.clouds)
            .args(more)
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", self.clouds.parent().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let ran = finish(gc.unwrap());
        assert!(!ran.all().contains(MEMBER_PASSWORD), "{}", ran.all());
        ran
    }

    #[track_caller]
    fn shows(&self, code: i32, more: &[&str], what: &str) {
        let ran = self.gc(more).expect(code);
        assert!(ran.all().contains(what), "{}", ran.all());
    }

    /// A port as the plugin creates it on a server.
    fn port(&self, device: &str, name: &str, server: &str) -> String {
        let port = json!({"device_id": device, "device_owner": "cilium-ipam:pod", "name": name,
            "description": format!("cilium-ipam run 00112233aabbccdd on server {server}")});
        self.stack.create_port(self.network, &port).unwrap()
    }

    /// The port of a server, as Nova creates it.
    fn nic(&self, server: &str) -> String {
        let nic = json!({"device_id": server, "device_owner": "compute:nova"});
        self.stack.create_port(self.network, &nic).unwrap()
    }

    fn delete(&self, port: &str) {
        let admin = self.stack.as_admin();
        admin.delete(&format!("/v2.0/ports/{port}")).unwrap();
    }

    fn devices(&self) -> Vec<String> {
        ports(self.stack, self.network)
    }
}

fn node_on(name: &str, server: &str) -> Value {
    let mut node = node(name, json!({}));
    node["spec"]["providerID"] = format!("openstack:///{server}").into();
    node
}

#[test]
fn the_ports_of_a_node_that_is_gone_are_deleted_and_no_others() {
    let stack = or_skip!(stack(&StackOptions::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let clouds = clouds_file(&stack, folder.path());
    let desk = Desk {
        server: &server,
        clouds: &clouds,
        stack: &stack,
        network: &network,
    };
    // n2 was replaced by a server of the same name.
    desk.port("living/eth0", "n1/examplenet", LIVING);
    desk.port("replacement/eth0", "n2/examplenet", REPLACEMENT);
    desk.port("gone/eth0", "n2/examplenet", GONE);
    desk.port("gone/net1", "n2/more", GONE);
    // Another cluster of the project has a node of this name.
    desk.port("other-cluster/eth0", "blue/n2/examplenet", GONE);
    // Kuryr's ports are never touched, whatever their names.
    let kuryr =
        json!({"device_id": "kuryr", "device_owner": "compute:kuryr", "name": "n2/examplenet"});
    stack.create_port(&network, &kuryr).unwrap();
    // Its description names no server: the machine of the tests is no server of Nova.
    let plugin = Plugin::new(&stack, &network, "n2");
    plugin.add("unknown");
    without_evidence(&desk);
    server.nodes([node_on("n1", LIVING), node_on("n2", REPLACEMENT)]);
    only_gone_ports_are_deleted(&desk);
}

/// Each of these deletes nothing, whatever was approved.
fn without_evidence(desk: &Desk<'_>) {
    let before = desk.devices();
    let approved = ["--auto-approve"];
    desk.shows(5, &approved, "the cluster shows no Nodes");
    let ran = desk.gc_of(Path::new("/nowhere"), &approved).expect(8);
    ran.stderr.assert_has("get nodes");
    // OpenStack shows no server of this cluster.
    desk.server.nodes([node_on("n1", LIVING)]);
    desk.shows(5, &approved, "OpenStack shows no server that is a Node");
    let nic = desk.nic(LIVING);
    desk.server.nodes([node("unknown", json!({}))]);
    desk.shows(5, &approved, "neither a `systemUUID` nor a `providerID`");
    desk.delete(&nic);
    for name in ["n1", "unknown"] {
        let path = format!("/api/v1/nodes/{name}");
        desk.server.plane.delete(&path).unwrap();
    }
    desk.stack.neutron().stop();
    desk.server.nodes([node_on("n0", LIVING)]);
    desk.gc(&approved).expect(1);
    desk.server.plane.delete("/api/v1/nodes/n0").unwrap();
    desk.stack.neutron().start().unwrap();
    assert_eq!(desk.devices(), before);
}

fn only_gone_ports_are_deleted(desk: &Desk<'_>) {
    let living = desk.nic(LIVING);
    let gone = desk.nic(GONE);
    let before = desk.devices();
    let exists = format!("its server {GONE} exists at OpenStack (port {gone})");
    desk.shows(0, &["--auto-approve"], &exists);
    desk.delete(&gone);
    let shown = desk.gc(&["--dry-run", "--auto-approve"]).expect(0);
    for line in [
        "Plan: 2 ports to delete.",
        "cilium-ipam:pod gone/net1 of n2/more on server 33333333",
        "Kept: 1 port of n2: the description names no server.",
        "Kept: 1 port of n2: its server 22222222-4a0f-4d4b-8a3c-1f4f5a6b7c8d is Node n2 of the cluster.",
    ] {
        shown.stdout.assert_has(line);
    }
    desk.shows(1, &[], "pass --auto-approve");
    assert_eq!(desk.devices().len(), before.len() - 1);
    let body = json!({"NeutronError": {"type": "NotAuthorized", "message": "no", "detail": ""}});
    let refused = Fault::Answer {
        status: 403,
        body: body.to_string(),
    };
    let faults = desk.stack.neutron().faults();
    faults.next(1, "DELETE", "/v2.0/ports", refused);
    desk.shows(7, &["--auto-approve"], "1 port left");
    desk.shows(0, &["--auto-approve"], "Deleted 1 port.");
    desk.shows(0, &["--auto-approve"], "Plan: 0 ports to delete.");
    desk.delete(&living);
    let stay = [
        "kuryr",
        "living/eth0",
        "other-cluster/eth0",
        "replacement/eth0",
        "unknown/eth0",
    ];
    assert_eq!(desk.devices(), stay);
}
