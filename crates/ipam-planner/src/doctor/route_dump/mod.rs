//! Routes of routers, read from the JSON of FRR and GoBGP and from the text of BIRD, and audited
//! against the cluster. Never knows how they were fetched.

mod audit;
mod bird;
mod frr;
mod gobgp;

use std::net::IpAddr;

use serde_json::{Map, Value};

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
    /// Another path is better.
    Spare,
}

/// A prefix with its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub prefix: Block,
    /// Valid paths.
    pub paths: Vec<Path>,
}

/// The routes of one router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteDump {
    /// Name of the file.
    pub source: String,
    pub routes: Vec<Route>,
}

/// Why a text is not a route dump.
#[derive(Debug, thiserror::Error)]
pub enum RouteDumpError {
    /// Neither JSON nor the text of BIRD.
    #[error("{source_name} is not JSON, and not what BIRD prints for `show route`: {message}")]
    NotJson {
        /// Name of the file.
        source_name: String,
        /// What is wrong with it.
        message: String,
    },
    /// JSON of another program.
    #[error(
        "{0} is neither what FRR prints for `show bgp ipv4 unicast json`, nor what GoBGP prints for `gobgp global rib --json`, nor what BIRD prints for `show route all`"
    )]
    Unknown(String),
}

impl RouteDump {
    /// Reads the JSON of FRR or GoBGP, or the text of BIRD.
    ///
    /// # Errors
    /// Fails if the text is of none of them, or if one of its routes is invalid.
    pub fn parse(source: &str, text: &str) -> Result<RouteDump, RouteDumpError> {
        let routes = match serde_json::from_str::<Value>(text) {
            Ok(json) => frr::routes(&json).or_else(|| gobgp::routes(&json)),
            Err(error) => Some(bird::routes(text).ok_or_else(|| RouteDumpError::NotJson {
                source_name: source.to_owned(),
                message: error.to_string(),
            })?),
        };
        let routes = routes.ok_or_else(|| RouteDumpError::Unknown(source.to_owned()))?;
        Ok(RouteDump {
            source: source.to_owned(),
            routes,
        })
    }
}

/// The routes of an object of prefixes, without the default route; `None` if one of them is
/// invalid.
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

/// A path over these addresses, without duplicates. Texts that are not addresses are ignored.
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

/// A prefix: `Some(None)` for the default route, `None` for invalid text.
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
    fn both_products() {
        assert_eq!(
            dumped(FRR),
            [
                "10.20.1.0/24: Used [192.0.2.1]",
                "10.20.2.0/24: Used [192.0.2.2, 192.0.2.9]; Spare [192.0.2.3]"
            ]
        );
        assert_eq!(
            dumped(GOBGP),
            [
                "10.20.1.0/24: Used [192.0.2.1, 192.0.2.8]",
                "fd00:20::/64: Spare [2001:db8::1]"
            ]
        );
    }

    const BIRD: &str = "BIRD 2.15.1 ready.\nAccess restricted\nTable master4:
0.0.0.0/0            unicast [kernel1 09:45:07.529] * (10)
\tvia 192.0.2.254 on eth0
10.20.1.0/24         unicast [n1 12:00:00.000 from 192.0.2.7] * (100) [AS65001i]
\tvia 192.0.2.1 on eth0
\tType: BGP univ
\tBGP.as_path: 65001
\tBGP.next_hop: 192.0.2.1
\tBGP.community: (64511,1) [x] (64511,24)
                     unicast [n2 2026-11-01] (100) [AS65002i]
\tvia 192.0.2.2 on eth0
10.20.2.0/24         unicast [ecmp 12:00:00] ! (100/0)
\tvia 192.0.2.3 on eth0 weight 1
\tvia 192.0.2.4 on eth0 weight 1
10.20.3.0/24         unreachable [static1 12:00:00.000] * (200)
192.0.2.0/24         unicast [direct1 12:00:00.000] * (240)
\tdev eth0

Table master6:
fd00:20::/64         unicast [n1 12:00:00.000] * (100) [AS65001i]
\tvia fe80::1 on eth0
\tBGP.next_hop: 2001:db8::1 fe80::1
";

    #[test]
    fn the_text_of_bird() {
        assert_eq!(
            dumped(BIRD),
            [
                "10.20.1.0/24: Used [192.0.2.1, 192.0.2.7]; Spare [192.0.2.2]",
                "10.20.2.0/24: Used [192.0.2.3]; Used [192.0.2.4]",
                "fd00:20::/64: Used [2001:db8::1, fe80::1]",
            ]
        );
        let first = "10.20.1.0/24       via 192.0.2.1 on eth0 [n1 12:00:00] * (100) [AS65001i]
                   via 192.0.2.2 on eth0 [n2 12:00:00 from 192.0.2.9] (100) [AS65002i]
10.20.2.0/24       multipath [static1 12:00:00] * (200)
\tvia 192.0.2.3 on eth0 weight 1
\tvia 192.0.2.4 on eth0 weight 1
10.20.3.0/24       blackhole [static1 12:00:00] * (200)
";
        assert_eq!(
            dumped(first),
            [
                "10.20.1.0/24: Used [192.0.2.1]; Spare [192.0.2.2, 192.0.2.9]",
                "10.20.2.0/24: Used [192.0.2.3]; Used [192.0.2.4]",
            ]
        );
        assert_eq!(dumped("BIRD 2.0.8 ready.\n"), [""; 0]);
        // As a real 2.0.12 prints a route whose next hop it does not reach.
        let reflected = "BIRD 2.0.12 ready.\nTable master4:
10.20.1.0/24         unreachable [pb 17:25:13.495 from 127.0.0.3] * (100) [AS65002i]
\tType: BGP univ
\tBGP.origin: IGP
\tBGP.next_hop: 192.0.2.1
\tBGP.local_pref: 100
";
        assert_eq!(
            dumped(reflected),
            ["10.20.1.0/24: Used [192.0.2.1, 127.0.0.3]"]
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
