//! Pools of Pods of a plan, for a person at a terminal.

use super::human::{Detail, limit, more, values};
use super::text::{Paint, count, grouped_digits, printable};
use ipam_planner::plan::{ChangeDocument, PodPoolSummary};

/// Kinds of a pool of Pods, and of the object that selects it for nodes.
pub(super) const KINDS: [&str; 2] = ["CiliumPodIPPool", "CiliumNodeConfig"];

/// `Pod pools: 2 objects to create, …`; empty without any such object.
pub(super) fn headline(summary: &PodPoolSummary) -> String {
    let PodPoolSummary {
        create,
        update,
        adopt,
        delete,
        unchanged,
    } = summary;
    if summary.changes_nothing() {
        return match unchanged {
            0 => String::new(),
            _ => format!("Pod pools: {} unchanged.", grouped_digits(unchanged)),
        };
    }
    let [create, update, adopt, delete, unchanged] =
        [create, update, adopt, delete, unchanged].map(grouped_digits);
    format!(
        "Pod pools: {create} to create, {update} to update, {adopt} to adopt, {delete} to delete; {unchanged} unchanged."
    )
}

/// The changes of `CiliumPodIPPool`s and `CiliumNodeConfig`s.
pub(super) fn changes(changes: &[ChangeDocument], detail: Detail) -> String {
    let of_pools: Vec<&ChangeDocument> = changes
        .iter()
        .filter(|c| KINDS.contains(&c.kind.as_str()))
        .collect();
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
