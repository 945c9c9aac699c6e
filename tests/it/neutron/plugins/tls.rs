//! Certificates: a server without a trusted certificate learns no password and makes no port.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testbed::openstack::{DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER, Options};
use testbed::{OpenStack, TlsFront, or_skip};

use crate::neutron::support::{Plugin, ports, stack};

/// A clouds.yaml of the node, whose cloud has these additional fields.
fn plugin(stack: &OpenStack, network: &str, keystone: &TlsFront, more: &Value) -> Plugin {
    let plugin = Plugin::new(stack, network, "n1")
        .with("openstackConf", Value::Null)
        .with("cloud", json!("lab"));
    let file = plugin.folder().join("clouds.yaml");
    let auth = json!({
        "auth_url": format!("{}/v3", keystone.url()), "username": MEMBER_USER, "password": MEMBER_PASSWORD,
        "project_name": MEMBER_PROJECT, "user_domain_id": DOMAIN, "project_domain_id": DOMAIN,
    });
    let mut cloud = json!({"auth": auth});
    more.as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| cloud[key] = value.clone());
    std::fs::write(&file, json!({"clouds": {"lab": cloud}}).to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    plugin.with("cloudsFile", json!(file))
}

/// Neutron is to be found there from now on.
fn point_catalog(stack: &OpenStack, url: &str) {
    let admin = stack.as_admin();
    let services = admin.get("/v3/services?type=network").unwrap();
    let service = services["services"][0]["id"].as_str().unwrap();
    let endpoints = admin
        .get(&format!(
            "/v3/endpoints?service_id={service}&interface=public"
        ))
        .unwrap();
    let endpoint = endpoints["endpoints"][0]["id"].as_str().unwrap();
    let change = json!({"endpoint": {"url": url}});
    admin
        .exchange("PATCH", &format!("/v3/endpoints/{endpoint}"), Some(&change))
        .unwrap()
        .success()
        .unwrap();
}

#[test]
fn only_who_is_trusted_is_told_a_secret() {
    let stack = or_skip!(stack(&Options::default()));
    let network = stack.create_network("pods").unwrap();
    stack
        .create_subnet(&network, "10.1.0.0/24", &json!({}))
        .unwrap();
    let keystone = TlsFront::start(&stack.keystone_url()).unwrap();
    let [neutron, another] = [(); 2].map(|()| TlsFront::start(&stack.neutron_url()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let authorities = folder.path().join("ca.pem");
    let trusted = |fronts: &[&TlsFront]| {
        let all: String = fronts.iter().map(|front| front.authority()).collect();
        std::fs::write(&authorities, all).unwrap();
    };
    let at = |more: &Value| plugin(&stack, &network, &keystone, more);
    let logins = || stack.keystone().faults().count("POST", "/v3/auth/tokens");
    point_catalog(&stack, &neutron.url());
    let before = logins();
    trusted(&[&another]);
    for more in [json!({}), json!({"cacert": authorities})] {
        let (code, message) = at(&more).refused("ADD", "a");
        assert!(
            message.to_lowercase().contains("certificate"),
            "{code} {message}"
        );
    }
    assert_eq!(logins(), before, "no server got the password");
    trusted(&[&keystone]);
    let (code, message) = at(&json!({"cacert": authorities})).refused("ADD", "a");
    assert!(
        message.to_lowercase().contains("certificate"),
        "Neutron has another certificate: {code} {message}"
    );
    trusted(&[&keystone, &neutron]);
    let good = at(&json!({"cacert": authorities}));
    assert_eq!(good.add("a").len(), 1);
    good.run("CHECK", "a").expect(0);
    good.run("STATUS", "").expect(0);
    good.del("a");
    let careless = at(&json!({"verify": false}));
    assert_eq!(careless.add("b").len(), 1, "whoever says so");
    careless.del("b");
    point_catalog(&stack, &stack.neutron_url());
    assert_eq!(ports(&stack, &network), [""; 0]);
}
