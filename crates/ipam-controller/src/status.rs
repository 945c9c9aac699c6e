//! What is told in the status of each object: whether it is in force, what became of it, and how
//! full a pool is.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use ipam_config::custom_resources::{
    AssignmentStatus, Condition, ConditionStatus, FamilyBlocks, ObjectState, PolicyStatus,
    PoolStatus, StoredObject,
};
use ipam_config::documents::SourceFile;
use ipam_core::model::{Finding, Severity, grouped_digits};
use ipam_core::net::Family;
use ipam_desired::CustomKind;
use ipam_planner::plan::{BlockCounts, Overview, PoolOverview, Progress};

/// Longest message of a condition, in bytes (`metav1.Condition`).
const LONGEST_MESSAGE: usize = 32_768;

/// What statuses are made from.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'t> {
    /// The newest documents that were read.
    pub read: &'t Texts,
    /// What is wrong with them.
    pub faults: &'t Faults,
    /// The documents that are in force.
    pub in_force: &'t Texts,
    /// The last plan, if there was one.
    pub overview: Option<&'t Overview>,
    /// Changes that wait for a person.
    pub waiting: usize,
    /// Now.
    pub at: Timestamp,
}

/// Errors, by the path of what has them; what has no place is under none.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    by_path: BTreeMap<Arc<str>, Vec<String>>,
    /// The first of all: its path, and what is wrong.
    first: Option<(Option<Arc<str>>, String)>,
}

impl Faults {
    /// Those among findings.
    pub fn of(findings: &[Finding]) -> Faults {
        let mut faults = Faults::default();
        for finding in findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
        {
            let path = finding.origin.as_ref().map(|origin| origin.file.clone());
            faults
                .first
                .get_or_insert_with(|| (path.clone(), finding.message.clone()));
            if let Some(path) = path {
                let sentence = format!("{}: {}", finding.message, finding.help);
                faults.by_path.entry(path).or_default().push(sentence);
            }
        }
        faults
    }
}

/// Documents by their paths.
pub type Texts = BTreeMap<Arc<str>, Arc<str>>;

fn has(texts: &Texts, document: &SourceFile) -> bool {
    texts.get(&document.path) == Some(&document.text)
}

/// A condition before it is known since when.
struct NewCondition {
    about: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

fn new_condition(
    about: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    message: impl Into<String>,
) -> NewCondition {
    NewCondition {
        about,
        status,
        reason,
        message: message.into(),
    }
}

impl StatusInput<'_> {
    /// The status of an object, if it is another one than it has. Of an object that was not read
    /// yet nothing new is told.
    pub fn new_status(&self, object: &StoredObject) -> Option<Value> {
        if object
            .document
            .as_ref()
            .is_some_and(|document| !has(self.read, document))
        {
            return None;
        }
        let status = self.status(object);
        (status != object.status).then_some(status)
    }

    fn status(&self, object: &StoredObject) -> Value {
        let observed_generation = object.generation;
        let mut new_conditions = vec![self.ready(object)];
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        match object.kind {
            CustomKind::IpPool => {
                let pool = self.pool(object);
                new_conditions.extend(pool.map(exhausted));
                new_conditions.extend(pool.map(misplaced));
                let blocks = pool
                    .into_iter()
                    .flat_map(|pool| &pool.blocks)
                    .map(|(family, counts)| family_blocks(*family, counts))
                    .collect();
                let nodes = pool.map_or(0, |pool| count(pool.nodes));
                let conditions = self.conditions(object, new_conditions);
                json!(PoolStatus {
                    observed_generation,
                    nodes,
                    blocks,
                    conditions
                })
            }
            CustomKind::NodeAssignment | CustomKind::ServiceAssignment => {
                new_conditions.extend(self.progress(object).map(assigned));
                json!(AssignmentStatus {
                    observed_generation,
                    conditions: self.conditions(object, new_conditions)
                })
            }
            CustomKind::Policy => {
                let blocked = self
                    .overview
                    .map_or(0, |overview| count(overview.blocked.len()));
                new_conditions.extend(self.overview.map(refused));
                let conditions = self.conditions(object, new_conditions);
                let misplaced = self
                    .overview
                    .map_or(0, |overview| count(overview.misplaced.values().sum()));
                let waiting = count(self.waiting);
                json!(PolicyStatus {
                    observed_generation,
                    waiting,
                    blocked,
                    misplaced,
                    conditions
                })
            }
        }
    }

    fn ready(&self, object: &StoredObject) -> NewCondition {
        let path = object.path();
        let Faults { by_path, first } = self.faults;
        if let Some(own) = by_path.get(&path) {
            return new_condition("Ready", ConditionStatus::False, "Invalid", own.join("; "));
        }
        let is_in_force = object
            .document
            .as_ref()
            .is_none_or(|document| has(self.in_force, document));
        match (is_in_force, first) {
            (true, _) => self.in_force(object),
            (false, Some((path, message))) => {
                let what = path
                    .as_ref()
                    .map_or_else(|| message.clone(), |path| format!("{path} has faults"));
                let is_brake = object.kind == CustomKind::Policy && object.spec["paused"] == true;
                let brake = if is_brake {
                    "the pause is in force; besides, "
                } else {
                    ""
                };
                let message =
                    format!("{brake}{what}, and nothing new is in force until that is mended");
                new_condition("Ready", ConditionStatus::False, "OthersInvalid", message)
            }
            (false, None) => new_condition(
                "Ready",
                ConditionStatus::Unknown,
                "Pending",
                "it was not read yet",
            ),
        }
    }

