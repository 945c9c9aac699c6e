//! Moves nodes of a running cluster to other blocks, or a whole cluster to another IPAM mode: the
//! schedule, and the next step of each node.
//!
//! Pure, like a plan: [`schedule()`] says what will happen, [`Situation::decide`] says what comes
//! next, and nothing here writes or reads a clock.

mod approved;
mod as_text;
mod assignment;
mod check;
mod differences;
mod document;
mod drain;
mod manifest;
mod migration_options;
mod migration_record;
mod mode;
mod obstacles;
mod record;
mod rollback;
mod schedule;
mod seen;
mod step;
mod stored_text;
mod targets;
mod waves;
mod workloads;

pub use approved::{ApprovedFiles, PoolDocument, WindowDocument, unreachable};
pub use assignment::assignment;
pub use check::CheckDocument;
pub use document::{
    LeftBehindDocument, MoveDocument, ScheduleDocument, ScheduleFileError, WaveDocument,
};
pub use drain::{DrainObstacle, DrainRules, Handling};
pub use migration_options::{Goal, MethodChoice, MigrationRequest};
pub use migration_record::{MigrationRecord, MigrationRecordError, RulesDocument, State};
pub use mode::Around;
pub use record::{CordonedBefore, Direction, Method, NodeRecord, Phase, SavedNode};
pub use schedule::{LeftBehind, NodeMove, Schedule, Wave, schedule};
pub use seen::{MIGRATION_ANNOTATION, NodeSeen, Scheduling, SeenNode};
pub use step::{
    Action, AssignOutcome, CheckState, Decision, KubeletRestart, PodReference, Request, Rules,
    Situation, Waiting,
};
pub use workloads::{Budgets, Workloads};

#[cfg(test)]
mod tests;
