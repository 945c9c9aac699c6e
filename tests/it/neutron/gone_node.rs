//! `neutron-node gc`: the ports of a node that is gone for good, in a cluster with a real API server.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use testbed::openstack::{MEMBER_PASSWORD, Options as StackOptions};
use testbed::{Fault, OpenStack, Options, Program, or_skip};

use super::daemon::DaemonSet;
use super::pairs::clouds_file;
use super::support::{Plugin, ports, stack};
use crate::server::{Server, kubernetes, node};
use crate::support::{Ran, node_program};

/// An administrator's machine.
struct Desk<'d> {
    server: &'d Server,
    clouds: &'d Path,
}

impl Desk<'_> {
    fn gc(&self, node: &str, more: &[&str]) -> Ran {
        self.gc_of(node, self.server.plane.kubeconfig(), more)
    }

    fn gc_of(&self, node: &str, kubeconfig: &Path, more: &[&str]) -> Ran {
        let kubectl = self.server.programs.path(Program::Kubectl).unwrap();
        let output = Command::new(node_program("neutron-node"))
            .args(["gc", "--node", node, "--kubectl"])
            .arg(kubectl)
            .arg("--clouds-file")
            .arg(self.clouds)
            .args(more)
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", self.clouds.parent().unwrap())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran = Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(!ran.all().contains(MEMBER_PASSWORD), "{}", ran.all());
        ran
    }

    #[track_caller]
    fn refused(&self, node: &str, more: &[&str], why: &str) {
        let ran = self.gc(node, more).expect(5);
        assert!(ran.stderr.contains(why), "{}", ran.all());
    }
}

#[test]
fn the_ports_of_a_node_that_is_gone_are_deleted_and_no_others() {
    let stack = or_skip!(stack(&StackOptions::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let server = Server::start(&kubernetes("1.19.3", None), None, Options::default(), &[]);
    server.nodes([node("n1", json!({}))]);
    let folder = tempfile::tempdir().unwrap();
    let clouds = clouds_file(&stack, folder.path());
    let desk = Desk {
        server: &server,
        clouds: &clouds,
    };
    Plugin::new(&stack, &network, "n1").add("stays");
    let gone = Plugin::new(&stack, &network, "n2").with("warmPool", json!({"free": 1}));
    for container in ["a", "b"] {
        gone.add(container);
    }
    // Kuryr's ports are never touched, whatever their names.
    let kuryr = json!({"device_id": "stays/eth0", "device_owner": "compute:kuryr", "name": "n2/examplenet"});
    stack.create_port(&network, &kuryr).unwrap();
    assert_eq!(DaemonSet::new(&[&gone]).once(), 0);
    assert_eq!(ports(&stack, &network).len(), 5);
    without_evidence(&stack, &network, &desk);
    let shown = desk
        .gc("n2", &["--waive=recent-ports", "--dry-run"])
        .expect(0);
    assert!(
        shown.stdout.contains("Plan: 3 ports to delete."),
        "{}",
        shown.all()
    );
    assert!(
        shown
            .stdout
            .contains("cilium-ipam:pod a/eth0 of n2/examplenet")
    );
    let asked = desk.gc("n2", &["--waive=recent-ports"]).expect(1);
    assert!(
        asked.stderr.contains("pass --auto-approve"),
        "{}",
        asked.all()
    );
    assert_eq!(ports(&stack, &network).len(), 5);
    one_delete_fails(&stack, &network, &desk);
    let again = desk.gc("n2", &["--auto-approve"]).expect(0);
    assert!(again.stdout.contains("Plan: 0 ports"), "{}", again.all());
    let stay = ["stays/eth0", "stays/eth0"];
    assert_eq!(ports(&stack, &network), stay);
    // In another cluster no name of a port is known, so nothing is known to be gone.
    server.plane.delete("/api/v1/nodes/n1").unwrap();
    server.nodes([node("other", json!({}))]);
    let waived = ["--waive=recent-ports", "--auto-approve"];
    desk.refused(
        "n1",
        &waived,
        "no Node of this cluster has ports in this project",
    );
    assert_eq!(ports(&stack, &network), stay);
    let waived = [&waived[..], &["--waive=unknown-names"]].concat();
    desk.gc("n1", &waived).expect(0);
    assert_eq!(ports(&stack, &network), stay[..1]);
}

/// Each of these deletes nothing, whatever was approved.
fn without_evidence(stack: &OpenStack, network: &str, desk: &Desk<'_>) {
    let approved = ["--waive=recent-ports", "--auto-approve"];
    desk.refused(
        "n2",
        &["--auto-approve"],
        "was created less than 10 minutes ago",
    );
    desk.refused("n1", &approved, "it is Node n1 of the cluster");
    let ran = desk.gc_of("n2", Path::new("/nowhere"), &approved).expect(8);
    assert!(ran.stderr.contains("get nodes"), "{}", ran.all());
    let vm = json!({"device_id": "n2", "device_owner": "compute:nova"});
    let vm = stack.create_port(network, &vm).unwrap();
    desk.refused("n2", &approved, "its VM still exists at OpenStack");
    stack
        .as_admin()
        .delete(&format!("/v2.0/ports/{vm}"))
        .unwrap();
    stack.neutron().stop();
    desk.gc("n2", &approved).expect(1);
    stack.neutron().start().unwrap();
    assert_eq!(ports(stack, network).len(), 5);
}

fn one_delete_fails(stack: &OpenStack, network: &str, desk: &Desk<'_>) {
    let faults = stack.neutron().faults();
    let body = json!({"NeutronError": {"type": "NotAuthorized", "message": "no", "detail": ""}});
    let refused = Fault::Answer {
        status: 403,
        body: body.to_string(),
    };
    faults.next(1, "DELETE", "/v2.0/ports", refused);
    let waived = ["--waive=recent-ports", "--auto-approve"];
    let partly = desk.gc("n2", &waived).expect(7);
    assert!(partly.stderr.contains("1 port left"), "{}", partly.all());
    assert_eq!(ports(stack, network).len(), 3);
    let rest = desk.gc("n2", &waived).expect(0);
    assert!(rest.stderr.contains("Deleted 1 port."), "{}", rest.all());
}
