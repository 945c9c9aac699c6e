//! The steps after the block is written: restart the agent, verify the node.

use super::change::same;
use super::{Action, CheckState, Decision, PodReference, Situation, Waiting};
use crate::migration::migration_record::block_list;
use crate::migration::record::Direction;
use ipam_cilium::observed::AgentTrace;
use ipam_cilium::pods::{Keeper, Life, Pod, PodNetwork, Readiness};
use ipam_core::net::Range;
use ipam_core::text::joined;

impl Situation<'_> {
    pub(super) fn restart(&self) -> Decision {
        let replaced = self.record.agent.as_deref();
        let is_old = |pod: &&Pod| Some(pod.uid.as_str()) == replaced;
        if let Some(old) = self.seen.agents().find(is_old) {
            return match old.life {
                Life::Active => Decision::Act(Action::DeletePods(vec![PodReference::from(old)])),
                Life::Ending | Life::Finished => Decision::Wait(Waiting::Agent),
            };
        }
        match self.seen.agents().any(is_serving) {
            true => self.next(),
            false => Decision::Wait(Waiting::Agent),
        }
    }

    /// A node is moved only when its agent uses the block, and everything on it works again.
    pub(super) fn verify(&self) -> Decision {
        if let Some(missing) = self.missing() {
            return Decision::Wait(Waiting::Result(missing));
        }
        let stale: Vec<Pod> = self.stale_pods().cloned().collect();
        if !stale.is_empty() {
            // The scheduler may have bound some of them before it saw the cordon.
            if let Err(obstacles) = self.rules.drain.leaving(&stale) {
                return self.fail(joined(&obstacles, "; "));
            }
            return Decision::Act(Action::Evict(
                stale.iter().map(PodReference::from).collect(),
            ));
        }
        match self.check {
            // The check is for the new block.
            _ if self.record.direction == Direction::Back => self.next(),
            CheckState::None | CheckState::Passed => self.next(),
            CheckState::Due | CheckState::Failed(_) => Decision::Act(Action::Check),
        }
    }

    fn missing(&self) -> Option<String> {
        let Some(node) = &self.seen.node else {
            return Some("the Node is gone".to_owned());
        };
        let Some(cilium_node) = &self.seen.cilium_node else {
            return Some("there is no CiliumNode".to_owned());
        };
        if cilium_node
            .owner
            .as_ref()
            .is_some_and(|owner| *owner != node.node.uid)
        {
            return Some("the CiliumNode belongs to the deleted Node".to_owned());
        }
        if !same(&cilium_node.pod_cidrs, self.record.goal()) {
            let shown = block_list(&cilium_node.pod_cidrs);
            return Some(format!("the CiliumNode shows {shown}"));
        }
        if cilium_node.agent != AgentTrace::Started {
            return Some("the agent has not written its CiliumNode".to_owned());
        }
        if let Some(error) = &cilium_node.operator_error {
            return Some(format!(
                "Cilium's operator reports: {}",
                error.escape_debug()
            ));
        }
        if !self.seen.agents().any(is_serving) {
            return Some("the agent's Pod is not ready".to_owned());
        }
        (node.readiness() == Readiness::NotReady).then(|| "the Node is not ready".to_owned())
    }

    /// Pods that still have an address of the block that the node left. A kubelet's own Pods cannot
    /// be made anew from here.
    fn stale_pods(&self) -> impl Iterator<Item = &Pod> {
        let left: Vec<Range> = self
            .record
            .left()
            .iter()
            .map(|block| block.range())
            .collect();
        let goal: Vec<Range> = self
            .record
            .goal()
            .iter()
            .map(|block| block.range())
            .collect();
        let renumbers = self.record.method.renumbers();
        self.seen.pods.iter().filter(move |pod| {
            let PodNetwork::Own(addresses) = &pod.network else {
                return false;
            };
            let is_left = addresses.iter().any(|address| {
                let address = Range::from(*address);
                let lies_in =
                    |ranges: &[Range]| ranges.iter().any(|range| range.overlaps(&address));
                lies_in(&left) && !lies_in(&goal)
            });
            renumbers && pod.life == Life::Active && pod.keeper != Keeper::Kubelet && is_left
        })
    }
}

fn is_serving(pod: &Pod) -> bool {
    pod.life == Life::Active && pod.readiness == Readiness::Ready
}
