//! How far a check goes. Knows nothing of what is checked.

use std::fmt;

/// What the writes are.
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
    /// A node that is pinned to another block than it holds is moved; each move counts as a
    /// disturbance.
    Planned,
}

/// What becomes of a CiliumNode whose owner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// Kubernetes deletes it later; until then it has no owner.
    Collected,
    /// The agent of a later Node of that name may be faster and make it its own.
    Adopted,
}

/// Whether it is looked at what a single applier would bring about from each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is not.
    Unchecked,
    /// From each of them an applier that has the cluster to itself gets blocks to all nodes, as far
    /// as there are any.
    Checked,
}

/// The size of the world, and how often it may be disturbed. Pins differ from decision to decision,
/// appliers are killed at any step, and quarantined blocks become free at any moment, all without
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What the writes are.
    pub writes: WriteKind,
    /// Appliers at the same time; a killed one starts afresh.
    pub appliers: u8,
    /// Names of nodes.
    pub nodes: u8,
    /// Blocks of the one pool.
    pub blocks: u8,
    /// Heartbeats, deletions of a Node, releases by a person, deletions of a CiliumNode by a
    /// person, and moves, all together. That a deleted node comes back costs nothing.
    pub disturbances: u8,
    /// Changes whose blocks are claimed together.
    pub batch: u8,
    /// Whether nodes move.
    pub moves: Moves,
    /// What becomes of a CiliumNode whose owner is gone.
    pub garbage: Garbage,
    /// Whether the model checks progress in addition to uniqueness.
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
