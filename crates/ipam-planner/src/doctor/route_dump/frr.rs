//! `show bgp ipv4|ipv6 unicast json` of FRR (`bgpd/bgp_route.c` @ 8 to 10).

use std::net::IpAddr;

use serde_json::Value;

use super::{Path, Route, Usage};
use ipam_core::net::{Address, Block};

/// The routes, without the default route; `None` if the JSON is not of FRR, or a route is invalid.
pub(super) fn routes(json: &Value) -> Option<Vec<Route>> {
    ["vrfId", "routerId", "localAS"]
        .iter()
        .find_map(|key| json.get(key))?;
    let prefixes = json.get("routes")?.as_object()?;
    prefixes
        .iter()
        .filter(|(prefix, _)| !["0.0.0.0/0", "::/0"].contains(&prefix.as_str()))
        .map(|(prefix, paths)| route(prefix, paths))
        .collect()
}

fn route(prefix: &str, paths: &Value) -> Option<Route> {
    let valid = paths
        .as_array()?
        .iter()
        .filter(|path| path["valid"] == true);
    Some(Route {
        prefix: Block::lenient(prefix).ok()?,
        paths: valid.map(path).collect(),
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
    let addresses = next
        .chain([&path["peerId"]])
        .filter_map(|text| text.as_str()?.parse::<Address>().ok())
        .map(IpAddr::from);
    let mut hops = Vec::new();
    for hop in addresses {
        if !hops.contains(&hop) {
            hops.push(hop);
        }
    }
    Path { hops, usage }
}
