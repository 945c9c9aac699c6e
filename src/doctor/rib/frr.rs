//! `show bgp ipv4|ipv6 unicast json` of FRR (`bgpd/bgp_route.c` @ 8 to 10).

use serde_json::Value;

use super::{Path, Route, Usage};
use crate::net::Block;

/// The routes; `None` where the JSON is of something else.
pub(super) fn routes(json: &Value) -> Option<Vec<Route>> {
    json.get("vrfId")?;
    let routes = json.get("routes")?.as_object()?;
    routes.iter().map(|(prefix, paths)| route(prefix, paths)).collect()
}

fn route(prefix: &str, paths: &Value) -> Option<Route> {
    let paths = paths.as_array()?.iter().filter(|path| path["valid"] == true);
    Some(Route { prefix: Block::lenient(prefix).ok()?, paths: paths.map(path).collect() })
}

fn path(path: &Value) -> Path {
    let is_used = ["bestpath", "multipath"].iter().any(|key| path[key] == true);
    let next = path["nexthops"].as_array().into_iter().flatten().map(|hop| &hop["ip"]);
    let mut hops = Vec::new();
    for hop in next.chain([&path["peerId"]]).filter_map(|text| text.as_str()?.parse().ok()) {
        if !hops.contains(&hop) {
            hops.push(hop);
        }
    }
    Path { hops, usage: if is_used { Usage::Used } else { Usage::Spare } }
}
