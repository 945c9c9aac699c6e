//! Amends imported pools by what the nodes of the cluster hold.

use std::collections::BTreeMap;

use super::remark::{Remark, RemarkName};
use super::{ForeignPin, ForeignPools};
use crate::plan::Misplaced;
use crate::proposal::held_by;
use ipam_cilium::observed::Observed;
use ipam_core::model::NodeName;

/// Whether pins were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amended {
    Yes,
    No,
}

impl ForeignPools {
    /// Pins nodes whose blocks are misplaced: the other manager gave them before their labels or its
    /// pools were what they are.
    pub fn pin_misplaced(&mut self, misplaced: &[Misplaced], observed: &Observed) -> Amended {
        let mut pins: BTreeMap<NodeName, ForeignPin> = BTreeMap::new();
        for one in misplaced {
            if let Some(pin) = self.pin(one, observed) {
                pins.insert(pin.node.clone(), pin);
            }
        }
        let amended = match pins.is_empty() {
            true => Amended::No,
            false => Amended::Yes,
        };
        self.pins.extend(pins.into_values());
        self.pins.sort_by(|one, two| one.node.cmp(&two.node));
        amended
    }

    /// A pin that keeps the node's blocks; `None` if it has one, or no pool has them all.
    fn pin(&self, misplaced: &Misplaced, observed: &Observed) -> Option<ForeignPin> {
        if self.pins.iter().any(|pin| pin.node == misplaced.node) {
            return None;
        }
        let blocks = held_by(observed, observed.nodes.get(&misplaced.node)?);
        let pool = self.pools.iter().find(|pool| {
            blocks.iter().all(|block| {
                pool.block_size.get(block.family()) == Some(&block.size())
                    && pool.cidrs.iter().any(|cidr| cidr.contains(*block))
            })
        })?;
        Some(ForeignPin {
            node: misplaced.node.clone(),
            pool: pool.name.clone(),
            blocks,
            remarks: vec![Remark::inferred(
                RemarkName::BlockPinned,
                format!("Node {}", misplaced.node),
                format!(
                    "without this pin, its block is misplaced: {}",
                    misplaced.reason
                ),
            )],
        })
    }

    /// Records a kind of the other manager that was not read.
    pub fn unread(&mut self, resource: &str, why: &str) {
        self.remarks.push(Remark::left_out(
            RemarkName::KindUnread,
            resource,
            format!("not read: {why}"),
        ));
    }
}
