//! The surroundings of a node decide as the whole cluster does.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::migration::tests::{blocks, record};
use ipam_cilium::observed::{Evidence, OWNER_LABEL, ObservedKind, Reader};
use ipam_core::claims::{Claim, ClaimGuard, Claims, Quarantined};
use ipam_core::model::{NodeName, PerFamily, Selector};
use ipam_core::net::{Block, BlockSize, Family, Range};
use ipam_desired::{Pool, PoolRange, PoolState};

const NODES: usize = 4;

/// One of few blocks, so that they overlap often. Not all of them lie in a pool.
#[derive(Clone, Copy, Debug)]
struct Number(u8);

fn number() -> impl Strategy<Value = Number> {
    (0_u8..24).prop_map(Number)
}

/// A number whose block often overlaps the one that is asked for.
fn close() -> impl Strategy<Value = Number> {
    prop::sample::select(vec![0, 1, 2, 3, 16, 20, 21]).prop_map(Number)
}

impl Number {
    fn block(self) -> Block {
        let Number(n) = self;
        let text = match n {
            0..16 => format!("10.0.{n}.0/24"),
            16..20 => format!("10.0.{}.0/22", (n - 16) * 4),
            _ => format!("10.0.{}.128/25", n - 20),
        };
        text.parse().unwrap()
    }

    fn text(self) -> String {
        self.block().to_string()
    }

    fn address(self) -> String {
        self.block().range().first().to_string()
    }
}

/// What a node and its CiliumNode show.
#[derive(Clone, Debug)]
struct Machine {
    spec: Option<Number>,
    annotation: Option<Number>,
    cilium_node: Option<Vec<Number>>,
    allocated: Option<Number>,
    address: Option<Number>,
    /// Whose hostname it has.
    hostname: Option<usize>,
    has_node: bool,
}

fn machine() -> impl Strategy<Value = Machine> {
    let shown = (option::of(number()), option::weighted(0.1, number()));
    let cilium_node = option::of(prop::collection::vec(number(), 0..2));
    let rest = (
        option::weighted(0.05, number()),
        option::weighted(0.1, number()),
        option::weighted(0.2, 0..NODES),
        prop::bool::weighted(0.9),
    );
    (shown, cilium_node, rest).prop_map(|((spec, annotation), cilium_node, rest)| {
        let (allocated, address, hostname, has_node) = rest;
        Machine {
            spec,
            annotation,
            cilium_node,
            allocated,
            address,
            hostname,
            has_node,
        }
    })
}

/// A claim or a quarantine: block, node, object, version, and whether it is a quarantine.
type Entry = (Number, usize, usize, u8, bool);
/// A setting: owner by its name, or none; the selected node; the range.
type Config = (Option<usize>, usize, Number);

/// Everything else in the files and the cluster.
#[derive(Clone, Debug)]
struct Rest {
    claims: Vec<Entry>,
    configs: Vec<Config>,
    pins: Vec<(usize, Number)>,
    unattributed: Option<Number>,
    service_range: Option<Number>,
    balancer: Option<Number>,
    excluded: Option<Number>,
    reserved: Option<Number>,
    is_cluster_pool: bool,
    is_dual: bool,
    is_external: bool,
}

fn rest() -> impl Strategy<Value = Rest> {
    let rarely = || option::weighted(0.05, close());
    let entry = (close(), 0..NODES, 0..4_usize, 0..4_u8, any::<bool>());
    let config = (option::of(0..NODES), 0..NODES + 1, number());
    let lists = (
        prop::collection::vec(entry, 0..3),
        prop::collection::vec(config, 0..3),
        prop::collection::vec((1..NODES, number()), 0..3),
    );
    let others = (rarely(), rarely(), rarely(), rarely(), rarely());
    let modes = (any::<bool>(), prop::bool::weighted(0.2), any::<bool>());
    (lists, others, modes).prop_map(|((claims, configs, pins), others, modes)| {
        let (unattributed, service_range, balancer, excluded, reserved) = others;
        let (is_cluster_pool, is_dual, is_external) = modes;
        Rest {
            claims,
            configs,
            pins,
            unattributed,
            service_range,
            balancer,
            excluded,
            reserved,
            is_cluster_pool,
            is_dual,
            is_external,
        }
    })
}

fn name(index: usize) -> NodeName {
    format!("n{index}").parse().unwrap()
}

