//! Calico's objects, as its documentation and `kubectl get -o yaml` print them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::import::foreign::tests::{broken, hostile};
use crate::import::foreign::{RemarkKind, RemarkName};
use ipam_core::net::Range;

fn pool(name: &str, cidr: &str, more: Value) -> Value {
    let mut spec = json!({
        "cidr": cidr, "ipipMode": "Never", "vxlanMode": "Never", "natOutgoing": false,
        "disabled": false, "nodeSelector": "all()", "allowedUses": ["Workload", "Tunnel"],
    });
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    json!({
        "apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool",
        "metadata": {"name": name, "uid": "0ab1"}, "spec": spec,
    })
}

fn affinity(node: &str, cidr: &str) -> Value {
    json!({
        "apiVersion": "crd.projectcalico.org/v1", "kind": "BlockAffinity",
        "metadata": {"name": format!("{node}-{}", cidr.replace(['.', '/', ':'], "-"))},
        "spec": {"cidr": cidr, "deleted": "false", "node": node, "state": "confirmed"},
    })
}

/// A block with addresses of these nodes in use.
fn block(host: Option<&str>, cidr: &str, users: &[&str]) -> Value {
    let attributes: Vec<Value> = users
        .iter()
        .map(|node| {
            json!({
                "handle_id": "k8s-pod-network.aa",
                "secondary": {"namespace": "default", "node": node, "pod": "web-0"},
            })
        })
        .collect();
    let mut allocations: Vec<Value> = (0..users.len()).map(|index| json!(index)).collect();
    allocations.push(Value::Null);
    json!({
        "apiVersion": "crd.projectcalico.org/v1", "kind": "IPAMBlock",
        "metadata": {"name": cidr.replace(['.', '/', ':'], "-")},
        "spec": {
            "affinity": host.map(|host| format!("host:{host}")), "allocations": allocations,
            "attributes": attributes, "cidr": cidr, "deleted": false, "strictAffinity": false,
            "unallocated": [63],
        },
    })
}

fn names(remarks: &[Remark]) -> BTreeSet<RemarkName> {
    remarks.iter().map(|remark| remark.name).collect()
}

fn pool_lines(found: &ForeignPools) -> Vec<String> {
    let line = |pool: &ForeignPool| {
        let cidrs: Vec<String> = pool.cidrs.iter().map(ToString::to_string).collect();
        let sizes = pool
            .block_size
            .iter()
            .map(|size| format!("/{}", size.prefix_len()));
        format!(
            "{} [{}] {} {} {} {:?}",
            pool.name,
            cidrs.join(" "),
            sizes.collect::<String>(),
            pool.selector,
            pool.priority,
            pool.state
        )
    };
    found.pools.iter().map(line).collect()
}

fn pin_lines(found: &ForeignPools) -> Vec<String> {
    let pins = found.pins.iter().map(|pin| {
        let blocks: Vec<String> = pin.blocks.iter().map(ToString::to_string).collect();
        format!("{} {} {}", pin.node, pin.pool, blocks.join(" "))
    });
    pins.collect()
}

#[test]
fn the_pool_of_the_documentation() {
    let found = calico(&[json!({
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPPool",
        "metadata": {"name": "my.ippool-1"},
        "spec": {
            "cidr": "10.1.0.0/16", "ipipMode": "CrossSubnet", "natOutgoing": true,
            "disabled": false, "nodeSelector": "all()", "allowedUses": ["Workload", "Tunnel"],
            "assignmentMode": "Automatic",
        },
    })]);
    assert_eq!(
        pool_lines(&found),
        ["my.ippool-1 [10.1.0.0/16] /26 every node 0 Active"]
    );
    assert_eq!(
        names(&found.pools[0].remarks),
        [
            RemarkName::Encapsulation,
            RemarkName::NatOutgoing,
            RemarkName::SmallBlocks
        ]
        .into()
    );
    assert!(found.remarks.is_empty(), "{:?}", found.remarks);
}

