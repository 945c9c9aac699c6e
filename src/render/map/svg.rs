//! The picture: the same layout as the page, as SVG without a script. Names stand on it where they
//! fit, and in the titles that viewers show.

use std::fmt::Write as _;

use super::layout::{Cell, Layout, PlacedPanel, Rect, title};
use super::palette::SERIES;
use crate::render::printable;
use ipam_planner::map::{AddressMap, Area, AreaKind, Presence};

/// Width of a character of the labels, in units of the picture, and their height.
const CHARACTER: f64 = 6.4;
const LINE: f64 = 13.0;

const STYLE: &str = include_str!("picture.css");

/// The map as a picture.
pub fn svg(map: &AddressMap) -> String {
    let layout = Layout::new(map);
    let colours = Colours::new(map);
    let mut picture = Picture::default();
    picture.open(&layout);
    for (family, y) in &layout.headings {
        picture.text("family", 24.0, y + 26.0, &family.to_string());
    }
    for placed in &layout.panels {
        picture.panel(placed, &colours);
    }
    picture.text.push_str("</svg>\n");
    picture.text
}

/// The number of each pool in the series of colours, in the order of first appearance.
struct Colours<'m>(std::collections::BTreeMap<&'m str, usize>);

impl<'m> Colours<'m> {
    fn new(map: &'m AddressMap) -> Colours<'m> {
        let mut numbers = std::collections::BTreeMap::new();
        for area in map.areas() {
            if let Some(name) = pool_of(area) {
                let next = numbers.len();
                numbers.entry(name).or_insert(next);
            }
        }
        Colours(numbers)
    }

    fn class(&self, area: &Area) -> String {
        let number = pool_of(area).and_then(|name| self.0.get(name));
        number.map_or_else(
            || "none".to_owned(),
            |number| format!("c{}", number % SERIES.len()),
        )
    }
}

fn pool_of(area: &Area) -> Option<&str> {
    let own = area.kind.is_range().then_some(area.owner.as_str());
    area.pool.as_deref().or(own)
}

#[derive(Default)]
struct Picture {
    text: String,
}

impl Picture {
    fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(arguments);
    }

    fn open(&mut self, layout: &Layout<'_>) {
        let (width, height) = (layout.width, layout.height);
        self.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>Address map</title>\n<style>\n"
        ));
        self.text.push_str(STYLE);
        for (number, pair) in SERIES.iter().enumerate() {
            self.add(format_args!(".c{number}{{--own:{}}}\n", pair.light));
        }
        self.text.push_str("@media (prefers-color-scheme: dark){\n");
        for (number, pair) in SERIES.iter().enumerate() {
            self.add(format_args!(".c{number}{{--own:{}}}\n", pair.dark));
        }
        self.text.push_str("}\n</style>\n");
        self.text.push_str(PATTERNS);
        self.add(format_args!(
            "<rect class=\"ground\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n"
        ));
    }

    fn panel(&mut self, placed: &PlacedPanel<'_>, colours: &Colours<'_>) {
        let rect = placed.rect;
        let room = rect.width.max(60.0);
        if let Some(label) = fitting(&title(placed.panel), room * 1.15) {
            self.text("title", rect.x, rect.y - 8.0, &label);
        }
        self.rect("panel", rect, 0.0, None);
        self.rect("gaps", rect, 0.0, None);
        let place = |area: &Area| Cell::of(area.block, placed.panel.block, placed.shape).rect(rect);
        for area in &placed.panel.areas {
            self.area(area, place(area), colours);
        }
        let inner = placed.panel.areas.iter();
        for area in inner.filter(|area| area.kind.is_range() && area.block != placed.panel.block) {
            let Rect {
                x,
                y,
                width,
                height,
            } = place(area);
            let label = format!("{} {}", area.owner, area.block);
            if let Some(label) = fitting(&label, width - 8.0).filter(|_| height > 2.0 * LINE) {
                self.text("inner", x + 4.0, y + height - 6.0, &label);
            }
        }
    }

    fn area(&mut self, area: &Area, rect: Rect, colours: &Colours<'_>) {
        let kind = match area.kind {
            kind if kind.is_range() => "range",
            AreaKind::Node | AreaKind::Service | AreaKind::Machine => "held",
            _ => "kept",
        };
        let presence = match area.presence {
            Presence::Stays => "",
            Presence::Added => " added",
            Presence::Removed => " removed",
        };
        let class = format!("{kind} {}{presence}", colours.class(area));
        let gap = if rect.width.min(rect.height) > 6.0 {
            0.5
        } else {
            0.0
        };
        self.rect(&class, rect, gap, Some(&described(area)));
        if kind == "kept" || area.misplaced.is_some() {
            self.rect(
                if kind == "kept" {
                    "stripes"
                } else {
                    "misplaced"
                },
                rect,
                gap,
                None,
            );
        }
        if !area.shared_with.is_empty() {
            self.rect("shared", rect, 1.5, None);
        }
        if kind == "held"
            && rect.height > LINE + 2.0
            && let Some(label) = fitting(&area.owner, rect.width - 6.0)
        {
            self.text("label", rect.x + 3.0, rect.y + LINE, &label);
        }
    }

    fn rect(&mut self, class: &str, rect: Rect, gap: f64, described: Option<&str>) {
        let Rect {
            x,
            y,
            width,
            height,
        } = rect;
        let width = (width - 2.0 * gap).max(0.5);
        let height = (height - 2.0 * gap).max(0.5);
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"",
            x + gap,
            y + gap
        ));
        match described {
            Some(text) => self.add(format_args!("><title>{}</title></rect>\n", escaped(text))),
            None => self.text.push_str("/>\n"),
        }
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\">{}</text>\n",
            escaped(text)
        ));
    }
}

const PATTERNS: &str = r#"<defs>
<pattern id="p-gaps" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="p-gaps" x2="0" y2="9"/></pattern>
<pattern id="p-kept" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="p-kept" x2="0" y2="5"/></pattern>
<pattern id="p-misplaced" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="p-misplaced" x2="0" y2="4"/></pattern>
</defs>
"#;

/// All that is known of an area, in one line.
fn described(area: &Area) -> String {
    let mut parts = vec![format!("{} {} {}", area.block, area.kind, area.owner)];
    parts.extend(area.pool.iter().map(|pool| format!("pool {pool}")));
    if area.presence != Presence::Stays {
        parts.push(area.presence.to_string());
    }
    parts.extend(area.misplaced.iter().map(|why| format!("misplaced: {why}")));
    if !area.shared_with.is_empty() {
        parts.push(format!("also held by {}", area.shared_with.join(", ")));
    }
    parts.join("; ")
}

/// As much of a text as fits; nothing if hardly any of it does.
fn fitting(text: &str, room: f64) -> Option<String> {
    let text = printable(text);
    let characters = (0..text.chars().count())
        .take_while(|count| {
            f64::from(u32::try_from(*count).unwrap_or(u32::MAX)) * CHARACTER < room - CHARACTER
        })
        .count();
    if characters >= text.chars().count() {
        return Some(text.into_owned());
    }
    let kept = characters.checked_sub(1).filter(|kept| *kept >= 3)?;
    Some(text.chars().take(kept).chain(['…']).collect())
}

fn escaped(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
