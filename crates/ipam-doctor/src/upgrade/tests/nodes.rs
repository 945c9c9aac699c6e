//! Blocks of nodes, and settings.

use serde_json::{Value, json};

use super::objects::{annotated, cilium_node, config, kubernetes, node};
use super::{Case, check};

const OLDER: &str = "io.cilium.network.ipv4-pod-cidr";
const NEWER: &str = "network.cilium.io/ipv4-pod-cidr";

fn by_annotation(key: &str, block: &str) -> Vec<Value> {
    vec![
        annotated(node("n1", None), key, block),
        cilium_node("n1", &["10.1.0.0/24"]),
    ]
}

fn of(first: Value, rest: Vec<Value>) -> Vec<Value> {
    [vec![first], rest].concat()
}

fn gate_open() -> Value {
    config(&json!({"ipam": "kubernetes", "annotate-k8s-node": "true"}))
}

#[test]
fn blocks_from_the_node() {
    check(&[
        Case {
            name: "the gate closes at 1.12",
            versions: ["1.11.9", "1.13.18"],
            objects: of(kubernetes(), by_annotation(OLDER, "10.1.0.0/24")),
            expected: &[
                "1.12 block-missing n1: the agent waits for a block instead of 10.1.0.0/24",
            ],
        },
        Case {
            name: "the gate closes within 1.12",
            versions: ["1.12.4", "1.12.19"],
            objects: of(kubernetes(), by_annotation(OLDER, "10.1.0.0/24")),
            expected: &[
                "1.12.19 block-missing n1: the agent waits for a block instead of 10.1.0.0/24",
            ],
        },
        Case {
            name: "the gate stays open",
            versions: ["1.11.9", "1.20.2"],
            objects: of(gate_open(), by_annotation(OLDER, "10.1.0.0/24")),
            expected: &[],
        },
        Case {
            name: "the newer key hides the older one from 1.13 on",
            versions: ["1.12.19", "1.14.19"],
            objects: vec![
                gate_open(),
                annotated(
                    annotated(node("n1", None), OLDER, "10.1.0.0/24"),
                    NEWER,
                    "10.9.0.0/24",
                ),
                cilium_node("n1", &["10.1.0.0/24"]),
            ],
            expected: &[
                "1.13 block-changes n1: its Pods live in 10.1.0.0/24, and the agent takes 10.9.0.0/24",
            ],
        },
        Case {
            name: "another block at any restart, told once",
            versions: ["1.16.19", "1.19.3"],
            objects: vec![
                kubernetes(),
                node("n1", Some("10.1.0.0/24")),
                cilium_node("n1", &["10.7.0.0/24"]),
            ],
            expected: &[
                "1.17 block-changes n1: its Pods live in 10.7.0.0/24, and the agent takes 10.1.0.0/24",
            ],
        },
        Case {
            name: "no block at any restart",
            versions: ["1.16.19", "1.17.6"],
            objects: vec![
                kubernetes(),
                node("n1", None),
                cilium_node("n1", &["10.7.0.0/24"]),
            ],
            expected: &[
                "1.17.6 block-missing n1: the agent waits for a block instead of 10.7.0.0/24",
            ],
        },
        Case {
            name: "an agent that waits before waits after",
            versions: ["1.16.19", "1.17.6"],
            objects: vec![kubernetes(), node("n1", None)],
            expected: &[],
        },
        Case {
            name: "a setting of the node stands in",
            versions: ["1.16.19", "1.19.3"],
            objects: vec![
                kubernetes(),
                node("n1", Some("10.1.0.0/24")),
                cilium_node("n1", &["10.7.0.0/24"]),
                json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig", "metadata": {"name": "n1", "namespace": "kube-system"},
                    "spec": {"nodeSelector": {"matchLabels": {"rack": "n1"}}, "defaults": {"ipv4-range": "10.7.0.0/24"}}}),
            ],
            expected: &[],
        },
        Case {
            name: "cluster-pool does not read the Node",
            versions: ["1.11.9", "1.20.2"],
            objects: of(
                config(&json!({"ipam": "cluster-pool"})),
                by_annotation(OLDER, "10.9.0.0/24"),
            ),
            expected: &[],
        },
    ]);
}