fn node(index: usize, machine: &Machine) -> Value {
    let hostname = machine.hostname.unwrap_or(index);
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("n{index}"), "uid": format!("u{index}"), "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": format!("h{hostname}")}, "annotations": {},
        },
        "spec": {}, "status": {},
    });
    if let Some(number) = machine.spec {
        node["spec"] = json!({"podCIDR": number.text(), "podCIDRs": [number.text()]});
    }
    if let Some(number) = machine.annotation {
        let key = "network.cilium.io/ipv4-pod-cidr";
        node["metadata"]["annotations"][key] = number.text().into();
    }
    if let Some(number) = machine.address {
        node["status"] =
            json!({"addresses": [{"type": "InternalIP", "address": number.address()}]});
    }
    node
}

fn cilium_node(index: usize, machine: &Machine) -> Option<Value> {
    let shown = machine.cilium_node.as_ref()?;
    let pod_cidrs: Vec<String> = shown.iter().map(|number| number.text()).collect();
    let allocated = machine.allocated.iter();
    let allocated: Vec<Value> = allocated
        .map(|number| json!({"pool": "a", "cidrs": [number.text()]}))
        .collect();
    Some(json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": {"name": format!("n{index}"), "uid": format!("c{index}"), "resourceVersion": "2"},
        "spec": {"ipam": {"podCIDRs": pod_cidrs, "pools": {"allocated": allocated}}},
    }))
}

fn config(place: usize, (owner, selected, range): &Config) -> Value {
    let (label, value) = OWNER_LABEL;
    let name = match owner {
        Some(owner) => format!("cilium-ipam-n{owner}"),
        None => format!("other-{place}"),
    };
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig",
        "metadata": {
            "name": name, "namespace": "kube-system", "uid": format!("k{place}"),
            "resourceVersion": "3", "labels": {label: value},
        },
        "spec": {
            "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": format!("h{selected}")}},
            "defaults": {"ipv4-range": range.text()},
        },
    })
}

fn claims(entries: &[Entry]) -> Claims {
    let mut claims = Claims::default();
    for (number, index, object, version, is_quarantine) in entries {
        let (block, node) = (number.block(), name(*index));
        let seconds = SignedDuration::from_secs(if *version == 0 { -60 } else { 60 });
        let free_at = Timestamp::UNIX_EPOCH + seconds;
        if *is_quarantine {
            claims
                .quarantined
                .insert(block, Quarantined { node, free_at });
            continue;
        }
        let uid = ["u", "c", "k", "gone"][*object];
        let guard = match version {
            0 => ClaimGuard::Creation,
            version => ClaimGuard::Version(version.to_string()),
        };
        let uid = format!("{uid}{index}");
        claims.in_flight.insert(block, Claim { node, uid, guard });
    }
    claims
}

fn settings(rest: &Rest) -> BTreeMap<String, String> {
    let mode = match rest.is_cluster_pool {
        true => "cluster-pool",
        false => "kubernetes",
    };
    let texts = [
        ("ipam", mode),
        ("enable-ipv4", "true"),
        ("enable-ipv6", if rest.is_dual { "true" } else { "false" }),
        ("cluster-pool-ipv4-cidr", "10.0.0.0/20"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let texts = texts.into_iter();
    texts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn observed(machines: &[Machine], rest: &Rest) -> Observed {
    let mut reader = Reader::default();
    let mut read = |kind, object: Value| reader.object(kind, &object.to_string()).unwrap();
    for (index, machine) in machines.iter().enumerate() {
        if machine.has_node || index == 0 {
            read(ObservedKind::Node, node(index, machine));
        }
        if let Some(object) = cilium_node(index, machine) {
            read(ObservedKind::CiliumNode, object);
        }
    }
    let mut owners = BTreeSet::new();
    for (place, one) in rest.configs.iter().enumerate() {
        let (owner, ..) = one;
        if owner.is_none_or(|owner| owners.insert(owner)) {
            read(ObservedKind::CiliumNodeConfig, config(place, one));
        }
    }
    if let Some(number) = rest.balancer {
        let spec = json!({"blocks": [{"cidr": number.text()}]});
        let pool = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool",
            "metadata": {"name": "lb"}, "spec": spec});
        read(ObservedKind::LoadBalancerPool, pool);
    }
    let mut observed = reader.finish(Timestamp::UNIX_EPOCH);
    observed.claims.claims = claims(&rest.claims);
    observed
        .unattributed
        .extend(rest.unattributed.map(Number::block));
    let range = rest.service_range.map(|number| number.block().range());
    observed.service_ranges.extend(range);
    let cilium = &mut observed.cilium;
    cilium.namespace = Some("kube-system".to_owned());
    cilium.version = Some(("1.19.3".parse().unwrap(), Evidence::ImageTag));
    cilium.settings = Some(settings(rest));
    let mode = ("ipam".to_owned(), "kubernetes".to_owned());
    let arguments = rest.is_external.then_some(mode);
    cilium.operator_arguments = Some(arguments.into_iter().collect());
    observed
}

fn pool(name: &str, ranges: &[&str], rest: &Rest) -> Pool {
    let origin = Origin::whole_file(&Arc::from("pools.yaml"));
    let ranges = blocks(ranges).into_iter().map(|block| PoolRange {
        block,
        origin: origin.clone(),
    });
    let reserved: Option<Range> = rest.reserved.map(|number| number.block().range());
    Pool {
        name: name.parse().unwrap(),
        origin: origin.clone(),
        ranges: ranges.collect(),
        block_size: PerFamily {
            ipv4: BlockSize::new(Family::Ipv4, 24).ok(),
            ipv6: BlockSize::new(Family::Ipv6, 64).ok(),
        },
        selector: Selector::all_of([]),
        priority: 0,
        reserved: reserved.into_iter().collect(),
        state: PoolState::Active,
    }
}

fn desired(rest: &Rest) -> Desired {
    let mut desired = Desired::default();
    let a = pool("a", &["10.0.0.0/22", "fd00:a::/60"], rest);
    let b = pool("b", &["10.0.4.0/22", "fd00:b::/60"], rest);
    desired.pools = [a, b].map(|pool| (pool.name.clone(), pool)).into();
    for (index, number) in &rest.pins {
        let pin = Pin {
            node: name(*index),
            pool: "b".parse().unwrap(),
            blocks: [number.block()].into_iter().collect(),
            origin: Origin::whole_file(&Arc::from("pins.yaml")),
        };
        desired.pins.insert(pin.node.clone(), pin);
    }
    let excluded = rest.excluded.map(|number| number.block().range());
    desired.policy.excluded.extend(excluded);
    desired
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![
        Method::CiliumNode,
        Method::NodeConfig,
        Method::NodeObject,
        Method::ToKubernetes,
    ])
}

