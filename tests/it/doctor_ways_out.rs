//! `doctor` on LoadBalancer addresses: the cause that each finding names, and the way out.

use serde_json::{Value, json};

use super::doctor_cluster::{Base, healthy, object, on_file, severities, told};
use crate::support::TextAssertions;

fn help(report: &Value, rule: &str) -> String {
    let mut findings = report["findings"].as_array().unwrap().iter();
    let finding = findings
        .find(|finding| finding["rule"] == rule)
        .unwrap_or_else(|| panic!("no {rule}: {report:#}"));
    finding["fix"].as_str().unwrap().to_owned()
}

fn service(name: &str, annotations: Value, ports: &[u16], address: Option<&str>) -> Value {
    let ports: Vec<Value> = ports.iter().map(|port| json!({"port": port})).collect();
    let ingress: Vec<Value> = address.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": ports},
        "status": {"loadBalancer": {"ingress": ingress}}})
}

#[test]
fn the_way_out_of_a_port_conflict_is_other_ports() {
    let key = json!({"lbipam.cilium.io/sharing-key": "edge"});
    let mut objects = healthy(Base::ClusterPool);
    objects.push(service("a", key.clone(), &[443], Some("10.30.0.9")));
    objects.push(service("b", key.clone(), &[8443, 443], Some("10.30.0.9")));
    let help = help(&on_file(&objects), "duplicate-address");
    help.assert_has("both have 443/TCP");
    help.assert_has("request another address");
    for wrong in ["sharing key", "overlapping pools"] {
        help.assert_lacks(wrong);
    }

    // Now the second one waits for the address.
    let mut asks = key;
    asks["lbipam.cilium.io/ips"] = "10.30.0.9".into();
    objects.pop();
    objects.push(service("b", asks, &[443], None));
    let help = self::help(&on_file(&objects), "service-without-address");
    help.assert_has("`default/a`: ports: both have 443/TCP");
    help.assert_lacks("sharing key");
}

#[test]
fn the_way_out_of_an_address_without_a_key_is_all_that_is_missing() {
    let asks = json!({"lbipam.cilium.io/ips": "10.30.0.1"});
    let mut objects = healthy(Base::ClusterPool);
    objects.push(service("b", asks, &[80], None));
    let help = help(&on_file(&objects), "service-without-address");
    for missing in ["`default/web`", "sharing keys", "both have 80/TCP"] {
        help.assert_has(missing);
    }
}

#[test]
fn overlapping_pools_are_named_where_they_are_the_cause() {
    let mut objects = healthy(Base::ClusterPool);
    objects.push(service("b", json!({}), &[81], Some("10.30.0.1")));
    objects.push(
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": "over"}, "spec": {"blocks": [{"cidr": "10.30.0.0/28"}]}}),
    );
    let help = help(&on_file(&objects), "duplicate-address");
    help.assert_has("overlapping pools");
    help.assert_has("sharing keys: none and none");
}

#[test]
fn the_way_out_of_a_reserved_address_is_in_the_pool() {
    let mut objects = healthy(Base::ClusterPool);
    object(&mut objects, "CiliumLoadBalancerIPPool", "outside")["spec"]["allowFirstLastIPs"] =
        "No".into();
    let asks = json!({"lbipam.cilium.io/ips": "10.30.0.0"});
    objects.push(service("edge", asks, &[80], None));
    let help = help(&on_file(&objects), "service-without-address");
    help.assert_has("allowFirstLastIPs");
    help.assert_lacks("sharing");
}

#[test]
fn one_family_is_enough_for_a_service_that_prefers_two() {
    let mut objects = healthy(Base::ClusterPool);
    object(&mut objects, "ConfigMap", "cilium-config")["data"]["enable-ipv6"] = "true".into();
    let waits = |policy: &str, address: Option<&str>| {
        let mut objects = objects.clone();
        let mut dual = service("dual", json!({}), &[80], address);
        dual["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
        dual["spec"]["ipFamilyPolicy"] = policy.into();
        objects.push(dual);
        !severities(&on_file(&objects), "service-without-address").is_empty()
    };
    assert!(!waits("PreferDualStack", Some("10.30.0.9")));
    assert!(waits("RequireDualStack", Some("10.30.0.9")));
}

/// A policy that BGP would need is an error; with BGP switched off, it never did anything.
#[test]
fn a_policy_that_is_left_over_is_judged_by_what_speaks_bgp() {
    let policy = |selector: Value| {
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumBGPPeeringPolicy",
            "metadata": {"name": "old"}, "spec": {"nodeSelector": selector, "virtualRouters": []}})
    };
    let judged = |bgp: &str, selector: Value| {
        let mut objects = healthy(Base::ClusterPool);
        object(&mut objects, "ConfigMap", "cilium-config")["data"]["enable-bgp-control-plane"] =
            bgp.into();
        objects.push(policy(selector));
        severities(&on_file(&objects), "peering-policy-not-read")
    };
    assert_eq!(judged("true", json!({})), ["error"]);
    assert_eq!(judged("false", json!({})), ["info"]);
    let of_no_node = json!({"matchLabels": {"rack": "none"}});
    assert_eq!(judged("true", of_no_node), ["warning"]);
}

/// The pool is read alike by both releases; only the annotations differ.
#[test]
fn an_address_that_an_upgrade_takes_has_its_cause() {
    let mut objects = healthy(Base::MetalLb);
    let web = object(&mut objects, "Service", "web");
    web["metadata"]["annotations"] =
        json!({"io.cilium/lb-ipam-ips": "10.30.0.1", "lbipam.cilium.io/ips": "10.30.0.9"});
    let report = on_file(&objects);
    assert_eq!(
        severities(&report, "addresses-lost-at-upgrade"),
        ["warning"]
    );
    let (message, _) = &told(&report, "addresses-lost-at-upgrade")[0];
    message.assert_has("hides `io.cilium/lb-ipam-ips`");
    message.assert_lacks("cidrs");
    let help = help(&report, "addresses-lost-at-upgrade");
    help.assert_has("both annotations");
}
