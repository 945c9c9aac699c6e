//! What the page reads: the layout, and all areas as columns, so that 100,000 of them stay small.
//!
//! Where things are drawn.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::SERIES;
use crate::render::printable;
use ipam_core::net::{Block, Family};
use ipam_doctor::map::{AddressMap, Area, AreaKind, Panel, Presence};

#[derive(Serialize)]
pub(super) struct PageData {
    width: f64,
    height: f64,
    /// The top of the part of each family.
    headings: Vec<(String, f64)>,
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

#[derive(Serialize)]
struct PanelData {
    cidr: String,
    title: String,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// Whether the first two bits halve the width.
    wide: bool,
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
    let layout = Layout::new(map);
    let (mut texts, mut areas) = (Texts::default(), Columns::default());
    let mut panels = Vec::new();
    for placed in &layout.panels {
        for area in &placed.panel.areas {
            areas.push(
                area,
                Cell::of(area.block, placed.panel.block, placed.shape),
                &mut texts,
            );
        }
        let rect = placed.rect;
        panels.push(PanelData {
            cidr: placed.panel.block.to_string(),
            title: printable(&title(placed.panel)).into_owned(),
            x: rect.x,
            y: rect.y,
            width: rect.width,
            height: rect.height,
            wide: placed.shape == Shape::Wide,
            end: areas.cidr.len(),
        });
    }
    PageData {
        width: layout.width,
        height: layout.height,
        headings: layout
            .headings
            .iter()
            .map(|(family, y)| (family.to_string(), *y))
            .collect(),
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

/// The side of a panel with 2^8 cells, in units of the picture.
const SIDE: f64 = 240.0;
/// By how many bits the area of a panel doubles. A panel with 2^16 cells is not 2^8 times as wide.
const GROWTH: f64 = 0.3;
const SMALLEST_SIDE: f64 = 170.0;
/// Room between panels, and for the title above each.
const MARGIN: f64 = 24.0;
const TITLE: f64 = 26.0;
const HEADING: f64 = 56.0;
/// Deeper cells are smaller than any screen shows.
const DEEPEST: u8 = 60;

/// A rectangle, in units of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A panel of the map with its form and rectangle.
pub(super) struct PlacedPanel<'m> {
    pub(super) panel: &'m Panel,
    pub(super) shape: Shape,
    pub(super) rect: Rect,
}

/// The form of a panel. One of an odd number of bits is twice as wide as high, so that its cells are
/// squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Square,
    Wide,
}

/// All panels of the map with their rectangles.
pub(super) struct Layout<'m> {
    pub(super) panels: Vec<PlacedPanel<'m>>,
    /// The families that have panels, with the top of their parts.
    pub(super) headings: Vec<(Family, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The column and the row of a block in its panel, which is halved `depth` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) depth: u8,
    pub(super) x: u64,
    pub(super) y: u64,
}

/// The CIDR, and the pool that it is as a whole.
pub(super) fn title(panel: &Panel) -> String {
    let mut title = panel.block.to_string();
    for owner in panel.owners() {
        title.push_str(&format!("  {}", owner.owner));
        if let Some(used) = &owner.used {
            title.push_str(&format!(": {used}"));
        }
    }
    title
}

fn first_number(block: Block) -> u128 {
    match block.range().first() {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Cell {
    pub(super) fn of(block: Block, panel: Block, shape: Shape) -> Cell {
        let from = panel.prefix_len();
        let depth = (block.prefix_len() - from).min(DEEPEST);
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

/// Form, width and height of a panel.
fn size(panel: &Panel) -> (Shape, f64, f64) {
    let depth = panel.depth().min(DEEPEST);
    let side = (SIDE * ((f64::from(depth) - 8.0) * GROWTH).exp2()).max(SMALLEST_SIDE);
    match depth % 2 {
        // A wide panel has the same area as a square one.
        1 => (Shape::Wide, side * 2f64.sqrt(), side / 2f64.sqrt()),
        _ => (Shape::Square, side, side),
    }
}

impl<'m> Layout<'m> {
    /// Panels in rows, each family below the other.
    pub(super) fn new(map: &'m AddressMap) -> Layout<'m> {
        let sizes: Vec<_> = map.panels.iter().map(size).collect();
        let area: f64 = sizes
            .iter()
            .map(|(_, width, height)| (width + MARGIN) * (height + MARGIN + TITLE))
            .sum();
        let widest = sizes.iter().map(|size| size.1).fold(0.0, f64::max);
        let row_width = (area * 1.8).sqrt().max(widest + 2.0 * MARGIN);
        let mut layout = Layout {
            panels: Vec::new(),
            headings: Vec::new(),
            width: row_width,
            height: 0.0,
        };
        for family in Family::BOTH {
            layout.add(
                family,
                map.panels
                    .iter()
                    .filter(|panel| panel.block.family() == family),
            );
        }
        layout.width = layout
            .panels
            .iter()
            .map(|placed| placed.rect.x + placed.rect.width + MARGIN)
            .fold(320.0, f64::max);
        layout.height += MARGIN;
        layout
    }

    fn add(&mut self, family: Family, panels: impl Iterator<Item = &'m Panel>) {
        let mut panels = panels.peekable();
        if panels.peek().is_none() {
            return;
        }
        self.headings.push((family, self.height));
        let (mut x, mut y, mut row_height) = (MARGIN, self.height + HEADING + TITLE, 0.0f64);
        for panel in panels {
            let (shape, width, height) = size(panel);
            if x > MARGIN && x + width + MARGIN > self.width {
                x = MARGIN;
                y += row_height + MARGIN + TITLE;
                row_height = 0.0;
            }
            let rect = Rect {
                x,
                y,
                width,
                height,
            };
            self.panels.push(PlacedPanel { panel, shape, rect });
            x += width + MARGIN;
            row_height = row_height.max(height);
        }
        self.height = y + row_height;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
