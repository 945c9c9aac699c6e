//! The counts of a plan in words, for its first lines and its last one.

use super::limited;
use super::text::{Paint, count, grouped_digits};
use ipam_planner::plan::{Intent, LbSummary, PodPoolSummary, Summary};

/// The first and the last line of a plan at a terminal.
pub(super) fn of_plan(summary: &Summary, intent: Intent) -> String {
    format!("{}\n", Paint::Bold.on(&sentence(summary, intent)))
}

/// `Plan: 3 to assign, …`, `No changes.`, `6 blocked; no changes can be made now.` or `Undo: …`
pub(super) fn sentence(summary: &Summary, intent: Intent) -> String {
    let sentence = match intent {
        Intent::Undo => undo(summary),
        Intent::Files if summary.changes_nothing() => no_changes(summary),
        Intent::Files => changes(summary),
    };
    sentence + &limited::left_out(summary)
}

/// LoadBalancer pools and pools of Pods; empty without any.
pub(super) fn of_objects(summary: &Summary, intent: Intent) -> String {
    let line = |(text, changes_nothing): (String, bool)| match (text.is_empty(), changes_nothing) {
        (true, _) => text,
        (false, true) => format!("{text}\n"),
        (false, false) => format!("{}\n", Paint::Bold.on(&text)),
    };
    let (balancing, pods) = (&summary.load_balancing, &summary.pod_pools);
    let balancing = (
        load_balancing(balancing, intent),
        balancing.changes_nothing(),
    );
    line(balancing) + &line((pod_pools(pods), pods.changes_nothing()))
}

/// `LoadBalancer: 1 to create, …`; empty without LoadBalancer pools and pins.
pub(super) fn load_balancing(summary: &LbSummary, intent: Intent) -> String {
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
        // An undo also takes what Services get until then.
        (false, 0) if intent == Intent::Undo => {
            Some("no Service loses an address that it has now".to_owned())
        }
        (false, 0) => Some("no Service loses an address".to_owned()),
        (false, _) => summary.losses_in_words(),
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
    without_zeros(
        counts.map(|(number, what)| (number, format!("{} {what}", grouped_digits(number)))),
    )
    .collect()
}

/// The texts whose number is not zero.
pub(super) fn without_zeros<const N: usize>(
    counts: [(usize, String); N],
) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    counts.map(|(_, text)| text)
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

/// `3 to assign, 1 to release, 0 moved`. That nothing moves is the promise of every plan, so its
/// zero is shown; other zeros are left out.
pub(super) fn writes(summary: &Summary) -> String {
    let moved = format!("{} moved", grouped_digits(summary.moved));
    match summary.changes_nothing() {
        true => moved,
        false => format!("{}, {moved}", writes_of_nodes(summary)),
    }
}

/// `3 to assign, 1 to release`, or `no node to change` if only other objects change.
pub(super) fn writes_of_nodes(summary: &Summary) -> String {
    let Summary {
        assign,
        update,
        release,
        delete,
        ..
    } = summary;
    let writes = counts([
        (*assign, "to assign"),
        (*update, "to update"),
        (*release, "to release"),
        (*delete, "to delete"),
    ]);
    match writes.is_empty() {
        true => "no node to change".to_owned(),
        false => writes.join(", "),
    }
}

/// `5 unchanged`; `None` for none.
pub(super) fn unchanged(summary: &Summary) -> Option<String> {
    counts([(summary.unchanged, "unchanged")]).pop()
}

/// `1 blocked, 3 nodes misplaced, 5 unchanged`, without zeros.
pub(super) fn others(summary: &Summary) -> Vec<String> {
    let Summary {
        blocked, misplaced, ..
    } = summary;
    let misplaced = (*misplaced > 0).then(|| format!("{} misplaced", count(*misplaced, "node")));
    let blocked = counts([(*blocked, "blocked")]);
    blocked
        .into_iter()
        .chain(misplaced)
        .chain(unchanged(summary))
        .collect()
}

fn changes(summary: &Summary) -> String {
    let others = others(summary);
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; {}", others.join(", ")),
    };
    let (writes, rest) = (writes(summary), ports_and_errors(summary));
    format!("Plan: {writes}{others}.{rest}")
}

fn ports_and_errors(summary: &Summary) -> String {
    let ports = if summary.ports == 0 {
        String::new()
    } else {
        format!(" {} to change.", count(summary.ports, "port"))
    };
    let errors = if summary.errors == 0 {
        String::new()
    } else {
        format!(" {} found.", count(summary.errors, "error"))
    };
    ports + &errors
}

/// An undo plan does not count unchanged objects.
fn undo(summary: &Summary) -> String {
    if summary.changes_nothing() && summary.blocked == 0 {
        return "Undo: nothing to take back.".to_owned();
    }
    let blocked = counts([(summary.blocked, "cannot be taken back")]);
    let undo = sentence_of("Undo", &[writes_of_nodes(summary)], blocked);
    undo + &ports_and_errors(summary)
}

/// Says "as the files say" of all nodes only if no count contradicts it.
fn no_changes(summary: &Summary) -> String {
    let Summary {
        moved,
        unchanged,
        nodes,
        ..
    } = summary;
    let moved = grouped_digits(moved);
    if summary.left_out.is_some() {
        return limited::no_changes(summary);
    }
    let title = title_without_changes(summary);
    if summary.is_as_the_files_say() {
        return format!(
            "{title}. {} as the files say, {moved} moved.",
            count(*nodes, "node")
        );
    }
    let good = grouped_digits(unchanged);
    format!(
        "{title}. {good} of {} as the files say, {moved} moved.",
        count(*nodes, "node"),
    )
}

/// The title of a plan that changes nothing. A plan with problems begins with them: `No changes`
/// would read as success.
pub(super) fn title_without_changes(summary: &Summary) -> String {
    no_changes_to("", summary)
}

/// `No changes{object}`, `1 error; no changes{object}`, or with blocked changes `1 blocked; no
/// changes{object} can be made now`.
pub(super) fn no_changes_to(object: &str, summary: &Summary) -> String {
    let Summary {
        blocked,
        misplaced,
        drifted,
        errors,
        ..
    } = summary;
    let problems = [
        (*blocked, format!("{} blocked", grouped_digits(blocked))),
        (
            *misplaced,
            format!("{} misplaced", count(*misplaced, "node")),
        ),
        (*drifted, count(*drifted, "drifted node")),
        (*errors, count(*errors, "error")),
    ];
    let problems: Vec<String> = without_zeros(problems).collect();
    match (problems.join(", "), blocked) {
        (none, _) if none.is_empty() => format!("No changes{object}"),
        (problems, 0) => format!("{problems}; no changes{object}"),
        (problems, _) => format!("{problems}; no changes{object} can be made now"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(summary: &Summary) -> String {
        sentence(summary, Intent::Files)
    }

    #[test]
    fn only_a_plan_without_problems_begins_with_no_changes() {
        let good = Summary {
            nodes: 3,
            unchanged: 3,
            ..Summary::default()
        };
        assert_eq!(of(&good), "No changes. 3 nodes as the files say, 0 moved.");
        let blocked = Summary {
            blocked: 6,
            errors: 1,
            unchanged: 0,
            ..good.clone()
        };
        assert_eq!(
            of(&blocked),
            "6 blocked, 1 error; no changes can be made now. 0 of 3 nodes as the files say, 0 moved."
        );
        let drifted = Summary {
            drifted: 1,
            unchanged: 2,
            ..good
        };
        assert_eq!(
            of(&drifted),
            "1 drifted node; no changes. 2 of 3 nodes as the files say, 0 moved."
        );
    }
}
