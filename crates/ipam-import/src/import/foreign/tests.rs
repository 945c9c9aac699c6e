//! Hostile objects and cases, for the tests of all importers.

mod cases;

use proptest::prelude::*;
use serde_json::Value;

use super::calico::tests::check;
use super::{calico, legacy_config, metallb, node_ipam_controller};

/// Any JSON, with the names of fields that the importers read.
pub(super) fn hostile() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(
        &[
            "",
            "IPPool",
            "BlockAffinity",
            "IPAMBlock",
            "IPReservation",
            "IPAMConfig",
            "Node",
            "IPAddressPool",
            "AddressPool",
            "L2Advertisement",
            "BGPAdvertisement",
            "BGPPeer",
            "Community",
            "Service",
            "List",
            "IPPoolList",
            "ConfigMap",
            "ClusterCIDR",
            "networking.x-k8s.io/v1",
            "metallb.io/v1beta1",
            "projectcalico.org/v3",
            "v1",
            "10.1.0.0/16",
            "10.1.0.0/26",
            "fd00::/64",
            "::/0",
            "1.2.3.4-1.2.3.9",
            "9.9.9.9-1.1.1.1",
            "host:a",
            "all()",
            "a",
            "LoadBalancer",
            "large:1:2",
            "\u{1b}[31m",
            "true",
        ][..],
    );
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let field = prop::sample::select(
        &[
            "apiVersion",
            "kind",
            "metadata",
            "name",
            "namespace",
            "labels",
            "annotations",
            "spec",
            "status",
            "items",
            "cidr",
            "blockSize",
            "nodeSelector",
            "allowedUses",
            "node",
            "state",
            "affinity",
            "allocations",
            "attributes",
            "secondary",
            "reservedCIDRs",
            "addresses",
            "autoAssign",
            "avoidBuggyIPs",
            "serviceAllocation",
            "namespaces",
            "serviceSelectors",
            "matchLabels",
            "matchExpressions",
            "ipAddressPools",
            "nodeSelectors",
            "communities",
            "loadBalancer",
            "ingress",
            "ip",
            "type",
            "metallb.io/loadBalancerIPs",
            "orchRefs",
            "nodeSelectorTerms",
            "matchFields",
            "perNodeHostBits",
            "ipv4",
            "ipv6",
        ][..],
    );
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((field.clone(), inner), 0..6).prop_map(|fields| {
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect())
            }),
        ]
    })
}

/// Replaces one value below an object.
pub(super) fn broken(object: &mut Value, place: usize, by: &Value) {
    let mut places = 0;
    let mut rest = vec![object];
    while let Some(value) = rest.pop() {
        if places == place {
            *value = by.clone();
            return;
        }
        places += 1;
        match value {
            Value::Object(fields) => rest.extend(fields.values_mut()),
            Value::Array(items) => rest.extend(items.iter_mut()),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn no_object_breaks_an_import(objects in prop::collection::vec(hostile(), 0..6)) {
        check(&calico(&objects));
        metallb(&objects);
        check(&node_ipam_controller(&objects));
        for object in &objects {
            legacy_config(object);
        }
    }
}
