//! What nodes and Services announce.

use serde_json::{Value, json};

use super::objects::{
    cilium_node, cluster_config, config, l2_policy, node, plain_pool, policy, pool, service,
};
use super::{Case, check};

fn cluster(settings: &Value, announcing: Vec<Value>) -> Vec<Value> {
    let mut data = json!({"ipam": "kubernetes"});
    for (key, value) in settings.as_object().unwrap() {
        data[key] = value.clone();
    }
    let mut objects = vec![
        config(&data),
        node("n1", Some("10.1.0.0/24")),
        cilium_node("n1", &["10.1.0.0/24"]),
        plain_pool("blue", "blue", "20.0.0.0/24"),
        service("a", "blue", &["20.0.0.5"]),
    ];
    objects.extend(announcing);
    objects
}

#[test]
fn bgp() {
    let on = json!({"enable-bgp-control-plane": "true"});
    check(&[
        Case {
            name: "policies end at 1.19",
            versions: ["1.18.3", "1.19.3"],
            objects: cluster(&on, vec![policy()]),
            expected: &[
                "1.19.3 node-announcement n1: its BGP sessions end",
                "1.19.3 service-announcement a: BGP no longer announces its IPv4 addresses",
            ],
        },
        Case {
            name: "the newer objects take over",
            versions: ["1.16.19", "1.20.2"],
            objects: cluster(&on, [vec![policy()], cluster_config()].concat()),
            expected: &[],
        },
        Case {
            name: "policies without the feature",
            versions: ["1.18.3", "1.19.3"],
            objects: cluster(&json!({}), vec![policy()]),
            expected: &[],
        },
        Case {
            name: "the newer objects begin at 1.16",
            versions: ["1.15.19", "1.16.19"],
            objects: cluster(&on, cluster_config()),
            expected: &[
                "1.16.19 node-announcement n1: announces 10.1.0.0/24",
                "1.16.19 service-announcement a: BGP announces its IPv4 addresses",
            ],
        },
        Case {
            name: "the speaker of MetalLB ends at 1.17",
            versions: ["1.15.19", "1.17.6"],
            objects: cluster(
                &json!({"bgp-announce-pod-cidr": "true", "bgp-announce-lb-ip": "true"}),
                vec![],
            ),
            expected: &[
                "1.17.6 node-announcement n1: no longer announces 10.1.0.0/24",
                "1.17.6 service-announcement a: BGP no longer announces its IPv4 addresses",
            ],
        },
        Case {
            name: "an announcement ends after the address, which a conversion would keep",
            versions: ["1.15.19", "1.17.6"],
            objects: vec![
                config(&json!({"ipam": "kubernetes", "bgp-announce-lb-ip": "true"})),
                pool(
                    "blue",
                    "blue",
                    &json!({"cidrs": [{"cidr": "20.0.0.0/24"}], "allowFirstLastIPs": "No"}),
                ),
                service("a", "blue", &["20.0.0.5"]),
            ],
            expected: &[
                "1.16 address-lost a: loses 20.0.0.5, then waits (`no_pool`)",
                "1.16 pool-field blue: `spec.cidrs` is dropped: 20.0.0.0/24",
                "1.17.6 service-announcement a: BGP no longer announces its IPv4 addresses",
            ],
        },
        Case {
            name: "policies announce the block of the Pods from 1.15 on",
            versions: ["1.14.19", "1.15.19"],
            objects: vec![
                config(
                    &json!({"ipam": "kubernetes", "enable-bgp-control-plane": "true", "ipv4-range": "10.7.0.0/24"}),
                ),
                node("n1", Some("10.1.0.0/24")),
                cilium_node("n1", &["10.7.0.0/24"]),
                policy(),
            ],
            expected: &[
                "1.15.19 node-announcement n1: announces 10.7.0.0/24 instead of 10.1.0.0/24",
            ],
        },
        Case {
            name: "policies in multi-pool end as well",
            versions: ["1.18.3", "1.19.3"],
            objects: vec![
                config(&json!({"ipam": "multi-pool", "enable-bgp-control-plane": "true"})),
                node("n1", None),
                policy(),
            ],
            expected: &["1.19.3 node-announcement n1: its BGP sessions end"],
        },
    ]);
}

#[test]
fn l2() {
    let on = json!({"enable-l2-announcements": "true"});
    let mut ipv6 = cluster(&on, vec![l2_policy()]);
    ipv6.push(plain_pool("six", "six", "fd00:20::/120"));
    let mut six = service("six", "six", &["fd00:20::5"]);
    six["spec"]["ipFamilies"] = json!(["IPv6"]);
    ipv6.push(six);
    check(&[
        Case {
            name: "IPv6 from 1.19 on",
            versions: ["1.18.3", "1.19.3"],
            objects: ipv6,
            expected: &["1.19.3 service-announcement six: L2 announces its IPv6 addresses"],
        },
        Case {
            name: "IPv4 as before",
            versions: ["1.16.19", "1.20.2"],
            objects: cluster(&on, vec![l2_policy()]),
            expected: &[],
        },
    ]);
}
