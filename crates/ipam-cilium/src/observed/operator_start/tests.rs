//! The prediction against the operator's algorithm, for every order of the CiliumNodes.

mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use super::{DuplicateHandling, Losers, Removal, RemovalCause};
use crate::behaviours;
use crate::observed::{Evidence, Observed};
use ipam_core::model::{CiliumVersion, NodeName};
use ipam_core::net::{Block, Family};
use oracle::Cluster;

#[test]
fn releases() {
    use DuplicateHandling::{DependsOnPatch, Removes, Reports};
    for (release, expected) in [
        ("1.15.19", Reports),
        ("1.16", Reports),
        ("1.17.14", Reports),
        ("1.17.15", Removes),
        ("1.17", DependsOnPatch),
        ("1.18.8", Reports),
        ("1.18.9", Removes),
        ("1.19.1", Reports),
        ("1.19.3", Removes),
        ("1.20.0", Removes),
        ("1.21", Removes),
    ] {
        let release = release.parse().unwrap();
        assert_eq!(DuplicateHandling::of(release), expected, "{release}");
    }
}

fn block(text: &str) -> Block {
    text.parse().unwrap()
}

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

/// The nodes that lose a family, by family, in some order.
fn losers_of(cluster: &Cluster) -> BTreeSet<(NodeName, Family)> {
    cluster.of_all_orders().into_iter().flatten().collect()
}

fn predicted_losers(removals: &[Removal]) -> BTreeSet<(NodeName, Family)> {
    let of = |removal: &Removal| {
        let family = removal.family;
        let names = removal.candidates.keys().cloned();
        names.map(|name| (name, family)).collect::<Vec<_>>()
    };
    removals.iter().flat_map(of).collect()
}

#[track_caller]
fn check(cluster: &Cluster, expected: &[(&str, Losers)]) {
    let removals = cluster.predicted();
    let told: Vec<(String, Losers)> = removals
        .iter()
        .map(|removal| {
            let names: Vec<&str> = removal.candidates.keys().map(NodeName::as_str).collect();
            (
                format!("{} {}", removal.family, names.join(" ")),
                removal.losers,
            )
        })
        .collect();
    let expected: Vec<(String, Losers)> = expected
        .iter()
        .map(|(text, losers)| ((*text).to_owned(), *losers))
        .collect();
    assert_eq!(told, expected);
    assert_eq!(predicted_losers(&removals), losers_of(cluster));
}

const NO_IPV6: (&str, u8) = ("", 112);

#[test]
fn a_shorter_mask_leaves_one_block_in_each_slot() {
    let nodes = [
        ("a", "10.0.0.0/24"),
        ("b", "10.0.1.0/24"),
        ("c", "10.0.2.0/24"),
        ("d", "10.0.4.0/24"),
    ];
    let cluster = Cluster::new(("10.0.0.0/16", 22), NO_IPV6, &nodes);
    check(&cluster, &[("IPv4 a b c", Losers::Exactly(2))]);
    assert_eq!(cluster.predicted()[0].cause, RemovalCause::SameSlot(22));
    // A longer mask makes more slots than blocks.
    let cluster = Cluster::new(("10.0.0.0/16", 26), NO_IPV6, &nodes);
    check(&cluster, &[]);
}

