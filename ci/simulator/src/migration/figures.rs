//! Counts of migrations.

use crate::figures::adds_up;

/// Counts of histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Nodes that were moved, or moved back.
    pub moves: usize,
    /// Programs that were killed.
    pub kills: usize,
    /// Agents with overlapping blocks.
    pub duplicates: usize,
    /// Migrations that ended with all nodes moved.
    pub done: usize,
    /// Migrations that ended with all nodes back.
    pub undone: usize,
    /// Migrations that stopped because a machine broke or a rival had a block.
    pub stopped: usize,
    /// Blocks that Cilium's operator gave to a node while another agent used them.
    pub taken_by_operator: usize,
    pub steps: usize,
}

adds_up!(Moves {
    moves,
    kills,
    duplicates,
    done,
    undone,
    stopped,
    taken_by_operator,
    steps
});
