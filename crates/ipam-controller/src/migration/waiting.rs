//! What the nodes of a migration wait for, for a person who looks. It must never change anything.

use std::collections::BTreeMap;

use super::drive::look;
use super::store::Stored;
use super::{MigrationError, NodeStates};
use ipam_cilium::budgets::DisruptionBudget;
use ipam_cluster::{ClusterError, Workloads};
use ipam_core::model::NodeName;
use ipam_planner::migration::{
    Action, CheckState, Decision, MigrationRecord, NodeRecord, NodeSeen, Request, Rules, Situation,
};

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
    let rules = Rules::from(record.rules);
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

/// `None`: for nothing but the program that carries it out.
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
