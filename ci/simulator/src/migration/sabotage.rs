//! Migrators that break a rule on purpose, to show that the simulator notices.

use serde_json::{Value, json};

use ipam_cilium::observed::{CLAIMS_KEY, ObjectVersion};
use ipam_cluster::{Operation, Target, Write};

/// A rule of migrations to break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokenRule {
    /// None.
    #[default]
    None,
    /// Blocks are not reserved.
    NoReservation,
    /// A step is recorded after it is done.
    LateRecord,
    /// A Node is deleted whatever its UID and version.
    UnguardedDeletion,
    /// The agent is not restarted.
    NoRestart,
    /// Pods are deleted past their budget.
    NoBudget,
    /// Pods are not drained.
    NoDrain,
    /// The created Node lacks what people put on the old one.
    BareNode,
    /// The cordon stays.
    NoUncordon,
}

impl BrokenRule {
    /// All of them.
    pub const ALL: [BrokenRule; 8] = [
        BrokenRule::NoReservation,
        BrokenRule::LateRecord,
        BrokenRule::UnguardedDeletion,
        BrokenRule::NoRestart,
        BrokenRule::NoBudget,
        BrokenRule::NoDrain,
        BrokenRule::BareNode,
        BrokenRule::NoUncordon,
    ];
}

/// What one client breaks.
pub(super) struct Broken {
    rule: BrokenRule,
    /// A record that is written after the next step.
    held: Option<Write>,
    /// Agents' Pods that pass for new ones.
    faked: Vec<String>,
    versions: u64,
}

impl Broken {
    pub(super) fn new(rule: BrokenRule) -> Broken {
        Broken {
            rule,
            held: None,
            faked: Vec::new(),
            versions: 0,
        }
    }

    /// The version that a write gets which is not sent.
    pub(super) fn version(&mut self) -> ObjectVersion {
        self.versions += 1;
        ObjectVersion {
            uid: "faked".to_owned(),
            resource_version: format!("faked-{}", self.versions),
        }
    }

    /// The writes to send in place of this one.
    pub(super) fn before(&mut self, write: &Write) -> Vec<Write> {
        let mut write = write.clone();
        match (self.rule, &write.target, &mut write.operation) {
            (
                BrokenRule::NoReservation,
                Target::Claims,
                Operation::Patch(body) | Operation::Create(body),
            ) => without_reservations(body),
            (BrokenRule::LateRecord, Target::MigrationRecord(_), Operation::Patch(body))
                if is_of_node(body) =>
            {
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                    metadata.remove("uid");
                }
                return self.held.replace(write).into_iter().collect();
            }
            (BrokenRule::UnguardedDeletion, Target::Node(_), Operation::Delete(version)) => {
                *version = ObjectVersion::default();
            }
            (BrokenRule::NoRestart, Target::Pod(_, name), Operation::Delete(version))
                if name.starts_with("agent") =>
            {
                self.faked.push(version.uid.clone());
                return Vec::new();
            }
            (BrokenRule::NoBudget, Target::Eviction(namespace, name), Operation::Create(body)) => {
                let uid = &body["deleteOptions"]["preconditions"]["uid"];
                let version = ObjectVersion {
                    uid: uid.as_str().unwrap_or_default().to_owned(),
                    resource_version: String::new(),
                };
                write = Write {
                    target: Target::Pod(namespace.clone(), name.clone()),
                    operation: Operation::Delete(version),
                };
            }
            (BrokenRule::BareNode, Target::Node(_), Operation::Create(body)) => {
                body["metadata"]["labels"] =
                    json!({"kubernetes.io/hostname": body["metadata"]["name"]});
            }
            (BrokenRule::NoUncordon, Target::Node(_), Operation::Patch(body))
                if body["spec"]
                    .get("unschedulable")
                    .is_some_and(Value::is_null) =>
            {
                body["spec"] = json!({});
            }
            _ => {}
        }
        let held = self.held.take();
        std::iter::once(write).chain(held).collect()
    }

    /// The Pods that the client sees.
    pub(super) fn pods(&self, mut pods: Vec<Value>) -> Vec<Value> {
        match self.rule {
            BrokenRule::NoDrain => pods.retain(|pod| pod["metadata"]["labels"]["app"] != "web"),
            BrokenRule::NoRestart => {
                for pod in &mut pods {
                    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                    if self.faked.iter().any(|faked| faked == uid) {
                        pod["metadata"]["uid"] = json!(format!("{uid}-faked"));
                    }
                }
            }
            _ => {}
        }
        pods
    }
}

fn is_of_node(body: &Value) -> bool {
    let text = body["data"]["record.json"].as_str().unwrap_or_default();
    let record: Value = serde_json::from_str(text).unwrap_or_default();
    !record["phase"].is_null()
}

/// The same claims without quarantines.
fn without_reservations(body: &mut Value) {
    let text = body["data"][CLAIMS_KEY].as_str().unwrap_or_default();
    let mut claims: Value = serde_json::from_str(text).unwrap_or_default();
    if let Some(record) = claims.as_object_mut() {
        record.remove("quarantined");
        body["data"][CLAIMS_KEY] = json!(claims.to_string());
    }
}
