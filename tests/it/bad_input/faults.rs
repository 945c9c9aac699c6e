//! One fault in one file: its rule, its file and its line.

use super::{GOOD, assert_named};
use crate::support::{pin, pool};

/// Faulty files, each with the rule that must find it and the line.
pub fn cases() -> Vec<(&'static str, String, &'static str, u64)> {
    let twice = |a: String, b: String| format!("{a}---\n{b}");
    let spec = |spec: &str| pool("a", spec);
    vec![
        ("overlapping pools", twice(pool("a", GOOD), pool("b", "{cidrs: [10.20.128.0/17], blockSize: 24}")), "pool-overlap", 9),
        ("host bits", spec("{cidrs: [10.20.0.1/16], blockSize: 24}"), "host-bits", 4),
        ("block larger than its range", spec("{cidrs: [10.20.0.0/25], blockSize: 24}"), "block-larger-than-range", 4),
        ("/0", spec("{cidrs: [0.0.0.0/0], blockSize: 24}"), "whole-address-space", 4),
        ("IPv4-mapped IPv6", spec("{cidrs: [\"::ffff:10.0.0.0/112\"], blockSize: {ipv6: 120}}"), "mapped-ipv4", 4),
        ("no CIDR", spec("{cidrs: [rack-a], blockSize: 24}"), "bad-cidr", 4),
        ("loopback", spec("{cidrs: [127.0.0.0/16], blockSize: 24}"), "unusable-address-space", 4),
        ("unknown field", spec("{cidrs: [10.20.0.0/16], blocksize: 24}"), "unknown-field", 4),
        ("missing field", spec("{cidrs: [10.20.0.0/16]}"), "missing-field", 4),
        ("wrong type", spec("{cidrs: 10.20.0.0/16, blockSize: 24}"), "wrong-type", 4),
        ("null", spec("{cidrs: null, blockSize: 24}"), "wrong-type", 4),
        ("no spec", "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {name: a}\nspec:\n".into(), "wrong-type", 4),
        ("block size of 33", spec("{cidrs: [10.20.0.0/16], blockSize: 33}"), "out-of-range", 4),
        ("huge number", spec("{cidrs: [10.20.0.0/16], blockSize: 24, priority: 99999999999999999999}"), "out-of-range", 4),
        ("no size for a family", spec("{cidrs: [\"fd00::/48\"], blockSize: 24}"), "missing-block-size", 4),
        ("unknown kind", pool("a", GOOD).replace("IPPool", "IPPol"), "unknown-kind", 2),
        ("no kind", "metadata: {name: a}\n".into(), "missing-field", 1),
        ("unknown version", pool("a", GOOD).replace("v1alpha1", "v9"), "unknown-value", 1),
        ("duplicate name", twice(pool("a", GOOD), pool("a", "{cidrs: [10.21.0.0/16], blockSize: 24}")), "duplicate-name", 8),
        ("impossible name", pool("A_b", GOOD), "bad-name", 3),
        ("pin outside its pool", twice(pool("a", GOOD), pin("n", "10.99.0.0/24")), "pin-outside-pool", 9),
        ("pin of another size", twice(pool("a", GOOD), pin("n", "10.20.0.0/25")), "pin-size", 9),
        ("pin into a pool that is not there", twice(pool("rack-a", GOOD), pin("n", "10.20.0.0/24").replace("{podCIDRs", "{pool: rack-b, podCIDRs")), "pin-pool-unknown", 9),
        ("block pinned twice", twice(pool("a", GOOD), twice(pin("n", "10.20.0.0/24"), pin("m", "10.20.0.0/24"))), "block-pinned-twice", 13),
        ("unknown operator", spec("{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchExpressions: [{key: a, operator: Is}]}}"), "unknown-value", 4),
        ("operator without values", spec("{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchExpressions: [{key: a, operator: In}]}}"), "bad-selector", 4),
        ("impossible label", spec("{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {\"a b\": c}}}"), "bad-selector", 4),
        ("backwards range", spec("{cidrs: [10.20.0.0/16], blockSize: 24, reserved: [10.20.0.9-10.20.0.1]}"), "bad-range", 4),
        ("two policies", twice(pool("a", GOOD), "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {}\n---\napiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: q}\nspec: {}\n".into()), "multiple-policies", 13),
        ("pin of an excluded block", twice(pool("a", GOOD), twice(pin("n", "10.20.0.0/24"), "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {excluded: [10.20.0.0/20]}\n".into())), "pin-excluded", 8),
        ("a fraction", spec("{cidrs: [10.20.0.0/16],\n  blockSize: 24.0}"), "wrong-type", 5),
        ("an exponent", spec("{cidrs: [10.20.0.0/16], blockSize: 24,\n  priority: 1e2}"), "wrong-type", 5),
        ("a fraction of a family", spec("{cidrs: [10.20.0.0/16], blockSize: {\n  ipv4: 24.5}}"), "wrong-type", 5),
        ("priority beyond 32 bits", spec("{cidrs: [10.20.0.0/16], blockSize: 24,\n  priority: 3000000000}"), "out-of-range", 5),
        ("no CIDRs", spec("{cidrs: [], blockSize: 24}"), "out-of-range", 4),
        ("no block size", spec("{cidrs: [10.20.0.0/16], blockSize: {}}"), "out-of-range", 4),
        ("three blocks", twice(pool("a", GOOD), pin("n", "10.20.0.0/24\", \"10.20.1.0/24\", \"fd00::/64")), "out-of-range", 9),
        ("a kind that is a number", pool("a", GOOD).replace("IPPool", "5"), "wrong-type", 2),
        ("a typo beside host bits", spec("{blocksize: 24,\n  cidrs: [10.20.0.1/16]}"), "host-bits", 5),
        ("a pin and no pools", pin("n", "10.20.0.0/24").replace("{podCIDRs", "{pool: a, podCIDRs"), "pin-pool-unknown", 4),
        ("a subnet with a block size", subnet("blockSize: 24, "), "neutron-pool-field", 4),
        ("a subnet with a selector", subnet("nodeSelector: {matchLabels: {rack: a}}, "), "neutron-pool-field", 4),
        ("a subnet with CIDRs", subnet("cidrs: [10.20.0.0/16], "), "neutron-pool-field", 4),
        ("a network by its name", subnet("").replace("network: 782ec9ac", "network: pods-782ec9ac"), "bad-neutron-id", 4),
        ("a network without a subnet", subnet("").replace("subnet:", "subnett:"), "unknown-field", 4),
        ("a subnet that is named twice", twice(subnet(""), subnet("").replace("{name: a}", "{name: b}")), "pool-overlap", 9),
        ("a pin into a subnet", twice(subnet(""), pin("n", "10.20.0.0/24").replace("{podCIDRs", "{pool: a, podCIDRs")), "pin-neutron-pool", 9),
        ("nothing at all", String::new(), "empty-directory", 1),
        ("comments only", "# later\n---\n# still nothing\n".into(), "empty-directory", 1),
        ("an alias without anchor", "a: *b\n".into(), "yaml-syntax", 1),
        ("nested blocks", format!("{}a\n", "- ".repeat(100_000)), "yaml-too-large", 1),
        ("a flood of documents", "--- a\n".repeat(100_001), "yaml-too-large", 100_001),
        ("no YAML", "kind: [IPPool\nmetadata: }\n".into(), "yaml-syntax", 2),
        ("duplicate key", pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24, blockSize: 25}"), "yaml-syntax", 4),
        ("a binary", "\u{0}\u{1}\u{2}".into(), "yaml-syntax", 1),
        ("an alias bomb", alias_bomb(), "yaml-too-large", 6),
        ("deep nesting", format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000)), "yaml-too-large", 1),
    ]
}

/// A pool that is a subnet, with these fields added.
fn subnet(more: &str) -> String {
    let (network, subnet) = (
        "782ec9ac-44f9-4318-8c67-a2fed2ccca4f",
        "2e7b9b0c-9d65-4b7e-8d1e-6f0c1d5a9b11",
    );
    pool(
        "a",
        &format!("{{{more}neutron: {{network: {network}, subnet: {subnet}}}}}"),
    )
}

fn alias_bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let below = level - 1;
        let aliases = vec![format!("*a{below}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text
}

#[test]
fn each_fault_is_named_with_its_line_and_nothing_is_written() {
    assert_named(cases());
}
