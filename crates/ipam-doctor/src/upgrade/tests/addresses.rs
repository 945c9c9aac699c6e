//! Addresses of Services, and the meaning of pools.

use serde_json::json;

use super::objects::{annotated, config, kubernetes, named, plain_pool, pool, service, with_spec};
use super::{Case, check};

const OLDER_IPS: &str = "io.cilium/lb-ipam-ips";
const NEWER_IPS: &str = "lbipam.cilium.io/ips";
const OLDER_KEY: &str = "io.cilium/lb-ipam-sharing-key";

fn cidrs() -> serde_json::Value {
    pool(
        "blue",
        "blue",
        &json!({"cidrs": [{"cidr": "20.0.0.0/24"}], "allowFirstLastIPs": "No"}),
    )
}

#[test]
fn fields_of_pools() {
    check(&[
        Case {
            name: "cidrs are dropped at 1.16",
            versions: ["1.15.19", "1.16.19"],
            objects: vec![kubernetes(), cidrs(), service("a", "blue", &["20.0.0.1"])],
            expected: &[
                "1.16.19 address-lost a: loses 20.0.0.1, then waits (`no_pool`)",
                "1.16.19 pool-field blue: `spec.cidrs` is dropped: 20.0.0.0/24",
            ],
        },
        Case {
            name: "cidrs without a Service",
            versions: ["1.15.19", "1.18"],
            objects: vec![kubernetes(), cidrs()],
            expected: &["1.16 pool-field blue: `spec.cidrs` is dropped: 20.0.0.0/24"],
        },
        Case {
            name: "cidrs beside blocks that cover them",
            versions: ["1.15.19", "1.16.19"],
            objects: vec![
                kubernetes(),
                cidrs(),
                plain_pool("green", "green", "20.0.1.0/24"),
                service("a", "green", &["20.0.1.1"]),
            ],
            expected: &["1.16.19 pool-field blue: `spec.cidrs` is dropped: 20.0.0.0/24"],
        },
        Case {
            name: "the default of allowFirstLastIPs flips",
            versions: ["1.15.19", "1.19.3"],
            objects: vec![
                kubernetes(),
                pool(
                    "blue",
                    "blue",
                    &json!({"blocks": [{"cidr": "20.0.0.0/24"}]}),
                ),
                service("a", "blue", &["20.0.0.1"]),
            ],
            expected: &["1.16 first-last blue: gives out 20.0.0.0 and 20.0.0.255"],
        },
        Case {
            name: "a waiting Service gets the first address",
            versions: ["1.15.19", "1.16.19"],
            objects: vec![
                kubernetes(),
                pool(
                    "blue",
                    "blue",
                    &json!({"blocks": [{"cidr": "20.0.0.0/24"}]}),
                ),
                annotated(service("z", "blue", &[]), OLDER_IPS, "20.0.0.0"),
            ],
            expected: &[
                "1.16.19 first-last blue: gives out 20.0.0.0 and 20.0.0.255",
                "1.16.19 address-gained z: gets 20.0.0.0",
            ],
        },
        Case {
            name: "`No` and ranges of addresses never flip",
            versions: ["1.15.19", "1.17.6"],
            objects: vec![
                kubernetes(),
                pool(
                    "a",
                    "a",
                    &json!({"blocks": [{"cidr": "20.0.0.0/24"}], "allowFirstLastIPs": "No"}),
                ),
                pool(
                    "b",
                    "b",
                    &json!({"blocks": [{"start": "20.0.1.0", "stop": "20.0.1.9"}]}),
                ),
                pool("c", "c", &json!({"blocks": [{"cidr": "20.0.2.0/31"}]})),
            ],
            expected: &[],
        },
        Case {
            name: "a CIDR of one address has one from 1.15 on, and conditions are renamed",
            versions: ["1.14.19", "1.15.19"],
            objects: vec![
                kubernetes(),
                pool("tiny", "blue", &json!({"cidrs": [{"cidr": "20.0.0.0/32"}]})),
                service("a", "blue", &[]),
            ],
            expected: &[
                "1.15.19 first-last tiny: gives out 20.0.0.0",
                "1.15.19 address-gained a: gets an IPv4 address of tiny",
                "1.15.19 condition-names tiny: `io.cilium/conflict` becomes `cilium.io/PoolConflict`, and the counts `cilium.io/IPsTotal`, `IPsAvailable` and `IPsUsed`",
                "1.15.19 condition-names a: `io.cilium/lb-ipam-request-satisfied` becomes `cilium.io/IPAMRequestSatisfied`",
            ],
        },
    ]);
}

