//! Which Pods of a node are evicted, by the rules of `kubectl drain`
//! (`k8s.io/kubectl/pkg/drain/filters.go` @ 1.36), which of them prevent the move, and the risks of
//! the move. This module must never evict a Pod.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::record::Method;
use super::schedule::LeftBehind;
use super::step::few;
use super::targets::NewBlocks;
use ipam_cilium::budgets::DisruptionBudget;
use ipam_cilium::observed::{BlockAllocator, Observed};
use ipam_cilium::pods::{HostData, Keeper, Life, LocalData, Pod};
use ipam_core::model::{NodeName, WritePath, WritePathChoice};
use ipam_core::net::Block;
use ipam_desired::{Desired, Pin, Policy};
use ipam_plan::allocators::{OtherAllocator, described, fix};
use ipam_plan::plan::{BlockedReason, Target, node_config_name, plan};

/// What happens to Pods that are lost, or lose data, when they are evicted.
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum DrainObstacle {
    #[error("Pod {0} has no controller and would be lost: delete it, or pass --force")]
    Unmanaged(String),
    #[error(
        "Pod {0} has an emptyDir, whose data would be lost: move the data, or pass --delete-emptydir-data"
    )]
    EmptyDir(String),
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

/// Recorded if the program of a command cannot be told without the risk of a secret.
const SHELL: &str = "sh";

/// A check that was given when the migration began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDocument {
    /// The name of its program, without its path and arguments.
    pub program: String,
}

impl CheckDocument {
    /// Of a command for `sh -c`. A command that begins with anything but a plain name, such as with
    /// `TOKEN=… curl`, is recorded as `sh`.
    pub fn of_command(command: &str) -> CheckDocument {
        let first = command.split_whitespace().next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
        let name = first.rsplit('/').next().unwrap_or_default();
        let is_name = first.chars().all(is_plain) && !name.is_empty();
        CheckDocument {
            program: if is_name { name } else { SHELL }.to_owned(),
        }
    }
}

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
    /// The server does not show the budgets, for this reason.
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

    /// Why the budgets are unknown; `None` if they are known.
    pub(super) fn hidden_budgets(&self) -> Option<&str> {
        match &self.budgets {
            Budgets::Known(_) => None,
            Budgets::Hidden(why) => Some(why),
        }
    }
}

/// Why a node cannot move to its new blocks by this method.
pub(super) fn of(
    observed: &Observed,
    policy: &Policy,
    node: &NodeName,
    method: Method,
    from: &[Block],
    new: &NewBlocks,
) -> Option<LeftBehind> {
    let left = |why: String, help: &str| {
        Some(LeftBehind {
            why,
            help: help.to_owned(),
        })
    };
    let to: BTreeSet<&Block> = new.blocks.iter().collect();
    if from.iter().collect::<BTreeSet<_>>() == to {
        return left(
            "the files would give it the same block again".to_owned(),
            "see its reason in `cilium-ipam plan`",
        );
    }
    if from.is_empty() {
        return left("it holds no block".to_owned(), "run `cilium-ipam apply`");
    }
    match method {
        Method::NodeObject if sets_ranges(observed, node) => left(
            format!("CiliumNodeConfig {} sets its block", node_config_name(node)),
            "delete it, and restart the agent of the node first",
        ),
        Method::NodeObject => of_allocators(observed, policy),
        _ => None,
    }
}

/// The obstacle if another allocator may assign a block to a Node that is created again.
fn of_allocators(observed: &Observed, policy: &Policy) -> Option<LeftBehind> {
    let (why, fix) = match OtherAllocator::of(observed, policy) {
        OtherAllocator::None => return None,
        OtherAllocator::Active(rival) => (
            format!("{} and assigns blocks to new Nodes itself", described(rival)),
            fix(rival),
        ),
        OtherAllocator::Unknown(rival) => (
            format!("{}, and may assign blocks to new Nodes", described(rival)),
            fix(rival),
        ),
        OtherAllocator::Unseen => (
            "kube-controller-manager is not visible, and may assign blocks to new Nodes".to_owned(),
            "run it with --allocate-node-cidrs=false and add `kube-controller-manager` to `acknowledgedAllocators` in the Policy".to_owned(),
        ),
    };
    Some(LeftBehind {
        why,
        help: format!("{fix}; or leave out `--method recreate-node`"),
    })
}

