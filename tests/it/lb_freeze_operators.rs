//! `lb freeze` and `lb thaw` with the real operators: frozen addresses outlive restarts while other
//! Services wait, and a thaw moves nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::{CiliumVersion, Operator, wait_until};

use super::lb::{POOLS, SERVICES, address_pool, operator, server, service};
use super::server::Server;
use super::support::{TextAssertions, pool};

const SERVICES_IN_ALL: usize = 10;

fn held(server: &Server) -> BTreeMap<String, Vec<String>> {
    let services = server.plane.list(SERVICES).unwrap();
    let of_type = services
        .iter()
        .filter(|service| service["spec"]["type"] == "LoadBalancer");
    let addresses = |service: &Value| {
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
        let ingress = ingress.into_iter().flatten();
        ingress
            .map(|ingress| ingress["ip"].as_str().unwrap().to_owned())
            .collect()
    };
    of_type
        .map(|service| {
            (
                service["metadata"]["name"].as_str().unwrap().to_owned(),
                addresses(service),
            )
        })
        .collect()
}

fn pinned(server: &Server) -> usize {
    let services = server.plane.list(SERVICES).unwrap();
    let is_pinned = |service: &&Value| {
        ["lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"]
            .iter()
            .any(|key| service["metadata"]["annotations"][key].is_string())
    };
    services.iter().filter(is_pinned).count()
}

fn unpin(server: &Server) {
    for service in server.plane.list(SERVICES).unwrap() {
        let name = service["metadata"]["name"].as_str().unwrap();
        let none = json!({"lbipam.cilium.io/ips": null, "io.cilium/lb-ipam-ips": null});
        server
            .plane
            .patch(
                &format!("{SERVICES}/{name}"),
                &json!({"metadata": {"annotations": none}}),
            )
            .unwrap();
    }
}

/// Creates a pool and a Service for it: when that has its address, the operator has done all that
/// it had to do before.
fn wait_for_operator(server: &Server, round: usize) {
    let name = format!("marker-{round}");
    let spec = json!({"blocks": [{"start": format!("40.0.{round}.1"), "stop": format!("40.0.{round}.9")}],
        "serviceSelector": {"matchLabels": {"round": round.to_string()}}});
    server
        .plane
        .create(POOLS, &address_pool(&name, &spec))
        .unwrap();
    server
        .plane
        .create(
            SERVICES,
            &service(&name, &json!({"round": round.to_string()})),
        )
        .unwrap();
    wait_until("the marker", testbed::PATIENCE, || {
        Ok((!held(server)[&name].is_empty()).then_some(()))
    })
    .unwrap();
}

fn without_markers(held: BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let mut held = held;
    held.retain(|name, _| !name.starts_with("marker"));
    held
}

/// A server and its operator, with a pool for Services of a color that has its name.
fn with_pool(version: CiliumVersion, name: &str, start: &str, stop: &str) -> (Server, Operator) {
    let server = server(version);
    let operator = operator(&server, version);
    server.folder.write(
        "pools/nodes.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    let spec = json!({"blocks": [{"start": start, "stop": stop}],
        "serviceSelector": {"matchLabels": {"color": name}}});
    server
        .plane
        .create(POOLS, &address_pool(name, &spec))
        .unwrap();
    (server, operator)
}

#[test]
fn frozen_addresses_outlive_restarts_and_a_thaw_moves_nothing() {
    for version in [CiliumVersion::V1_15, CiliumVersion::V1_19] {
        let (server, first) = with_pool(version, "blue", "20.0.10.1", "20.0.10.6");
        for number in 0..SERVICES_IN_ALL {
            server
                .plane
                .create(
                    SERVICES,
                    &service(&format!("s{number}"), &json!({"color": "blue"})),
                )
                .unwrap();
        }
        wait_until("six addresses", testbed::PATIENCE, || {
            let given = held(&server)
                .values()
                .filter(|held| !held.is_empty())
                .count();
            Ok((given == 6).then_some(()))
        })
        .unwrap();
        let before = held(&server);

        let ran = server.expect("lb freeze", 0);
        assert!(ran.stdout.starts_with("Wrote 6 files:"), "{}", ran.all());
        server.expect("apply --auto-approve", 0);
        assert_eq!(pinned(&server), 6);
        assert_eq!(
            server.expect("lb freeze", 0).stdout,
            "Nothing to freeze: 6 Services pinned already.\n"
        );

        drop(first);
        let second = operator(&server, version);
        wait_for_operator(&server, 1);
        assert_eq!(without_markers(held(&server)), before, "{version:?}");

        // No plan removes an annotation that others may have taken over: a person does.
        let ran = server.expect("lb thaw", 0);
        ran.stderr.assert_has("kubectl annotate service");
        unpin(&server);
        assert_eq!(pinned(&server), 0, "{version:?}");
        wait_for_operator(&server, 2);
        assert_eq!(without_markers(held(&server)), before, "{version:?}");
        server.expect("plan --fail-on changes,blocked,refused,error", 0);
        drop(second);
    }
}

/// A pin does not help in a disabled pool, so `lb freeze` writes none and says so.
#[test]
fn a_pin_does_not_keep_an_address_of_a_disabled_pool() {
    for version in [CiliumVersion::V1_15, CiliumVersion::V1_19] {
        let (server, first) = with_pool(version, "red", "30.0.10.1", "30.0.10.6");
        let mut doomed = service("doomed", &json!({"color": "red"}));
        doomed["metadata"]["annotations"] =
            json!({"lbipam.cilium.io/ips": "30.0.10.3", "io.cilium/lb-ipam-ips": "30.0.10.3"});
        server.plane.create(SERVICES, &doomed).unwrap();
        wait_until("the address", testbed::PATIENCE, || {
            Ok((held(&server)["doomed"] == ["30.0.10.3"]).then_some(()))
        })
        .unwrap();
        server
            .plane
            .patch(
                &format!("{POOLS}/red"),
                &json!({"spec": {"disabled": true}}),
            )
            .unwrap();
        let ran = server.expect("lb freeze", 2);
        let told = "Service default/doomed: Cilium takes 30.0.10.3 away when the operator restarts";
        drop(first);
        let _second = operator(&server, version);
        wait_for_operator(&server, 1);
        assert_eq!(held(&server)["doomed"], Vec::<String>::new(), "{version:?}");
        assert!(ran.stderr.contains(told), "{version:?}: {}", ran.all());
    }
}