#[test]
fn a_node_with_one_block_is_pinned_to_it() {
    let list = json!({
        "apiVersion": "crd.projectcalico.org/v1", "kind": "BlockAffinityList",
        // Items of a typed list have no kind.
        "items": [
            {"metadata": {"name": "x"}, "spec": {
                "cidr": "10.1.1.0/25", "deleted": "false", "node": "b", "state": "confirmed"}},
        ],
    });
    let found = calico(&[
        pool(
            "default-ipv4-ippool",
            "10.1.0.0/16",
            json!({"blockSize": 25}),
        ),
        json!({"apiVersion": "v1", "kind": "List", "items": [affinity("a", "10.1.0.0/25")]}),
        list,
        block(Some("a"), "10.1.0.0/25", &["a", "a"]),
        // Only the block says that it belongs to `c`.
        block(Some("c"), "10.1.2.0/25", &["c"]),
    ]);
    assert_eq!(
        pin_lines(&found),
        [
            "a default-ipv4-ippool 10.1.0.0/25",
            "b default-ipv4-ippool 10.1.1.0/25",
            "c default-ipv4-ippool 10.1.2.0/25",
        ]
    );
    assert!(found.pools[0].reserved.is_empty());
    let is_inferred = |remark: &Remark| remark.kind == RemarkKind::Inferred;
    assert!(found.all_remarks().all(is_inferred));
}

#[test]
fn blocks_that_cilium_cannot_hold_are_reserved_with_a_remark() {
    let found = calico(&[
        pool("p", "10.1.0.0/16", json!({})),
        affinity("two", "10.1.0.0/26"),
        affinity("two", "10.1.0.64/26"),
        block(None, "10.1.1.0/26", &["gone"]),
        block(None, "10.1.1.64/26", &[]),
        affinity("shared-a", "10.1.2.0/26"),
        affinity("shared-b", "10.1.2.0/26"),
        affinity("wide", "10.1.3.0/25"),
        affinity("inside", "10.1.3.64/26"),
        affinity("small", "10.1.4.0/27"),
        affinity("outside", "10.2.0.0/26"),
        affinity("NOT_A_NODE", "10.1.5.0/26"),
        affinity("lender", "10.1.6.0/26"),
        block(Some("lender"), "10.1.6.0/26", &["lender", "x", "x", "y"]),
        affinity("lost", "10.1.9.0/26"),
        block(None, "10.1.9.0/26", &[]),
        json!({"apiVersion": "crd.projectcalico.org/v1", "kind": "BlockAffinity",
            "metadata": {"name": "pending"},
            "spec": {"cidr": "10.1.7.0/26", "node": "p", "state": "pending", "deleted": "false"}}),
        json!({"apiVersion": "crd.projectcalico.org/v1", "kind": "BlockAffinity",
            "metadata": {"name": "deleted"},
            "spec": {"cidr": "10.1.8.0/26", "node": "d", "state": "confirmed", "deleted": "true"}}),
    ]);
    assert_eq!(pin_lines(&found), ["lender p 10.1.6.0/26"]);
    let reserved: Vec<String> = found.pools[0]
        .reserved
        .iter()
        .map(Range::to_string)
        .collect();
    assert_eq!(
        reserved,
        [
            "10.1.0.0/25",
            "10.1.1.0/26",
            "10.1.2.0/26",
            "10.1.3.0/25",
            "10.1.4.0/27",
            "10.1.5.0/26",
            "10.1.7.0/26",
            "10.1.8.0/26",
            "10.1.9.0/26",
        ]
    );
    assert_eq!(
        names(&found.remarks),
        [
            RemarkName::SeveralBlocks,
            RemarkName::BlockWithoutNode,
            RemarkName::BlockOfSeveralNodes,
            RemarkName::BlockOverlaps,
            RemarkName::BlockOfOtherSize,
            RemarkName::BlockOutsidePools,
            RemarkName::BorrowedAddresses,
            RemarkName::AffinityUnconfirmed,
        ]
        .into()
    );
    let borrowed = found
        .remarks
        .iter()
        .find(|remark| remark.name == RemarkName::BorrowedAddresses)
        .unwrap();
    assert!(borrowed.text.contains("`x (2)`, `y (1)`"), "{borrowed}");
}

#[test]
fn of_two_blocks_the_one_in_the_active_pool_is_pinned() {
    let found = calico(&[
        pool("old", "10.1.0.0/16", json!({"disabled": true})),
        pool("new", "10.2.0.0/16", json!({})),
        affinity("a", "10.1.0.0/26"),
        affinity("a", "10.2.0.0/26"),
        affinity("b", "10.1.0.64/26"),
    ]);
    assert_eq!(
        pin_lines(&found),
        ["a new 10.2.0.0/26", "b old 10.1.0.64/26"]
    );
    assert_eq!(
        pool_lines(&found),
        [
            "new [10.2.0.0/16] /26 every node 0 Active",
            "old [10.1.0.0/16] /26 every node 1 Disabled",
        ]
    );
    assert_eq!(found.pools[1].reserved, ["10.1.0.0/26".parse().unwrap()]);
}