fn sets_ranges(observed: &Observed, node: &NodeName) -> bool {
    let config = observed.node_configs.named(&node_config_name(node));
    config.is_some_and(|config| config.ranges().next().is_some())
}

/// The nodes for which the setting cannot be written, from a plan with pins.
pub(super) fn of_settings(
    desired: &Desired,
    observed: &Observed,
    given: &BTreeMap<NodeName, Result<NewBlocks, BlockedReason>>,
) -> BTreeMap<NodeName, LeftBehind> {
    let mut wanted = desired.clone();
    wanted.policy.write_path = WritePathChoice::Forced(WritePath::NodeConfig);
    wanted.pins = given
        .iter()
        .filter_map(|(node, new)| {
            let new = new.as_ref().ok()?;
            let pin = Pin {
                node: node.clone(),
                pool: new.pool.clone(),
                blocks: new.blocks,
                origin: desired.pools.get(&new.pool)?.origin.clone(),
            };
            Some((node.clone(), pin))
        })
        .collect();
    let mut blocked = BTreeMap::new();
    for one in plan(&wanted, observed, Vec::new()).blocked {
        if let Target::Node(node) = one.target {
            let left = LeftBehind {
                why: one.reason.to_string(),
                help: one.reason.unblock(),
            };
            blocked.insert(node, left);
        }
    }
    blocked
}

/// Why a node cannot be drained: the same text for all nodes, then the Pods of this one.
pub(super) fn of_drain(obstacles: &[DrainObstacle]) -> LeftBehind {
    let (mut unmanaged, mut empty_dirs) = (Vec::new(), Vec::new());
    for obstacle in obstacles {
        match obstacle {
            DrainObstacle::Unmanaged(pod) => unmanaged.push(pod.clone()),
            DrainObstacle::EmptyDir(pod) => empty_dirs.push(pod.clone()),
        }
    }
    let (why, help) = match (unmanaged.is_empty(), empty_dirs.is_empty()) {
        (_, true) => (
            "Pods without a controller would be lost",
            "delete them, or pass --force",
        ),
        (true, false) => (
            "data in an emptyDir would be lost",
            "move the data, or pass --delete-emptydir-data",
        ),
        (false, false) => (
            "Pods without a controller, and data in an emptyDir, would be lost",
            "delete the Pods and move the data, or pass --force and --delete-emptydir-data",
        ),
    };
    let pods = [unmanaged, empty_dirs].concat();
    LeftBehind {
        why: format!("{why}: {}", few(&pods)),
        help: help.to_owned(),
    }
}

