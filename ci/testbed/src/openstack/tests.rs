//! The real thing: what the other tests rely on.

use std::thread;

use serde_json::{Value, json};
use ureq::Agent;

use super::*;
use crate::faults::Fault;
use crate::or_skip;
use crate::wait::{PATIENCE, wait_until};

const PORTS: &str = "/v2.0/ports";

/// One start for all that a test needs to see, as each takes seconds.
#[test]
fn sqlite_serves_a_member() {
    let stack = or_skip!(OpenStack::start(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    let subnet = stack
        .create_subnet(
            &network,
            "10.20.0.0/16",
            &json!({"gateway_ip": "10.20.0.1"}),
        )
        .unwrap();
    a_port_is_made_found_and_deleted(&stack, &network, &subnet);
    the_catalog_names_the_fault_proxies_to_the_public(&stack);
    a_withheld_answer_leaves_exactly_one_port(&stack, &network);
    access_rules_are_kept(&stack, &network);
    a_quota_holds(&stack, &network);
    neutron_can_be_taken_away(&stack);
}

fn a_port_is_made_found_and_deleted(stack: &OpenStack, network: &str, subnet: &str) {
    let port = stack
        .create_port(network, &json!({"device_id": "pod-1"}))
        .unwrap();
    let ports = stack.ports(&format!("network_id={network}")).unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["id"], port.as_str());
    assert_eq!(ports[0]["fixed_ips"][0]["subnet_id"], subnet);
    stack
        .as_member()
        .delete(&format!("{PORTS}/{port}"))
        .unwrap();
    assert_eq!(stack.ports("").unwrap().len(), 0);
    let gone = stack
        .as_member()
        .exchange("GET", &format!("{PORTS}/{port}"), None)
        .unwrap();
    assert_eq!((gone.status, gone.kind()), (404, "PortNotFound"));
}

fn the_catalog_names_the_fault_proxies_to_the_public(stack: &OpenStack) {
    let catalog = stack.as_member().get("/v3/auth/catalog").unwrap();
    let url = |kind: &str, interface: &str| {
        let services = catalog["catalog"].as_array().unwrap();
        let service = services
            .iter()
            .find(|service| service["type"] == kind)
            .unwrap();
        let endpoints = service["endpoints"].as_array().unwrap();
        let found: Vec<&Value> = endpoints
            .iter()
            .filter(|endpoint| endpoint["interface"] == interface)
            .collect();
        assert_eq!(found.len(), 1, "{catalog}");
        found[0]["url"].as_str().unwrap().to_owned()
    };
    assert_eq!(url("network", "public"), stack.neutron_url());
    assert_eq!(url("network", "internal"), stack.neutron().direct_url());
    assert_eq!(url("identity", "public"), stack.keystone_url());
}

/// Posts a port through the fault proxy.
fn post_port(
    stack: &OpenStack,
    port: &Value,
    limit: Duration,
) -> std::result::Result<u16, ureq::Error> {
    let agent = Agent::config_builder()
        .proxy(None)
        .timeout_global(Some(limit))
        .build()
        .new_agent();
    let request = agent.post(format!("{}{PORTS}", stack.neutron_url()));
    let request = request.header("X-Auth-Token", stack.as_member().token().unwrap());
    let answer = request
        .content_type("application/json")
        .send(json!({"port": port}).to_string())?;
    Ok(answer.status().as_u16())
}

fn a_withheld_answer_leaves_exactly_one_port(stack: &OpenStack, network: &str) {
    let faults = stack.neutron().faults();
    faults.clear();
    let port = json!({"network_id": network, "device_id": "withheld"});
    faults.next(1, "POST", PORTS, Fault::unavailable());
    faults.next(1, "POST", PORTS, Fault::Withhold);
    assert!(matches!(
        post_port(stack, &port, PATIENCE).unwrap_err(),
        ureq::Error::StatusCode(503)
    ));
    let waited = post_port(stack, &port, Duration::from_millis(500)).unwrap_err();
    assert!(matches!(waited, ureq::Error::Timeout(_)), "{waited}");
    let answered = || {
        Ok(faults
            .requests()
            .iter()
            .any(|seen| seen.status == Some(201))
            .then_some(()))
    };
    wait_until("Neutron's answer", PATIENCE, answered).unwrap();
    assert_eq!(stack.ports("device_id=withheld").unwrap().len(), 1);
    assert_eq!(faults.count("POST", PORTS), 2);
    assert_eq!(faults.pending(), 0);
}

fn access_rules_are_kept(stack: &OpenStack, network: &str) {
    let rules = json!([{"service": "network", "method": "POST", "path": PORTS}]);
    let [narrow, wide] = [Some(&rules), None].map(|rules| {
        let name = format!("rules-{}", rules.is_some());
        let credential = stack.create_application_credential(&name, rules).unwrap();
        (stack.session((&credential).into()), credential)
    });
    let port = json!({"port": {"network_id": network, "device_id": "by-credential"}});
    for (session, listed) in [(&narrow.0, 401), (&wide.0, 200)] {
        session.post(PORTS, &port).unwrap();
        assert_eq!(session.exchange("GET", PORTS, None).unwrap().status, listed);
    }
    stack.delete_application_credential(&wide.1).unwrap();
    let refused = stack.session((&wide.1).into()).token().unwrap_err();
    // Not 401.
    assert_eq!(refused.status(), Some(404), "{refused}");
}

fn a_quota_holds(stack: &OpenStack, network: &str) {
    stack.set_quota(1).unwrap();
    let body = json!({"port": {"network_id": network}});
    let refused = stack
        .as_member()
        .exchange("POST", PORTS, Some(&body))
        .unwrap();
    assert_eq!((refused.status, refused.kind()), (409, "OverQuota"));
    stack.set_quota(-1).unwrap();
    stack.as_member().post(PORTS, &body).unwrap();
}

fn neutron_can_be_taken_away(stack: &OpenStack) {
    let before = stack.ports("").unwrap();
    stack.neutron().stop();
    stack.ports("").unwrap_err();
    stack.neutron().start().unwrap();
    assert_eq!(stack.ports("").unwrap(), before);
    stack.neutron().restart(crate::Ending::Killed).unwrap();
    assert_eq!(stack.ports("").unwrap(), before);
}

#[test]
fn a_token_can_be_short_lived() {
    let options = Options {
        token_lifetime: Duration::from_secs(6),
        ..Options::default()
    };
    let stack = or_skip!(OpenStack::start(&options));
    let old = stack.as_member().token().unwrap();
    let agent = Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .build()
        .new_agent();
    let url = format!("{}{PORTS}", stack.neutron_url());
    wait_until("the token to be refused", PATIENCE, || {
        let answer = agent.get(&url).header("X-Auth-Token", &old).call();
        Ok(answer
            .is_ok_and(|answer| answer.status() == 401)
            .then_some(()))
    })
    .unwrap();
    // On a busy machine, a first answer may take longer than the new token is good for.
    wait_until("a new token to be good", PATIENCE, || {
        Ok(stack.ports("").ok())
    })
    .unwrap();
    assert_ne!(stack.as_member().token().unwrap(), old);
}

#[test]
fn of_many_ports_with_one_mac_address_mariadb_lets_one_be() {
    const WRITERS: usize = 16;
    let stack = or_skip!(OpenStack::start(&Options {
        database: Database::MariaDb,
        ..Options::default()
    }));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.20.0.0/16", &json!({}))
        .unwrap();
    let body = json!({"port": {"network_id": network, "mac_address": "02:00:00:00:00:01"}});
    let post = || {
        let answer = stack
            .as_member()
            .exchange("POST", PORTS, Some(&body))
            .unwrap();
        (answer.status, answer.kind().to_owned())
    };
    let mut answers: Vec<(u16, String)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(post)).collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    answers.sort();
    let mut expected = vec![(201, String::new())];
    expected.resize(WRITERS, (409, "MacAddressInUse".to_owned()));
    assert_eq!(answers, expected);
    assert_eq!(stack.ports("").unwrap().len(), 1);
}
