//! The Pods of the cluster and their budgets, as far as a schedule counts them. It must never know
//! where they were read.

use std::collections::BTreeMap;

use ipam_cilium::budgets::DisruptionBudget;
use ipam_cilium::pods::Pod;
use ipam_core::model::NodeName;

/// The Pods of the cluster by node, and their budgets.
#[derive(Clone, Debug, Default)]
pub struct Workloads {
    /// `None`: the Pods are unknown, such as those of a cluster file.
    pods: Option<BTreeMap<String, Vec<Pod>>>,
    budgets: Budgets,
}

/// The PodDisruptionBudgets of the cluster.
#[derive(Clone, Debug)]
pub enum Budgets {
    Known(Vec<DisruptionBudget>),
    /// The server does not show them, and why.
    Hidden(String),
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets::Known(Vec::new())
    }
}

impl Workloads {
    /// Sorts Pods by node.
    pub fn new(pods: impl IntoIterator<Item = Pod>, budgets: Budgets) -> Workloads {
        let mut by_node: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in pods {
            if let Some(node) = &pod.node {
                by_node.entry(node.clone()).or_default().push(pod);
            }
        }
        Workloads {
            pods: Some(by_node),
            budgets,
        }
    }

    pub(super) fn are_known(&self) -> bool {
        self.pods.is_some()
    }

    pub(super) fn of(&self, node: &NodeName) -> &[Pod] {
        let of_node = self.pods.as_ref().and_then(|pods| pods.get(node.as_str()));
        of_node.map_or(&[], Vec::as_slice)
    }

    /// The budgets that allow none of these Pods to be evicted now.
    pub(super) fn exhausted_budgets(&self, leaving: &[&Pod]) -> Vec<String> {
        let Budgets::Known(budgets) = &self.budgets else {
            return Vec::new();
        };
        let spent = budgets.iter().filter(|budget| budget.allowed == 0);
        let spent = spent.filter(|budget| leaving.iter().any(|pod| budget.covers(pod)));
        spent.map(DisruptionBudget::full_name).collect()
    }

    /// Why the budgets are unknown.
    pub(super) fn hidden_budgets(&self) -> Option<&str> {
        match &self.budgets {
            Budgets::Known(_) => None,
            Budgets::Hidden(why) => Some(why),
        }
    }
}
