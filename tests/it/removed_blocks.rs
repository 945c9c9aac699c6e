//! The blocks that a starting operator removes: what is predicted against what the real operators
//! do, node by node, restarted and upgraded.

use std::collections::{BTreeMap, BTreeSet};

use ipam_cilium::observed::{Losers, Removal};
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Extent, observe};
use ipam_core::model::NodeName;
use ipam_core::net::Family;
use serde_json::json;
use testbed::{
    CiliumInstallation, CiliumVersion, Operator, Options, Program, find, install_cilium,
};

use super::cluster_pool::{cilium_nodes, next_of_operator};
use super::server::{Server, node};
use super::support::api_server;
use testbed::or_skip;

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// Masks and the blocks of each node.
struct Case {
    what: &'static str,
    masks: [u8; 2],
    nodes: &'static [(&'static str, &'static [&'static str])],
}

const CASES: &[Case] = &[
    Case {
        what: "mask 24 to 22 and 120 to 118",
        masks: [22, 118],
        nodes: &[
            ("a", &["10.20.0.0/24", "fd00:20::1000/120"]),
            ("b", &["10.20.1.0/24", "fd00:20::2000/120"]),
            ("c", &["10.20.2.0/24", "fd00:20::3000/120"]),
            ("d", &["10.20.8.0/24", "fd00:20::4000/120"]),
            ("e", &["10.20.16.0/24", "fd00:20::4100/120"]),
        ],
    },
    Case {
        what: "mask 24 to 26",
        masks: [26, 120],
        nodes: &[
            ("a", &["10.20.0.0/24", "fd00:20::/120"]),
            ("b", &["10.20.1.0/24", "fd00:20::100/120"]),
        ],
    },
    Case {
        what: "duplicates of IPv4, of IPv6, and of both",
        masks: [24, 120],
        nodes: &[
            ("a", &["10.20.0.0/24", "fd00:20::/120"]),
            ("b", &["10.20.0.0/24", "fd00:20::100/120"]),
            ("c", &["10.20.4.0/24", "fd00:20::400/120"]),
            ("d", &["10.20.5.0/24", "fd00:20::400/120"]),
            ("e", &["10.20.9.0/24", "fd00:20::900/120"]),
            ("f", &["10.20.9.0/24", "fd00:20::900/120"]),
        ],
    },
    Case {
        what: "a second block outside the ranges, after and before a duplicate",
        masks: [24, 120],
        nodes: &[
            ("a", &["10.20.0.0/24", "10.99.0.0/24", "fd00:20::/120"]),
            ("b", &["10.20.0.0/24", "fd00:20::100/120"]),
            ("c", &["10.99.1.0/24", "10.20.4.0/24", "fd00:20::400/120"]),
            ("d", &["10.20.4.0/24", "fd00:20::500/120"]),
        ],
    },
    Case {
        what: "a node without IPv4 takes the first free slot",
        masks: [24, 120],
        nodes: &[
            ("a", &["10.20.0.0/24", "fd00:20::/120"]),
            ("b", &["10.20.1.0/24", "fd00:20::100/120"]),
            ("c", &["10.20.3.0/24", "fd00:20::300/120"]),
            ("taker", &["fd00:20::200/120"]),
        ],
    },
];

fn installation(version: CiliumVersion, masks: [u8; 2]) -> CiliumInstallation {
    let [v4, v6] = masks.map(|mask| mask.to_string());
    let config = [
        ("cluster-pool-ipv4-cidr", "10.20.0.0/16"),
        ("cluster-pool-ipv4-mask-size", &v4),
        ("cluster-pool-ipv6-cidr", "fd00:20::/104"),
        ("cluster-pool-ipv6-mask-size", &v6),
        ("enable-ipv6", "true"),
    ];
    CiliumInstallation {
        version: version.release().to_owned(),
        ipam: "cluster-pool".into(),
        config: config
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..CiliumInstallation::default()
    }
}

fn start(server: &Server, version: CiliumVersion, [v4, v6]: [u8; 2]) -> Operator {
    let flags = [
        "--ipam=cluster-pool".to_owned(),
        "--enable-ipv6=true".to_owned(),
        "--cluster-pool-ipv4-cidr=10.20.0.0/16".to_owned(),
        "--cluster-pool-ipv6-cidr=fd00:20::/104".to_owned(),
        format!("--cluster-pool-ipv4-mask-size={v4}"),
        format!("--cluster-pool-ipv6-mask-size={v6}"),
        // A killed operator's Lease would delay the next one.
        "--leader-election-lease-duration=2s".to_owned(),
        "--leader-election-renew-deadline=1s".to_owned(),
        "--leader-election-retry-period=500ms".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Operator::start(&server.programs, &server.plane, version, &flags).unwrap()
}

fn fill(server: &Server, case: &Case) {
    for object in server.plane.list(CILIUM_NODES).unwrap() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{CILIUM_NODES}/{name}");
        server.plane.client().delete(&path).unwrap();
    }
    for (name, blocks) in case.nodes {
        let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
            "metadata": {"name": name}, "spec": {"ipam": {"podCIDRs": blocks}}});
        server.plane.create(CILIUM_NODES, &object).unwrap();
    }
}

