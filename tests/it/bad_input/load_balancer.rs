//! Faults in load-balancer pools and in pins of Services.

use serde_json::Value;

use super::{Case, address_pool, assert_named};
use crate::support::{Folder, document};

fn service_pin(service: &str, ips: &str) -> String {
    let spec = format!("{{service: {service}, ips: {ips}}}");
    document("ServiceAssignment", "p", &spec)
}

#[test]
fn faults_about_load_balancer_addresses_are_named_with_their_lines() {
    let blocks = |blocks: &str| address_pool("blue", &format!("{{blocks: [{blocks}]}}"));
    let selecting = |selector: &str| {
        address_pool(
            "blue",
            &format!("{{blocks: [{{cidr: 20.0.10.0/24}}],\n  serviceSelector: {selector}}}"),
        )
    };
    let cases: Vec<Case> = vec![
        ("an empty block", blocks("{}"), "empty-block", 4),
        ("a stop alone", blocks("{stop: 10.0.0.9}"), "empty-block", 4),
        (
            "two forms",
            blocks("{cidr: 10.0.0.0/24, start: 10.0.0.9}"),
            "cidr-and-start",
            4,
        ),
        (
            "start > end",
            blocks("{start: 10.0.0.9,\n  stop: 10.0.0.1}"),
            "bad-range",
            5,
        ),
        (
            "two families",
            blocks("{start: 10.0.0.9, stop: \"fd00::1\"}"),
            "bad-range",
            4,
        ),
        ("no family", blocks("{start: ten}"), "bad-address", 4),
        ("no CIDR", blocks("{cidr: 10.0.0.0}"), "bad-cidr", 4),
        (
            "everything",
            blocks("{cidr: 0.0.0.0/0}"),
            "whole-address-space",
            4,
        ),
        (
            "everything of IPv6",
            blocks("{cidr: \"::/0\"}"),
            "whole-address-space",
            4,
        ),
        (
            "no addresses",
            address_pool("blue", "{disabled: true}"),
            "no-addresses",
            4,
        ),
        ("an empty list", blocks(""), "no-addresses", 4),
        (
            "overlap inside",
            blocks("{cidr: 10.0.0.0/24},\n  {start: 10.0.0.9}"),
            "ranges-overlap",
            5,
        ),
        (
            "loopback",
            blocks("{cidr: 127.0.0.0/24}"),
            "unusable-address-space",
            4,
        ),
        ("a number", blocks("{cidr: 10}"), "wrong-type", 4),
        (
            "unknown field",
            address_pool("blue", "{block: [{cidr: 10.0.0.0/24}]}"),
            "unknown-field",
            4,
        ),
        (
            "unknown version",
            blocks("{cidr: 10.0.0.0/24}").replace("cilium.io/v2", "cilium.io/v3"),
            "unknown-value",
            1,
        ),
        (
            "bad yes",
            address_pool(
                "blue",
                "{blocks: [{cidr: 10.0.0.0/24}],\n  allowFirstLastIPs: Perhaps}",
            ),
            "unknown-value",
            5,
        ),
        (
            "our label",
            blocks("{cidr: 10.0.0.0/24}").replace(
                "{name: blue}",
                "{name: blue, labels: {app.kubernetes.io/managed-by: me}}",
            ),
            "owner-label",
            3,
        ),
        (
            "bad name",
            blocks("{cidr: 10.0.0.0/24}").replace("name: blue", "name: Blue"),
            "bad-name",
            3,
        ),
        (
            "nothing selected",
            selecting(
                "{matchExpressions: [{key: a, operator: In, values: [x]}, {key: a, operator: NotIn, values: [x]}]}",
            ),
            "selector-matches-nothing",
            5,
        ),
        (
            "nothing selected",
            selecting(
                "{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}",
            ),
            "selector-matches-nothing",
            5,
        ),
        (
            "bad selector",
            selecting("{matchLabels: {\"a b\": x}}"),
            "bad-selector",
            5,
        ),
        (
            "two pools with one name",
            blocks("{cidr: 10.0.0.0/24}") + "---\n" + &blocks("{cidr: 10.0.1.0/24}"),
            "duplicate-name",
            8,
        ),
        (
            "two pools that overlap",
            blocks("{cidr: 10.0.0.0/24}")
                + "---\n"
                + &blocks("{start: 10.0.0.9}").replace("blue", "red"),
            "address-pool-overlap",
            9,
        ),
        (
            "no service",
            service_pin("web", "[10.0.0.1]"),
            "bad-service",
            4,
        ),
        (
            "no address",
            service_pin("shop/web", "[10.0.0.0/24]"),
            "bad-address",
            4,
        ),
        (
            "no addresses",
            service_pin("shop/web", "[]"),
            "out-of-range",
            4,
        ),
        (
            "an address twice",
            service_pin("shop/web", "[10.0.0.1, 10.0.0.1]"),
            "address-pinned-twice",
            4,
        ),
        (
            "a Service twice",
            service_pin("shop/web", "[10.0.0.1]")
                + "---\n"
                + &service_pin("shop/web", "[10.0.0.2]").replace("name: p", "name: q"),
            "service-pinned-twice",
            9,
        ),
    ];
    assert_named(cases);
}

fn annotated(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata:\n  name: {name}\n  annotations: {annotations}\nspec: {spec}\n"
    )
}

#[test]
fn faults_of_the_annotations_and_of_the_choice_are_named() {
    let choosing = |spec: &str| {
        let spec = format!("{{service: shop/web, {spec}}}");
        document("ServiceAssignment", "web", &spec)
    };
    let blue =
        |annotations: &str| annotated("blue", annotations, "{blocks: [{cidr: 20.0.10.0/29}]}");
    for (file, rule) in [
        (blue("{cilium-ipam.io/priority: high}"), "bad-priority"),
        (blue("{cilium-ipam.io/reserved: 20.0.10}"), "bad-range"),
        (
            blue("{cilium-ipam.io/reserved: 20.0.10.0/29}"),
            "no-addresses",
        ),
        (
            blue("{cilium-ipam.io/reserved: 20.0.11.0/29}"),
            "reserved-outside-pool",
        ),
        (
            blue("{cilium-ipam.io/prioriti: \"1\"}"),
            "unknown-pool-annotation",
        ),
        (choosing("pool: blue, ips: [20.0.10.1]"), "ips-and-pool"),
        (choosing("pool: \"Blue!\""), "bad-name"),
        (choosing(""), "missing-field"),
    ] {
        let folder = Folder::new(&[("pools/a.yaml", &file)]);
        let report = folder.run(&["validate", "-o", "json"]).json();
        let findings = report["findings"].as_array().unwrap();
        let rules: Vec<&Value> = findings.iter().map(|finding| &finding["rule"]).collect();
        assert_eq!(rules, [rule], "{report:#}");
    }
}
