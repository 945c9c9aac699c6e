//! Patch releases with faults: named only where an object meets them.

use serde_json::{Value, json};

use super::objects::{annotated, kubernetes, plain_pool, pool, service, with_spec};
use super::{Case, check};

const KEY: &str = "lbipam.cilium.io/sharing-key";

fn shares(name: &str, port: u16, address: &str) -> Value {
    let service = annotated(service(name, "blue", &[address]), KEY, "k");
    with_spec(service, "ports", json!([{"port": port}]))
}

fn older(service: Value) -> Value {
    annotated(service, "io.cilium/lb-ipam-sharing-key", "k")
}

fn two_of_one_address() -> Vec<Value> {
    vec![
        kubernetes(),
        plain_pool("blue", "blue", "20.0.0.0/24"),
        older(shares("a", 80, "20.0.0.5")),
        older(shares("b", 443, "20.0.0.5")),
    ]
}

#[test]
fn sharing() {
    check(&[
        Case {
            name: "1.16.1 unshares",
            versions: ["1.15.19", "1.16.1"],
            objects: two_of_one_address(),
            expected: &[
                "1.16.1 bad-release a: shares 20.0.0.5, and may lose it",
                "1.16.1 bad-release b: shares 20.0.0.5, and may lose it",
            ],
        },
        Case {
            name: "1.16.2 does not",
            versions: ["1.15.19", "1.16.2"],
            objects: two_of_one_address(),
            expected: &[],
        },
        Case {
            name: "of 1.16 without a patch, the first two are named",
            versions: ["1.15.19", "1.17.6"],
            objects: two_of_one_address(),
            expected: &[
                "1.16 patch-to-avoid a: shares 20.0.0.5, and may lose it",
                "1.16 patch-to-avoid b: shares 20.0.0.5, and may lose it",
            ],
        },
        Case {
            name: "one address for each Service",
            versions: ["1.15.19", "1.16.1"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                service("a", "blue", &["20.0.0.5"]),
                service("b", "blue", &["20.0.0.6"]),
            ],
            expected: &[],
        },
        Case {
            name: "several addresses for one key, 1.19.4",
            versions: ["1.18.3", "1.19.4"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                shares("a", 80, "20.0.0.5"),
                shares("c", 80, "20.0.0.6"),
            ],
            expected: &[
                "1.19.4 bad-release a: may lose 20.0.0.5",
                "1.19.4 bad-release c: may lose 20.0.0.6",
            ],
        },
        Case {
            name: "one address for one key, 1.19.4",
            versions: ["1.18.3", "1.19.4"],
            objects: vec![
                kubernetes(),
                plain_pool("blue", "blue", "20.0.0.0/24"),
                shares("a", 80, "20.0.0.5"),
                shares("b", 443, "20.0.0.5"),
            ],
            expected: &[],
        },
    ]);
}

#[test]
fn other_faults() {
    let reserved = |key: bool| {
        let blue = json!({"blocks": [{"cidr": "20.0.0.0/24"}], "allowFirstLastIPs": "No"});
        let service = service("a", "blue", &[]);
        let service = match key {
            true => annotated(service, KEY, "k"),
            false => service,
        };
        vec![
            kubernetes(),
            pool("blue", "blue", &blue),
            annotated(service, "lbipam.cilium.io/ips", "20.0.0.255"),
        ]
    };
    let waiting = || {
        vec![
            kubernetes(),
            plain_pool("blue", "blue", "20.0.0.0/32"),
            service("a", "blue", &["20.0.0.0"]),
            service("b", "blue", &[]),
        ]
    };
    check(&[
        Case {
            name: "1.20.2 panics",
            versions: ["1.19.3", "1.20.2"],
            objects: reserved(true),
            expected: &[
                "1.20.2 bad-release a: requests 20.0.0.255, which the pool `blue` reserves",
            ],
        },
        Case {
            name: "1.20.2 does not panic without a key",
            versions: ["1.19.3", "1.20.2"],
            objects: reserved(false),
            expected: &[],
        },
        Case {
            name: "1.20 without a patch",
            versions: ["1.19.3", "1.20"],
            objects: reserved(true),
            expected: &[
                "1.20 patch-to-avoid a: requests 20.0.0.255, which the pool `blue` reserves",
            ],
        },
        Case {
            name: "1.18.1 beside waiting Services, as the simulation says",
            versions: ["1.17.6", "1.18.1"],
            objects: waiting(),
            expected: &["1.18.1 address-may-move a: may lose 20.0.0.0"],
        },
        Case {
            name: "1.18 without a patch",
            versions: ["1.17.6", "1.18"],
            objects: waiting(),
            expected: &["1.18 patch-to-avoid a: may lose 20.0.0.0"],
        },
    ]);
}
