//! Ports of VMs of a plan, for a person at a terminal.

use super::human::{Detail, limit, more};
use super::natural::by_name;
use super::text::{Paint, count, printable};
use ipam_planner::plan::ChangeDocument;

/// Kind of a port.
pub(super) const KIND: &str = "Port";

/// The changes of `allowed_address_pairs`.
pub(super) fn changes(changes: &[ChangeDocument], detail: Detail) -> String {
    let ports = by_name(
        changes.iter().filter(|change| change.kind == KIND),
        |change| &change.name,
    );
    if ports.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on("Ports of VMs, allowed_address_pairs"),
        count(ports.len(), "change")
    );
    let shown = &ports[..ports.len().min(limit(detail))];
    for change in shown {
        let added = change.after.iter().map(|range| format!("+{range}"));
        let removed = change.before.iter().map(|range| format!("-{range}"));
        let values: Vec<String> = added.chain(removed).collect();
        text.push_str(&format!(
            "  {} Port/{}  {}\n      {}\n",
            Paint::Yellow.on("~"),
            printable(&change.name),
            printable(&values.join(" ")),
            Paint::Dim.on(&printable(&change.reason))
        ));
    }
    text + &more(ports.len() - shown.len())
}
