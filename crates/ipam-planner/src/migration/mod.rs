//! Moves nodes of a running cluster to other blocks, or a whole cluster to another IPAM mode: the
//! schedule, and the next step of each node.
//!
//! Pure, like a plan: [`schedule()`] says what will happen, [`Situation::decide`] says what comes
//! next, and nothing here writes or reads a clock.

mod as_text;
mod document;
mod drain;
mod manifest;
mod mode;
mod obstacles;
mod record;
mod schedule;
mod seen;
mod step;
mod targets;
mod turn;
mod whole;
mod wish;

pub use document::{
    LeftBehindDocument, MoveDocument, ScheduleDocument, ScheduleFileError, WaveDocument,
};
pub use drain::{DrainObstacle, DrainRules, Handling};
pub use mode::Around;
pub use record::{CordonedBefore, Direction, Method, NodeRecord, Phase, SavedNode};
pub use schedule::{LeftBehind, NodeMove, Schedule, Wave, Workloads, schedule};
pub use seen::{MIGRATION_ANNOTATION, NodeSeen, Scheduling, SeenNode};
pub use step::{
    Action, AssignOutcome, CheckState, Decision, KubeletRestart, PodReference, Request, Rules,
    Situation, Waiting,
};
pub use whole::{MigrationRecord, MigrationRecordError, RulesDocument, State};
pub use wish::{Goal, MethodChoice, Wish};

#[cfg(test)]
mod tests;
