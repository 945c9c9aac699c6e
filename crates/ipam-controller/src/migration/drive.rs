//! Drives one node through its steps until it is done, fails or needs manual action, and shows what
//! the node waits for.

use std::collections::BTreeMap;
use std::mem::Discriminant;
use std::time::Duration;

use super::act::{Sent, send};
use super::assign::Assigning;
use super::store::{Stored, put_node};
use super::{Host, MigrationError, MigrationEvent, NodeStates};
use ipam_cilium::budgets::DisruptionBudget;
use ipam_cluster::{ClusterError, PodsOf, Target, Workloads};
use ipam_core::model::NodeName;
use ipam_migrate::migration::{
    Action, AssignOutcome, CheckState, Decision, Method, MigrationRecord, NodeRecord, NodeSeen,
    Request, Rules, Situation,
};

/// Pause before a node is looked at again while it waits.
const PAUSE: Duration = Duration::from_secs(1);

/// How the drive of a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    Done,
    /// The node cannot go on; the record says why.
    Failed,
    /// A person must do something first.
    Asked(Request),
    /// The program was asked to stop.
    Stopped,
}

/// The parts of a migration that are common to the moves of all nodes.
pub(super) struct Driver<'d, C, H> {
    pub(super) cluster: &'d C,
    pub(super) host: &'d H,
    pub(super) rules: &'d Rules,
    pub(super) assigning: Assigning<'d>,
}

/// What one drive of a node remembers of its step. A program that takes over begins without it.
struct Attempt {
    check: CheckState,
    refusals: Vec<String>,
    last: Option<Discriminant<Action>>,
}

impl Attempt {
    fn new(host: &impl Host) -> Attempt {
        Attempt {
            check: match host.has_check() {
                true => CheckState::Due,
                false => CheckState::None,
            },
            refusals: Vec::new(),
            last: None,
        }
    }

    fn begin_step(&mut self) {
        self.refusals.clear();
        self.last = None;
    }

    /// Whether the step is the one that was sent last.
    fn repeats(&mut self, action: &Action) -> bool {
        let this = Some(std::mem::discriminant(action));
        std::mem::replace(&mut self.last, this) == this
    }
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
    /// Drives a node until it cannot continue. `stored` is the record of the node.
    pub(super) async fn drive(
        &self,
        stored: &mut Stored<NodeRecord>,
    ) -> Result<Driven, MigrationError> {
        let mut attempt = Attempt::new(self.host);
        loop {
            // A machine without its Node, or an agent without its CiliumNode, is worse than a
            // delay.
            if self.host.is_stopping() && !stored.record.lacks_an_object() {
                return Ok(Driven::Stopped);
            }
            let Some(decision) = self.decided(&stored.record, &attempt).await? else {
                continue;
            };
            if let Some(driven) = self.carry_out(decision, stored, &mut attempt).await? {
                return Ok(driven);
            }
        }
    }

    /// The next step. `None`: blocks were written, so the node must be read again before the next
    /// decision.
    async fn decided(
        &self,
        record: &NodeRecord,
        attempt: &Attempt,
    ) -> Result<Option<Decision>, MigrationError> {
        let seen = look(self.cluster, &record.node).await?;
        let situation = Situation {
            record,
            seen: &seen,
            rules: self.rules,
            check: &attempt.check,
            refusals: &attempt.refusals,
            now: self.cluster.now(),
        };
        let decision = match situation.decide() {
            Decision::Act(Action::Assign) => {
                let outcome = self.assigning.assign(self.cluster, record, &seen).await?;
                if outcome == AssignOutcome::Shown && record.method == Method::CiliumNode {
                    return Ok(None);
                }
                situation.assigned(outcome)
            }
            decision => decision,
        };
        Ok(Some(decision))
    }

    /// Does what was decided. Returns how the drive ended, if it did.
    async fn carry_out(
        &self,
        decision: Decision,
        stored: &mut Stored<NodeRecord>,
        attempt: &mut Attempt,
    ) -> Result<Option<Driven>, MigrationError> {
        match decision {
            Decision::Record(next) => {
                attempt.begin_step();
                self.record(stored, *next).await?;
            }
            Decision::Act(Action::Check) => {
                attempt.check = match self.host.check(&stored.record.node).await {
                    Ok(()) => CheckState::Passed,
                    Err(why) => CheckState::Failed(why),
                };
                if attempt.check != CheckState::Passed {
                    self.host.sleep(PAUSE).await;
                }
            }
            Decision::Act(action) => self.act(&action, stored, attempt).await?,
            Decision::Wait(waiting) => {
                self.host.report(&MigrationEvent::Waiting {
                    node: &stored.record.node,
                    phase: stored.record.phase,
                    why: &waiting.to_string(),
                });
                self.host.sleep(PAUSE).await;
            }
            Decision::Ask(request) => return Ok(Some(Driven::Asked(request))),
            Decision::Finished => return Ok(Some(self.ended(&stored.record))),
        }
        Ok(None)
    }

