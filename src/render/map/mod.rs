//! The map of the address space as one HTML page that needs nothing else, and as a list.
//!
//! Returns text; never prints. Every text of the cluster is data to it, never markup.
//!
//! One part of the map as a list for a reader without a screen.
//!
//! The page: one file with its script, style and data.
//!
//! Colours that people with the common forms of colour blindness tell apart (Okabe and Ito 2008),
//! in light and dark.

mod data;

use std::collections::BTreeMap;

use data::page_data;

use super::report::{digest, filled};
use super::text::{count, printable};
use ipam_core::net::Range;
use ipam_doctor::map::{AddressMap, Area, AreaKind, Presence};

/// Limit of the areas in a list.
const MOST: usize = 300;

/// The areas that overlap this one, by address. Those beyond the first 300 are counted by kind.
pub fn area_list(map: &AddressMap, part: &Range) -> String {
    let mut areas: Vec<&Area> = map
        .areas()
        .filter(|area| area.block.range().overlaps(part))
        .collect();
    areas.sort_by_key(|area| (area.block, area.kind));
    if areas.is_empty() {
        return format!("Nothing is known in {part}.\n");
    }
    let (shown, rest) = areas.split_at(areas.len().min(MOST));
    let mut text = format!("{} in {part}:\n\n", count(areas.len(), "area"));
    for area in shown {
        text.push_str(&format!("- {}\n", line(area)));
    }
    let mut kinds: BTreeMap<AreaKind, usize> = BTreeMap::new();
    for area in rest {
        *kinds.entry(area.kind).or_default() += 1;
    }
    for (kind, number) in kinds {
        text.push_str(&format!("- and {number} more of the kind \"{kind}\"\n"));
    }
    if !rest.is_empty() {
        text.push_str("\nAsk for a smaller part to see all of it.\n");
    }
    text
}

fn line(area: &Area) -> String {
    let Area {
        block,
        kind,
        presence,
        owner,
        used,
        pool,
        domain,
        misplaced,
        shared_with,
        notes,
    } = area;
    let of =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
    let changes = (*presence != Presence::Stays).then(|| presence.to_string());
    let shared =
        (!shared_with.is_empty()).then(|| format!("also held by {}", shared_with.join(", ")));
    let facts = [
        of("in use:", used),
        of("pool", pool),
        of("failure domain", domain),
        of("misplaced:", misplaced),
        shared,
        changes,
    ];
    let facts: String = facts
        .into_iter()
        .flatten()
        .chain(notes.iter().cloned())
        .map(|fact| format!("; {fact}"))
        .collect();
    printable(&format!("{block} {kind} {owner}{facts}")).into()
}

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = concat!(include_str!("../colours.css"), include_str!("page.css"));

/// The map as a page that needs nothing but a browser.
///
/// # Errors
/// Fails if the data cannot be serialized.
pub fn html(map: &AddressMap) -> serde_json::Result<String> {
    let data = without_markup(&serde_json::to_string(&page_data(map))?);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        digest(SCRIPT),
        digest(STYLE)
    );
    let time = map.at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let parts = [
        ("POLICY", policy.as_str()),
        ("STYLE", STYLE),
        ("TIME", &time),
        ("DATA", &data),
        ("SCRIPT", SCRIPT),
    ];
    Ok(filled(PAGE, &parts))
}

/// JSON in which no parser of HTML sees markup.
fn without_markup(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

/// A colour on light and on dark ground.
pub(super) struct Pair {
    pub(super) light: &'static str,
    pub(super) dark: &'static str,
}

/// For pools and failure domains, in turn.
pub(super) const SERIES: [Pair; 8] = [
    pair("#0072b2", "#3a9bd9"),
    pair("#e69f00", "#e6a817"),
    pair("#009e73", "#1fb88d"),
    pair("#cc79a7", "#d38db5"),
    pair("#56b4e9", "#7cc5ee"),
    pair("#d55e00", "#ee7a24"),
    pair("#8a7f00", "#f0e442"),
    pair("#6a51a3", "#a58fd8"),
];

const fn pair(light: &'static str, dark: &'static str) -> Pair {
    Pair { light, dark }
}

#[cfg(test)]
mod tests {
    use ipam_doctor::map::Panel;

    use super::*;

    fn map(blocks: impl Iterator<Item = String>) -> AddressMap {
        let area = |block: String| Area::new(AreaKind::Node, block.parse().unwrap(), "n\u{1b}1");
        let areas = blocks.map(area).collect();
        AddressMap {
            panels: vec![Panel {
                block: "10.0.0.0/8".parse().unwrap(),
                areas,
            }],
            ..AddressMap::default()
        }
    }

    #[test]
    fn a_part_is_listed_and_the_rest_is_counted() {
        let blocks = (0..=255).flat_map(|b| (0..2).map(move |c| format!("10.{b}.{c}.0/24")));
        let map = map(blocks);
        let one = area_list(&map, &"10.7.0.0/16".parse().unwrap());
        assert_eq!(one.lines().count(), 4, "{one}");
        assert!(one.contains("- 10.7.1.0/24 node block n"), "{one}");
        assert!(!one.contains('\u{1b}'), "{one}");
        let all = area_list(&map, &"10.0.0.0/8".parse().unwrap());
        assert!(all.starts_with("512 areas in 10.0.0.0/8:"), "{all}");
        assert!(
            all.contains("and 212 more of the kind \"node block\""),
            "{all}"
        );
        let none = area_list(&map, &"fd00::/8".parse().unwrap());
        assert_eq!(none, "Nothing is known in fd00::/8.\n");
    }
}

#[cfg(test)]
mod html_tests {
    use super::*;

    #[test]
    fn the_template_has_every_place() {
        for name in ["POLICY", "STYLE", "TIME", "DATA", "SCRIPT"] {
            let place = format!("{{{{{name}}}}}");
            assert_eq!(PAGE.matches(&place).count(), 1, "{name}");
        }
    }

    #[test]
    fn data_ends_no_script() {
        let json = serde_json::to_string("</script><!--&").unwrap();
        let safe = without_markup(&json);
        assert!(!safe.contains(['<', '>', '&']), "{safe}");
        assert_eq!(
            serde_json::from_str::<String>(&safe).unwrap(),
            "</script><!--&"
        );
    }
}
