//! MetalLB's pools, advertisements and Services, as objects of Cilium's LB-IPAM. A ConfigMap of
//! MetalLB before 0.13 is read as the objects that replaced it (`configmaptocrs` of MetalLB 0.13).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::calico::ignored;
use super::metallb_announcing::announcements;
use super::metallb_controller::Controller;
use super::metallb_pool::{MetalPool, read};
use super::object::{Object, Remark, RemarkName, flattened, texts};
use super::services::{Annotations, of_services};
use super::{ForeignAddressPool, ForeignPools, listed};
use ipam_core::model::Selector;
use ipam_core::net::RangeIndex;

/// Annotations of Services that MetalLB reads, first the one that wins.
const ANNOTATIONS: Annotations = Annotations {
    addresses: &[
        "metallb.io/loadBalancerIPs",
        "metallb.universe.tf/loadBalancerIPs",
    ],
    pools: &[
        "metallb.io/address-pool",
        "metallb.universe.tf/address-pool",
    ],
    sharing: &[
        "metallb.io/allow-shared-ip",
        "metallb.universe.tf/allow-shared-ip",
    ],
};

/// Reads MetalLB's objects: `IPAddressPool`, `AddressPool`, `L2Advertisement`, `BGPAdvertisement`,
/// `BGPPeer` and `Community` of `metallb.io`, and Kubernetes' Services. Lists are opened. Each
/// object may have any form.
pub fn metallb(objects: &[Value]) -> ForeignPools {
    let written = flattened(objects);
    let old: Vec<Value> = written
        .iter()
        .filter(|object| object.group == "metallb.io" && object.kind == "AddressPool")
        .flat_map(|object| address_pool(object.value))
        .collect();
    let mut remarks = Vec::new();
    let controller = Controller::find(&written);
    let (services, objects): (Vec<Object<'_>>, Vec<Object<'_>>) = known(written, &mut remarks)
        .into_iter()
        .chain(flattened(&old))
        .partition(|object| object.kind == "Service");
    let objects = controller.own(objects, &mut remarks);
    let mut pools = pools(&objects, &controller, &mut remarks);
    compare_priorities(&mut pools);
    let announcements = announcements(&objects, &pools, &mut remarks);
    let address_pools: Vec<ForeignAddressPool> = pools.into_iter().map(|pool| pool.pool).collect();
    let service_pins = of_services(&services, &address_pools, &ANNOTATIONS, &mut remarks);
    ForeignPools {
        address_pools,
        service_pins,
        announcements,
        remarks,
        ..ForeignPools::default()
    }
}

/// The objects that are read. The others get one remark for each kind.
fn known<'v>(objects: Vec<Object<'v>>, remarks: &mut Vec<Remark>) -> Vec<Object<'v>> {
    const KINDS: [&str; 5] = [
        "IPAddressPool",
        "L2Advertisement",
        "BGPAdvertisement",
        "BGPPeer",
        "Community",
    ];
    let is_known = |object: &Object<'_>| {
        (object.group == "metallb.io" && KINDS.contains(&object.kind))
            || (object.group.is_empty() && object.kind == "Service")
    };
    // Other objects stand for these.
    let is_replaced = |object: &Object<'_>| {
        (object.group == "metallb.io" && object.kind == "AddressPool")
            || (object.kind == "ConfigMap" && object.name() == "config")
    };
    let (known, others): (Vec<Object<'v>>, Vec<Object<'v>>) = objects
        .into_iter()
        .filter(|object| !is_replaced(object))
        .partition(is_known);
    remarks.extend(ignored(&others));
    known
}

