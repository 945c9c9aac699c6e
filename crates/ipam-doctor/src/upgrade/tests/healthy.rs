//! Healthy clusters stay silent over every pair of versions.

use serde_json::{Value, json};

use super::objects::{
    annotated, cilium_node, cluster_config, config, l2_policy, node, plain_pool, pool, service,
};
use super::{observe, told, v};
use crate::upgrade::{Files, upgrade};

const VERSIONS: [&str; 8] = [
    "1.13.18", "1.14.19", "1.15.19", "1.16.19", "1.17.6", "1.18.3", "1.19.3", "1.20.2",
];

struct Healthy {
    name: &'static str,
    /// The first version to which its objects belong.
    since: &'static str,
    objects: Vec<Value>,
}

fn nodes(field: &str) -> Vec<Value> {
    let one = |index: u8| {
        let name = format!("n{index}");
        let block = format!("10.1.{index}.0/24");
        let node = match field {
            "spec" => node(&name, Some(&block)),
            "none" => node(&name, None),
            key => annotated(node(&name, None), key, &block),
        };
        [node, cilium_node(&name, &[&block])]
    };
    (0..20).flat_map(one).collect()
}

fn clusters() -> Vec<Healthy> {
    let with = |settings: Value, rest: Vec<Value>| [vec![config(&settings)], rest].concat();
    let services = vec![
        plain_pool("blue", "blue", "20.0.0.0/24"),
        pool(
            "red",
            "red",
            &json!({"blocks": [{"start": "20.0.1.0", "stop": "20.0.1.9"}], "allowFirstLastIPs": "No"}),
        ),
        service("a", "blue", &["20.0.0.1"]),
        service("b", "blue", &["20.0.0.2"]),
        service("c", "red", &["20.0.1.0"]),
    ];
    vec![
        Healthy {
            name: "kubernetes",
            since: "1.13.18",
            objects: with(
                json!({"ipam": "kubernetes", "enable-ipv6": "false"}),
                nodes("spec"),
            ),
        },
        Healthy {
            name: "annotations",
            since: "1.13.18",
            objects: with(
                json!({"ipam": "kubernetes", "annotate-k8s-node": "true", "enable-ipv6": "false"}),
                nodes("network.cilium.io/ipv4-pod-cidr"),
            ),
        },
        Healthy {
            name: "cluster-pool",
            since: "1.13.18",
            objects: with(
                json!({"ipam": "cluster-pool", "cluster-pool-ipv4-cidr": "10.0.0.0/8"}),
                nodes("none"),
            ),
        },
        Healthy {
            name: "multi-pool",
            since: "1.14.19",
            objects: with(json!({"ipam": "multi-pool"}), nodes("none")),
        },
        Healthy {
            name: "no Cilium objects",
            since: "1.13.18",
            objects: with(json!({"ipam": "kubernetes"}), vec![]),
        },
        Healthy {
            name: "load balancer",
            since: "1.15.19",
            objects: with(
                json!({"ipam": "kubernetes"}),
                [services.clone(), nodes("spec")].concat(),
            ),
        },
        Healthy {
            name: "BGP and L2",
            since: "1.16.19",
            objects: with(
                json!({"ipam": "kubernetes", "enable-bgp-control-plane": "true", "enable-l2-announcements": "true"}),
                [services, nodes("spec"), cluster_config(), vec![l2_policy()]].concat(),
            ),
        },
    ]
}

#[test]
fn every_pair_of_versions() {
    let mut pairs = 0;
    for healthy in clusters() {
        let known = VERSIONS.iter().skip_while(|known| **known != healthy.since);
        let known: Vec<&str> = known.copied().collect();
        for (index, from) in known.iter().enumerate() {
            for to in &known[index..] {
                let told = told([from, to], &healthy.objects);
                assert!(
                    told.is_empty(),
                    "{} {from} to {to}: {told:#?}",
                    healthy.name
                );
                let upgrade =
                    upgrade(Files::default(), &observe(from, &healthy.objects), v(to)).unwrap();
                assert!(
                    upgrade.unjudged.is_empty(),
                    "{}: {:?}",
                    healthy.name,
                    upgrade.unjudged
                );
                pairs += 1;
            }
        }
    }
    assert!(pairs > 150, "{pairs}");
}

#[test]
fn two_thousand_nodes_of_one_cause_are_one_entry() {
    let mut objects = vec![config(&json!({"ipam": "kubernetes"}))];
    for index in 0..2_000 {
        let (name, block) = (
            format!("n{index:04}"),
            format!("10.{}.{}.0/24", index / 250, index % 250),
        );
        objects.push(annotated(
            node(&name, None),
            "io.cilium.network.ipv4-pod-cidr",
            &block,
        ));
        objects.push(cilium_node(&name, &[&block]));
    }
    let upgrade = upgrade(Files::default(), &observe("1.11.9", &objects), v("1.12.19")).unwrap();
    assert_eq!(upgrade.hops[0].changes.len(), 1);
    let document = upgrade.document(10);
    let change = &document.hops[0].changes[0];
    assert_eq!((change.object_count, change.objects.len()), (2_000, 10));
    assert_eq!(change.message, "2,000 Nodes find no block");
}
