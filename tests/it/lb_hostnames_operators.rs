//! The first pool on real operators: the hostnames and addresses that Services lose are those that the
//! plan predicts, Service by Service.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testbed::{CiliumVersion, Operator, Options, Program, find, or_skip, wait_until};

use super::lb::{SERVICES, service};
use super::server::{Server, kubernetes};
use super::support::pool;

type Served = BTreeMap<String, BTreeSet<String>>;

/// What each Service shows: addresses and hostnames.
fn served(server: &Server) -> Served {
    let services = server.plane.list(SERVICES).unwrap();
    let of_type = services
        .iter()
        .filter(|service| service["spec"]["type"] == "LoadBalancer");
    let entries = |service: &Value| {
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
        let texts = ingress.into_iter().flatten().flat_map(|entry| {
            let fields = ["ip", "hostname"].map(|key| entry[key].as_str());
            fields
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        texts.collect()
    };
    of_type
        .map(|service| {
            let name = service["metadata"]["name"].as_str().unwrap();
            (name.to_owned(), entries(service))
        })
        .collect()
}

/// The addresses and hostnames that the plan takes away.
fn predicted(plan: &Value) -> Served {
    let mut lost = Served::new();
    for service in plan["services"].as_array().unwrap() {
        for one in service["loses"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let of_service = lost.entry(text(&service["name"])).or_default();
            of_service.insert(text(&one["address"]));
        }
    }
    lost
}

fn create(server: &Server, name: &str, class: Option<&str>, ingress: &Value) {
    let mut one = service(name, &json!({"lb": "cloud"}));
    one["spec"]["loadBalancerClass"] = json!(class);
    server.plane.create(SERVICES, &one).unwrap();
    let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
    let path = format!("{SERVICES}/{name}/status");
    server.plane.patch(&path, &status).unwrap();
}

fn first_pool_on(version: CiliumVersion) {
    let installation = kubernetes(version.release(), None);
    let program = [Program::CiliumOperator(version)];
    let server = Server::start(&installation, None, Options::default(), &program);
    let flags = ["--ipam=kubernetes", "--enable-ipv6=false"];
    let _operator = Operator::start(&server.programs, &server.plane, version, &flags).unwrap();
    let hostname = |name: &str| json!({"hostname": name});
    let both = |ip: &str, name: &str| json!({"ip": ip, "hostname": name});
    create(&server, "web", None, &json!([hostname("a1.example.com")]));
    create(
        &server,
        "api",
        None,
        &json!([hostname("a2.example.com"), hostname("a3.example.com")]),
    );
    create(
        &server,
        "both",
        None,
        &json!([both("10.9.0.1", "b.example.com")]),
    );
    create(
        &server,
        "twice",
        None,
        &json!([
            both("10.9.0.2", "c.example.com"),
            both("10.9.0.2", "d.example.com")
        ]),
    );
    let foreign = Some("example.com/nlb");
    create(
        &server,
        "other",
        foreign,
        &json!([hostname("a4.example.com")]),
    );
    server.folder.write(
        "pools/nodes.yaml",
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    let edge = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": "edge"}, "spec": {"blocks": [{"cidr": "10.7.0.0/24"}],
        "serviceSelector": {"matchLabels": {"lb": "cilium"}}}});
    server.folder.write("pools/edge.yaml", edge.to_string());

    let before = served(&server);
    let plan = server.expect("plan -o json", 5).json();
    let predicted = predicted(&plan);
    let waiver = plan["refusals"][0]["waiver"].as_str().unwrap().to_owned();
    server
        .run(&["apply", "--auto-approve", "--waive", &waiver])
        .expect(0);
    // The operator handles the Services in any order.
    server
        .plane
        .create(SERVICES, &service("marker", &json!({"lb": "cilium"})))
        .unwrap();
    let is_done = || {
        let now = served(&server);
        let is_gone = |(name, lost): (&String, &BTreeSet<String>)| lost.is_disjoint(&now[name]);
        let is_done = !now["marker"].is_empty() && predicted.iter().all(is_gone);
        Ok(is_done.then_some(now))
    };
    let after = wait_until("the hostnames to go", testbed::PATIENCE, is_done).unwrap();
    let lost = before.iter().filter_map(|(name, before)| {
        let lost: BTreeSet<String> = before.difference(&after[name]).cloned().collect();
        (!lost.is_empty()).then(|| (name.clone(), lost))
    });
    assert_eq!(
        lost.collect::<Served>(),
        predicted,
        "{version:?}: {after:?}"
    );
    assert!(!predicted.contains_key("other"), "{predicted:?}");
}

#[test]
fn the_first_pool_on_1_15_loses_what_the_plan_predicts() {
    first_pool_on(CiliumVersion::V1_15);
}

#[test]
fn the_first_pool_on_1_17_loses_what_the_plan_predicts() {
    let version = CiliumVersion::V1_17;
    let plane = [Program::KubeApiserver, Program::Etcd];
    let _programs = or_skip!(find(&[Program::CiliumOperator(version)], &plane));
    first_pool_on(version);
}

#[test]
fn the_first_pool_on_1_19_loses_what_the_plan_predicts() {
    first_pool_on(CiliumVersion::V1_19);
}

#[test]
fn the_first_pool_on_1_20_loses_what_the_plan_predicts() {
    first_pool_on(CiliumVersion::V1_20);
}