/// The pools, sorted by name. Of two that overlap or have one name, only the first is kept.
fn pools(
    objects: &[Object<'_>],
    controller: &Controller<'_>,
    remarks: &mut Vec<Remark>,
) -> Vec<MetalPool> {
    let mut pools: BTreeMap<_, (&Value, MetalPool)> = BTreeMap::new();
    for object in objects.iter().filter(|one| one.kind == "IPAddressPool") {
        let pool = match read(object, controller) {
            Ok(pool) => pool,
            Err(remark) => {
                remarks.push(*remark);
                continue;
            }
        };
        match pools.entry(pool.pool.name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert((object.value, pool));
            }
            // One object of two files.
            Entry::Occupied(first) if first.get().0["spec"] == object.value["spec"] => {}
            Entry::Occupied(_) => remarks.push(name_twice(object)),
        }
    }
    let pools: Vec<MetalPool> = pools.into_values().map(|(_, pool)| pool).collect();
    let index = RangeIndex::new(pools.iter().enumerate().flat_map(|(place, pool)| {
        let ranges = pool.pool.manifest.spec.ranges();
        ranges.map(move |range| (range, place))
    }));
    let mut is_kept = vec![true; pools.len()];
    for (place, pool) in pools.iter().enumerate() {
        let ranges = pool.pool.manifest.spec.ranges();
        let mut others = ranges.flat_map(|range| index.overlapping(&range));
        if let Some((_, other)) = others.find(|(_, other)| *other < place && is_kept[*other]) {
            remarks.push(Remark::left_out(
                RemarkName::PoolsOverlap,
                format!("IPAddressPool {}", pool.pool.name),
                format!(
                    "its addresses overlap those of `{}`: it is not imported",
                    pools[*other].pool.name
                ),
            ));
            is_kept[place] = false;
        }
    }
    let kept = pools.into_iter().zip(is_kept);
    kept.filter_map(|(pool, is_kept)| is_kept.then_some(pool))
        .collect()
}

fn name_twice(object: &Object<'_>) -> Remark {
    let addresses = listed(texts(object.spec("addresses")));
    Remark::left_out(
        RemarkName::NameTwice,
        object.about(),
        format!(
            "another pool has this name, so MetalLB refuses the configuration and continues with an earlier one: {addresses} is not imported. Add the addresses to a pool of another name if they are in use"
        ),
    )
}

/// Adds a remark to each pool that MetalLB prefers to another one with common Services: Cilium has
/// no such order.
fn compare_priorities(pools: &mut [MetalPool]) {
    let order = |pool: &MetalPool| match pool.rank {
        Some(0) => (1, 0),
        Some(rank) => (0, rank),
        None => (2, 0),
    };
    let later: Vec<Vec<String>> = pools
        .iter()
        .map(|pool| {
            let is_later = |other: &&MetalPool| {
                order(pool) < order(other) && have_common_services(pool, other)
            };
            let later = pools.iter().filter(is_later);
            later.map(|other| other.pool.name.to_string()).collect()
        })
        .collect();
    for (pool, later) in pools.iter_mut().zip(later) {
        if !later.is_empty() {
            let about = format!("IPAddressPool {}", pool.pool.name);
            let text = format!(
                "MetalLB prefers it to {}, and Cilium has no order of pools: a new Service may get an address of any of them",
                listed(later)
            );
            let remark = Remark::left_out(RemarkName::Priority, about, text);
            pool.pool.remarks.push(remark);
        }
    }
}

