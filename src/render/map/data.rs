//! What the page reads: the parts of the address space that it draws, and all areas as columns, so
//! that 100,000 of them stay small. The page places the parts, because that depends on its window.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::SERIES;
use crate::render::printable;
use ipam_core::net::Block;
use ipam_doctor::map::{AddressMap, Area, AreaKind, Presence};

#[derive(Serialize)]
pub(super) struct PageData {
    panels: Vec<PanelData>,
    /// The texts of [`AreaKind`], in their order.
    kinds: Vec<&'static str>,
    /// How many of them are ranges, in which others lie.
    ranges: usize,
    domain_label: String,
    light: Vec<&'static str>,
    dark: Vec<&'static str>,
    /// Texts, by the numbers in the columns.
    texts: Vec<String>,
    areas: Columns,
}

/// A part of the address space that is drawn.
#[derive(Serialize)]
struct PanelData {
    cidr: String,
    /// The innermost wider range, if the part is not all of it. Parts that are missing are empty.
    within: Option<String>,
    family: String,
    /// In units of the picture.
    width: f64,
    height: f64,
    /// Whether the first two bits halve the width.
    wide: bool,
    /// Areas of earlier panels that cover this one, too.
    around: Vec<usize>,
    /// Its areas are those before this place that no earlier panel has.
    end: usize,
}

/// A column for each field. A text that is missing is -1.
#[derive(Default, Serialize)]
struct Columns {
    cidr: Vec<String>,
    depth: Vec<u8>,
    x: Vec<u64>,
    y: Vec<u64>,
    kind: Vec<usize>,
    presence: Vec<usize>,
    owner: Vec<i64>,
    used: Vec<i64>,
    pool: Vec<i64>,
    domain: Vec<i64>,
    misplaced: Vec<i64>,
    shared: Vec<i64>,
    notes: Vec<i64>,
}

#[derive(Default)]
struct Texts {
    numbers: BTreeMap<String, i64>,
    texts: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = i64::try_from(self.texts.len()).unwrap_or(i64::MAX);
        self.texts.push(printable(text).into_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn of(&mut self, text: Option<&str>) -> i64 {
        text.map_or(-1, |text| self.number(text))
    }

    fn joined(&mut self, texts: &[String]) -> i64 {
        match texts.is_empty() {
            true => -1,
            false => self.number(&texts.join("; ")),
        }
    }
}

impl Columns {
    fn push(&mut self, area: &Area, cell: Cell, texts: &mut Texts) {
        self.cidr.push(area.block.to_string());
        self.depth.push(cell.depth);
        self.x.push(cell.x);
        self.y.push(cell.y);
        self.kind.push(place(&AreaKind::ALL, &area.kind));
        self.presence.push(place(&Presence::ALL, &area.presence));
        self.owner.push(texts.number(&area.owner));
        self.used.push(texts.of(area.used.as_deref()));
        self.pool.push(texts.of(area.pool.as_deref()));
        self.domain.push(texts.of(area.domain.as_deref()));
        self.misplaced.push(texts.of(area.misplaced.as_deref()));
        self.shared.push(texts.joined(&area.shared_with));
        self.notes.push(texts.joined(&area.notes));
    }
}

fn place<T: PartialEq>(all: &[T], one: &T) -> usize {
    all.iter()
        .position(|other| other == one)
        .unwrap_or_default()
}

pub(super) fn page_data(map: &AddressMap) -> PageData {
    let (mut texts, mut areas) = (Texts::default(), Columns::default());
    let mut panels = Vec::new();
    for panel in &map.panels {
        let all: Vec<&Area> = panel.areas.iter().collect();
        // Areas wider than a part, by their places in the panel, with those in the columns.
        let mut wider: BTreeMap<usize, usize> = BTreeMap::new();
        for part in parts(panel.block, &all) {
            let depth = depth(part, &all);
            let shape = Shape::of(depth);
            let mut around = Vec::new();
            let mut within = Some(panel.block);
            for (place, area) in all.iter().enumerate() {
                let covers = area.block.contains(part);
                if !covers && !part.contains(area.block) {
                    continue;
                }
                if covers && area.kind.is_range() {
                    within = Some(area.block);
                }
                match wider.get(&place) {
                    Some(known) => around.push(*known),
                    None => {
                        if covers {
                            wider.insert(place, areas.cidr.len());
                        }
                        areas.push(area, Cell::of(area.block, part, shape), &mut texts);
                    }
                }
            }
            let (width, height) = shape.size(depth);
            panels.push(PanelData {
                cidr: part.to_string(),
                within: within
                    .filter(|outer| *outer != part)
                    .map(|outer| outer.to_string()),
                family: part.family().to_string(),
                width,
                height,
                wide: shape == Shape::Wide,
                around,
                end: areas.cidr.len(),
            });
        }
    }
    PageData {
        panels,
        kinds: AreaKind::ALL.map(AreaKind::as_str).to_vec(),
        ranges: AreaKind::ALL.iter().filter(|kind| kind.is_range()).count(),
        domain_label: printable(&map.domain_label).into_owned(),
        light: SERIES.iter().map(|pair| pair.light).collect(),
        dark: SERIES.iter().map(|pair| pair.dark).collect(),
        texts: texts.texts,
        areas,
    }
}

/// A block is drawn as a whole up to this depth, which is 2^8 cells.
const WHOLE: u8 = 8;

/// A deeper block is drawn as a whole if at least one of this many addresses is in use.
const SPARSE: u128 = 16;

/// Limit of the parts into which a block is divided.
const MOST_PARTS: usize = 16;

/// The parts of a block that are drawn: a block with much empty space is halved, and empty halves
/// are left out.
fn parts(block: Block, areas: &[&Area]) -> Vec<Block> {
    let inside = |area: &&Area| block != area.block && block.contains(area.block);
    let inner: Vec<&Area> = areas.iter().copied().filter(inside).collect();
    if depth(block, &inner) <= WHOLE {
        return vec![block];
    }
    let has_area = |half: &Block| inner.iter().any(|area| half.contains(area.block));
    let halves: Vec<Block> = block.halves().filter(has_area).collect();
    let used = inner.iter().filter(|area| area.kind > AreaKind::Reserved);
    let used: u128 = used.map(|area| area.block.range().width()).sum();
    if halves.len() > 1 && used >= block.range().width() / SPARSE {
        return vec![block];
    }
    let parts: Vec<Block> = halves
        .iter()
        .flat_map(|half| parts(*half, &inner))
        .collect();
    // Two wide halves, each of which has too many parts, save no space.
    let is_fine = |part: &Block| depth(*part, &inner) <= WHOLE;
    let saves_space = halves.len() == 1 || parts != halves || parts.iter().any(is_fine);
    match saves_space && parts.len() <= MOST_PARTS {
        true => parts,
        false => vec![block],
    }
}

/// Bits from the block to the narrowest area inside. Addresses of machines do not count.
fn depth(block: Block, areas: &[&Area]) -> u8 {
    let inner = areas.iter().filter(|area| block.contains(area.block));
    let inner = inner.filter(|area| area.kind != AreaKind::Machine);
    let deepest = inner.map(|area| area.block.prefix_len()).max();
    deepest.map_or(0, |length| length - block.prefix_len())
}

/// The side of a panel with 2^8 cells, in units of the picture.
const SIDE: f64 = 240.0;

/// By how many bits the side of a panel grows with each bit of its depth.
const GROWTH: f64 = 0.15;

/// Panels deeper than this are not larger.
const LARGEST: u8 = 16;

/// Deeper cells are smaller than any screen shows.
const DEEPEST: u8 = 60;

/// The form of a panel. One of an odd number of bits is twice as wide as high, so that its cells are
/// squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Square,
    Wide,
}

