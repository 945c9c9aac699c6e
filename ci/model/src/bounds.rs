//! The limits of a check. Knows nothing about the protocol itself.

use std::fmt;

/// The writes that appliers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Changes of a Node, guarded by its UID and resourceVersion.
    Guarded,
    /// Creations of a CiliumNode by name, which nothing but an object of that name stops.
    Creation,
}

/// Whether appliers move a node from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// As in the planner today: a node keeps its block.
    Refused,
    /// A node that is pinned to a block other than its own is moved. Each move counts as a
    /// disturbance.
    Planned,
}

/// What becomes of a CiliumNode whose owner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// Kubernetes deletes the CiliumNode. Until then no agent becomes its owner.
    Collected,
    /// The agent of a later Node of that name may become its owner first.
    Adopted,
}

/// Whether the check also looks at what a single applier achieves from each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Progress is not checked.
    Unchecked,
    /// From each state, an applier that runs alone assigns a block to each node, or uses all blocks
    /// if there are fewer blocks than nodes.
    Checked,
}

/// The size of the world, and the number of disturbances. Not limited: changes of pins between
/// decisions, kills of appliers at any step, and quarantined blocks that become free at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The writes that appliers send.
    pub writes: WriteKind,
    /// Concurrent appliers. A killed applier starts again.
    pub appliers: u8,
    /// Names of nodes.
    pub nodes: u8,
    /// Blocks of the one pool.
    pub blocks: u8,
    /// Total number of heartbeats, Node deletions, manual releases, manual CiliumNode deletions
    /// and moves. The return of a deleted node does not count.
    pub disturbances: u8,
    /// Changes whose blocks are claimed together.
    pub batch: u8,
    /// Whether nodes move.
    pub moves: Moves,
    /// What becomes of a CiliumNode whose owner is gone.
    pub garbage: Garbage,
    /// Whether progress is checked in addition to uniqueness.
    pub progress: Progress,
}

impl Bounds {
    /// The smallest world in which two appliers can harm each other.
    pub const SMALL: Bounds = Bounds {
        writes: WriteKind::Guarded,
        appliers: 2,
        nodes: 2,
        blocks: 2,
        disturbances: 2,
        batch: u8::MAX,
        moves: Moves::Refused,
        garbage: Garbage::Collected,
        progress: Progress::Unchecked,
    };

    /// The same for creations.
    pub const SMALL_CREATION: Bounds = Bounds {
        writes: WriteKind::Creation,
        ..Bounds::SMALL
    };
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds {
            writes,
            appliers,
            nodes,
            blocks,
            disturbances,
            batch,
            moves,
            garbage,
            progress,
        } = self;
        let writes = match writes {
            WriteKind::Guarded => "guarded",
            WriteKind::Creation => "creation",
        };
        write!(
            f,
            "writes={writes} appliers={appliers} nodes={nodes} blocks={blocks} disturbances={disturbances}"
        )?;
        if *batch < *nodes {
            write!(f, " batch={batch}")?;
        }
        if *moves == Moves::Planned {
            write!(f, " moves=planned")?;
        }
        if *garbage == Garbage::Adopted {
            write!(f, " garbage=adopted")?;
        }
        if *progress == Progress::Checked {
            write!(f, " progress=checked")?;
        }
        Ok(())
    }
}