fn have_common_services(one: &MetalPool, two: &MetalPool) -> bool {
    match (&one.automatic, &two.automatic) {
        (Some(one), Some(two)) => {
            let requirements = one.requirements().chain(two.requirements()).cloned();
            Selector::all_of(requirements).contradiction().is_none()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;

/// The YAML text of MetalLB's ConfigMap; `None` for any other object.
pub fn config_text(object: &Value) -> Option<&str> {
    let is_it = object["kind"] == "ConfigMap" && object["metadata"]["name"] == "config";
    object["data"]["config"].as_str().filter(|_| is_it)
}

const PEER_FIELDS: [(&str, &str); 11] = [
    ("my-asn", "myASN"),
    ("peer-asn", "peerASN"),
    ("peer-address", "peerAddress"),
    ("peer-port", "peerPort"),
    ("source-address", "sourceAddress"),
    ("router-id", "routerID"),
    ("hold-time", "holdTime"),
    ("keepalive-time", "keepaliveTime"),
    ("bfd-profile", "bfdProfile"),
    ("ebgp-multihop", "ebgpMultiHop"),
    ("password", "password"),
];

const SELECTOR_FIELDS: [(&str, &str); 2] = [
    ("match-labels", "matchLabels"),
    ("match-expressions", "matchExpressions"),
];

/// The objects that mean the same as a parsed configuration.
pub fn legacy_config(config: &Value) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut names = BTreeSet::new();
    for pool in list(&config["address-pools"]) {
        let made = pool_objects(pool);
        // The import leaves out the second pool of a name, and then its advertisements, too.
        match names.insert(pool["name"].to_string()) {
            true => objects.extend(made),
            false => objects.extend(made.into_iter().take(1)),
        }
    }
    for (place, peer) in list(&config["peers"]).enumerate() {
        let mut spec = renamed(peer, &PEER_FIELDS);
        let nodes = list(&peer["node-selectors"]);
        let nodes = nodes.map(|selector| renamed(selector, &SELECTOR_FIELDS));
        spec["nodeSelectors"] = nodes.collect();
        objects.push(object("BGPPeer", &format!("peer{}", place + 1), spec));
    }
    if let Some(aliases) = config["bgp-communities"].as_object() {
        let aliases: Vec<Value> = aliases
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        objects.push(object(
            "Community",
            "communities",
            json!({"communities": aliases}),
        ));
    }
    objects
}

/// The objects of an entry of `address-pools`, or of an `AddressPool`.
fn pool_objects(pool: &Value) -> Vec<Value> {
    let name = pool["name"].as_str().unwrap_or_default();
    let spec = renamed(
        pool,
        &[
            ("addresses", "addresses"),
            ("auto-assign", "autoAssign"),
            ("avoid-buggy-ips", "avoidBuggyIPs"),
        ],
    );
    let mut objects = vec![object("IPAddressPool", name, spec)];
    let of_pool = json!({"ipAddressPools": [name]});
    match pool["protocol"].as_str() {
        Some("layer2") => objects.push(object("L2Advertisement", name, of_pool)),
        Some("bgp") => {
            let empty = Value::Object(Map::new());
            let mut written: Vec<&Value> = list(&pool["bgp-advertisements"]).collect();
            if written.is_empty() {
                written.push(&empty);
            }
            for (place, advertisement) in written.into_iter().enumerate() {
                let mut spec = renamed(
                    advertisement,
                    &[
                        ("aggregation-length", "aggregationLength"),
                        ("aggregation-length-v6", "aggregationLengthV6"),
                        ("localpref", "localPref"),
                        ("communities", "communities"),
                    ],
                );
                spec["ipAddressPools"] = json!([name]);
                let name = match place {
                    0 => name.to_owned(),
                    _ => format!("{name}-{}", place + 1),
                };
                objects.push(object("BGPAdvertisement", &name, spec));
            }
        }
        _ => {}
    }
    objects
}

/// The objects of an `AddressPool`, which MetalLB read from 0.13 to 0.14.
pub(super) fn address_pool(written: &Value) -> Vec<Value> {
    let spec = &written["spec"];
    let mut pool = renamed(
        spec,
        &[
            ("addresses", "addresses"),
            ("protocol", "protocol"),
            ("autoAssign", "auto-assign"),
            ("avoidBuggyIPs", "avoid-buggy-ips"),
        ],
    );
    let advertisements: Vec<Value> = list(&spec["bgpAdvertisements"])
        .map(|advertisement| {
            renamed(
                advertisement,
                &[
                    ("aggregationLength", "aggregation-length"),
                    ("aggregationLengthV6", "aggregation-length-v6"),
                    ("localPref", "localpref"),
                    ("communities", "communities"),
                ],
            )
        })
        .collect();
    pool["bgp-advertisements"] = Value::Array(advertisements);
    pool["name"] = written["metadata"]["name"].clone();
    let mut objects = pool_objects(&pool);
    for object in &mut objects {
        object["metadata"]["namespace"] = written["metadata"]["namespace"].clone();
    }
    objects
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The fields with these names, under new ones.
fn renamed(value: &Value, names: &[(&str, &str)]) -> Value {
    let fields = names.iter().filter_map(|(from, to)| {
        let field = value.get(from)?;
        Some(((*to).to_owned(), field.clone()))
    });
    Value::Object(fields.collect())
}
