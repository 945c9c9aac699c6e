//! The real cilium-agent in a QEMU guest starts on the block that apply gave its Node.

use serde_json::json;
use testbed::agent_vm::{AgentOutcome, AgentReport, AgentRun, AgentVm, RouterBeside};
use testbed::{
    AnnotateK8sNode, CiliumInstallation, CiliumVersion, Options, Program, agent_settings,
};

use super::server::{Server, kubernetes, node};
use super::support::{TextAssertions, pin, policy, pool};

fn starts_on_the_block_of_apply(write_path: &str) {
    let version = CiliumVersion::V1_15;
    let cilium = kubernetes(version.release(), Some(AnnotateK8sNode::On));
    let server = Server::start(
        &cilium,
        Some(version.release()),
        Options::default(),
        &[Program::CiliumAgent(version)],
    );
    server.nodes([node("worker-7", json!({}))]);
    let address =
        json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.2.15"}]}});
    server
        .plane
        .patch("/api/v1/nodes/worker-7/status", &address)
        .unwrap();
    let policy = policy(&format!("{{writePath: {write_path}}}"));
    let documents = [
        pool("rack-a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pin("worker-7", "10.20.30.0/24"),
        policy,
    ];
    server
        .folder
        .write("pools/all.yaml", documents.join("---\n"));
    server.expect("apply --auto-approve", 0);

    let vm = AgentVm::prepare(&server.programs, version).unwrap();
    let report = vm
        .run(
            &server.plane,
            &AgentRun::new("worker-7", AnnotateK8sNode::On),
        )
        .unwrap();
    assert_eq!(report.outcome, AgentOutcome::Ready, "{}", report.console);
    assert_eq!(report.pod_cidrs_used, ["10.20.30.0/24"]);
    let cilium_node = server
        .plane
        .get("/apis/cilium.io/v2/ciliumnodes/worker-7")
        .unwrap();
    assert_eq!(
        cilium_node["spec"]["ipam"]["podCIDRs"],
        json!(["10.20.30.0/24"])
    );
    server.expect("plan --detailed-exitcode", 0);
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

const VERSION: CiliumVersion = CiliumVersion::V1_15;

/// A cluster whose agents announce their pod CIDRs to 192.0.2.254, and files that pin worker-7.
fn announcing(write_path: &str, block: &str) -> Server {
    let cilium = CiliumInstallation {
        config: [("enable-bgp-control-plane".to_owned(), "true".to_owned())].into(),
        ..kubernetes(VERSION.release(), Some(AnnotateK8sNode::On))
    };
    let programs = [Program::CiliumAgent(VERSION), Program::NodeSettingsOracle];
    let server = Server::start(
        &cilium,
        Some(VERSION.release()),
        Options::default(),
        &programs,
    );
    let neighbor = json!({"peerAddress": "192.0.2.254/32", "peerASN": 65000});
    let router = json!({"localASN": 65001, "exportPodCIDR": true, "neighbors": [neighbor]});
    let peering = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumBGPPeeringPolicy", "metadata": {"name": "racks"},
        "spec": {"nodeSelector": {}, "virtualRouters": [router]}});
    server
        .plane
        .create(
            "/apis/cilium.io/v2alpha1/ciliumbgppeeringpolicies",
            &peering,
        )
        .unwrap();
    server.nodes([node(
        "worker-7",
        json!({"kubernetes.io/hostname": "worker-7"}),
    )]);
    let addresses = json!([{"type": "InternalIP", "address": "192.0.2.1"}]);
    server
        .plane
        .patch(
            "/api/v1/nodes/worker-7/status",
            &json!({"status": {"addresses": addresses}}),
        )
        .unwrap();
    let policy = policy(&format!(
        "{{writePath: {write_path}, limits: {{disruptive: {{percent: 100}}}}}}"
    ));
    let documents = [
        pool("rack-a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        pin("worker-7", block),
        policy,
    ];
    server
        .folder
        .write("pools/all.yaml", documents.join("---\n"));
    server
}

/// Starts the agent with these settings, and gives what the router heard of it.
fn heard(server: &Server, settings: &[String]) -> (AgentReport, String) {
    let vm = AgentVm::prepare(&server.programs, VERSION).unwrap();
    let mut run = AgentRun::new("worker-7", AnnotateK8sNode::On);
    run.router = RouterBeside::Frr;
    run.flags = vec![
        "--enable-bgp-control-plane=true".to_owned(),
        "--devices=eth1".to_owned(),
    ];
    run.flags.extend_from_slice(settings);
    let report = vm.run(&server.plane, &run).unwrap();
    assert_eq!(
        report.outcome,
        AgentOutcome::Ready,
        "{}\n{}",
        report.console,
        report.log
    );
    let route_dump = report.route_dump.clone().unwrap_or_else(|| {
        panic!(
            "the router heard nothing:\n{}\n{}",
            report.console, report.log
        )
    });
    (report, route_dump)
}

/// Prefixes and next hops of what FRR prints.
fn routes(route_dump: &str) -> Vec<(String, String)> {
    let route_dump: serde_json::Value = serde_json::from_str(route_dump).unwrap();
    let hop =
        |paths: &serde_json::Value| paths[0]["nexthops"][0]["ip"].as_str().unwrap().to_owned();
    route_dump["routes"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(prefix, paths)| (prefix.clone(), hop(paths)))
        .collect()
}

/// What `doctor` says of a router that holds this.
fn examined(server: &Server, route_dump: &str) -> serde_json::Value {
    server.folder.write("rib.json", route_dump);
    server.json("doctor --rib rib.json -o json --fail-on never")
}

fn rules(report: &serde_json::Value) -> Vec<&str> {
    report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect()
}

#[test]
#[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
fn agent_announces_the_annotation() {
    let server = announcing("node-annotation", "10.20.30.0/24");
    server.expect("apply --auto-approve", 0);
    let (report, route_dump) = heard(&server, &[]);
    assert_eq!(report.pod_cidrs_used, ["10.20.30.0/24"]);
    assert_eq!(
        routes(&route_dump),
        [("10.20.30.0/24".to_owned(), "192.0.2.1".to_owned())]
    );
    let examined = examined(&server, &route_dump);
    assert!(
        !rules(&examined)
            .iter()
            .any(|rule| rule.starts_with("route-")),
        "{examined:#}"
    );
    // The next hop tells another node's block from its own.
    let wrong = self::examined(
        &server,
        &route_dump.replace("10.20.30.0/24", "10.20.31.0/24"),
    );
    assert!(rules(&wrong).contains(&"route-missing"), "{wrong:#}");
}

#[test]
#[ignore = "slow: boots a QEMU guest; cargo xtask test --agent runs it"]
fn agent_announces_the_block_that_a_setting_moved_it_to() {
    let server = announcing("node-config", "10.20.40.0/24");
    let held = json!({"spec": {"podCIDR": "10.20.9.0/24", "podCIDRs": ["10.20.9.0/24"]}});
    server.plane.patch("/api/v1/nodes/worker-7", &held).unwrap();
    server.expect("apply --auto-approve", 0);
    let settings = agent_settings(&server.programs, &server.plane, &["worker-7"]).unwrap();
    let range = settings["worker-7"]["ipv4-range"].clone();
    let (report, route_dump) = heard(&server, &[format!("--ipv4-range={range}")]);
    assert_eq!(report.pod_cidrs_used, ["10.20.40.0/24"]);
    assert_eq!(
        routes(&route_dump),
        [("10.20.40.0/24".to_owned(), "192.0.2.1".to_owned())]
    );
    server.expect("plan --detailed-exitcode", 0);
    // The difference that stays is explained, and is no fault of the routes.
    let examined = examined(&server, &route_dump);
    assert!(
        rules(&examined).contains(&"block-overridden"),
        "{examined:#}"
    );
    assert!(
        !rules(&examined)
            .iter()
            .any(|rule| rule.starts_with("route-")),
        "{examined:#}"
    );
    let told = server.expect("explain worker-7", 0).stdout;
    told.assert_has("10.20.40.0/24");
    told.assert_has("10.20.9.0/24");
}
