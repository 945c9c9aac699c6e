//! The next step of one node, from its record and from what the cluster shows.
//!
//! Every step may be repeated: a program that was killed may have done it already. So a step is
//! over when the cluster shows its result, never because it was sent. It must never write.

mod change;
mod verify;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use change::AssignOutcome;

use super::drain::DrainRules;
use super::record::{CordonedBefore, NodeRecord, Phase};
use super::seen::{NodeSeen, Scheduling, SeenNode};
use super::stored_text::seconds;
use ipam_cilium::observed::ObjectVersion;
use ipam_cilium::pods::{Life, Pod};
use ipam_core::model::first_of;
use ipam_core::text::joined;

/// A Pod with its UID, so that a new Pod of the same name is not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodReference {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl From<&Pod> for PodReference {
    fn from(pod: &Pod) -> PodReference {
        PodReference {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}

/// What the program does next for a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Updates the node's record: the node enters another phase, or its migration cannot continue.
    Record(Box<NodeRecord>),
    /// The cluster is changed.
    Act(Action),
    /// The cluster must change first.
    Wait(Waiting),
    /// A person must do something first.
    Ask(Request),
    /// No step is left for the node.
    Finished,
}

/// A change of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Cordons the Node, which must have this version, and marks it with the migration. A late
    /// request of a program that was paused must not cordon a node that is moved already.
    Cordon(ObjectVersion),
    /// Asks the API server to evict these Pods.
    Evict(Vec<PodReference>),
    /// Deletes these Pods; their DaemonSets create others.
    DeletePods(Vec<PodReference>),
    DeleteNode(ObjectVersion),
    CreateNode(Value),
    /// Adds what a Node lacks that another program created.
    CompleteNode {
        version: ObjectVersion,
        patch: Value,
    },
    DeleteCiliumNode(ObjectVersion),
    /// Writes the blocks, with a claim, where the running Cilium reads them.
    Assign,
    /// Runs the check that the user gave.
    Check,
    /// Removes the mark, and the cordon unless it was there before.
    Uncordon {
        version: ObjectVersion,
        before: CordonedBefore,
    },
}

/// What a node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Evicted Pods still run.
    Pods(Vec<String>),
    /// Finalizers keep the Node.
    Finalizers(Vec<String>),
    /// The agent's new Pod is not ready.
    Agent,
    /// The cluster does not show the result yet: what is missing.
    Result(String),
}

/// What a person must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Restart the kubelet of the node.
    RestartKubelet,
}

ipam_core::text_enum! {
    /// Whether a re-created Node needs a restart of its kubelet.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum KubeletRestart {
        /// A user restarts the kubelet, and confirms the restart.
        #[default]
        ByPerson = "by-person",
        /// The kubelet restarts by itself, or the user wants no restart.
        NotAwaited = "not-awaited",
    }
}

ipam_core::serde_as_text! { KubeletRestart: "choice of who restarts the kubelet" }

/// Whether the person has a check of their own, and how it went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CheckState {
    /// The person has no check.
    #[default]
    None,
    Due,
    Passed,
    /// The last attempt of the check failed, with this text.
    Failed(String),
}

/// How a node is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub drain: DrainRules,
    pub kubelet: KubeletRestart,
    /// How long evictions may take.
    #[serde(rename = "drainTimeoutSeconds", with = "seconds")]
    pub drain_timeout: SignedDuration,
    /// How long any other phase may take.
    #[serde(rename = "timeoutSeconds", with = "seconds")]
    pub timeout: SignedDuration,
}

/// Everything that decides the next step.
#[derive(Clone, Copy)]
pub struct Situation<'s> {
    pub record: &'s NodeRecord,
    pub seen: &'s NodeSeen,
    pub rules: &'s Rules,
    pub check: &'s CheckState,
    /// Why Pods could not be evicted, by the server's last answer.
    pub refusals: &'s [String],
    pub now: Timestamp,
}

