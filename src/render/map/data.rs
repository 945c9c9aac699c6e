//! What the page reads: the layout, and all areas as columns, so that 100,000 of them stay small.

use std::collections::BTreeMap;

use serde::Serialize;

use super::layout::{Cell, Layout};
use super::palette::SERIES;
use crate::render::printable;
use ipam_planner::map::{AddressMap, Area, AreaKind, Presence};

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
            title: printable(&super::layout::title(placed.panel)).into_owned(),
            x: rect.x,
            y: rect.y,
            width: rect.width,
            height: rect.height,
            wide: placed.shape == super::layout::Shape::Wide,
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
