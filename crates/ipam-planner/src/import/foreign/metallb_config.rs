//! The configuration of MetalLB before 0.13, in a ConfigMap, as the objects that replaced it.
//!
//! Source: `configmaptocrs` of MetalLB 0.13.

use serde_json::{Map, Value, json};

/// The YAML text of MetalLB's ConfigMap; `None` for any other object.
pub fn config_text(object: &Value) -> Option<&str> {
    let is_it = object["kind"] == "ConfigMap" && object["metadata"]["name"] == "config";
    object["data"]["config"].as_str().filter(|_| is_it)
}

/// The objects that mean the same as a parsed configuration.
pub fn legacy_config(config: &Value) -> Vec<Value> {
    let mut objects = Vec::new();
    for pool in list(&config["address-pools"]) {
        objects.extend(pool_objects(pool));
    }
    for (place, peer) in list(&config["peers"]).enumerate() {
        let spec = renamed(
            peer,
            &[
                ("my-asn", "myASN"),
                ("peer-asn", "peerASN"),
                ("peer-address", "peerAddress"),
                ("peer-port", "peerPort"),
            ],
        );
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
    pool_objects(&pool)
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
