//! The status of each object: whether it applies, its effect, and how full a pool is.
//!
//! It only computes. It must never know when or how a status is written.

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
use ipam_plan::overview::{Overview, PoolOverview, Progress};
use ipam_plan::plan::BlockCounts;

/// Longest message of a condition, in bytes (`metav1.Condition`).
const LONGEST_MESSAGE: usize = 32_768;

/// Number of reasons that the condition `Misplaced` lists; further ones are counted.
const LISTED_REASONS: usize = 10;

/// The inputs of all statuses.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'t> {
    /// The newest documents that were read.
    pub read: &'t Texts,
    /// Errors of the documents that were read.
    pub faults: &'t Faults,
    /// The documents that apply.
    pub applied: &'t Texts,
    /// The last plan, if there is one.
    pub overview: Option<&'t Overview>,
    /// Number of changes that wait for approval.
    pub waiting: usize,
    /// Time at which the statuses are computed.
    pub at: Timestamp,
}

/// Errors by the path of the faulty document.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    by_path: BTreeMap<Arc<str>, Vec<String>>,
    /// The first error of all: its path, if it has one, and its message.
    first: Option<(Option<Arc<str>>, String)>,
}

impl Faults {
    /// The errors among the findings.
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

/// Texts of documents by path.
pub type Texts = BTreeMap<Arc<str>, Arc<str>>;

fn has(texts: &Texts, document: &SourceFile) -> bool {
    texts.get(&document.path) == Some(&document.text)
}

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
    /// The status of an object, if it differs from the stored one. `None` for an object that was
    /// not read yet.
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
            CustomKind::IpamPolicy => {
                let blocked = self
                    .overview
                    .map_or(0, |overview| count(overview.blocked.len()));
                new_conditions.extend(self.overview.map(refused));
                new_conditions.extend(self.overview.map(block_removals));
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
        let is_applied = object
            .document
            .as_ref()
            .is_none_or(|document| has(self.applied, document));
        match (is_applied, first) {
            (true, _) => self.applied(object),
            (false, Some((path, message))) => {
                let what = path
                    .as_ref()
                    .map_or_else(|| message.clone(), |path| format!("{path} has errors"));
                let is_brake =
                    object.kind == CustomKind::IpamPolicy && object.spec["paused"] == true;
                let brake = if is_brake { "the pause applies; " } else { "" };
                let message = format!("{brake}{what}; nothing new applies until that is fixed");
                new_condition(
                    "Ready",
                    ConditionStatus::False,
                    "BlockedByInvalidConfig",
                    message,
                )
            }
            (false, None) => new_condition(
                "Ready",
                ConditionStatus::Unknown,
                "Pending",
                "it was not read yet",
            ),
        }
    }

    fn applied(&self, object: &StoredObject) -> NewCondition {
        match object.state {
            ObjectState::Present => {
                new_condition("Ready", ConditionStatus::True, "Applied", "it applies")
            }
            ObjectState::Deleting => {
                let nodes = grouped_digits(self.pool(object).map_or(0, |pool| pool.nodes));
                let until = "is removed once no block of it is held or pinned";
                let message = format!(
                    "it was deleted, gives no new blocks, and {until}; nodes that hold one: {nodes}"
                );
                new_condition("Ready", ConditionStatus::False, "InUse", message)
            }
        }
    }

    fn pool(&self, object: &StoredObject) -> Option<&PoolOverview> {
        self.overview?.pools.get(&object.name.parse().ok()?)
    }

    /// The progress of an assignment.
    fn progress(&self, object: &StoredObject) -> Option<&Progress> {
        let overview = self.overview?;
        match object.kind {
            CustomKind::NodeAssignment => overview.pins.get(&object.name.parse().ok()?),
            CustomKind::ServiceAssignment => {
                let service = object.spec["service"].as_str()?.parse().ok()?;
                overview.service_pins.get(&service)
            }
            CustomKind::IpPool | CustomKind::IpamPolicy => None,
        }
    }

    /// Keeps the transition time of a condition whose status stays the same.
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
            "every node of the pool has its block",
        ),
    }
}

fn misplaced(pool: &PoolOverview) -> NewCondition {
    let mut reasons: Vec<(&String, usize)> = pool
        .misplaced
        .iter()
        .map(|(reason, blocks)| (reason, *blocks))
        .collect();
    if reasons.is_empty() {
        return new_condition(
            "Misplaced",
            ConditionStatus::False,
            "AsSpecified",
            "every block of it matches the files",
        );
    }
    // The most frequent first; the sort is stable, so equal numbers stay in order of the text.
    reasons.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
    let number = |reasons: &[(&String, usize)]| {
        let blocks = reasons.iter().map(|(_, blocks)| blocks).sum();
        counted(blocks, "block")
    };
    let (listed, others) = reasons.split_at(reasons.len().min(LISTED_REASONS));
    let mut sentences: Vec<String> = listed
        .iter()
        .map(|reason| format!("{}: {}", number(&[*reason]), reason.0))
        .collect();
    if !others.is_empty() {
        let reasons = counted(others.len(), "other reason");
        sentences.push(format!("{} for {reasons}", number(others)));
    }
    let message = format!("{} misplaced: {}", number(&reasons), sentences.join("; "));
    new_condition(
        "Misplaced",
        ConditionStatus::True,
        "BlocksElsewhere",
        message,
    )
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped_digits(number))
}

fn refused(overview: &Overview) -> NewCondition {
    let none = ("WithinLimits", "no limit or protection refuses a change");
    stated("Refused", &overview.refusals, "LimitOrProtection", none)
}

fn block_removals(overview: &Overview) -> NewCondition {
    let none = (
        "SlotsApart",
        "no node loses its block at the next start of Cilium's operator",
    );
    let about = "OperatorRemovesBlocks";
    stated(about, &overview.block_removals, "SlotsShared", none)
}

/// True with these sentences; without any, false with the reason and message of `none`.
fn stated(
    about: &'static str,
    sentences: &[String],
    reason: &'static str,
    none: (&'static str, &'static str),
) -> NewCondition {
    match sentences {
        [] => new_condition(about, ConditionStatus::False, none.0, none.1),
        some => new_condition(about, ConditionStatus::True, reason, some.join("; ")),
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
            "it is being written, or waits for approval".to_owned(),
        ),
        Progress::Blocked(why) => (ConditionStatus::False, "Blocked", why.clone()),
        Progress::Absent => (
            ConditionStatus::False,
            "Absent",
            "its node or Service does not exist".to_owned(),
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

#[cfg(test)]
mod tests;
