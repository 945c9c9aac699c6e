//! The parts of PodDisruptionBudgets that a drain needs. It must never decide what to evict.

use serde::Deserialize;
use serde_json::Value;

use crate::lbipam::WrittenSelector;
use crate::observed::ReadError;
use crate::pods::{Life, Pod};
use ipam_core::model::Selector;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    pub namespace: String,
    pub name: String,
    /// Pods that the budget limits; `None` selects no Pod.
    selector: Option<Selector>,
    /// Number of evictions that the budget allows now (`status.disruptionsAllowed`).
    pub allowed: u32,
}

impl DisruptionBudget {
    /// Reads a PodDisruptionBudget. Without a status, it allows no eviction, as the API server
    /// reads it (`pkg/registry/core/pod/storage/eviction.go` @ 1.36).
    ///
    /// # Errors
    /// Fails if the value is not a PodDisruptionBudget.
    pub fn read(value: &Value) -> Result<DisruptionBudget, ReadError> {
        let fault = |error: &dyn std::error::Error| {
            ReadError::of("poddisruptionbudgets.policy", &value.to_string(), error)
        };
        let view = BudgetView::deserialize(value).map_err(|error| fault(&error))?;
        let selector = view.spec.selector.map(|written| written.selector());
        Ok(DisruptionBudget {
            namespace: view.metadata.namespace,
            name: view.metadata.name,
            selector: selector.transpose().map_err(|_| fault(&std::fmt::Error))?,
            allowed: view.status.disruptions_allowed.unwrap_or_default(),
        })
    }

    /// The budget as `NAMESPACE/NAME`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the budget limits evictions of this Pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        let selects = |selector: &Selector| selector.matches(&pod.labels);
        pod.life == Life::Active
            && pod.namespace == self.namespace
            && self.selector.as_ref().is_some_and(selects)
    }
}

#[derive(Deserialize)]
struct BudgetView {
    metadata: Metadata,
    #[serde(default)]
    spec: BudgetSpec,
    #[serde(default)]
    status: BudgetStatus,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
struct BudgetSpec {
    selector: Option<WrittenSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BudgetStatus {
    disruptions_allowed: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(namespace: &str, app: &str) -> Pod {
        let metadata = json!({"namespace": namespace, "name": "p", "labels": {"app": app}});
        Pod::read(&json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_budget_covers_the_pods_that_it_selects_in_its_namespace() {
        let budget = |spec: Value| {
            let value = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec, "status": {"disruptionsAllowed": 2}});
            DisruptionBudget::read(&value).unwrap()
        };
        let web = budget(json!({"selector": {"matchLabels": {"app": "web"}}}));
        assert_eq!((web.full_name().as_str(), web.allowed), ("shop/web", 2));
        assert!(web.covers(&pod("shop", "web")));
        assert!(!web.covers(&pod("shop", "db")));
        assert!(!web.covers(&pod("test", "web")));
        assert!(budget(json!({"selector": {}})).covers(&pod("shop", "db")));
        assert!(!budget(json!({})).covers(&pod("shop", "web")));
    }

    #[test]
    fn a_budget_without_a_status_allows_nothing() {
        let value = json!({"metadata": {"namespace": "shop", "name": "web"}});
        assert_eq!(DisruptionBudget::read(&value).unwrap().allowed, 0);
    }
}
