//! A Service, and a real kube-proxy that translates its addresses.

use serde_json::json;
use testbed::{Program, build};

use super::machine::{Machine, NODE, PORT};

/// The addresses of the Service, and its port.
pub const SERVICE: [&str; 2] = ["10.96.0.80", "fd00:96::80"];
pub const SERVICE_PORT: u16 = 80;

/// A Service of both families with this backend. The test writes the slices that
/// kube-controller-manager would write.
pub fn create_service(machine: &Machine<'_>, backend: &[String]) {
    let ports = json!([{"name": "http", "port": SERVICE_PORT, "targetPort": PORT}]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIPs": SERVICE, "clusterIP": SERVICE[0], "ipFamilyPolicy": "RequireDualStack",
            "ports": ports},
    });
    let services = "/api/v1/namespaces/default/services";
    machine.plane.create(services, &service).unwrap();
    for (address, family) in backend.iter().zip(["IPv4", "IPv6"]) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": format!("web-{}", family.to_lowercase()),
                "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        machine.plane.create(slices, &slice).unwrap();
    }
}

/// Starts kube-proxy with more flags, and waits until it has rules for the Service.
pub fn start_kube_proxy(machine: &mut Machine<'_>, flags: &[&str]) {
    let programs = build(&[Program::KubeProxy]).unwrap();
    let program = programs.path(Program::KubeProxy).unwrap();
    let mut line = vec![
        program.display().to_string(),
        format!("--kubeconfig={}", machine.plane.kubeconfig().display()),
        "--proxy-mode=nftables".to_owned(),
        format!("--hostname-override={NODE}"),
        "--conntrack-max-per-core=0".to_owned(),
        "--conntrack-min=0".to_owned(),
    ];
    line.extend(flags.iter().map(ToString::to_string));
    machine.node.start("kube-proxy", &line).unwrap();
    let has_rules = |family: &str, service: &str| {
        let nft = format!("{} list table {family} kube-proxy", machine.node.nft());
        machine.node.shell(&nft).unwrap().stdout.contains(service)
    };
    machine.wait("kube-proxy", || {
        has_rules("ip", SERVICE[0]) && has_rules("ip6", SERVICE[1])
    });
}