#[test]
fn annotations_and_classes() {
    check(&[
        Case {
            name: "the newer annotation hides the older one",
            versions: ["1.15.19", "1.16.19"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                annotated(
                    annotated(service("a", "blue", &["20.0.0.5"]), OLDER_IPS, "20.0.0.5"),
                    NEWER_IPS,
                    "20.0.0.6",
                ),
            ],
            expected: &["1.16.19 address-lost a: loses 20.0.0.5, then gets 20.0.0.6"],
        },
        Case {
            name: "equal annotations",
            versions: ["1.15.19", "1.20"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                annotated(
                    annotated(service("a", "blue", &["20.0.0.5"]), OLDER_IPS, "20.0.0.5"),
                    NEWER_IPS,
                    "20.0.0.5",
                ),
            ],
            expected: &[],
        },
        Case {
            name: "a class of L2 is served from 1.15 on",
            versions: ["1.14.19", "1.15.19"],
            objects: vec![
                config(&json!({"ipam": "kubernetes", "enable-l2-announcements": "true"})),
                with_spec(
                    service("a", "blue", &[]),
                    "loadBalancerClass",
                    json!("io.cilium/l2-announcer"),
                ),
            ],
            expected: &["1.15.19 service-class a: LB-IPAM serves it"],
        },
        Case {
            name: "a Service that LB-IPAM newly serves loses its hostname",
            versions: ["1.14.19", "1.15.19"],
            objects: vec![
                config(&json!({"ipam": "kubernetes", "enable-l2-announcements": "true"})),
                plain_pool("red", "red", "20.0.0.0/24"),
                with_spec(
                    named(service("a", "blue", &[]), "a.example"),
                    "loadBalancerClass",
                    json!("io.cilium/l2-announcer"),
                ),
            ],
            expected: &[
                "1.15.19 service-class a: loses a.example, then waits (`no_pool`)",
                "1.15.19 condition-names red: `io.cilium/conflict` becomes `cilium.io/PoolConflict`, and the counts `cilium.io/IPsTotal`, `IPsAvailable` and `IPsUsed`",
            ],
        },
        Case {
            name: "the first restart removes a hostname, if there is a pool",
            versions: ["1.17.4", "1.19.3"],
            objects: vec![
                kubernetes(),
                plain_pool("red", "red", "20.0.0.0/24"),
                named(service("a", "blue", &[]), "a.example"),
            ],
            expected: &["1.18 address-lost a: loses a.example"],
        },
        Case {
            name: "without a pool, a hostname stays",
            versions: ["1.17.4", "1.19.3"],
            objects: vec![kubernetes(), named(service("a", "blue", &[]), "a.example")],
            expected: &[],
        },
        Case {
            name: "settings of LB-IPAM are read from 1.17 on",
            versions: ["1.16.19", "1.18"],
            objects: vec![
                config(&json!({"ipam": "kubernetes", "default-lb-service-ipam": "none"})),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                service("a", "blue", &["20.0.0.5"]),
                service("b", "blue", &[]),
            ],
            expected: &[
                "1.17 service-class a: keeps 20.0.0.5 without LB-IPAM",
                "1.17 service-class b: LB-IPAM gives it no address",
            ],
        },
        Case {
            name: "two compete for an address that becomes free",
            versions: ["1.15.19", "1.16.19"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                annotated(service("a", "blue", &["20.0.0.5"]), NEWER_IPS, "20.0.0.6"),
                annotated(service("b", "blue", &["20.0.0.6"]), NEWER_IPS, "20.0.0.5"),
                wants("c"),
            ],
            expected: COMPETITION,
        },
        Case {
            name: "three compete for it",
            versions: ["1.15.19", "1.16.19"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                annotated(service("a", "blue", &["20.0.0.5"]), NEWER_IPS, "20.0.0.6"),
                wants("c"),
                wants("m"),
                wants("z"),
            ],
            expected: &[
                "1.16.19 address-lost a: loses 20.0.0.5, then gets 20.0.0.6",
                "1.16.19 address-gained c: may get 20.0.0.5",
                "1.16.19 address-gained m: may get 20.0.0.5",
                "1.16.19 address-gained z: may get 20.0.0.5",
            ],
        },
        Case {
            name: "another reason of a waiting Service",
            versions: ["1.15.19", "1.17.6"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                annotated(service("a", "blue", &["20.0.0.5"]), OLDER_KEY, "one"),
                annotated(
                    annotated(service("b", "blue", &[]), OLDER_KEY, "two"),
                    OLDER_IPS,
                    "20.0.0.5",
                ),
            ],
            expected: REASONS,
        },
    ]);
}

fn wants(name: &str) -> serde_json::Value {
    let older = annotated(service(name, "blue", &[]), OLDER_IPS, "20.0.0.5");
    annotated(older, NEWER_IPS, "20.0.0.5")
}

const COMPETITION: &[&str] = &[
    "1.16.19 address-lost a: loses 20.0.0.5, then gets 20.0.0.6",
    "1.16.19 address-lost b: loses 20.0.0.6, then may get 20.0.0.5 or waits (`already_allocated`)",
    "1.16.19 address-gained c: may get 20.0.0.5",
];

const REASONS: &[&str] = &[
    "1.16 address-may-move a: may lose 20.0.0.5",
    "1.17.6 condition-names b: waits with `already_allocated_incompatible_service` instead of `already_allocated_different_sharing_key`",
];

