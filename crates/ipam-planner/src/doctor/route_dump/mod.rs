//! What routers hold: their JSON as routes, and the routes held against what should be announced.
//!
//! Knows the JSON of FRR and of GoBGP, and nothing of how it was fetched.

mod audit;
mod frr;
mod gobgp;

use std::net::IpAddr;

use serde_json::{Map, Value};

use ipam_core::net::{Address, Block};

pub(super) use audit::audit;

/// A path to a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// Where packets are sent, and from whom the path was learned: a node's address, unless a
    /// router stands between.
    pub hops: Vec<IpAddr>,
    /// Whether packets go this way now.
    pub usage: Usage,
}

/// Whether a path is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// It is the best one, or one of several that share the load.
    Used,
    /// Others are better.
    Spare,
}

/// A prefix with the ways to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub prefix: Block,
    /// Valid paths.
    pub paths: Vec<Path>,
}

/// The routes of one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteDump {
    /// Name of the file.
    pub source: String,
    /// Its routes.
    pub routes: Vec<Route>,
}

/// A text that is no RIB.
#[derive(Debug, thiserror::Error)]
pub enum RibError {
    /// Not JSON.
    #[error("{source_name} is no JSON: {message}")]
    NotJson {
        /// Name of the file.
        source_name: String,
        /// What is wrong with it.
        message: String,
    },
    /// JSON of something else.
    #[error(
        "{0} is neither what FRR prints for `show bgp ipv4 unicast json` nor what GoBGP prints for `gobgp global rib --json`"
    )]
    Unknown(String),
}

impl RouteDump {
    /// Reads what FRR or GoBGP prints.
    ///
    /// # Errors
    /// Text of another product, or with routes that make no sense.
    pub fn parse(source: &str, text: &str) -> Result<RouteDump, RibError> {
        let json: Value = serde_json::from_str(text).map_err(|error| RibError::NotJson {
            source_name: source.to_owned(),
            message: error.to_string(),
        })?;
        let routes = frr::routes(&json).or_else(|| gobgp::routes(&json));
        let routes = routes.ok_or_else(|| RibError::Unknown(source.to_owned()))?;
        Ok(RouteDump {
            source: source.to_owned(),
            routes,
        })
    }
}

/// The routes of an object of prefixes, without the default route; `None` where one of them cannot
/// be read.
fn routes_of(
    prefixes: &Map<String, Value>,
    paths: fn(&Value) -> Option<Vec<Path>>,
) -> Option<Vec<Route>> {
    let route = |(text, json): (&String, &Value)| {
        let paths = paths(json)?;
        let prefix = prefix(text)?;
        Some(prefix.map(|prefix| Route { prefix, paths }))
    };
    let routes: Option<Vec<Option<Route>>> = prefixes.iter().map(route).collect();
    Some(routes?.into_iter().flatten().collect())
}

/// A path by way of these addresses, each named once; what is no address is left out.
fn path_by<'v>(hops: impl Iterator<Item = &'v Value>, usage: Usage) -> Path {
    let mut distinct = Vec::new();
    for hop in hops
        .filter_map(|text| text.as_str()?.parse::<Address>().ok())
        .map(IpAddr::from)
    {
        if !distinct.contains(&hop) {
            distinct.push(hop);
        }
    }
    Path {
        hops: distinct,
        usage,
    }
}

/// A prefix; `Some(None)` for the default route, and `None` for what is no prefix.
fn prefix(text: &str) -> Option<Option<Block>> {
    if ["0.0.0.0/0", "::/0"].contains(&text) {
        return Some(None);
    }
    Block::lenient(text).ok().map(Some)
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
    const GOBGP: &str = r#"{"10.20.1.0/24": [{"nlri": {"prefix": "10.20.1.0/24"}, "best": true,
        "attrs": [{"type": 1, "value": 0}, {"type": 3, "nexthop": "192.0.2.1"}], "source-id": "192.0.2.7", "neighbor-ip": "192.0.2.8"}],
        "fd00:20::/64": [{"nlri": {"prefix": "fd00:20::/64"}, "attrs": [{"type": 14, "nexthop": "2001:db8::1", "afi": 2}]}]}"#;

    fn told(text: &str) -> Vec<String> {
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
    fn both_products() {
        assert_eq!(
            told(FRR),
            [
                "10.20.1.0/24: Used [192.0.2.1]",
                "10.20.2.0/24: Used [192.0.2.2, 192.0.2.9]; Spare [192.0.2.3]"
            ]
        );
        assert_eq!(
            told(GOBGP),
            [
                "10.20.1.0/24: Used [192.0.2.1, 192.0.2.8]",
                "fd00:20::/64: Spare [2001:db8::1]"
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
            r#"{"routes": 3}"#,
            r#"{"routes": {"x": []}}"#,
        ] {
            assert!(
                matches!(RouteDump::parse("file", text), Err(RibError::Unknown(_))),
                "{text}"
            );
        }
        assert!(matches!(
            RouteDump::parse("file", "BGP table version is 3"),
            Err(RibError::NotJson { .. })
        ));
        assert_eq!(
            RouteDump::parse("file", r#"{"vrfId": 0, "routes": {}}"#)
                .unwrap()
                .routes,
            []
        );
    }
}
