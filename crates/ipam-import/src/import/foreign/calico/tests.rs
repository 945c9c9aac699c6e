//! Many objects of Calico, and objects with faults. `foreign/tests/cases/calico` has the other cases.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::import::foreign::tests::{broken, hostile};

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
