//! Divides the address space into panels: ranges that lie near each other come into one panel, with
//! the gaps between them; far ones get panels of their own.

use std::collections::BTreeMap;

use super::area::{Area, AreaKind};
use ipam_core::net::{Block, Family, Range, merge};

/// A panel is not wider than this many times what its ranges cover.
const GAPS: u128 = 4;

/// Prefix length of the network that is drawn around an address outside every range.
const NETWORK_IPV4: u8 = 24;
const NETWORK_IPV6: u8 = 64;

/// A part of the address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    pub block: Block,
    /// What lies in it, in the order of drawing: wide before narrow.
    pub areas: Vec<Area>,
}

impl Panel {
    /// The ranges of pools that fill it as a whole.
    pub fn owners(&self) -> impl Iterator<Item = &Area> {
        self.areas
            .iter()
            .filter(|area| area.block == self.block && area.kind.is_range())
    }

    /// Bits from the panel to its narrowest area. Addresses of machines do not count.
    pub fn depth(&self) -> u8 {
        let deepest = self
            .areas
            .iter()
            .filter(|area| area.kind != AreaKind::Machine)
            .map(|area| area.block.prefix_len())
            .max();
        deepest.map_or(0, |length| length - self.block.prefix_len())
    }
}

/// Panels with all areas, IPv4 first.
pub(super) fn divide(mut areas: Vec<Area>) -> Vec<Panel> {
    areas.extend(networks(&areas));
    let outlines = areas
        .iter()
        .filter(|area| !is_clipped(area.kind))
        .map(|area| area.block);
    let mut panels: BTreeMap<Block, Vec<Area>> = joined(outlines)
        .into_iter()
        .map(|block| (block, Vec::new()))
        .collect();
    for area in areas {
        if is_clipped(area.kind) {
            clip(area, &mut panels);
        } else if let Some(panel) = panel_of(area.block, &mut panels) {
            panel.push(area);
        }
    }
    let panel = |(block, mut areas): (Block, Vec<Area>)| {
        areas.sort_by_cached_key(|area| {
            (
                area.block.prefix_len(),
                area.kind,
                area.block,
                area.owner.clone(),
            )
        });
        Panel { block, areas }
    };
    panels.into_iter().map(panel).collect()
}

/// What the Policy excludes may be far wider than everything else, so it makes no panel.
fn is_clipped(kind: AreaKind) -> bool {
    kind == AreaKind::Excluded
}

fn clip(area: Area, panels: &mut BTreeMap<Block, Vec<Area>>) {
    for (panel, areas) in panels {
        let part = panel.range().intersection(&area.block.range());
        for block in part.iter().flat_map(Range::blocks) {
            areas.push(Area {
                block,
                ..area.clone()
            });
        }
    }
}

fn panel_of(block: Block, panels: &mut BTreeMap<Block, Vec<Area>>) -> Option<&mut Vec<Area>> {
    let panel = block.enclosing().find(|outer| panels.contains_key(outer))?;
    panels.get_mut(&panel)
}

/// Networks around the addresses that lie in no range, with their number.
fn networks(areas: &[Area]) -> Vec<Area> {
    let ranges = merge(
        areas
            .iter()
            .filter(|area| area.kind.is_range())
            .map(|area| area.block.range()),
    );
    let mut networks: BTreeMap<Block, usize> = BTreeMap::new();
    for area in areas {
        let is_single = matches!(area.kind, AreaKind::Machine | AreaKind::Service);
        if is_single && !ipam_core::net::covers(&ranges, &area.block.range()) {
            let length = match area.block.family() {
                Family::Ipv4 => NETWORK_IPV4,
                Family::Ipv6 => NETWORK_IPV6,
            };
            let network = area
                .block
                .enclosing()
                .find(|outer| outer.prefix_len() <= length);
            *networks.entry(network.unwrap_or(area.block)).or_default() += 1;
        }
    }
    let area = |(block, count): (Block, usize)| {
        let note = match count {
            1 => "1 address".to_owned(),
            _ => format!("{count} addresses"),
        };
        Area::new(AreaKind::Network, block, "machines").with_note(note)
    };
    networks.into_iter().map(area).collect()
}