#[test]
fn the_same_block_on_two_nodes() {
    let nodes = [("a", "10.0.0.0/24"), ("b", "10.0.0.0/24")];
    let cluster = Cluster::new(("10.0.0.0/16", 24), NO_IPV6, &nodes);
    check(&cluster, &[("IPv4 a b", Losers::Exactly(1))]);
    assert_eq!(cluster.predicted()[0].cause, RemovalCause::SameBlock);
    // The only slot of the range is used: "allocator full", and no removal.
    let cluster = Cluster::new(("10.0.0.0/24", 24), NO_IPV6, &nodes);
    check(&cluster, &[]);
    // A node of which both families are used keeps both.
    let nodes = [
        ("a", "10.0.0.0/24 fd00::/120"),
        ("b", "10.0.0.0/24 fd00::/120"),
    ];
    let cluster = Cluster::new(("10.0.0.0/16", 24), ("fd00::/112", 120), &nodes);
    check(&cluster, &[]);
    // Each family on its own.
    let nodes = [
        ("a", "10.0.0.0/24 fd00::/120"),
        ("b", "10.0.1.0/24 fd00::/120"),
    ];
    let cluster = Cluster::new(("10.0.0.0/16", 24), ("fd00::/112", 120), &nodes);
    check(&cluster, &[("IPv6 a b", Losers::Exactly(1))]);
}

#[test]
fn blocks_outside_the_ranges() {
    // The first block is used, so the operator removes both.
    let nodes = [("a", "10.0.0.0/24 10.9.0.0/24"), ("b", "10.0.0.0/24")];
    let cluster = Cluster::new(("10.0.0.0/16", 24), NO_IPV6, &nodes);
    check(&cluster, &[("IPv4 a", Losers::AtMost(1))]);
    let blocks = &cluster.predicted()[0].candidates[&name("a")];
    assert_eq!(blocks, &[block("10.0.0.0/24"), block("10.9.0.0/24")]);
    // The block outside comes first: an error, and nothing is used or removed.
    let nodes = [("a", "10.9.0.0/24 10.0.0.0/24"), ("b", "10.0.0.0/24")];
    let cluster = Cluster::new(("10.0.0.0/16", 24), NO_IPV6, &nodes);
    check(&cluster, &[]);
    // Two blocks of one node in one slot.
    let nodes = [("a", "10.0.0.0/26 10.0.0.64/26")];
    let cluster = Cluster::new(("10.0.0.0/16", 24), NO_IPV6, &nodes);
    check(&cluster, &[("IPv4 a", Losers::AtMost(1))]);
    assert_eq!(cluster.predicted()[0].cause, RemovalCause::OwnBlocks);
}

#[test]
fn a_node_without_a_family_takes_the_first_free_slot() {
    let nodes = [
        ("a", "10.0.0.0/24 fd00::/120"),
        ("b", "10.0.1.0/24 fd00::100/120"),
        ("c", "10.0.3.0/24 fd00::200/120"),
        ("taker", "fd00::300/120"),
    ];
    let cluster = Cluster::new(("10.0.0.0/16", 24), ("fd00::/112", 120), &nodes);
    check(&cluster, &[("IPv4 a b", Losers::AtMost(1))]);
    let takers = BTreeSet::from([name("taker")]);
    let cause = RemovalCause::TakenFirst(takers);
    assert_eq!(cluster.predicted()[0].cause, cause);
}

/// A sequence that looks random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn blocks(&mut self, [v4, v6]: [&[&str]; 2]) -> Vec<Block> {
        let mut blocks = Vec::new();
        for family in [v4, v6] {
            for _ in 0..[0, 1, 1, 1, 2][self.below(5)] {
                blocks.push(block(family[self.below(family.len())]));
            }
        }
        blocks
    }
}

const IPV4: [&str; 9] = [
    "10.0.0.0/24",
    "10.0.1.0/24",
    "10.0.2.0/24",
    "10.0.3.0/24",
    "10.0.0.0/26",
    "10.0.0.64/26",
    "10.0.2.0/23",
    "10.0.0.0/21",
    "10.9.0.0/24",
];
const IPV6: [&str; 4] = [
    "fd00::/120",
    "fd00::100/120",
    "fd00::80/121",
    "fd00:9::/120",
];