/// The risks to show before the node is drained.
pub(super) fn risks(
    method: Method,
    allocator: BlockAllocator,
    leaving: &[&Pod],
    workloads: &Workloads,
) -> Vec<String> {
    let mut risks = Vec::new();
    let names = |is_meant: fn(&Pod) -> bool| -> Vec<String> {
        let pods = leaving.iter().filter(|pod| is_meant(pod));
        pods.map(|pod| pod.full_name()).collect()
    };
    let lost = names(|pod| pod.keeper == Keeper::None);
    if !lost.is_empty() {
        risks.push(format!(
            "Pods without a controller are lost: {}",
            few(&lost)
        ));
    }
    let data = names(|pod| pod.local_data == LocalData::EmptyDir);
    if !data.is_empty() {
        risks.push(format!("data in an emptyDir is lost: {}", few(&data)));
    }
    let stays = names(|pod| pod.host_data == HostData::HostPath);
    if !stays.is_empty() {
        let stays = few(&stays);
        risks.push(format!("data in a hostPath stays on the node: {stays}"));
    }
    let spent = workloads.exhausted_budgets(leaving);
    if !spent.is_empty() {
        let spent = few(&spent);
        risks.push(format!(
            "PodDisruptionBudgets that allow no eviction now: {spent}"
        ));
    }
    match method {
        Method::NodeObject => risks.push(
            "the Node is deleted and created again, and its kubelet must be restarted".to_owned(),
        ),
        Method::NodeConfig => risks.push(
            "Node.spec.podCIDRs keeps the old block, because it can be written only once"
                .to_owned(),
        ),
        // The operator forgets a block with its CiliumNode (`operator/pkg/ipam` @ 1.20).
        Method::CiliumNode if allocator == BlockAllocator::Operator => risks.push(
            "Cilium's operator may give the old block to a node that joins before the agent restarts: let no node join until then".to_owned(),
        ),
        Method::CiliumNode | Method::ToKubernetes | Method::ToClusterPool => {}
    }
    risks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_program_is_recorded() {
        let program = |command: &str| CheckDocument::of_command(command).program;
        assert_eq!(program("ping -c 3 \"$CILIUM_IPAM_NODE\""), "ping");
        assert_eq!(program("  /usr/local/bin/check --token s3cret"), "check");
        for hidden in [
            "TOKEN=s3cret curl x",
            "TOKEN=\"a s3cret b\" curl x",
            "'s3cret' x",
            "s3cret|sh",
            "",
            "/",
        ] {
            assert_eq!(program(hidden), "sh", "{hidden}");
        }
    }
}

#[cfg(test)]
mod obstacles_tests {
    use super::*;
    use crate::migration::Budgets;
    use ipam_cilium::budgets::DisruptionBudget;
    use serde_json::json;

    fn pod(name: &str, volume: &str) -> Pod {
        let metadata = json!({"namespace": "shop", "name": name, "labels": {"app": name}});
        let spec = json!({"volumes": [{"name": "v", volume: {}}]});
        Pod::read(&json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn budget(app: &str, allowed: u32) -> DisruptionBudget {
        let selector = json!({"matchLabels": {"app": app}});
        let budget = json!({
            "metadata": {"namespace": "shop", "name": app},
            "spec": {"selector": selector}, "status": {"disruptionsAllowed": allowed},
        });
        DisruptionBudget::read(&budget).unwrap()
    }

    #[test]
    fn risks_name_what_is_lost_what_stays_and_budgets_without_room() {
        let pods = [
            pod("web", "emptyDir"),
            pod("db", "hostPath"),
            pod("api", "secret"),
        ];
        let budgets = vec![budget("web", 0), budget("db", 1), budget("other", 0)];
        let workloads = Workloads::new(Vec::new(), Budgets::Known(budgets));
        let leaving: Vec<&Pod> = pods.iter().collect();
        let told = risks(
            Method::CiliumNode,
            BlockAllocator::External,
            &leaving,
            &workloads,
        );
        let expected = [
            "Pods without a controller are lost: shop/web, shop/db, shop/api",
            "data in an emptyDir is lost: shop/web",
            "data in a hostPath stays on the node: shop/db",
            "PodDisruptionBudgets that allow no eviction now: shop/web",
        ];
        assert_eq!(told[..4], expected);
    }

    #[test]
    fn what_keeps_a_node_from_being_drained_is_one_text_before_the_pods() {
        let unmanaged = |name: &str| DrainObstacle::Unmanaged(name.to_owned());
        let empty_dir = DrainObstacle::EmptyDir("shop/db".to_owned());
        let LeftBehind { why, help } = of_drain(&[unmanaged("shop/a"), unmanaged("shop/b")]);
        assert_eq!(
            why,
            "Pods without a controller would be lost: shop/a, shop/b"
        );
        assert_eq!(help, "delete them, or pass --force");
        let LeftBehind { why, .. } = of_drain(std::slice::from_ref(&empty_dir));
        assert_eq!(why, "data in an emptyDir would be lost: shop/db");
        let LeftBehind { why, help } = of_drain(&[unmanaged("shop/a"), empty_dir]);
        assert!(why.ends_with("would be lost: shop/a, shop/db"), "{why}");
        assert!(
            help.contains("--force and --delete-emptydir-data"),
            "{help}"
        );
    }
}