#[test]
fn every_start_of_the_operator() {
    let disabled = |mut pool: serde_json::Value| {
        pool["spec"]["disabled"] = true.into();
        pool
    };
    check(&[
        Case {
            name: "a disabled pool, told once",
            versions: ["1.17.6", "1.19.3"],
            objects: vec![
                kubernetes(),
                disabled(plain_pool("blue", "blue", "20.0.0.0/24")),
                service("a", "blue", &["20.0.0.5"]),
            ],
            expected: &["1.18 address-lost a: loses 20.0.0.5, then waits (`no_pool`)"],
        },
        Case {
            name: "a patch release is a start as well",
            versions: ["1.19.1", "1.19.3"],
            objects: vec![
                kubernetes(),
                disabled(plain_pool("blue", "blue", "20.0.0.0/24")),
                service("a", "blue", &["20.0.0.5"]),
            ],
            expected: &["1.19.3 address-lost a: loses 20.0.0.5, then waits (`no_pool`)"],
        },
        Case {
            name: "the same version is none",
            versions: ["1.19.3", "1.19.3"],
            objects: vec![
                kubernetes(),
                disabled(plain_pool("blue", "blue", "20.0.0.0/24")),
                service("a", "blue", &["20.0.0.5"]),
            ],
            expected: &[],
        },
        Case {
            name: "reserved after it was given",
            versions: ["1.18.3", "1.19.3"],
            objects: vec![
                kubernetes(),
                pool(
                    "blue",
                    "blue",
                    &json!({"blocks": [{"cidr": "20.0.0.0/24"}], "allowFirstLastIPs": "No"}),
                ),
                service("a", "blue", &["20.0.0.0"]),
            ],
            expected: &["1.19.3 address-lost a: loses 20.0.0.0, then gets an IPv4 address of blue"],
        },
        Case {
            name: "no pool covers it any more",
            versions: ["1.18.3", "1.19.3"],
            objects: vec![
                kubernetes(),
                plain_pool("green", "green", "20.0.1.0/24"),
                service("a", "blue", &["20.0.0.9"]),
            ],
            expected: &["1.19.3 address-lost a: loses 20.0.0.9, then waits (`no_pool`)"],
        },
        Case {
            name: "an overlapping pool that loses",
            versions: ["1.18.3", "1.19.3"],
            objects: {
                let mut late = plain_pool("late", "red", "20.0.0.128/25");
                late["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
                vec![
                    kubernetes(),
                    plain_pool("blue", "blue", "20.0.0.0/24"),
                    late,
                    service("a", "red", &["20.0.0.200"]),
                    service("b", "blue", &["20.0.0.1"]),
                ]
            },
            expected: &["1.19.3 address-lost a: loses 20.0.0.200, then waits (`no_pool`)"],
        },
        Case {
            name: "waiting Services up to 1.18.1, told once",
            versions: ["1.15.19", "1.17.6"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/32"),
                service("a", "blue", &["20.0.0.0"]),
                service("b", "blue", &[]),
            ],
            expected: &["1.16 address-may-move a: may lose 20.0.0.0"],
        },
        Case {
            name: "waiting Services from 1.18.2 on",
            versions: ["1.17.6", "1.18.3"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/32"),
                service("a", "blue", &["20.0.0.0"]),
                service("b", "blue", &[]),
            ],
            expected: &[],
        },
        Case {
            name: "a chosen address is not lost again",
            versions: ["1.17.6", "1.20.2"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                disabled(plain_pool("old", "blue", "20.0.1.0/24")),
                service("a", "blue", &["20.0.1.5"]),
            ],
            expected: &["1.18 address-lost a: loses 20.0.1.5, then gets an IPv4 address of blue"],
        },
        Case {
            name: "nor one beside the reserved ones, or one that two share",
            versions: ["1.15.19", "1.20.2"],
            objects: {
                let tiny = json!({"blocks": [{"cidr": "20.0.0.0/30"}], "allowFirstLastIPs": "No"});
                let waits = |name: &str, port: u16| {
                    let service = annotated(service(name, "blue", &["20.0.9.9"]), OLDER_KEY, "k");
                    with_spec(service, "ports", json!([{"port": port}]))
                };
                vec![
                    kubernetes(),
                    pool("blue", "blue", &tiny),
                    service("a", "blue", &["20.0.0.1"]),
                    waits("b", 81),
                    waits("c", 82),
                ]
            },
            expected: &[
                "1.16 address-lost b: loses 20.0.9.9, then gets an IPv4 address of blue",
                "1.16 address-lost c: loses 20.0.9.9, then gets an IPv4 address of blue",
                "1.16 address-may-move a: may lose 20.0.0.1",
                "1.16 patch-to-avoid b: shares 20.0.9.9, and may lose it",
                "1.16 patch-to-avoid c: shares 20.0.9.9, and may lose it",
            ],
        },
        Case {
            name: "pools without an order from 1.20 on",
            versions: ["1.18.3", "1.20.2"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                plain_pool("more", "blue", "20.0.1.0/24"),
                service("a", "blue", &["20.0.0.1"]),
                annotated(service("b", "blue", &["20.0.0.2"]), NEWER_IPS, "20.0.0.2"),
            ],
            expected: &["1.20.2 pool-choice a: a new address comes from `blue` or `more`"],
        },
    ]);
}