#[test]
fn pools_of_both_families_with_the_same_nodes_are_joined() {
    let rack = |rack: &str| json!({"nodeSelector": format!("rack == '{rack}'")});
    let found = calico(&[
        pool("a-v4", "10.1.0.0/16", rack("a")),
        pool("a-v6", "fd00:1::/48", rack("a")),
        pool("b-v4", "10.2.0.0/16", rack("b")),
        pool("b-v6", "fd00:2::/48", rack("b")),
        pool(
            "b-w4",
            "10.3.0.0/16",
            json!({"nodeSelector": "rack=='b'", "blockSize": 25}),
        ),
        affinity("n", "10.1.0.0/26"),
        affinity("n", "fd00:1::/122"),
        affinity("m", "10.1.0.64/26"),
        affinity("m", "fd00:2::/122"),
    ]);
    assert_eq!(
        pool_lines(&found),
        [
            "a-v4 [10.1.0.0/16 fd00:1::/48] /26/122 rack=a 3 Active",
            "b-v4 [10.2.0.0/16 fd00:2::/48] /26/122 rack=b 2 Active",
            "b-w4 [10.3.0.0/16] /25 rack=b 1 Active",
        ]
    );
    assert_eq!(
        pin_lines(&found),
        ["m a-v4 10.1.0.64/26", "n a-v4 10.1.0.0/26 fd00:1::/122"]
    );
    assert_eq!(found.pools[1].reserved, ["fd00:2::/122".parse().unwrap()]);
    assert!(names(&found.pins[0].remarks).contains(&RemarkName::FamiliesInTwoPools));
    assert!(names(&found.pools[2].remarks).contains(&RemarkName::FamilyAlone));
}

#[test]
fn pools_with_common_nodes_keep_the_order_of_calico() {
    let found = calico(&[
        pool(
            "b-rack",
            "10.2.0.0/16",
            json!({"nodeSelector": "rack == 'a'"}),
        ),
        pool("a-all", "10.1.0.0/16", json!({})),
    ]);
    // By requirements alone, the order would be the reverse.
    assert_eq!(
        pool_lines(&found),
        [
            "a-all [10.1.0.0/16] /26 every node 2 Active",
            "b-rack [10.2.0.0/16] /26 rack=a 1 Active",
        ]
    );
    let disjoint = calico(&[
        pool("a", "10.1.0.0/16", json!({"nodeSelector": "rack == 'a'"})),
        pool("b", "10.2.0.0/16", json!({"nodeSelector": "rack != 'a'"})),
    ]);
    assert!(disjoint.pools.iter().all(|pool| pool.priority == 0));
}

#[test]
fn pools_that_no_selector_can_mean_serve_only_labelled_nodes() {
    for (more, name) in [
        (
            json!({"nodeSelector": "rack contains 'a'"}),
            RemarkName::SelectorNotExpressible,
        ),
        (
            json!({"nodeSelector": "rack == 'a' || z == 'b'"}),
            RemarkName::SelectorNotExpressible,
        ),
        (
            json!({"nodeSelector": "rack = 'a'"}),
            RemarkName::SelectorNotExpressible,
        ),
        (
            json!({"nodeSelector": "rack == 'a' && rack == 'b'"}),
            RemarkName::SelectsNothing,
        ),
        (
            json!({"assignmentMode": "Manual"}),
            RemarkName::ManualAssignment,
        ),
        (
            json!({"namespaceSelector": "team == 'x'"}),
            RemarkName::NamespaceSelector,
        ),
    ] {
        let found = calico(&[pool("p", "10.1.0.0/16", more), affinity("n", "10.1.0.0/26")]);
        assert_eq!(
            pool_lines(&found),
            ["p [10.1.0.0/16] /26 cilium-ipam.io/pool=p 1 Active"]
        );
        assert_eq!(pin_lines(&found), ["n p 10.1.0.0/26"]);
        assert!(names(&found.pools[0].remarks).contains(&name), "{name}");
    }
    let all = json!({"namespaceSelector": "all()"});
    let found = calico(&[pool("p", "10.1.0.0/16", all)]);
    assert_eq!(
        pool_lines(&found),
        ["p [10.1.0.0/16] /26 every node 0 Active"]
    );
}

