//! Events of `watch` and the operator as JSON objects.

use serde_json::{Value, json};

use super::capped::{Capped, by_cause};
use super::event_human::{UNKNOWN_RULES, hazard_text};
use super::progress::fault;
use crate::render::Detail;
use ipam_cluster::Rollback;
use ipam_controller::apply::Outcome;
use ipam_controller::{ControllerEvent, Waiting, WaitingChange};
use ipam_desired::Activity;
use ipam_planner::plan::{ChangeDocument, VersionRules};

/// The object of an event; `None` if it is not printed.
pub(super) fn as_json(event: &ControllerEvent<'_>, detail: Detail) -> Option<Value> {
    Some(match event {
        ControllerEvent::ConfigApplied(loaded) => {
            json!({"event": "in-force", "files": loaded.documents.files.len(), "revision": loaded.revision})
        }
        ControllerEvent::Finished {
            change,
            outcome,
            waited,
        } => {
            let ChangeDocument {
                kind,
                name,
                action,
                after,
                ..
            } = ChangeDocument::from(*change);
            let event = if **outcome == Outcome::Applied {
                "written"
            } else {
                "not-written"
            };
            json!({"event": event, "kind": kind, "name": name, "action": action, "after": after, "why": fault(outcome).unwrap_or_default(), "waited_seconds": waited.as_secs_f64()})
        }
        ControllerEvent::Waiting(waiting) => waiting_as_json(waiting, detail),
        ControllerEvent::Undone(target, pause) => {
            json!({"event": "undone", "kind": target.kind(), "name": target.name(), "left_alone_seconds": pause.as_secs()})
        }
        // The printer's thread builds the object of `Invalid`.
        ControllerEvent::Invalid(_)
        | ControllerEvent::Planned(_)
        | ControllerEvent::Sending(_)
        | ControllerEvent::Conflict(_) => return None,
        ControllerEvent::RolledBack(rollback) => rollback_as_json(rollback),
        ControllerEvent::Unhealthy(why) => json!({"event": "trouble", "why": why.text}),
        ControllerEvent::Recovered => json!({"event": "recovered"}),
        ControllerEvent::Leading => json!({"event": "leads"}),
        ControllerEvent::Standby(why) => json!({"event": "stands-by", "why": why}),
    })
}

/// The lists are capped; `…_count` are the exact numbers.
fn waiting_as_json(waiting: &Waiting, detail: Detail) -> Value {
    let Waiting {
        nodes,
        activity,
        for_a_person,
        refusals,
        warnings,
        blocked,
    } = waiting;
    let waits = for_a_person.iter().map(|change| {
        let WaitingChange {
            target,
            hazard,
            needs_approval,
            rules,
        } = change;
        let hazard = match rules {
            VersionRules::Known => hazard_text(*hazard, *activity),
            VersionRules::Unknown => UNKNOWN_RULES,
        };
        let mut object = json!({"kind": target.kind(), "name": target.name(), "hazard": hazard});
        if !needs_approval.is_empty() {
            let blocks: Vec<String> = needs_approval.iter().map(ToString::to_string).collect();
            object["needs_approval"] = blocks.into();
        }
        object
    });
    let waits: Vec<Value> = waits.collect();
    let blocked_objects: Vec<Value> = blocked
        .iter()
        .map(|(target, reason)| {
            json!({"kind": target.kind(), "name": target.name(), "reason": reason})
        })
        .collect();
    let refusal_objects = refusals
        .iter()
        .map(|refusal| json!({"rule": refusal.rule.0, "message": refusal.message}));
    json!({
        "event": "seen",
        "nodes": nodes,
        "paused": *activity == Activity::Paused,
        "warnings": warnings.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect::<Vec<_>>(),
        "waiting": first_of_each(&waits, |one| one["hazard"].to_string(), detail),
        "waiting_count": for_a_person.len(),
        "refusals": Capped::new(refusal_objects, detail).shown,
        "refusal_count": refusals.len(),
        "blocked": first_of_each(&blocked_objects, |one| one["reason"].to_string(), detail),
        "blocked_count": blocked.len(),
    })
}

/// The first entries of each of the first causes.
fn first_of_each(
    entries: &[Value],
    cause: impl Fn(&Value) -> String,
    detail: Detail,
) -> Vec<Value> {
    let causes = Capped::new(by_cause(entries, cause), detail);
    let shown = causes
        .shown
        .into_iter()
        .flat_map(|(_, entries)| Capped::new(entries, detail).shown);
    shown.cloned().collect()
}

fn rollback_as_json(rollback: &Rollback) -> Value {
    let Rollback {
        from,
        to,
        forgotten,
    } = rollback;
    let quarantined: Vec<Value> = forgotten
        .iter()
        .map(|(block, node)| json!({"block": block.to_string(), "node": node.to_string()}))
        .collect();
    json!({"event": "rolled-back", "from": from, "to": to, "quarantined": quarantined})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipam_planner::plan::Target;

    fn waiting() -> Waiting {
        let target = |number: usize| Target::Node(format!("n{number}").parse().unwrap());
        let blocked = |number| (target(number), "the pool is full".to_owned());
        let mut blocked: Vec<_> = (0..2_000).map(blocked).collect();
        blocked.push((target(2_000), "another reason".to_owned()));
        Waiting {
            nodes: 2_001,
            activity: Activity::Active,
            for_a_person: (0..2_000)
                .map(|number| WaitingChange {
                    target: target(number),
                    hazard: ipam_core::model::Hazard::Disruptive,
                    needs_approval: Vec::new(),
                    rules: VersionRules::Known,
                })
                .collect(),
            refusals: Vec::new(),
            warnings: Vec::new(),
            blocked,
        }
    }

    #[test]
    fn a_line_is_short_however_many_nodes_have_one_cause() {
        let event = ControllerEvent::Waiting(&waiting());
        let object = as_json(&event, Detail::Short).unwrap();
        let length = |name: &str| object[name].as_array().unwrap().len();
        assert_eq!((length("waiting"), length("blocked")), (10, 11));
        assert_eq!(object["waiting_count"], 2_000);
        assert_eq!(object["blocked_count"], 2_001);
        assert_eq!(object["blocked"][10]["reason"], "another reason");
        let full = as_json(&event, Detail::Full).unwrap();
        assert_eq!(full["blocked"].as_array().unwrap().len(), 2_001);
    }

    #[test]
    fn people_read_one_line_for_one_cause() {
        let text =
            super::super::event_human::human(&ControllerEvent::Waiting(&waiting()), Detail::Short);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.contains("Node/n9 … and 1,990 more  the pool is full"),
            "{text}"
        );
        assert!(
            text.contains("blocked   Node/n2000  another reason"),
            "{text}"
        );
    }
}