impl Shape {
    fn of(depth: u8) -> Shape {
        match depth.min(DEEPEST) % 2 {
            1 => Shape::Wide,
            _ => Shape::Square,
        }
    }

    /// Width and height of a panel of this depth.
    fn size(self, depth: u8) -> (f64, f64) {
        let bits = f64::from(depth.min(LARGEST)) - f64::from(WHOLE);
        let side = SIDE * (bits * GROWTH).exp2();
        match self {
            // A wide panel has the same area as a square one.
            Shape::Wide => (side * 2f64.sqrt(), side / 2f64.sqrt()),
            Shape::Square => (side, side),
        }
    }
}

/// The column and the row of a block in its panel, which is halved `depth` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    depth: u8,
    x: u64,
    y: u64,
}

fn first_number(block: Block) -> u128 {
    match block.range().first() {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Cell {
    /// The cell of a block. A block that covers the panel has all of it.
    fn of(block: Block, panel: Block, shape: Shape) -> Cell {
        let from = panel.prefix_len();
        let depth = block.prefix_len().saturating_sub(from).min(DEEPEST);
        let number = first_number(block);
        let bits = block.family().bits();
        let mut cell = Cell { depth, x: 0, y: 0 };
        let mut halves_x = true;
        for taken in 0..depth {
            let bit = u64::from(number >> (bits - 1 - from - taken) & 1 == 1);
            if halves_x {
                cell.x = cell.x << 1 | bit;
            } else {
                cell.y = cell.y << 1 | bit;
            }
            let is_first_of_wide = taken == 0 && shape == Shape::Wide;
            halves_x = is_first_of_wide || !halves_x;
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use ipam_doctor::map::Panel;
    use proptest::prelude::*;

    use super::*;

    fn drawn_parts(block: &str, areas: &[(AreaKind, String)]) -> Vec<String> {
        let area =
            |(kind, block): &(AreaKind, String)| Area::new(*kind, block.parse().unwrap(), "a");
        let areas: Vec<Area> = areas.iter().map(area).collect();
        let parts = parts(block.parse().unwrap(), &areas.iter().collect::<Vec<_>>());
        parts.iter().map(Block::to_string).collect()
    }

    #[test]
    fn empty_space_is_left_out() {
        let pool = |block: &str| (AreaKind::Pool, block.to_owned());
        let node = |block: &str| (AreaKind::Node, block.to_owned());
        let racks = [
            pool("fd00:20:a::/48"),
            pool("fd00:20:b::/48"),
            node("fd00:20:a:7::/64"),
        ];
        assert_eq!(
            drawn_parts("fd00:20:a::/47", &racks),
            ["fd00:20:a::/56", "fd00:20:b::/48"]
        );
        let small = [pool("10.20.0.0/16"), node("10.20.255.0/24")];
        assert_eq!(drawn_parts("10.20.0.0/16", &small), ["10.20.0.0/16"]);
        let mut many = vec![pool("10.0.0.0/8")];
        many.extend((0..64).flat_map(|b| (0..99).map(move |c| node(&format!("10.{b}.{c}.0/24")))));
        assert_eq!(drawn_parts("10.0.0.0/8", &many), ["10.0.0.0/10"]);
        // Too many parts: the block stays whole.
        let far = (0..=255).map(|b| node(&format!("fd00:0:0:{b:x}00::/64")));
        let far: Vec<_> = far.collect();
        assert_eq!(drawn_parts("fd00::/48", &far), ["fd00::/48"]);
    }

    #[test]
    fn a_range_wider_than_its_parts_is_one_area_around_both() {
        let block = |text: &str| text.parse::<Block>().unwrap();
        let area = |kind, text| Area::new(kind, block(text), "a");
        let map = AddressMap {
            panels: vec![Panel {
                block: block("fd00::/48"),
                areas: vec![
                    area(AreaKind::Pool, "fd00::/48"),
                    area(AreaKind::Node, "fd00:0:0:1::/64"),
                    area(AreaKind::Node, "fd00:0:0:ff01::/64"),
                ],
            }],
            ..AddressMap::default()
        };
        let data = page_data(&map);
        assert_eq!(data.areas.depth, [0, 8, 8]);
        let drawn = data.panels.iter();
        let drawn: Vec<_> = drawn
            .map(|panel| {
                (
                    &*panel.cidr,
                    panel.within.as_deref(),
                    panel.end,
                    &*panel.around,
                )
            })
            .collect();
        assert_eq!(
            drawn,
            [
                ("fd00::/56", Some("fd00::/48"), 2, &[][..]),
                ("fd00:0:0:ff00::/56", Some("fd00::/48"), 3, &[0][..])
            ]
        );
    }

    /// A rectangle in a panel.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
    }

    const SQUARE: Rect = Rect {
        x: 0.0,
        y: 0.0,
        width: 1.0,
        height: 1.0,
    };

    #[test]
    fn each_bit_halves_the_longer_side() {
        let square: Block = "10.0.0.0/22".parse().unwrap();
        let corners = ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"].map(|block| {
            let rect = drawn(block.parse().unwrap(), square, Shape::Square, SQUARE);
            (rect.x, rect.y)
        });
        assert_eq!(corners, [(0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5)]);
        let wide: Block = "10.0.0.0/21".parse().unwrap();
        let within = Rect {
            width: 2.0,
            ..SQUARE
        };
        let last = drawn("10.0.7.0/24".parse().unwrap(), wide, Shape::Wide, within);
        assert_eq!((last.x, last.y), (1.5, 0.5));
        assert_eq!((last.width, last.height), (0.5, 0.5));
    }

    /// The rectangle of a block, as the page's script draws it.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a cell has at most 30 bits a side, or 31"
    )]
    fn drawn(block: Block, panel: Block, shape: Shape, within: Rect) -> Rect {
        let cell = Cell::of(block, panel, shape);
        let x_halvings = match shape {
            Shape::Wide if cell.depth > 0 => 1 + cell.depth / 2,
            Shape::Wide | Shape::Square => cell.depth.div_ceil(2),
        };
        let y_halvings = cell.depth - x_halvings;
        let width = within.width / (1u64 << x_halvings) as f64;
        let height = within.height / (1u64 << y_halvings) as f64;
        Rect {
            x: within.x + width * cell.x as f64,
            y: within.y + height * cell.y as f64,
            width,
            height,
        }
    }

    proptest! {
        #[test]
        fn a_block_lies_in_the_rectangle_of_those_around_it(number in any::<u32>(), is_wide in any::<bool>()) {
            let outer: Block = "10.0.0.0/8".parse().unwrap();
            let shape = if is_wide { Shape::Wide } else { Shape::Square };
            let address = std::net::Ipv4Addr::from(0x0a00_0000 | number & 0x00ff_ffff);
            let inner = Block::lenient(&format!("{address}/32")).unwrap();
            let mut last = None;
            for block in inner.enclosing().take_while(|block| block.prefix_len() >= 8) {
                let rect = drawn(block, outer, shape, SQUARE);
                if let Some(inner) = last.replace(rect) {
                    let Rect { x, y, width, height } = inner;
                    prop_assert!(x >= rect.x && x + width <= rect.x + rect.width);
                    prop_assert!(y >= rect.y && y + height <= rect.y + rect.height);
                    prop_assert!((width * height * 2.0 - rect.width * rect.height).abs() < 1e-9);
                }
            }
            prop_assert_eq!(last, Some(SQUARE));
        }
    }
}