#[test]
fn reservations_and_settings() {
    let found = calico(&[
        pool("p", "10.1.0.0/16", json!({"disableBGPExport": true})),
        json!({"apiVersion": "projectcalico.org/v3", "kind": "IPReservation",
            "metadata": {"name": "my-ipreservation-1"},
            "spec": {"reservedCIDRs": ["10.1.0.1/32", "10.1.0.0/15", "10.9.0.0/16", "nonsense"]}}),
        json!({"apiVersion": "projectcalico.org/v3", "kind": "IPAMConfiguration",
            "metadata": {"name": "default"},
            "spec": {"strictAffinity": false, "maxBlocksPerHost": 4, "autoAllocateBlocks": true}}),
        json!({"apiVersion": "projectcalico.org/v3", "kind": "FelixConfiguration",
            "metadata": {"name": "default"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}),
    ]);
    assert_eq!(found.pools[0].reserved, ["10.1.0.0/16".parse().unwrap()]);
    let texts: Vec<String> = found.remarks.iter().map(ToString::to_string).collect();
    let has = |start: &str| texts.iter().any(|text| text.starts_with(start));
    for start in [
        "FelixConfiguration projectcalico.org: 1 of this kind",
        "Pod: 1 of this kind",
        "IPReservation my-ipreservation-1: 10.9.0.0/16 lies in no imported pool",
        "IPReservation my-ipreservation-1: `spec.reservedCIDRs`: `nonsense` is not a CIDR",
        "IPAMConfiguration default: `maxBlocksPerHost`",
        "IPAMConfiguration default: `strictAffinity: false`",
    ] {
        assert!(has(start), "{start}: {texts:#?}");
    }
}

#[test]
fn nodes_have_the_names_of_kubernetes() {
    let found = calico(&[
        pool("p", "10.1.0.0/16", json!({})),
        affinity("etcd-name", "10.1.0.0/26"),
        json!({"apiVersion": "projectcalico.org/v3", "kind": "Node",
            "metadata": {"name": "etcd-name"},
            "spec": {"orchRefs": [{"nodeName": "worker-1", "orchestrator": "k8s"}]}}),
    ]);
    assert_eq!(pin_lines(&found), ["worker-1 p 10.1.0.0/26"]);
}

#[test]
fn pools_for_services_and_for_tunnels() {
    let found = calico(&[
        pool(
            "lb",
            "198.51.100.0/28",
            json!({"allowedUses": ["LoadBalancer"]}),
        ),
        pool("tunnels", "10.3.0.0/16", json!({"allowedUses": ["Tunnel"]})),
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.3"}]}}}),
    ]);
    assert!(found.pools.is_empty());
    assert_eq!(
        json!(found.address_pools[0].manifest),
        json!({"spec": {"blocks": [{"cidr": "198.51.100.0/28"}], "allowFirstLastIPs": "Yes"}})
    );
    assert_eq!(found.service_pins[0].service.to_string(), "shop/web");
    assert_eq!(names(&found.remarks), [RemarkName::TunnelOnly].into());
}

#[test]
fn requests_of_services_are_json_lists() {
    let mut refused = pool(
        "lb",
        "10.5.0.0/16",
        json!({"allowedUses": ["LoadBalancer"]}),
    );
    refused["status"] = json!({"conditions": [
        {"type": "Allocatable", "status": "False", "reason": "CIDROverlap"}]});
    let manual = json!({"allowedUses": ["LoadBalancer"], "assignmentMode": "Manual"});
    let service = |name: &str, annotations: Value, ip: &str| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "web", "annotations": annotations},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    };
    let found = calico(&[
        refused,
        pool("manual", "10.6.0.0/24", manual),
        service(
            "asked",
            json!({"projectcalico.org/loadBalancerIPs": "[\"10.5.0.9\"]"}),
            "10.5.0.9",
        ),
        service(
            "bypool",
            json!({"projectcalico.org/ipv4pools": "[\"10.6.0.0/24\"]"}),
            "10.6.0.1",
        ),
    ]);
    assert!(found.address_pools[0].manifest.spec.disabled);
    let text = |place: usize| format!("{:?}", found.address_pools[place].remarks);
    assert!(text(0).contains("`Allocatable` is `False` (CIDROverlap)"));
    assert!(text(1).contains("Services with the label cilium-ipam.io/address-pool=manual"));
    assert_eq!(found.service_pins.len(), 2);
    assert!(found.remarks.is_empty(), "{:?}", found.remarks);
}