/// Waits for two nodes that get their blocks in two writes of the operator, one after the other: the
/// first one has all that it decided at its start.
fn settle(server: &Server) {
    for name in ["marker-0", "marker-1"] {
        next_of_operator(server, name);
    }
}

fn predicted(server: &Server, version: CiliumVersion) -> Vec<Removal> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connection = api_server(server.plane.kubeconfig(), testbed::PATIENCE);
    let observed = runtime.block_on(async {
        let cluster = LiveCluster::connect(connection).await.unwrap();
        observe(&cluster, Extent::Plan).await.unwrap()
    });
    let releases = observed.operator_releases();
    let release = releases.first().copied().flatten().unwrap();
    assert_eq!(release.to_string(), version.release());
    observed.removed_at_operator_start(release)
}

/// Nodes of the case that lack a block that they had, by family.
fn lost(server: &Server, case: &Case) -> BTreeSet<(NodeName, Family)> {
    let now: BTreeMap<String, (Vec<String>, String)> = cilium_nodes(server);
    let mut lost = BTreeSet::new();
    for (name, blocks) in case.nodes {
        let gone = blocks
            .iter()
            .filter(|block| !now[*name].0.iter().any(|kept| kept == *block));
        lost.extend(gone.map(|block| {
            let block: ipam_core::net::Block = block.parse().unwrap();
            (name.parse().unwrap(), block.family())
        }));
    }
    lost
}

fn compare(server: &Server, case: &Case, removals: &[Removal], release: &str) -> usize {
    let lost = lost(server, case);
    let what = format!("{release}, {}: {removals:#?}", case.what);
    for family in Family::BOTH {
        let of_family: BTreeSet<&NodeName> = lost
            .iter()
            .filter(|(_, of)| *of == family)
            .map(|(name, _)| name)
            .collect();
        let removals = removals.iter().filter(|removal| removal.family == family);
        let (mut named, mut most, mut least) = (BTreeSet::new(), 0, 0);
        for removal in removals {
            named.extend(removal.candidates.keys());
            most += removal.losers.most();
            if let Losers::Exactly(count) = removal.losers {
                least += count;
            }
        }
        assert!(of_family.is_subset(&named), "lost {lost:?}\n{what}");
        assert!(
            (least..=most).contains(&of_family.len()),
            "lost {lost:?}\n{what}"
        );
    }
    lost.len()
}

/// Every case under a restarted operator, and the changed mask and the duplicates when this
/// operator replaces one that keeps the blocks.
fn as_predicted(version: CiliumVersion, on_demand: &[Program]) {
    let programs = [
        Program::CiliumOperator(CiliumVersion::V1_15),
        Program::CiliumOperator(version),
    ];
    let first = installation(version, [24, 120]);
    let mut server = Server::start(
        &first,
        Some(version.release()),
        Options::default(),
        &programs[..1],
    );
    server.programs = find(on_demand, &[&programs[..], &[Program::Kubectl]].concat()).unwrap();
    server.nodes([node("a", json!({}))]);
    let mut removed = 0;
    for case in CASES {
        fill(&server, case);
        install_cilium(&server.plane, &installation(version, case.masks)).unwrap();
        let removals = predicted(&server, version);
        let operator = start(&server, version, case.masks);
        settle(&server);
        removed += compare(&server, case, &removals, version.release());
        drop(operator);
    }
    let removes = version >= CiliumVersion::V1_19;
    assert_eq!(removed > 0, removes, "{}", version.release());
    upgraded(&server, version);
}

/// 1.15.19 runs with the new mask and only sets errors; then this operator starts.
fn upgraded(server: &Server, version: CiliumVersion) {
    for case in [&CASES[0], &CASES[2]] {
        fill(server, case);
        let old = start(server, CiliumVersion::V1_15, case.masks);
        settle(server);
        assert_eq!(lost(server, case), BTreeSet::new(), "{}", case.what);
        drop(old);
        install_cilium(&server.plane, &installation(version, case.masks)).unwrap();
        let removals = predicted(server, version);
        let new = start(server, version, case.masks);
        for name in ["marker-2", "marker-3"] {
            next_of_operator(server, name);
        }
        compare(server, case, &removals, version.release());
        drop(new);
    }
}

#[test]
fn removed_by_1_15() {
    as_predicted(CiliumVersion::V1_15, &[]);
}

#[test]
fn removed_by_1_19() {
    as_predicted(CiliumVersion::V1_19, &[]);
}

#[test]
fn removed_by_1_20() {
    as_predicted(CiliumVersion::V1_20, &[]);
}

fn on_demand(version: CiliumVersion) -> testbed::Result<Program> {
    let program = Program::CiliumOperator(version);
    find(&[program], &[]).map(|_| program)
}

#[test]
fn removed_by_1_16() {
    let program = or_skip!(on_demand(CiliumVersion::V1_16));
    as_predicted(CiliumVersion::V1_16, &[program]);
}

#[test]
fn removed_by_1_17() {
    let program = or_skip!(on_demand(CiliumVersion::V1_17));
    as_predicted(CiliumVersion::V1_17, &[program]);
}

#[test]
fn removed_by_1_18() {
    let program = or_skip!(on_demand(CiliumVersion::V1_18));
    as_predicted(CiliumVersion::V1_18, &[program]);
}
