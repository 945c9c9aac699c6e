//! The real thing: what the other tests rely on.

use serde_json::json;

use super::*;

#[test]
fn a_member_makes_finds_and_deletes_a_port() {
    let start = std::time::Instant::now();
    let Some(stack) = OpenStack::start(&Options::default()).unwrap() else { return };
    eprintln!("started in {:?}", start.elapsed());
    let network = stack.create_network("pods").unwrap();
    let subnet = stack.create_subnet(&network, "10.20.0.0/16", &json!({"gateway_ip": "10.20.0.1"})).unwrap();
    let port = stack.create_port(&network, &json!({"device_id": "pod-1"})).unwrap();
    let ports = stack.ports(&format!("network_id={network}")).unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["id"], port.as_str());
    assert_eq!(ports[0]["fixed_ips"][0]["subnet_id"], subnet.as_str());
    stack.as_member().delete(&format!("/v2.0/ports/{port}")).unwrap();
    assert_eq!(stack.ports("").unwrap().len(), 0);
}