    /// Sends a step of a node, and pauses if it is repeated or refused.
    async fn act(
        &self,
        action: &Action,
        stored: &mut Stored<NodeRecord>,
        attempt: &mut Attempt,
    ) -> Result<(), MigrationError> {
        if attempt.repeats(action) {
            // A step that has to be sent again waits for other programs.
            self.host.sleep(PAUSE).await;
        }
        match send(self.cluster, self.host, &stored.record, action).await? {
            Sent::Yes => {}
            Sent::EvictionsRefused(why) => {
                attempt.refusals = why;
                self.host.sleep(PAUSE).await;
            }
            Sent::Refused(why) => {
                let failed = NodeRecord {
                    failure: Some(why),
                    ..stored.record.clone()
                };
                self.record(stored, failed).await?;
            }
        }
        Ok(())
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

/// Nodes that are looked at. More are never under way unless a person wants it so.
const MOST: usize = 50;

/// What each node under way waits for.
///
/// # Errors
/// Fails if the cluster does not answer, or hides Nodes or Pods.
pub async fn waiting<C: Workloads>(
    cluster: &C,
    record: &MigrationRecord,
    nodes: &NodeStates,
) -> Result<BTreeMap<NodeName, String>, MigrationError> {
    let rules = record.rules;
    let is_under_way = |(_, stored): &(&NodeName, &Stored<NodeRecord>)| {
        let NodeRecord { failure, .. } = &stored.record;
        failure.is_none() && stored.record.has_begun() && !stored.record.is_done()
    };
    let mut waiting = BTreeMap::new();
    for (name, stored) in nodes.iter().filter(is_under_way).take(MOST) {
        let seen = look(cluster, name).await?;
        let situation = Situation {
            record: &stored.record,
            seen: &seen,
            rules: &rules,
            check: &match record.check {
                Some(_) => CheckState::Due,
                None => CheckState::None,
            },
            refusals: &[],
            now: cluster.now(),
        };
        if let Some(why) = reason(cluster, situation.decide(), &seen).await? {
            waiting.insert(name.clone(), why);
        }
    }
    Ok(waiting)
}

/// What a node waits for. `None`: only for the program that carries out the step.
async fn reason<C: Workloads>(
    cluster: &C,
    decision: Decision,
    seen: &NodeSeen,
) -> Result<Option<String>, MigrationError> {
    Ok(match decision {
        Decision::Wait(waiting) => Some(waiting.to_string()),
        Decision::Ask(Request::RestartKubelet) => Some("a restart of its kubelet".to_owned()),
        Decision::Act(Action::Evict(pods)) => {
            let leaving = seen.pods.iter();
            let leaving = leaving.filter(|pod| pods.iter().any(|due| due.uid == pod.uid));
            let budgets = match cluster.budgets().await {
                Ok(budgets) => budgets,
                Err(ClusterError::Indispensable { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            let budgets = budgets.iter().map(DisruptionBudget::read);
            let budgets = budgets.collect::<Result<Vec<_>, _>>()?;
            let leaving: Vec<_> = leaving.collect();
            let spent = budgets.iter().filter(|budget| budget.allowed == 0);
            let spent = spent.filter(|budget| leaving.iter().any(|pod| budget.covers(pod)));
            let spent: Vec<String> = spent.map(DisruptionBudget::full_name).collect();
            let evictions = match leaving.as_slice() {
                [pod] => format!("the eviction of Pod {}", pod.full_name()),
                pods => format!("the eviction of {} Pods", pods.len()),
            };
            Some(match spent.is_empty() {
                true => evictions,
                false => {
                    let spent = spent.join(", ");
                    format!("{evictions}; PodDisruptionBudgets that allow none now: {spent}")
                }
            })
        }
        Decision::Act(Action::Check) => Some("your check".to_owned()),
        Decision::Act(_) | Decision::Record(_) | Decision::Finished => None,
    })
}
