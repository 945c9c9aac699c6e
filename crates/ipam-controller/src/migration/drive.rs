//! Drives one node through its steps until it is done, fails, or needs a person.

use std::time::Duration;

use super::act::{Sent, send};
use super::assign::Assigning;
use super::store::{Stored, put_node};
use super::{Host, MigrationError, MigrationEvent};
use ipam_cluster::{PodsOf, Target, Workloads};
use ipam_core::model::NodeName;
use ipam_planner::migration::{
    Action, AssignOutcome, CheckState, Decision, NodeRecord, NodeSeen, Request, Rules, Situation,
};

/// Pause before a node is looked at again while it waits.
const PAUSE: Duration = Duration::from_secs(1);

/// How the drive of a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    Done,
    /// The record says why.
    Failed,
    /// A person must do something first.
    Asked(Request),
    /// The program was asked to stop.
    Stopped,
}

/// What the drives of nodes share.
pub(super) struct Driver<'d, C, H> {
    pub(super) cluster: &'d C,
    pub(super) host: &'d H,
    pub(super) rules: &'d Rules,
    pub(super) assigning: Assigning<'d>,
}

/// What the cluster shows of a node.
pub(super) async fn look<C: Workloads>(
    cluster: &C,
    node: &NodeName,
) -> Result<NodeSeen, MigrationError> {
    let object = cluster.object(&Target::Node(node.clone())).await?;
    let cilium_node = cluster.object(&Target::CiliumNode(node.clone())).await?;
    let pods = cluster.pods(&PodsOf::Node(node.clone())).await?;
    Ok(NodeSeen::read(object, cilium_node.as_ref(), &pods)?)
}

impl<C: Workloads, H: Host> Driver<'_, C, H> {
    /// Drives a node as far as it goes. `stored` is its record.
    pub(super) async fn drive(
        &self,
        stored: &mut Stored<NodeRecord>,
    ) -> Result<Driven, MigrationError> {
        let mut check = match self.host.has_check() {
            true => CheckState::Due,
            false => CheckState::None,
        };
        let mut refusals: Vec<String> = Vec::new();
        let mut last = None;
        loop {
            // A machine without its Node, or an agent without its CiliumNode, is worse than a delay.
            if self.host.is_stopping() && !stored.record.lacks_an_object() {
                return Ok(Driven::Stopped);
            }
            let seen = look(self.cluster, &stored.record.node).await?;
            let record = stored.record.clone();
            let situation = Situation {
                record: &record,
                seen: &seen,
                rules: self.rules,
                check: &check,
                refusals: &refusals,
                now: self.cluster.now(),
            };
            let decision = match situation.decide() {
                Decision::Act(Action::Assign { .. }) => {
                    let outcome = self.assigning.assign(self.cluster, &record, &seen).await?;
                    // What is written must also be read: another look decides.
                    let is_written = outcome == AssignOutcome::Shown;
                    let decision = situation.assigned(outcome);
                    match (is_written, record.method) {
                        (true, ipam_planner::migration::Method::CiliumNode) => continue,
                        _ => decision,
                    }
                }
                decision => decision,
            };
            match decision {
                Decision::Record(next) => {
                    refusals.clear();
                    last = None;
                    self.record(stored, *next).await?;
                }
                Decision::Act(Action::Check) => {
                    check = match self.host.check(&record.node).await {
                        Ok(()) => CheckState::Passed,
                        Err(why) => CheckState::Failed(why),
                    };
                    if check != CheckState::Passed {
                        self.host.sleep(PAUSE).await;
                    }
                }
                Decision::Act(action) => {
                    // A step that has to be sent again waits for other programs.
                    let this = Some(std::mem::discriminant(&action));
                    if last == this {
                        self.host.sleep(PAUSE).await;
                    }
                    last = this;
                    match send(self.cluster, self.host, &record, &action).await? {
                        Sent::Yes => {}
                        Sent::EvictionsRefused(why) => {
                            refusals = why;
                            self.host.sleep(PAUSE).await;
                        }
                        Sent::Refused(why) => {
                            let failed = NodeRecord {
                                failure: Some(why),
                                ..record
                            };
                            self.record(stored, failed).await?;
                        }
                    }
                }
                Decision::Wait(waiting) => {
                    self.host.report(&MigrationEvent::Waiting {
                        node: &record.node,
                        phase: record.phase,
                        why: &waiting.to_string(),
                    });
                    self.host.sleep(PAUSE).await;
                }
                Decision::Ask(request) => return Ok(Driven::Asked(request)),
                Decision::Finished => return Ok(self.ended(&record)),
            }
        }
    }

    async fn record(
        &self,
        stored: &mut Stored<NodeRecord>,
        next: NodeRecord,
    ) -> Result<(), MigrationError> {
        *stored = put_node(self.cluster, stored, next).await?;
        if stored.record.failure.is_none() && !stored.record.is_done() {
            self.host.report(&MigrationEvent::Step {
                record: &stored.record,
            });
        }
        Ok(())
    }

    fn ended(&self, record: &NodeRecord) -> Driven {
        self.host.report(&MigrationEvent::Ended { record });
        match record.failure {
            Some(_) => Driven::Failed,
            None => Driven::Done,
        }
    }
}