#[test]
fn pools_that_cannot_be_imported() {
    let found = calico(&[
        pool("a", "10.1.0.0/16", json!({})),
        pool("b", "10.1.128.0/17", json!({})),
        pool("c", "nonsense", json!({})),
        pool("d", "10.4.0.0/28", json!({})),
        pool("e", "10.5.0.0/16", json!({"blockSize": 99})),
        pool("Under_Score", "10.6.0.0/16", json!({})),
        pool("___", "10.7.0.0/16", json!({})),
    ]);
    let pools: Vec<&str> = found.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(pools, ["a", "under-score"]);
    assert_eq!(
        names(&found.remarks),
        [RemarkName::PoolsOverlap, RemarkName::ObjectUnreadable].into()
    );
    assert_eq!(found.remarks.len(), 5);
}

#[test]
fn ten_thousand_nodes() {
    let mut objects = vec![pool("p", "10.0.0.0/8", json!({}))];
    for node in 0..10_000_u32 {
        let cidr = format!(
            "10.{}.{}.{}/26",
            node >> 10,
            node >> 2 & 255,
            (node & 3) << 6
        );
        objects.push(affinity(&format!("n{node}"), &cidr));
        objects.push(block(Some(&format!("n{node}")), &cidr, &[]));
    }
    let found = calico(&[json!({"kind": "List", "items": objects})]);
    assert_eq!(found.pins.len(), 10_000);
    assert!(found.remarks.is_empty());
}

/// What the files of an import require.
pub(in crate::import::foreign) fn check(found: &ForeignPools) {
    let cidrs: Vec<Block> = found
        .pools
        .iter()
        .flat_map(|pool| pool.cidrs.clone())
        .collect();
    for (place, one) in cidrs.iter().enumerate() {
        assert!(!cidrs[place + 1..].iter().any(|two| one.overlaps(*two)));
    }
    let mut pinned: Vec<Block> = Vec::new();
    for pin in &found.pins {
        let pool = found
            .pools
            .iter()
            .find(|pool| pool.name == pin.pool)
            .unwrap();
        assert!(!pin.blocks.is_empty());
        for block in pin.blocks.iter() {
            assert!(pool.cidrs.iter().any(|cidr| cidr.contains(*block)));
            assert_eq!(pool.block_size.get(block.family()), Some(&block.size()));
            assert!(!pinned.iter().any(|other| other.overlaps(*block)));
            pinned.push(*block);
        }
    }
}

proptest! {
    #[test]
    fn no_broken_field_breaks_the_import(
        faults in prop::collection::vec((0..6_usize, 0..40_usize, hostile()), 0..4),
    ) {
        let mut objects = [
            pool("a", "10.1.0.0/16", json!({"nodeSelector": "rack in {'a'}"})),
            pool("b", "10.2.0.0/16", json!({"disabled": true})),
            affinity("n", "10.1.0.0/26"),
            affinity("m", "10.2.0.0/26"),
            block(Some("n"), "10.1.0.0/26", &["n", "m"]),
            block(None, "10.1.0.64/26", &["m"]),
        ];
        for (object, place, by) in &faults {
            broken(&mut objects[*object], *place, by);
        }
        check(&calico(&objects));
    }

    /// A block in use belongs to its node or to none.
    #[test]
    fn no_used_block_is_free_for_another_node(
        blocks in prop::collection::vec((0..12_u8, prop::option::of(0..4_u8), 0..3_u8), 0..16),
    ) {
        let cidr = |place: u8| format!("10.1.{}.{}/26", place / 4, place % 4 * 64);
        let mut objects = vec![
            pool("a", "10.1.0.0/23", json!({})),
            pool("b", "10.1.2.0/24", json!({"disabled": true})),
        ];
        let mut used = Vec::new();
        for (place, host, form) in &blocks {
            let host = host.map(|host| format!("n{host}"));
            let cidr = cidr(*place);
            match (&host, form) {
                (Some(host), 0) => objects.push(affinity(host, &cidr)),
                (host, _) => objects.push(block(host.as_deref(), &cidr, &["n0"])),
            }
            used.push((cidr.parse::<Block>().unwrap(), host));
        }
        let found = calico(&objects);
        check(&found);
        for (block, host) in used {
            let pin = found.pins.iter().find(|pin| pin.blocks.iter().any(|one| *one == block));
            let is_reserved = found
                .pools
                .iter()
                .flat_map(|pool| &pool.reserved)
                .any(|range| range.contains(&block.range()));
            match pin {
                Some(pin) => prop_assert_eq!(Some(pin.node.to_string()), host),
                None => prop_assert!(is_reserved, "{} of {:?} is free", block, host),
            }
        }
    }
}
