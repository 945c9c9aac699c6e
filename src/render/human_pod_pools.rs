//! Pools of Pods of a plan, for a person at a terminal.

use super::human::{Detail, limit, more, values};
use super::natural::by_name;
use super::text::{Paint, count, printable};
use ipam_planner::plan::ChangeDocument;

/// Kinds of a pool of Pods, and of the object that selects it for nodes.
pub(super) const KINDS: [&str; 2] = ["CiliumPodIPPool", "CiliumNodeConfig"];

/// The changes of `CiliumPodIPPool`s and `CiliumNodeConfig`s.
pub(super) fn changes(changes: &[ChangeDocument], detail: Detail) -> String {
    let of_pools = by_name(
        changes
            .iter()
            .filter(|change| KINDS.contains(&change.kind.as_str())),
        |change| &change.name,
    );
    if of_pools.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{} ({})\n",
        Paint::Bold.on("Pod pools"),
        count(of_pools.len(), "change")
    );
    let shown = &of_pools[..of_pools.len().min(limit(detail))];
    for change in shown {
        let (sign, paint) = match change.action.as_str() {
            "create" => ("+", Paint::Green),
            "delete" => ("-", Paint::Red),
            _ => ("~", Paint::Yellow),
        };
        text.push_str(&format!(
            "  {} {}/{}  {}\n      {}\n",
            paint.on(sign),
            printable(&change.kind),
            printable(&change.name),
            printable(&values(change)),
            Paint::Dim.on(&printable(&change.reason))
        ));
    }
    text + &more(of_pools.len() - shown.len())
}
