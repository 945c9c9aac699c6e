//! What happens during a migration, for a person. Plain data.

use ipam_core::model::NodeName;
use ipam_planner::migration::{Direction, NodeRecord, Phase};
use jiff::Timestamp;

/// Progress of a migration.
#[derive(Debug)]
pub enum MigrationEvent<'e> {
    /// A wave begins.
    Wave {
        /// Its number, counted from 1.
        number: usize,
        /// Number of waves.
        of: usize,
        domain: Option<&'e str>,
        nodes: usize,
        direction: Direction,
    },
    /// A node is at another step.
    Step { record: &'e NodeRecord },
    /// A node waits.
    Waiting {
        node: &'e NodeName,
        phase: Phase,
        why: &'e str,
    },
    /// The server refused to evict Pods.
    EvictionRefused { node: &'e NodeName, why: &'e str },
    /// A node is where it shall be, or cannot go on.
    Ended { record: &'e NodeRecord },
    /// No node begins before the next maintenance window.
    WindowClosed { opens: Option<Timestamp> },
    /// A gate failed, so this wave goes back.
    GateFailed { number: usize, why: &'e str },
}
