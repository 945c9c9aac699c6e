//! Whether a saved plan is still what would be planned.

use std::collections::{BTreeMap, BTreeSet};

use super::blocked::BlockedReason;
use super::document::{ChangeDocument, EditDocument, Intent, PlanDocument};
use super::write_path::node_config_name;
use super::{
    Change, ChangeAction, Plan, ServiceEffectDocument, Target, TargetKind, document, effects, lb,
    ports,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::NodeName;

/// The result of comparing a saved plan with a fresh one.
#[derive(Debug)]
pub enum Staleness {
    /// Every saved change would be planned again unchanged.
    Current {
        /// The saved changes, as the fresh plan makes them.
        changes: Vec<Change>,
        /// Changes that are due but not in the saved plan, such as those of nodes that joined
        /// since.
        further: usize,
        /// Saved changes that the cluster shows already, such as those of an apply that was
        /// interrupted.
        done: usize,
        /// Changes of an undo plan whose nodes are deleted or re-created, so that nothing is left
        /// to undo.
        gone: usize,
        /// Changes of a saved undo plan that are blocked now.
        blocked: Vec<BlockedChange>,
    },
    /// A relevant input has changed; one line for each difference.
    Stale(Vec<String>),
}

/// A saved change that is blocked now.
#[derive(Clone, Debug)]
pub struct BlockedChange {
    pub change: ChangeDocument,
    pub reason: String,
    /// What would unblock the change: a sentence for people.
    pub unblock: String,
}

/// Compares change by change, so that a heartbeat, or a node that joined since, does not make a
/// reviewed plan stale. When the meaning of the files has changed, further changes count as a
/// difference too.
///
/// Each fresh change of an undo plan must be in the saved plan; otherwise it is a difference. So an
/// apply does nothing that the saved plan does not show. A blocked change holds up the others only
/// if none is left to apply.
pub fn still_wanted(saved: &PlanDocument, fresh: &Plan, observed: &Observed) -> Staleness {
    let mut planned: BTreeMap<String, &Change> = fresh
        .changes
        .iter()
        .map(|change| (change.target().to_string(), change))
        .collect();
    let mut changes = Vec::with_capacity(saved.changes.len());
    let (mut differences, mut blocked) = (Vec::new(), Vec::new());
    let obstacles = Obstacles::new(fresh);
    let (mut done, mut gone) = (0, 0);
    for wanted in &saved.changes {
        let target = wanted.target();
        let now = planned.get(&target).copied();
        match judged(saved.intent, wanted, now, &obstacles, observed) {
            Judged::Planned(change) => changes.push(change),
            // Another change of the same node counts as a change that the saved plan lacks.
            Judged::Done => {
                done += 1;
                continue;
            }
            Judged::Gone => gone += 1,
            Judged::Blocked(change) => blocked.push(*change),
            Judged::Different(difference) => differences.push(difference),
        }
        planned.remove(&target);
    }
    differences.extend(newly_lost(saved, &changes, observed));
    if fresh.desired_digest != saved.source.digest || saved.intent == Intent::Undo {
        differences.extend(planned.values().map(|change| not_saved(change)));
    }
    if changes.is_empty() || !differences.is_empty() {
        differences.extend(blocked.drain(..).map(|one| one.difference()));
    }
    if !differences.is_empty() {
        return Staleness::Stale(differences);
    }
    Staleness::Current {
        changes,
        further: planned.len(),
        done,
        gone,
        blocked,
    }
}

/// What became of a saved change.
enum Judged {
    Planned(Change),
    Done,
    Gone,
    Blocked(Box<BlockedChange>),
    Different(String),
}

/// Compares a saved change with `now`, the fresh change of the same object.
fn judged(
    intent: Intent,
    wanted: &ChangeDocument,
    now: Option<&Change>,
    obstacles: &Obstacles<'_>,
    observed: &Observed,
) -> Judged {
    let is_same = |change: &&Change| ChangeDocument::from(*change).identity() == wanted.identity();
    if let Some(change) = now.filter(is_same) {
        return Judged::Planned(change.clone());
    }
    if shows(observed, wanted) {
        return Judged::Done;
    }
    if intent == Intent::Undo && now.is_none() {
        if is_gone(observed, wanted) {
            return Judged::Gone;
        }
        if let Some(reason) = obstacles.blocked.get(&wanted.target()) {
            return Judged::Blocked(Box::new(BlockedChange {
                change: wanted.clone(),
                reason: reason.to_string(),
                unblock: reason.unblock(),
            }));
        }
    }
    Judged::Different(difference(wanted, now, obstacles, observed))
}

fn not_saved(change: &Change) -> String {
    let change = ChangeDocument::from(change);
    let (kind, name, reason) = (&change.kind, &change.name, &change.reason);
    format!(
        "{kind}/{name}: not in the saved plan, would now {} ({reason})",
        would(&change)
    )
}

/// Addresses that Services would lose now, and that the saved plan does not name.
fn newly_lost(saved: &PlanDocument, changes: &[Change], observed: &Observed) -> Vec<String> {
    if saved.intent == Intent::Undo {
        return Vec::new();
    }
    let named: BTreeSet<_> = saved
        .services
        .iter()
        .flat_map(ServiceEffectDocument::lost)
        .collect();
    let effects = effects(changes, observed);
    let now: Vec<ServiceEffectDocument> = effects
        .services
        .iter()
        .map(ServiceEffectDocument::from)
        .collect();
    let new = now
        .iter()
        .flat_map(ServiceEffectDocument::lost)
        .filter(|lost| !named.contains(lost));
    let line = |(namespace, name, address, _): (&str, &str, &str, &str)| {
        let line = format!(
            "Service/{namespace}/{name}: would or may now lose {address}, which the saved plan does not say"
        );
        line.escape_debug().to_string()
    };
    new.map(line).collect()
}

/// The effect of a change, as the words after `would`.
fn would(change: &ChangeDocument) -> String {
    match (change.kind, change.after.is_empty()) {
        (TargetKind::AddressPool | TargetKind::PodPool | TargetKind::NodeConfig, _) => {
            format!("be {}", past(change.action))
        }
        (TargetKind::Port, _) => format!(
            "allow [{}] and no longer [{}]",
            change.after.join(" "),
            change.before.join(" ")
        ),
        (TargetKind::Service, true) => "ask for no address".to_owned(),
        (TargetKind::Service, false) => format!("ask for {}", change.after.join(" ")),
        (TargetKind::Node, true) => "get no block".to_owned(),
        (TargetKind::Node, false) => format!("get {}", change.after.join(" ")),
    }
}

fn past(action: ChangeAction) -> String {
    let action = action.as_str();
    let e = if action.ends_with('e') { "d" } else { "ed" };
    format!("{action}{e}")
}

/// Whether the planned object shows the planned value in the field that would be written.
pub fn shows(observed: &Observed, saved: &ChangeDocument) -> bool {
    if matches!(saved.edit, EditDocument::PodPool(_)) {
        return document::shows(observed, saved);
    }
    if matches!(saved.edit, EditDocument::AddressPairs { .. }) {
        return ports::shows(observed, saved);
    }
    if !saved.is_of_node() {
        return lb::shows(observed, saved);
    }
    let name = saved.name.parse::<NodeName>().ok();
    let Some(node) = name
        .and_then(|name| observed.nodes.get(&name))
        .filter(|node| node.uid == saved.guard.uid)
    else {
        return false;
    };
    match &saved.edit {
        EditDocument::NodeSpec(blocks) => {
            let shown: Vec<String> = node.spec.iter().map(ToString::to_string).collect();
            blocks.iter().all(|block| shown.contains(block))
        }
        EditDocument::CiliumNode(blocks) | EditDocument::CiliumNodeBesideOperator(blocks) => {
            let shown = observed
                .cilium_nodes
                .get(&node.name)
                .map(|cilium_node| &cilium_node.pod_cidrs);
            let shows = |block: &String| {
                shown.is_some_and(|shown| shown.iter().any(|there| there.to_string() == *block))
            };
            // An undo takes blocks away, too.
            let taken = saved.before.iter().filter(|block| !blocks.contains(block));
            blocks.iter().all(shows) && !taken.into_iter().any(shows)
        }
        EditDocument::NoCiliumNode(()) => observed
            .cilium_nodes
            .get(&node.name)
            .is_none_or(|seen| seen.pod_cidrs.is_empty()),
        EditDocument::NodeConfig(settings) => {
            let config = observed.node_config(&node_config_name(&node.name));
            settings.iter().all(|(key, value)| match value {
                Some(value) => observed
                    .setting(&node.labels, key)
                    .is_some_and(|setting| setting.value == value),
                None => config.is_none_or(|config| !config.defaults.contains_key(key)),
            })
        }
        EditDocument::AddressPool(_)
        | EditDocument::PodPool(_)
        | EditDocument::AddressPairs { .. } => false,
        EditDocument::Annotations(values) => values
            .iter()
            .all(|(key, block)| node.annotation_at(key).map(|shown| shown.to_string()) == *block),
    }
}

fn is_gone(observed: &Observed, saved: &ChangeDocument) -> bool {
    if matches!(saved.edit, EditDocument::PodPool(_)) {
        return document::is_gone(observed, saved);
    }
    if matches!(saved.edit, EditDocument::AddressPairs { .. }) {
        return ports::is_gone(observed, saved);
    }
    if !saved.is_of_node() {
        return lb::is_gone(observed, saved);
    }
    let node = saved
        .name
        .parse::<NodeName>()
        .ok()
        .and_then(|name| observed.nodes.get(&name));
    node.is_none_or(|node| node.uid != saved.guard.uid)
}

/// What a fresh plan says of the objects that it does not change, by kind and name.
struct Obstacles<'p> {
    blocked: BTreeMap<String, &'p BlockedReason>,
    unchanged: BTreeSet<String>,
}