#[test]
fn the_operator_and_blocks() {
    let ranges = json!({"ipam": "cluster-pool", "enable-ipv6": "true", "cluster-pool-ipv4-cidr": "10.0.0.0/8", "cluster-pool-ipv6-cidr": "fd00::/104"});
    let ignored = |version: [&'static str; 2], expected| Case {
        name: "the operator skips annotated nodes from 1.18 on",
        versions: version,
        objects: vec![
            config(&ranges),
            annotated(node("n1", None), "ipam.cilium.io/ignore", "true"),
            {
                let mut seen = cilium_node("n1", &["10.1.0.0/24"]);
                seen["metadata"]["annotations"] = json!({"ipam.cilium.io/ignore": "true"});
                seen
            },
        ],
        expected,
    };
    let twice = |version: [&'static str; 2], expected| Case {
        name: "a duplicate block is removed from 1.17.15, 1.18.9 and 1.19.3 on",
        versions: version,
        objects: vec![
            config(&ranges),
            node("n1", None),
            node("n2", None),
            cilium_node("n1", &["10.1.0.0/24", "fd00::1:0/120"]),
            cilium_node("n2", &["10.1.0.0/24", "fd00::2:0/120"]),
        ],
        expected,
    };
    check(&[
        ignored(
            ["1.17.6", "1.19"],
            &["1.18 node-management n1: 10.1.0.0/24 may be given to another node"],
        ),
        ignored(["1.18.0", "1.19"], &[]),
        twice(
            ["1.18.3", "1.19.3"],
            &[
                "1.19.3 block-removed n1: may lose 10.1.0.0/24",
                "1.19.3 block-removed n2: may lose 10.1.0.0/24",
            ],
        ),
        twice(["1.18.3", "1.19.1"], &[]),
        twice(
            ["1.16.19", "1.18.9"],
            &[
                "1.17 block-removed n1: may lose 10.1.0.0/24",
                "1.17 block-removed n2: may lose 10.1.0.0/24",
            ],
        ),
        // Every start of such an operator removes.
        twice(
            ["1.19.3", "1.20.2"],
            &[
                "1.20.2 block-removed n1: may lose 10.1.0.0/24",
                "1.20.2 block-removed n2: may lose 10.1.0.0/24",
            ],
        ),
    ]);
}

#[test]
fn settings() {
    check(&[
        Case {
            name: "native routing by `tunnel`",
            versions: ["1.13.18", "1.16.19"],
            objects: vec![config(&json!({"ipam": "kubernetes", "tunnel": "disabled"}))],
            expected: &[
                "1.15 setting cilium-config: Pods are routed through tunnels instead of natively",
            ],
        },
        Case {
            name: "native routing by `routing-mode`",
            versions: ["1.13.18", "1.16.19"],
            objects: vec![config(
                &json!({"ipam": "kubernetes", "tunnel": "disabled", "routing-mode": "native"}),
            )],
            expected: &[],
        },
        Case {
            name: "the default tunnel",
            versions: ["1.13.18", "1.16.19"],
            objects: vec![config(&json!({"ipam": "kubernetes", "tunnel": "vxlan"}))],
            expected: &[],
        },
        Case {
            name: "a mode that ends",
            versions: ["1.14.19", "1.15.19"],
            objects: vec![config(&json!({"ipam": "cluster-pool-v2beta"}))],
            expected: &["1.15.19 setting cilium-config: agents and operator fail to start"],
        },
        Case {
            name: "the default pool of multi-pool",
            versions: ["1.14.19", "1.16"],
            objects: vec![
                config(&json!({"ipam": "multi-pool", "ipam-default-ip-pool": "racks"})),
                node("n1", None),
            ],
            expected: &[
                "1.15 default-pool n1: new Pods get addresses of `racks`, by cilium-config",
            ],
        },
    ]);
}
