//! `show bgp ipv4|ipv6 unicast json` of FRR (`bgpd/bgp_route.c` @ 8 to 10).

use serde_json::Value;

use super::{Path, Route, Usage};

/// The routes; `None` where the JSON is of something else.
pub(super) fn routes(json: &Value) -> Option<Vec<Route>> {
    ["vrfId", "routerId", "localAS"].iter().find_map(|key| json.get(key))?;
    let routes = json.get("routes")?.as_object()?;
    let routes: Option<Vec<Option<Route>>> = routes.iter().map(|(prefix, paths)| route(prefix, paths)).collect();
    Some(routes?.into_iter().flatten().collect())
}

/// The default route is left out.
fn route(prefix: &str, paths: &Value) -> Option<Option<Route>> {
    let paths = paths.as_array()?.iter().filter(|path| path["valid"] == true);
    let prefix = super::prefix(prefix)?;
    Some(prefix.map(|prefix| Route { prefix, paths: paths.map(path).collect() }))
}

fn path(path: &Value) -> Path {
    // Of a single prefix, `bestpath` is an object.
    let flags = [&path["bestpath"], &path["multipath"], &path["bestpath"]["overall"]];
    let is_used = flags.iter().any(|flag| **flag == true);
    let next = path["nexthops"].as_array().into_iter().flatten().map(|hop| &hop["ip"]);
    let mut hops = Vec::new();
    for hop in next.chain([&path["peerId"]]).filter_map(|text| text.as_str()?.parse().ok()) {
        if !hops.contains(&hop) {
            hops.push(hop);
        }
    }
    Path { hops, usage: if is_used { Usage::Used } else { Usage::Spare } }
}
