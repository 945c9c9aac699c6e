//! Moves nodes of a running cluster to other blocks, or a whole cluster to another IPAM mode: the
//! schedule, and the next step of each node.
//!
//! Pure, like a plan: [`schedule()`] says what will happen, [`Situation::decide`] says what comes
//! next, and nothing here writes or reads a clock.

mod approved;
mod document;
mod drain;
mod migration_record;
mod mode;
mod record;
mod schedule;
mod seen;
mod step;
mod stored_text;
mod targets;

pub use approved::{ApprovedFiles, PoolDocument, WindowDocument, unreachable};
pub use document::{
    Goal, LeftBehindDocument, MethodChoice, MigrationRequest, ScheduleDocument, ScheduleFileError,
};
pub use drain::{Budgets, CheckDocument, DrainObstacle, DrainRules, Handling, Workloads};
pub use migration_record::{MigrationRecord, MigrationRecordError, State};
pub use record::{CordonedBefore, Direction, Method, NodeRecord, Phase, SavedNode};
pub use schedule::{LeftBehind, NodeMove, Wave, is_control_plane, schedule};
pub use seen::{MIGRATION_ANNOTATION, NodeSeen, Scheduling, SeenNode};
pub use step::{
    Action, AssignOutcome, CheckState, Decision, KubeletRestart, PodReference, Request, Rules,
    Situation, Waiting,
};
pub use targets::assignment;

#[cfg(test)]
mod tests;