fn random(numbers: &mut Numbers) -> Cluster {
    let v4 = [
        ("10.0.0.0/22", 24),
        ("10.0.0.0/22", 23),
        ("10.0.0.0/23 10.0.2.0/24", 24),
        ("10.0.0.0/21", 25),
    ][numbers.below(4)];
    let v6 = [("", 120), ("fd00::/118", 120), ("fd00::/119", 119)][numbers.below(3)];
    let count = 2 + numbers.below(3);
    let nodes = (0..count).map(|node| (name(&format!("n{node}")), numbers.blocks([&IPV4, &IPV6])));
    let nodes = nodes.collect();
    Cluster {
        nodes,
        ..Cluster::new(v4, v6, &[])
    }
}

/// No order removes a block that was not predicted, or more of them than predicted.
#[test]
fn no_order_removes_more_than_predicted() {
    let mut numbers = Numbers(7);
    let (mut removed, mut exact) = (0, 0);
    for case in 0..6000 {
        let cluster = random(&mut numbers);
        let removals = cluster.predicted();
        let predicted = predicted_losers(&removals);
        let mut by_family: BTreeMap<Family, Losers> = BTreeMap::new();
        for removal in &removals {
            let sum = by_family.entry(removal.family);
            sum.and_modify(|losers| *losers = losers.and(removal.losers))
                .or_insert(removal.losers);
        }
        let orders = cluster.of_all_orders();
        let real: BTreeSet<_> = orders.iter().flatten().cloned().collect();
        let text = || format!("case {case}: {:?} {:?}", cluster.families, cluster.nodes);
        assert!(real.is_subset(&predicted), "{} {removals:#?}", text());
        for lost in &orders {
            for family in Family::BOTH {
                let count = lost.iter().filter(|(_, of)| *of == family).count();
                let losers = by_family.get(&family).copied();
                let losers = losers.unwrap_or(Losers::Exactly(0));
                assert!(count <= losers.most(), "{} {removals:#?}", text());
                if let Losers::Exactly(expected) = losers {
                    assert_eq!(count, expected, "{} {removals:#?}", text());
                }
            }
        }
        removed += usize::from(!real.is_empty());
        exact += usize::from(!real.is_empty() && real == predicted);
    }
    // The rest are nodes with several blocks of a family, or without one: the prediction names each
    // node that may lose a block in some order.
    assert!(
        removed > 1000 && exact * 2 > removed,
        "{exact} of {removed}"
    );
}

#[test]
fn the_releases_of_operators() {
    let of = |agents: Option<&str>, operators: &[Option<&str>]| {
        let version = |text: &str| text.parse::<CiliumVersion>().unwrap();
        let mut observed = Observed::default();
        observed.cilium.version = agents.map(|text| (version(text), Evidence::ImageTag));
        let operators = operators.iter().map(|text| text.map(version));
        observed.cilium.operator_versions = operators.collect();
        observed
    };
    let releases = |observed: &Observed| -> Vec<String> {
        let releases = observed.operator_releases().into_iter();
        let text = |release: Option<CiliumVersion>| release.map(|one| one.to_string());
        releases.map(|one| text(one).unwrap_or_default()).collect()
    };
    assert_eq!(releases(&of(Some("1.15.19"), &[])), ["1.15.19"]);
    assert_eq!(releases(&of(Some("1.15.19"), &[None])), ["1.15.19"]);
    assert_eq!(releases(&of(None, &[])), [""]);
    assert_eq!(releases(&of(None, &[Some("1.18.3"), None])), ["", "1.18.3"]);
    let mixed = of(Some("1.15.19"), &[Some("1.19.3"), None]);
    assert_eq!(releases(&mixed), ["1.15.19", "1.19.3"]);
    // The operator runs LB-IPAM, whatever the agents are.
    assert!(
        of(Some("1.15.19"), &[])
            .lb_rules()
            .is_of(behaviours::POOL_CIDRS)
    );
    assert!(
        !of(Some("1.15.19"), &[Some("1.19.3")])
            .lb_rules()
            .is_of(behaviours::POOL_CIDRS)
    );
}