impl<'p> Obstacles<'p> {
    fn new(fresh: &'p Plan) -> Obstacles<'p> {
        let mut blocked = BTreeMap::new();
        for one in &fresh.blocked {
            let target = one.target.to_string();
            blocked.entry(target).or_insert(&one.reason);
        }
        Obstacles {
            blocked,
            unchanged: fresh.unchanged.iter().map(Target::to_string).collect(),
        }
    }
}

impl BlockedChange {
    fn difference(&self) -> String {
        let BlockedChange {
            change,
            reason,
            unblock,
        } = self;
        format!(
            "{}/{}: saved to {}, now blocked: {reason}; fix: {unblock}",
            change.kind,
            change.name.escape_debug(),
            would(change).escape_debug()
        )
    }
}

fn difference(
    saved: &ChangeDocument,
    now: Option<&Change>,
    obstacles: &Obstacles<'_>,
    observed: &Observed,
) -> String {
    let who = format!("{}/{}", saved.kind, saved.name.escape_debug());
    let was = would(saved).escape_debug().to_string();
    if let Some(change) = now {
        let now = ChangeDocument::from(change);
        if now.after == saved.after
            && now.write_path == saved.write_path
            && now.guard.uid != saved.guard.uid
        {
            return format!("{who}: it is another object by now (uid {})", now.guard.uid);
        }
        return format!(
            "{who}: saved to {was} by {}, would now {} by {} ({})",
            saved.write_path.escape_debug(),
            would(&now),
            now.write_path,
            now.reason
        );
    }
    let target = saved.target();
    if let Some(reason) = obstacles.blocked.get(&target) {
        return format!("{who}: saved to {was}, now blocked: {reason}");
    }
    if obstacles.unchanged.contains(&target) {
        return format!("{who}: saved to {was}, but it matches the files in another way");
    }
    format!("{who}: saved to {was}, but {}", obstacle(saved, observed))
}

/// Why a change is neither planned afresh nor blocked.
fn obstacle(saved: &ChangeDocument, observed: &Observed) -> String {
    let unseen = match saved.edit {
        EditDocument::AddressPairs { .. } => ports::unseen(observed),
        _ => lb::unseen(observed, saved),
    };
    if let Some(why) = unseen {
        return format!("its state is unknown: {why}");
    }
    if is_gone(observed, saved) {
        return "it is gone".to_owned();
    }
    let is_absent = lb::creates(saved) && !observed.address_pools.contains_key(&saved.name);
    match is_absent {
        false => "it shows something else by now".to_owned(),
        true => "the files do not ask for it any more".to_owned(),
    }
}