fn record_of(method: Method, goal: Number) -> NodeRecord {
    NodeRecord {
        node: name(0),
        uid: "u0".to_owned(),
        method,
        pool: "a".parse().unwrap(),
        to: vec![goal.block()],
        ..record()
    }
}

fn gives_only(change: &Change, record: &NodeRecord) -> bool {
    let gives = change.as_node().unwrap().new_blocks();
    gives.iter().all(|block| record.goal().contains(block))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_surroundings_decide_as_the_whole_cluster(
        machines in prop::collection::vec(machine(), NODES),
        rest in rest(),
        method in method(),
        goal in (0_u8..4).prop_map(Number),
    ) {
        let (desired, record) = (desired(&rest), record_of(method, goal));
        let cluster = Surroundings::new(observed(&machines, &rest));
        let assignments = Assignments::new(&desired);
        let near = assignments.near(&cluster, &record);
        match assignments.far(cluster.whole(), &record) {
            Ok(change) if gives_only(&change, &record) => prop_assert_eq!(near, Some(change)),
            _ => prop_assert_eq!(near, None),
        }
    }
}

/// Of an ordinary migration, no node needs a plan of the whole cluster.
#[test]
fn an_ordinary_move_is_planned_near() {
    let machine = |index: u8| Machine {
        spec: Some(Number(8 + index)),
        annotation: None,
        cilium_node: Some(vec![Number(8 + index)]),
        allocated: None,
        address: None,
        hostname: None,
        has_node: true,
    };
    for method in [
        Method::CiliumNode,
        Method::NodeConfig,
        Method::NodeObject,
        Method::ToKubernetes,
    ] {
        let rest = Rest {
            claims: vec![(Number(0), 0, 0, 1, true), (Number(1), 1, 0, 1, true)],
            configs: Vec::new(),
            pins: Vec::new(),
            unattributed: None,
            service_range: None,
            balancer: None,
            excluded: None,
            reserved: None,
            is_cluster_pool: matches!(method, Method::CiliumNode | Method::ToKubernetes),
            is_dual: false,
            is_external: true,
        };
        let mut machines: Vec<Machine> = (0..6).map(machine).collect();
        match method {
            Method::CiliumNode => machines[0].cilium_node = None,
            Method::NodeObject => machines[0].spec = None,
            Method::ToKubernetes => {
                machines[0].spec = None;
                machines[0].cilium_node = Some(vec![Number(0)]);
            }
            _ => {}
        }
        let (desired, record) = (desired(&rest), record_of(method, Number(0)));
        let cluster = Surroundings::new(observed(&machines, &rest));
        let part = cluster.of(&record.node, record.goal());
        assert_eq!(part.nodes.len(), 1, "{method}");
        let change = Assignments::new(&desired).near(&cluster, &record);
        assert_eq!(
            change.unwrap().as_node().unwrap().pool,
            Some(record.pool),
            "{method}"
        );
    }
}
