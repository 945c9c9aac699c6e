//! Which Pods of a node are evicted, by the rules of `kubectl drain`
//! (`k8s.io/kubectl/pkg/drain/filters.go` @ 1.36). It must never evict.

use std::fmt;

use serde::{Deserialize, Serialize};

use ipam_cilium::pods::{Keeper, Life, LocalData, Pod};

/// What happens to Pods that an eviction loses for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRules {
    /// Pods without a controller.
    pub unmanaged: Handling,
    /// Pods with an `emptyDir`.
    pub empty_dir: Handling,
}

/// What happens to one sort of Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handling {
    /// The node is not drained.
    #[default]
    Refuse,
    /// They are evicted, and lost.
    Evict,
}

/// Why a node cannot be drained.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainObstacle {
    /// The Pod has no controller.
    Unmanaged(String),
    /// The Pod has an `emptyDir`.
    EmptyDir(String),
}

impl fmt::Display for DrainObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrainObstacle::Unmanaged(pod) => write!(
                f,
                "Pod {pod} has no controller and would be lost: delete it, or pass --force"
            ),
            DrainObstacle::EmptyDir(pod) => write!(
                f,
                "Pod {pod} has an emptyDir, whose data would be lost: move the data, or pass --delete-emptydir-data"
            ),
        }
    }
}

impl DrainRules {
    /// The Pods that must leave the node before its block changes. Those of DaemonSets and of the
    /// kubelet stay.
    ///
    /// # Errors
    /// Fails with every Pod that may not be evicted.
    pub fn leaving<'p>(&self, pods: &'p [Pod]) -> Result<Vec<&'p Pod>, Vec<DrainObstacle>> {
        let leaves = |pod: &&Pod| !matches!(pod.keeper, Keeper::DaemonSet | Keeper::Kubelet);
        let leaving: Vec<&Pod> = pods.iter().filter(leaves).collect();
        let obstacles: Vec<DrainObstacle> = leaving
            .iter()
            .filter_map(|pod| self.obstacle(pod))
            .collect();
        match obstacles.is_empty() {
            true => Ok(leaving),
            false => Err(obstacles),
        }
    }

    fn obstacle(&self, pod: &Pod) -> Option<DrainObstacle> {
        if pod.life != Life::Active {
            return None;
        }
        if pod.keeper == Keeper::None && self.unmanaged == Handling::Refuse {
            return Some(DrainObstacle::Unmanaged(pod.full_name()));
        }
        let has_data = pod.local_data == LocalData::EmptyDir;
        (has_data && self.empty_dir == Handling::Refuse)
            .then(|| DrainObstacle::EmptyDir(pod.full_name()))
    }
}
