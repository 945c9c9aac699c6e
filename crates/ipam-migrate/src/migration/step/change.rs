//! The steps that change a node's block: save, remove, create, assign.

use super::{Action, Decision, Situation, Waiting};
use crate::migration::record::{Method, NodeRecord, Phase, SavedNode};
use crate::migration::stored_text::{manifest, missing};
use ipam_core::net::Block;

/// How often a CiliumNode is deleted again that another program wrote in between.
const MOST_ATTEMPTS: u32 = 10;

/// What became of [`Action::Assign`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignOutcome {
    /// The written field shows the blocks.
    Shown,
    /// Another program wrote first, or the server did not answer: the assignment is tried again.
    Again(String),
    /// The blocks cannot be written, for this reason.
    Blocked(String),
}

impl Situation<'_> {
    pub(super) fn save(&self) -> Decision {
        let node = match self.own_node() {
            Ok(node) => node,
            Err(why) => return self.leave(why),
        };
        let finalizers = node.finalizers();
        if !finalizers.is_empty() {
            return self.fail(format!(
                "the Node has finalizers, which would keep it: {}",
                finalizers.join(", ")
            ));
        }
        let saved = SavedNode {
            resource_version: node.node.resource_version.clone(),
            manifest: manifest(node, &self.record.migration),
        };
        Decision::Record(Box::new(NodeRecord {
            saved: Some(Box::new(saved)),
            ..self.at(Phase::Remove)
        }))
    }

    pub(super) fn remove(&self) -> Decision {
        match self.record.method {
            Method::NodeObject => self.remove_node(),
            _ => self.remove_cilium_node(),
        }
    }

    fn remove_node(&self) -> Decision {
        let Some(saved) = &self.record.saved else {
            return Decision::Record(Box::new(self.at(Phase::Save)));
        };
        let Some(node) = self.seen.node.as_ref() else {
            return self.next();
        };
        if node.node.uid != self.record.uid {
            return self.next();
        }
        if node.is_being_deleted() {
            let finalizers = node.finalizers().into_iter().map(str::to_owned).collect();
            return Decision::Wait(Waiting::Finalizers(finalizers));
        }
        // What has changed since must be saved too.
        if node.node.resource_version != saved.resource_version {
            return Decision::Record(Box::new(self.at(Phase::Save)));
        }
        Decision::Act(Action::DeleteNode(node.version()))
    }

    fn remove_cilium_node(&self) -> Decision {
        match &self.seen.cilium_node {
            None => self.next(),
            Some(shown) if same(&shown.pod_cidrs, self.record.goal()) => self.next(),
            Some(_) if self.record.attempts > MOST_ATTEMPTS => {
                self.fail("another program writes the CiliumNode each time".to_owned())
            }
            Some(shown) => Decision::Act(Action::DeleteCiliumNode(shown.version.clone())),
        }
    }

    pub(super) fn create(&self) -> Decision {
        let Some(saved) = &self.record.saved else {
            return self.fail("the record has no saved Node".to_owned());
        };
        let Some(node) = &self.seen.node else {
            return Decision::Act(Action::CreateNode(saved.manifest.clone()));
        };
        if node.node.uid == self.record.uid {
            return Decision::Record(Box::new(self.at(Phase::Remove)));
        }
        // A Node with the mark is complete: missing parts were removed since.
        let is_marked = node.node.migration.is_some();
        if let (false, Some(patch)) = (is_marked, missing(&saved.manifest, node)) {
            let version = node.version();
            return Decision::Act(Action::CompleteNode { version, patch });
        }
        Decision::Record(Box::new(NodeRecord {
            uid: node.node.uid.clone(),
            ..self.at(Phase::Assign)
        }))
    }

    pub(super) fn assign(&self) -> Decision {
        if let Err(why) = self.own_node() {
            return self.leave(why);
        }
        if self.record.method == Method::CiliumNode
            && let Some(shown) = &self.seen.cilium_node
        {
            return match same(&shown.pod_cidrs, self.record.goal()) {
                true => self.next(),
                // The agent or the operator was faster.
                false => Decision::Record(Box::new(NodeRecord {
                    attempts: self.record.attempts + 1,
                    since: self.record.since,
                    ..self.at(Phase::Remove)
                })),
            };
        }
        Decision::Act(Action::Assign)
    }

    /// The next step after [`Action::Assign`].
    pub fn assigned(&self, outcome: AssignOutcome) -> Decision {
        match outcome {
            AssignOutcome::Shown => self.next(),
            AssignOutcome::Again(why) if self.is_over_time() => self.fail(why),
            AssignOutcome::Again(why) => Decision::Wait(Waiting::Result(why)),
            AssignOutcome::Blocked(why) => self.fail(why),
        }
    }
}

/// Whether two lists have the same blocks, in any order.
pub(super) fn same(shown: &[Block], goal: &[Block]) -> bool {
    shown.len() == goal.len() && goal.iter().all(|block| shown.contains(block))
}