/// The widest blocks, with near ones joined.
fn joined(blocks: impl Iterator<Item = Block>) -> Vec<Block> {
    let mut blocks: Vec<Block> = blocks.collect();
    blocks.sort_by_key(|block| {
        let range = block.range();
        (range.first_and_family(), block.prefix_len())
    });
    let mut panels: Vec<(Block, u128)> = Vec::new();
    for block in blocks {
        if panels.last().is_some_and(|(last, _)| last.contains(block)) {
            continue;
        }
        panels.push((block, block.range().width()));
        while let [.., (a, of_a), (b, of_b)] = panels[..] {
            let covered = of_a.saturating_add(of_b);
            let Some(outer) = a.enclosing().find(|outer| outer.contains(b)) else {
                break;
            };
            if outer.range().width() / GAPS > covered {
                break;
            }
            panels.truncate(panels.len() - 2);
            panels.push((outer, covered));
        }
    }
    panels.into_iter().map(|(block, _)| block).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blocks(texts: &[&str]) -> Vec<Block> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn near_ranges_share_a_panel_and_far_ones_do_not() {
        let ranges = blocks(&["10.20.0.0/16", "10.22.0.0/16", "10.96.0.0/12", "fd00::/48"]);
        assert_eq!(
            joined(ranges.into_iter()),
            blocks(&["10.20.0.0/14", "10.96.0.0/12", "fd00::/48"])
        );
        // The join of the later two contains the first.
        let ranges = blocks(&["10.0.0.0/20", "10.3.0.0/16", "10.4.0.0/15"]);
        assert_eq!(joined(ranges.into_iter()), blocks(&["10.0.0.0/13"]));
    }

    #[test]
    fn what_the_policy_excludes_makes_no_panel_and_is_cut_to_those_that_are_there() {
        let area = |kind, text: &str| Area::new(kind, text.parse().unwrap(), "x");
        let panels = divide(vec![
            area(AreaKind::Excluded, "10.0.0.0/8"),
            area(AreaKind::Pool, "10.20.0.0/16"),
            area(AreaKind::Machine, "192.168.1.7/32"),
        ]);
        let drawn: Vec<(String, Vec<String>)> = panels
            .iter()
            .map(|panel| {
                let areas = panel.areas.iter();
                let areas = areas.map(|area| format!("{} {}", area.kind, area.block));
                (panel.block.to_string(), areas.collect())
            })
            .collect();
        assert_eq!(
            drawn,
            [
                (
                    "10.20.0.0/16".to_owned(),
                    vec![
                        "IPPool 10.20.0.0/16".to_owned(),
                        "excluded 10.20.0.0/16".to_owned()
                    ]
                ),
                (
                    "192.168.1.0/24".to_owned(),
                    vec![
                        "network of machines 192.168.1.0/24".to_owned(),
                        "machine address 192.168.1.7/32".to_owned()
                    ]
                )
            ]
        );
    }

    proptest! {
        #[test]
        fn panels_do_not_overlap_and_hold_every_block(
            seeds in prop::collection::vec((any::<u32>(), 4u8..=32), 1..40)
        ) {
            let ranges: Vec<Block> = seeds
                .iter()
                .map(|(bits, length)| {
                    let address = std::net::Ipv4Addr::from(bits & 0x0f0f_ffff);
                    Block::lenient(&format!("{address}/{length}")).unwrap()
                })
                .collect();
            let panels = joined(ranges.iter().copied());
            for (index, panel) in panels.iter().enumerate() {
                for other in &panels[index + 1..] {
                    prop_assert!(!panel.overlaps(*other), "{panel} and {other}");
                }
            }
            for range in ranges {
                prop_assert!(panels.iter().any(|panel| panel.contains(range)), "{range}");
            }
        }
    }
}