impl Situation<'_> {
    /// The next step.
    pub fn decide(&self) -> Decision {
        if self.record.failure.is_some() {
            return Decision::Finished;
        }
        let decision = match self.record.phase {
            Phase::Pending => self.begin(),
            Phase::Cordon => self.cordon(),
            Phase::Drain => self.drain(),
            Phase::Save => self.save(),
            Phase::Remove => self.remove(),
            Phase::Create => self.create(),
            Phase::Assign => self.assign(),
            Phase::Kubelet => self.kubelet(),
            Phase::Restart => self.restart(),
            Phase::Verify => self.verify(),
            Phase::Uncordon => self.uncordon(),
            Phase::Done => Decision::Finished,
        };
        match decision {
            // Without it the machine would have no Node, and no way back.
            Decision::Act(Action::CreateNode(_)) => decision,
            Decision::Wait(waiting) if self.is_over_time() => {
                self.fail(self.took_too_long(&waiting))
            }
            Decision::Act(_) if self.is_over_time() => {
                self.fail(self.took_too_long(&Waiting::Result(String::new())))
            }
            decision => decision,
        }
    }

    fn begin(&self) -> Decision {
        match self.own_node() {
            Ok(_) => self.next(),
            Err(why) => self.leave(why),
        }
    }

    fn cordon(&self) -> Decision {
        let node = match self.own_node() {
            Ok(node) => node,
            Err(why) => return self.leave(why),
        };
        let before = self.cordoned_before(node);
        match (&node.node.migration, node.scheduling()) {
            (Some(other), _) if *other != self.record.migration => self.fail(format!(
                "migration {} moves the node already",
                other.escape_debug()
            )),
            (Some(_), Scheduling::Cordoned) => self.next(),
            // In a mode change, the node's Pods keep their addresses.
            (Some(_), Scheduling::Schedulable) if !self.record.method.renumbers() => self.next(),
            // The cordon is guarded by this version of the Node, so the recorded value is correct.
            (None, _) if self.record.cordoned_before != before => {
                Decision::Record(Box::new(NodeRecord {
                    cordoned_before: before,
                    ..self.record.clone()
                }))
            }
            _ => Decision::Act(Action::Cordon(node.version())),
        }
    }

    /// A node that keeps its block is never cordoned, so its cordon is not of this migration.
    fn cordoned_before(&self, node: &SeenNode) -> CordonedBefore {
        match (self.record.method.renumbers(), node.scheduling()) {
            (true, Scheduling::Schedulable) => CordonedBefore::No,
            (true, Scheduling::Cordoned) | (false, _) => CordonedBefore::Yes,
        }
    }

    fn drain(&self) -> Decision {
        if let Err(why) = self.own_node() {
            return self.leave(why);
        }
        let leaving = match self.rules.drain.leaving(&self.seen.pods) {
            Ok(leaving) => leaving,
            Err(obstacles) => {
                return self.fail(joined(&obstacles, "; "));
            }
        };
        if leaving.is_empty() {
            return self.next();
        }
        let active = leaving.iter().filter(|pod| pod.life == Life::Active);
        let finished = leaving.iter().filter(|pod| pod.life == Life::Finished);
        let due: Vec<PodReference> = active.map(|pod| PodReference::from(*pod)).collect();
        let finished: Vec<PodReference> = finished.map(|pod| PodReference::from(*pod)).collect();
        if !due.is_empty() {
            return Decision::Act(Action::Evict(due));
        }
        if !finished.is_empty() {
            return Decision::Act(Action::DeletePods(finished));
        }
        Decision::Wait(Waiting::Pods(
            leaving.iter().map(|pod| pod.full_name()).collect(),
        ))
    }

    fn kubelet(&self) -> Decision {
        match self.rules.kubelet {
            KubeletRestart::ByPerson => Decision::Ask(Request::RestartKubelet),
            KubeletRestart::NotAwaited => self.next(),
        }
    }

    fn uncordon(&self) -> Decision {
        let Some(node) = &self.seen.node else {
            return self.leave("the Node is gone".to_owned());
        };
        match &node.node.migration {
            Some(_) => Decision::Act(Action::Uncordon {
                version: node.version(),
                before: self.record.cordoned_before,
            }),
            None => self.next(),
        }
    }

    /// The Node, if it has the UID that the record names.
    fn own_node(&self) -> Result<&SeenNode, String> {
        let gone = || "the Node is gone".to_owned();
        let node = self.seen.node.as_ref().ok_or_else(gone)?;
        match node.node.uid == self.record.uid {
            true => Ok(node),
            false => Err("another Node has replaced it since the schedule".to_owned()),
        }
    }

    /// The record at the next phase.
    fn next(&self) -> Decision {
        let phase = self.record.method.after(self.record.phase);
        Decision::Record(Box::new(self.at(phase)))
    }

    fn at(&self, phase: Phase) -> NodeRecord {
        let mut record = self.record.at(phase, self.now);
        if phase == Phase::Restart {
            record.agent = self.seen.agent_uid();
        }
        record
    }

    /// Ends the node's migration: another program or a user has deleted the Node.
    fn leave(&self, why: String) -> Decision {
        Decision::Record(Box::new(NodeRecord {
            note: Some(why),
            ..self.at(Phase::Done)
        }))
    }

    fn fail(&self, why: String) -> Decision {
        Decision::Record(Box::new(self.record.failed(why)))
    }

    fn is_over_time(&self) -> bool {
        let limit = match self.record.phase {
            Phase::Drain => self.rules.drain_timeout,
            _ => self.rules.timeout,
        };
        self.now.duration_since(self.record.since) > limit
    }

    fn took_too_long(&self, waiting: &Waiting) -> String {
        let spent = self.now.duration_since(self.record.since);
        let spent = SignedDuration::from_secs(spent.as_secs());
        let what = match (self.refusals, &self.check) {
            ([], CheckState::Failed(text)) => format!("the check fails: {text}"),
            ([], _) => waiting.to_string(),
            (refusals, _) => refusals.join("; "),
        };
        format!("{what} (for {spent:#})")
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Waiting::Pods(pods) => write!(f, "Pods still run: {}", few(pods)),
            Waiting::Finalizers(all) => write!(f, "finalizers keep the Node: {}", few(all)),
            Waiting::Agent => f.write_str("the agent's Pod is not ready"),
            Waiting::Result(missing) if missing.is_empty() => f.write_str("the step has not ended"),
            Waiting::Result(missing) => f.write_str(missing),
        }
    }
}

/// The first three of them, and how many more there are.
pub(super) fn few(all: &[String]) -> String {
    first_of(3, all)
}
