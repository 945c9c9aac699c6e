//! `birdc show route` and `show route all` of BIRD (`nest/rt-show.c` and `nest/route.c` @ 1.6 and
//! 2.0 to 2.15): text, a line for each route and further lines for its next hops and attributes.
//!
//! BIRD 1 writes a next hop before the brackets, and later versions in a line of its own:
//!
//! ```text
//! 10.20.1.0/24  via 192.0.2.1 on eth0 [tor 10:00:00] * (100) [AS65001i]
//! 10.20.1.0/24  unicast [tor 10:00:00.000 from 192.0.2.7] * (100) [AS65001i]
//!         via 192.0.2.1 on eth0
//! ```

use std::net::IpAddr;

use super::{Path, Route, Usage};
use ipam_core::net::{Address, Block};

/// Lines of a session that are no routes.
const TALK: [&str; 4] = ["BIRD ", "bird>", "Table ", "Access restricted"];

/// Attributes that carry a next hop, from BIRD 3 on in the second form.
const NEXT_HOP: [&str; 2] = ["BGP.next_hop:", "bgp_next_hop:"];

/// A route as it is read.
#[derive(Default)]
struct Entry {
    prefix: Option<Block>,
    /// `None` for a route that drops packets.
    usage: Option<Usage>,
    /// Next hops: several share the load.
    via: Vec<IpAddr>,
    /// The next hop that the peer sent.
    next_hop: Vec<IpAddr>,
    peer: Option<IpAddr>,
}

/// `None` if the text is not of BIRD.
pub(super) fn routes(text: &str) -> Option<Vec<Route>> {
    let is_of_bird = text.lines().any(|line| {
        let line = line.trim_end();
        line.starts_with("BIRD ") || (line.starts_with("Table ") && line.ends_with(':'))
    });
    // BIRD 1 has no name of the table.
    if !is_of_bird && !text.lines().any(is_route_of_first) {
        return None;
    }
    let mut routes: Vec<Route> = Vec::new();
    let mut prefix = None;
    let mut entry: Option<Entry> = None;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() || TALK.iter().any(|word| line.starts_with(word)) {
            continue;
        }
        let is_indented = line.starts_with([' ', '\t']);
        match head(line) {
            Some((before, inside, after)) => {
                entry.take().into_iter().for_each(|of| add(&mut routes, of));
                let (own, kind) = match is_indented {
                    true => (None, before.trim()),
                    false => before
                        .split_once(char::is_whitespace)
                        .map(|(a, b)| (Some(a), b.trim()))?,
                };
                if let Some(own) = own {
                    prefix = super::prefix(own)?;
                }
                entry = Some(Entry::new(prefix, kind, inside, after));
            }
            None if is_indented => entry.iter_mut().for_each(|of| of.detail(line.trim())),
            None => {}
        }
    }
    entry.into_iter().for_each(|of| add(&mut routes, of));
    Some(routes)
}

fn is_route_of_first(line: &str) -> bool {
    head(line).is_some_and(|(before, ..)| before.contains("/") && before.contains(" via "))
}

/// The parts of the first line of a route: before, inside and after the protocol's brackets.
fn head(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once(" [")?;
    let (inside, after) = rest.split_once(']')?;
    // The preference follows in parentheses. An attribute in brackets has none.
    after.contains('(').then_some((before, inside, after))
}

fn address(text: &str) -> Option<IpAddr> {
    let text = text.split('%').next()?;
    text.parse::<Address>().ok().map(IpAddr::from)
}

fn word_after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let mut words = text.split_whitespace();
    words.by_ref().find(|of| *of == word)?;
    words.next()
}

fn add(routes: &mut Vec<Route>, entry: Entry) {
    let Some(prefix) = entry.prefix else { return };
    let paths = entry.paths();
    match routes.last_mut().filter(|route| route.prefix == prefix) {
        Some(route) => route.paths.extend(paths),
        None if paths.is_empty() => {}
        None => routes.push(Route { prefix, paths }),
    }
}

impl Entry {
    fn new(prefix: Option<Block>, kind: &str, inside: &str, after: &str) -> Entry {
        // `!`: the best path, which the kernel did not take.
        let usage = match after.trim_start().starts_with(['*', '!']) {
            true => Usage::Used,
            false => Usage::Spare,
        };
        let word = kind.split_whitespace().last().unwrap_or_default();
        let via = word_after(kind, "via").and_then(address);
        // A route reflector may not reach the next hop of a route that it passes on.
        let forwards =
            matches!(word, "unicast" | "multipath" | "unreachable") || kind.contains("via ");
        Entry {
            prefix,
            usage: forwards.then_some(usage),
            via: via.into_iter().collect(),
            next_hop: Vec::new(),
            peer: word_after(inside, "from").and_then(address),
        }
    }

    fn detail(&mut self, line: &str) {
        if let Some(hop) = line.starts_with("via ").then(|| word_after(line, "via")) {
            self.via.extend(hop.and_then(address));
        }
        for attribute in NEXT_HOP {
            if let Some(hops) = line.strip_prefix(attribute) {
                self.next_hop
                    .extend(hops.split_whitespace().filter_map(address));
            }
        }
    }

    /// A path for each next hop. Routes of the router itself have none.
    fn paths(self) -> Vec<Path> {
        let Some(usage) = self.usage else {
            return Vec::new();
        };
        let by = |via: Option<IpAddr>| {
            let hops = self.next_hop.iter().copied().chain(via).chain(self.peer);
            let mut distinct: Vec<IpAddr> = Vec::new();
            hops.for_each(|hop| {
                if !distinct.contains(&hop) {
                    distinct.push(hop);
                }
            });
            Path {
                hops: distinct,
                usage,
            }
        };
        let paths: Vec<Path> = match self.via.is_empty() {
            true => vec![by(None)],
            false => self.via.iter().map(|via| by(Some(*via))).collect(),
        };
        paths
            .into_iter()
            .filter(|path| !path.hops.is_empty())
            .collect()
    }
}
