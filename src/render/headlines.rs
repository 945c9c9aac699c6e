//! The counts of the objects other than nodes in words, below the verdict on a plan.

use super::text::{Paint, grouped_digits};
use ipam_planner::plan::{LbSummary, Losing, PodPoolSummary, Summary};

/// LoadBalancer pools and pools of Pods; empty without any.
pub(super) fn of_objects(summary: &Summary, losing: Losing) -> String {
    let line = |(text, changes_nothing): (String, bool)| match (text.is_empty(), changes_nothing) {
        (true, _) => text,
        (false, true) => format!("{text}\n"),
        (false, false) => format!("{}\n", Paint::Bold.on(&text)),
    };
    let (balancing, pods) = (&summary.load_balancing, &summary.pod_pools);
    let balancing = (
        load_balancing(balancing, losing),
        balancing.changes_nothing(),
    );
    line(balancing) + &line((pod_pools(pods), pods.changes_nothing()))
}

/// `LoadBalancer: 1 to create, …`; empty without LoadBalancer pools and pins.
pub(super) fn load_balancing(summary: &LbSummary, losing: Losing) -> String {
    let LbSummary {
        create,
        update,
        adopt,
        delete,
        pin,
        unchanged,
        lost_addresses,
        uncertain_losses: _,
    } = summary;
    let writes = counts([
        (*create, "to create"),
        (*update, "to update"),
        (*adopt, "to adopt"),
        (*delete, "to delete"),
        (*pin, "to pin"),
    ]);
    let unchanged = counts([(*unchanged, "unchanged")]);
    let lost = match (summary.changes_nothing(), lost_addresses) {
        (true, _) => None,
        (false, 0) => Some("no Service loses an address".to_owned()),
        (false, _) => summary.losses_in_words(losing),
    };
    sentence_of("LoadBalancer", &writes, unchanged.into_iter().chain(lost))
}

/// `Pod pools: 2 to create, …`; empty without any such object.
pub(super) fn pod_pools(summary: &PodPoolSummary) -> String {
    let PodPoolSummary {
        create,
        update,
        adopt,
        delete,
        unchanged,
    } = summary;
    let writes = counts([
        (*create, "to create"),
        (*update, "to update"),
        (*adopt, "to adopt"),
        (*delete, "to delete"),
    ]);
    sentence_of("Pod pools", &writes, counts([(*unchanged, "unchanged")]))
}

/// The counts with their words, without zeros.
fn counts<const N: usize>(counts: [(usize, &str); N]) -> Vec<String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts
        .map(|(number, what)| format!("{} {what}", grouped_digits(number)))
        .collect()
}

/// `title: writes; others.`, without an empty part; empty without any.
fn sentence_of(title: &str, writes: &[String], others: impl IntoIterator<Item = String>) -> String {
    let others: Vec<String> = others.into_iter().collect();
    let parts = [writes.join(", "), others.join(", ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("{title}: {}.", parts.join("; ")),
    }
}
