//! Routes of routers, read from the JSON of FRR (`show bgp ipv4|ipv6 unicast json`,
//! `bgpd/bgp_route.c` @ 8 to 10) and audited against the cluster. Never knows how they were
//! fetched.

mod audit;

use std::net::IpAddr;

use serde_json::Value;

use ipam_core::net::{Address, Block};

pub(super) use audit::audit;

/// A path to a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// Next hops and the peer that sent the path. Each is a node's address, or that of a router in
    /// between.
    pub hops: Vec<IpAddr>,
    pub usage: Usage,
}

/// Whether packets use a path now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// The best path, or one of several that share the load.
    Used,
    /// Another path of the prefix is better.
    Spare,
}

/// A prefix with its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub prefix: Block,
    /// Valid paths of the prefix.
    pub paths: Vec<Path>,
}

/// The routes of one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteDump {
    /// Name of the file with the dump.
    pub source: String,
    pub routes: Vec<Route>,
}

/// Why a text is not a route dump.
#[derive(Debug, thiserror::Error)]
pub enum RouteDumpError {
    #[error("{source_name} is not JSON: {message}. {HOW}")]
    NotJson {
        /// Name of the file with the dump.
        source_name: String,
        /// What is wrong with the text.
        message: String,
    },
    /// The JSON is the output of an unknown program.
    #[error("{0} is not the JSON of FRR's routes. {HOW}")]
    Unknown(String),
}

/// How to get a route dump.
const HOW: &str = "Write it with `vtysh -c 'show bgp ipv4 unicast json'` of FRR";

impl RouteDump {
    /// Reads the JSON of FRR.
    ///
    /// # Errors
    /// Fails if the text is not JSON of FRR, or if one of its routes is invalid.
    pub fn parse(source: &str, text: &str) -> Result<RouteDump, RouteDumpError> {
        let json: Value = serde_json::from_str(text).map_err(|error| RouteDumpError::NotJson {
            source_name: source.to_owned(),
            message: error.to_string(),
        })?;
        let routes = routes(&json).ok_or_else(|| RouteDumpError::Unknown(source.to_owned()))?;
        Ok(RouteDump {
            source: source.to_owned(),
            routes,
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const FRR: &str = r#"{"vrfId": 0, "routerId": "192.0.2.254", "routes": {
        "0.0.0.0/0": [{"valid": true, "bestpath": true, "nexthops": [{"ip": "192.0.2.9"}]}],
        "10.20.1.0/24": [{"valid": true, "bestpath": true, "peerId": "192.0.2.1", "nexthops": [{"ip": "192.0.2.1", "afi": "ipv4", "used": true}]}],
        "10.20.2.0/24": [{"valid": true, "multipath": true, "peerId": "192.0.2.9", "nexthops": [{"ip": "192.0.2.2"}]},
                         {"valid": true, "peerId": "192.0.2.3", "nexthops": [{"ip": "192.0.2.3"}]},
                         {"peerId": "192.0.2.4", "nexthops": [{"ip": "192.0.2.4"}]}]}}"#;

    fn dumped(text: &str) -> Vec<String> {
        let route = |route: &Route| {
            let paths: Vec<String> = route
                .paths
                .iter()
                .map(|path| format!("{:?} {:?}", path.usage, path.hops))
                .collect();
            format!("{}: {}", route.prefix, paths.join("; "))
        };
        RouteDump::parse("file", text)
            .unwrap()
            .routes
            .iter()
            .map(route)
            .collect()
    }

    #[test]
    fn the_json_of_frr() {
        assert_eq!(
            dumped(FRR),
            [
                "10.20.1.0/24: Used [192.0.2.1]",
                "10.20.2.0/24: Used [192.0.2.2, 192.0.2.9]; Spare [192.0.2.3]"
            ]
        );
    }

    #[test]
    fn other_products_and_nonsense() {
        for text in [
            "[]",
            "{}",
            "7",
            r#"{"10.0.0.0/8": {"via": "eth0"}}"#,
            // As `gobgp global rib --json` prints it.
            r#"{"10.0.0.0/8": [{"nlri": {"prefix": "10.0.0.0/8"}, "best": true, "attrs": []}]}"#,
            r#"{"routes": 3}"#,
            r#"{"routes": {"x": []}}"#,
        ] {
            assert!(
                matches!(
                    RouteDump::parse("file", text),
                    Err(RouteDumpError::Unknown(_))
                ),
                "{text}"
            );
        }
        assert!(matches!(
            RouteDump::parse("file", "BGP table version is 3"),
            Err(RouteDumpError::NotJson { .. })
        ));
        assert_eq!(
            RouteDump::parse("file", r#"{"vrfId": 0, "routes": {}}"#)
                .unwrap()
                .routes,
            []
        );
    }
}
