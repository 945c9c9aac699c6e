//! Whether a saved plan is still what would be planned.

use std::collections::BTreeMap;

use super::document::{ChangeDocument, PlanDocument};
use super::{Change, Plan};

/// A saved plan against a fresh one.
#[derive(Debug)]
pub enum Staleness {
    /// Every saved change would be planned again, just so.
    Current {
        /// The saved changes, as they were planned afresh.
        changes: Vec<Change>,
        /// Changes that are due but not in the saved plan, such as those of nodes that joined since.
        further: usize,
    },
    /// Something relevant has changed; a line for each difference.
    Stale(Vec<String>),
}

/// Compares change by change, so that a heartbeat, or a node that joined since, does not make a reviewed plan stale. When
/// the meaning of the files has changed, further changes count as a difference too.
pub fn still_wanted(saved: &PlanDocument, fresh: &Plan) -> Staleness {
    let mut planned: BTreeMap<&str, &Change> =
        fresh.changes.iter().map(|change| (change.node.as_str(), change)).collect();
    let mut changes = Vec::with_capacity(saved.changes.len());
    let mut differences = Vec::new();
    for wanted in &saved.changes {
        let now = planned.remove(wanted.name.as_str());
        match now.filter(|change| ChangeDocument::from(*change).identity() == wanted.identity()) {
            Some(change) => changes.push(change.clone()),
            None => differences.push(difference(wanted, now, fresh)),
        }
    }
    if fresh.desired_digest != saved.source.digest {
        differences.extend(planned.values().map(|change| {
            let change = ChangeDocument::from(*change);
            format!(
                "{}/{}: not in the saved plan, would now get {} ({})",
                change.kind,
                change.name,
                change.after.join(" "),
                change.reason
            )
        }));
    }
    if differences.is_empty() {
        Staleness::Current { changes, further: planned.len() }
    } else {
        Staleness::Stale(differences)
    }
}

fn difference(saved: &ChangeDocument, now: Option<&Change>, fresh: &Plan) -> String {
    let who = format!("{}/{}", saved.kind.escape_debug(), saved.name.escape_debug());
    let was = saved.after.join(" ").escape_debug().to_string();
    if let Some(change) = now {
        let now = ChangeDocument::from(change);
        if now.after == saved.after && now.write_path == saved.write_path && now.guard.uid != saved.guard.uid {
            return format!("{who}: it is another object by now (uid {})", now.guard.uid);
        }
        return format!(
            "{who}: saved {was} by {}, would now get {} by {} ({})",
            saved.write_path.escape_debug(),
            now.after.join(" "),
            now.write_path,
            now.reason
        );
    }
    if let Some(blocked) = fresh.blocked.iter().find(|blocked| blocked.node.as_str() == saved.name) {
        return format!("{who}: saved {was}, now blocked: {}", blocked.reason);
    }
    if fresh.unchanged.iter().any(|node| node.as_str() == saved.name) {
        return format!("{who}: saved {was}, but nothing is left to do for it");
    }
    format!("{who}: saved {was}, but it is gone")
}