    fn in_force(&self, object: &StoredObject) -> NewCondition {
        match object.state {
            ObjectState::Present => {
                new_condition("Ready", ConditionStatus::True, "InForce", "it is in force")
            }
            ObjectState::Going => {
                let nodes = grouped_digits(self.pool(object).map_or(0, |pool| pool.nodes));
                let until = "goes when no block of it is held or pinned any more";
                let message = format!(
                    "it was deleted, gives nothing new, and {until}; nodes that hold one: {nodes}"
                );
                new_condition("Ready", ConditionStatus::False, "InUse", message)
            }
        }
    }

    fn pool(&self, object: &StoredObject) -> Option<&PoolOverview> {
        self.overview?.pools.get(&object.name.parse().ok()?)
    }

    /// What became of a pin.
    fn progress(&self, object: &StoredObject) -> Option<&Progress> {
        let overview = self.overview?;
        match object.kind {
            CustomKind::NodeAssignment => overview.pins.get(&object.name.parse().ok()?),
            CustomKind::ServiceAssignment => {
                let service = object.spec["service"].as_str()?.parse().ok()?;
                overview.service_pins.get(&service)
            }
            CustomKind::IpPool | CustomKind::Policy => None,
        }
    }

    /// Since when is kept as long as nothing changes.
    fn conditions(
        &self,
        object: &StoredObject,
        new_conditions: Vec<NewCondition>,
    ) -> Vec<Condition> {
        let before: Vec<Condition> =
            serde_json::from_value(object.status["conditions"].clone()).unwrap_or_default();
        let condition = |NewCondition {
                             about,
                             status,
                             reason,
                             mut message,
                         }: NewCondition| {
            let same = before
                .iter()
                .find(|one| one.about == about && one.status == status);
            message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
            Condition {
                about: about.to_owned(),
                status,
                observed_generation: object.generation,
                last_transition_time: same.map_or_else(
                    || format!("{:.0}", self.at),
                    |one| one.last_transition_time.clone(),
                ),
                reason: reason.to_owned(),
                message,
            }
        };
        new_conditions.into_iter().map(condition).collect()
    }
}

fn exhausted(pool: &PoolOverview) -> NewCondition {
    match &pool.exhausted {
        Some(why) => new_condition(
            "Exhausted",
            ConditionStatus::True,
            "NodesWithoutBlock",
            why.clone(),
        ),
        None => new_condition(
            "Exhausted",
            ConditionStatus::False,
            "Enough",
            "every node that asked has its block",
        ),
    }
}

fn misplaced(pool: &PoolOverview) -> NewCondition {
    let reasons: Vec<String> = pool
        .misplaced
        .iter()
        .map(|(reason, blocks)| format!("{blocks} blocks: {reason}"))
        .collect();
    match reasons.as_slice() {
        [] => new_condition(
            "Misplaced",
            ConditionStatus::False,
            "AsSpecified",
            "every block of it is where the files say",
        ),
        reasons => new_condition(
            "Misplaced",
            ConditionStatus::True,
            "BlocksElsewhere",
            reasons.join("; "),
        ),
    }
}

fn refused(overview: &Overview) -> NewCondition {
    match overview.refusals.as_slice() {
        [] => new_condition(
            "Refused",
            ConditionStatus::False,
            "WithinLimits",
            "no limit and no protection is in the way",
        ),
        refusals => new_condition(
            "Refused",
            ConditionStatus::True,
            "LimitOrProtection",
            refusals.join("; "),
        ),
    }
}

fn assigned(progress: &Progress) -> NewCondition {
    let (status, reason, message) = match progress {
        Progress::Done => (
            ConditionStatus::True,
            "Done",
            "the cluster shows it".to_owned(),
        ),
        Progress::Pending => (
            ConditionStatus::False,
            "Pending",
            "it is about to be written, or waits for a person".to_owned(),
        ),
        Progress::Blocked(why) => (ConditionStatus::False, "Blocked", why.clone()),
        Progress::Absent => (
            ConditionStatus::False,
            "Absent",
            "what it is for is not there".to_owned(),
        ),
    };
    new_condition("Assigned", status, reason, message)
}

fn family_blocks(family: Family, counts: &BlockCounts) -> FamilyBlocks {
    let BlockCounts {
        total,
        used,
        reserved,
        free,
    } = *counts;
    let [total, used, reserved, free] =
        [total, used, reserved, free].map(|one| i64::try_from(one).unwrap_or(i64::MAX));
    FamilyBlocks {
        family: family.to_string(),
        total,
        used,
        reserved,
        free,
    }
}
