//! `show bgp ipv4|ipv6 unicast json` of FRR (`bgpd/bgp_route.c` @ 8 to 10).

use serde_json::Value;

use super::{Path, Route, Usage};

/// `None` if the JSON is not of FRR.
pub(super) fn routes(json: &Value) -> Option<Vec<Route>> {
    ["vrfId", "routerId", "localAS"]
        .iter()
        .find_map(|key| json.get(key))?;
    super::routes_of(json.get("routes")?.as_object()?, |paths| {
        Some(
            paths
                .as_array()?
                .iter()
                .filter(|path| path["valid"] == true)
                .map(path)
                .collect(),
        )
    })
}

fn path(path: &Value) -> Path {
    // For a single prefix, `bestpath` is an object.
    let flags = [
        &path["bestpath"],
        &path["multipath"],
        &path["bestpath"]["overall"],
    ];
    let usage = if flags.iter().any(|flag| **flag == true) {
        Usage::Used
    } else {
        Usage::Spare
    };
    let next = path["nexthops"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|hop| &hop["ip"]);
    super::path_by(next.chain([&path["peerId"]]), usage)
}
