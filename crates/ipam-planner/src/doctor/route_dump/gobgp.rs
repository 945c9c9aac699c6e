//! `gobgp global rib --json` of GoBGP (`cmd/gobgp/global.go` @ 3): an object of prefixes, each with
//! its paths.

use serde_json::Value;

use super::{Path, Route, Usage};

/// Path attributes that carry a next hop: NEXT_HOP and MP_REACH_NLRI (RFC 4271, RFC 4760).
const NEXT_HOPS: [u64; 2] = [3, 14];

/// `None` if the JSON is not of GoBGP, or empty, which could be of any program.
pub(super) fn routes(json: &Value) -> Option<Vec<Route>> {
    super::routes_of(
        json.as_object().filter(|routes| !routes.is_empty())?,
        |paths| {
            paths
                .as_array()
                .filter(|paths| !paths.is_empty())?
                .iter()
                .map(path)
                .collect()
        },
    )
}

fn path(path: &Value) -> Option<Path> {
    path.get("nlri")?;
    let carries = |attribute: &&Value| {
        attribute["type"]
            .as_u64()
            .is_some_and(|kind| NEXT_HOPS.contains(&kind))
    };
    let next = path["attrs"]
        .as_array()?
        .iter()
        .filter(carries)
        .map(|attribute| &attribute["nexthop"]);
    let usage = if path["best"] == true {
        Usage::Used
    } else {
        Usage::Spare
    };
    Some(super::path_by(next.chain([&path["neighbor-ip"]]), usage))
}
