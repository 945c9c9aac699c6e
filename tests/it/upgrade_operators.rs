//! `upgrade` against real operators: 1.19.3 replaces 1.15.19 on the same etcd. The predictions are
//! compared with the effects, Service by Service.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{CiliumVersion, install_cilium, wait_until};

use super::lb::{POOLS, SERVICES, address_pool, operator, server, service};
use super::server::{Server, kubernetes};
use crate::support::TextAssertions;

type Addresses = BTreeMap<String, BTreeSet<String>>;

fn services(server: &Server) -> Vec<Value> {
    let shown = server.json("show lb -o json");
    shown["services"].as_array().unwrap().clone()
}

fn addresses(server: &Server) -> Addresses {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |service: &Value| {
        let ips = service["external_ips"].as_array().unwrap();
        (text(&service["name"]), ips.iter().map(text).collect())
    };
    services(server).iter().map(of).collect()
}

fn wait(server: &Server, what: &str, is_so: impl Fn(&[Value]) -> bool) {
    wait_until(what, testbed::PATIENCE, || {
        Ok(is_so(&services(server)).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error}: {:#?}", services(server)));
}

fn create(server: &Server, name: &str, color: &str, annotations: Value, port: u16) {
    let mut service = service(name, &json!({"color": color}));
    service["metadata"]["annotations"] = annotations;
    service["spec"]["ports"] = json!([{"port": port}]);
    server.plane.create(SERVICES, &service).unwrap();
}

/// Pools of each kind that an upgrade from 1.15 meets, and Services of them.
fn fill(server: &Server) {
    let pool = |name: &str, mut spec: Value| {
        spec["serviceSelector"] = json!({"matchLabels": {"color": name}});
        server
            .plane
            .create(POOLS, &address_pool(name, &spec))
            .unwrap();
    };
    pool("cidrs", json!({"cidrs": [{"cidr": "50.0.1.0/28"}]}));
    pool("edges", json!({"blocks": [{"cidr": "50.0.2.0/28"}]}));
    pool("off", json!({"blocks": [{"cidr": "50.0.3.0/28"}]}));
    pool(
        "shared",
        json!({"blocks": [{"cidr": "50.0.4.0/28"}], "allowFirstLastIPs": "No"}),
    );
    pool(
        "moved",
        json!({"blocks": [{"cidr": "50.0.5.0/28"}], "allowFirstLastIPs": "No"}),
    );
    let older = |address: &str| json!({"io.cilium/lb-ipam-ips": address});
    let key = json!({"io.cilium/lb-ipam-sharing-key": "k"});
    create(server, "of-cidrs", "cidrs", json!({}), 80);
    create(server, "keeps", "edges", json!({}), 80);
    create(server, "first", "edges", older("50.0.2.0"), 80);
    create(server, "of-disabled", "off", json!({}), 80);
    create(server, "shares-a", "shared", key.clone(), 80);
    create(server, "shares-b", "shared", key, 443);
    let both = json!({"io.cilium/lb-ipam-ips": "50.0.5.5", "lbipam.cilium.io/ips": "50.0.5.6"});
    create(server, "two-requests", "moved", both, 80);
    wait(server, "1.15 to serve every Service", |services| {
        services.iter().all(|service| !service["reason"].is_null())
    });
    let off = json!({"spec": {"disabled": true}});
    server.plane.patch(&format!("{POOLS}/off"), &off).unwrap();
}

/// Names of Services by the code that names them.
fn named(told: &Value, code: &str) -> BTreeMap<String, String> {
    let hops = told["hops"].as_array().unwrap().iter();
    let changes = hops.flat_map(|hop| hop["changes"].as_array().unwrap());
    let objects = changes
        .filter(|change| change["code"] == code)
        .flat_map(|change| change["objects"].as_array().unwrap())
        .filter(|object| object["kind"] == "Service");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |object: &Value| {
        let name = text(&object["name"]);
        (
            name.strip_prefix("default/").unwrap().to_owned(),
            text(&object["effect"]),
        )
    };
    objects.map(of).collect()
}

#[test]
fn from_1_15_to_1_19_as_told() {
    let server = server(CiliumVersion::V1_15);
    let old = operator(&server, CiliumVersion::V1_15);
    fill(&server);
    let before = addresses(&server);
    let told = server
        .expect("upgrade --to 1.19.3 --no-pools -o json --show-all", 2)
        .json();
    let lost = named(&told, "upgrade-address-lost");
    let gained = named(&told, "upgrade-address-gained");
    let names = |named: &BTreeMap<String, String>| named.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&lost),
        ["of-cidrs", "of-disabled", "two-requests"],
        "{told:#}"
    );
    assert_eq!(gained["first"], "gets 50.0.2.0", "{told:#}");
    assert!(
        named(&told, "upgrade-address-may-move").is_empty(),
        "{told:#}"
    );
    assert_eq!(told["unjudged"], json!([]));

    drop(old);
    install_cilium(&server.plane, &kubernetes("1.19.3", None)).unwrap();
    let _new = operator(&server, CiliumVersion::V1_19);
    let moved = |now: &Addresses| -> BTreeSet<String> {
        let is_other = |name: &&String| now[*name] != before[*name];
        before.keys().filter(is_other).cloned().collect()
    };
    let expected: BTreeSet<String> = lost.keys().chain(gained.keys()).cloned().collect();
    let agreed = wait_until("what was told to happen", testbed::PATIENCE, || {
        Ok((moved(&addresses(&server)) == expected).then_some(()))
    });
    assert!(
        agreed.is_ok(),
        "told {expected:?}, moved {:?}",
        moved(&addresses(&server))
    );
    // Nothing else moves later.
    std::thread::sleep(Duration::from_secs(3));
    let now = addresses(&server);
    assert_eq!(moved(&now), expected);
    assert!(
        now["of-cidrs"].is_empty() && now["of-disabled"].is_empty(),
        "{now:?}"
    );
    assert_eq!(now["two-requests"], BTreeSet::from(["50.0.5.6".to_owned()]));
    assert_eq!(now["first"], BTreeSet::from(["50.0.2.0".to_owned()]));
    // The upgrade is over.
    let again = server.expect("upgrade --to 1.19.3 --no-pools", 0);
    again.stdout.assert_has("runs already");
}
