//! The real cilium-agent in a QEMU guest starts on the block that apply gave its Node.

use serde_json::json;
use testbed::agent_vm::{AgentOutcome, AgentRun, AgentVm};
use testbed::{AnnotateK8sNode, CiliumVersion, Options, Program};

use super::server::{Server, kubernetes, node};
use super::support::{pin, pool};

fn starts_on_the_block_of_apply(write_path: &str) {
    let version = CiliumVersion::V1_15;
    let cilium = kubernetes(version.release(), Some(AnnotateK8sNode::On));
    let server = Server::start(&cilium, Some(version.release()), Options::default(), &[Program::CiliumAgent(version)]);
    server.nodes([node("worker-7", json!({}))]);
    let address = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.2.15"}]}});
    server.plane.patch("/api/v1/nodes/worker-7/status", &address).unwrap();
    let policy = format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{writePath: {write_path}}}\n"
    );
    let documents =
        [pool("rack-a", "{cidrs: [10.20.0.0/16], blockSize: 24}"), pin("worker-7", "10.20.30.0/24"), policy];
    server.folder.write("pools/all.yaml", documents.join("---\n"));
    server.run(&["apply", "--auto-approve"]).expect(0);

    let vm = AgentVm::prepare(&server.programs, version).unwrap();
    let report = vm.run(&server.plane, &AgentRun::new("worker-7", AnnotateK8sNode::On)).unwrap();
    assert_eq!(report.outcome, AgentOutcome::Ready, "{}", report.console);
    assert_eq!(report.pod_cidrs_used, ["10.20.30.0/24"]);
    let cilium_node = server.plane.get("/apis/cilium.io/v2/ciliumnodes/worker-7").unwrap();
    assert_eq!(cilium_node["spec"]["ipam"]["podCIDRs"], json!(["10.20.30.0/24"]));
    server.run(&["plan", "--detailed-exitcode"]).expect(0);
}

#[test]
#[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
fn agent_starts_on_the_annotation() {
    starts_on_the_block_of_apply("node-annotation");
}

#[test]
#[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
fn agent_starts_on_the_spec() {
    starts_on_the_block_of_apply("node-spec");
}
