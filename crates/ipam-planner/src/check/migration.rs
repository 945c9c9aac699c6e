//! A migration that is not over. It must never know how a node is moved.

use ipam_cilium::observed::{Observed, UnfinishedMigration};
use ipam_core::model::{Finding, Rule, Severity};
use ipam_desired::Desired;

/// Says how far the migration came. The nodes that it still moves are blocked in a plan.
pub(super) fn unfinished(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let finding = |migration: &UnfinishedMigration| {
        let UnfinishedMigration {
            id,
            state,
            waves,
            waves_done,
            nodes,
            moved,
            ..
        } = migration;
        let (id, state) = (id.escape_debug(), state.escape_debug());
        let far = match state.to_string().as_str() {
            "undoing" => format!("its {nodes} nodes go back"),
            _ => format!("{moved} of {nodes} nodes are moved ({waves_done} of {waves} waves)"),
        };
        let message = format!("migration {id} is unfinished: {far}, its state is `{state}`");
        Finding::new(Severity::Warning, Rule("migration-unfinished"), message).help(
            "look at it with `cilium-ipam migrate status`, then finish it with `migrate resume` or `migrate undo`",
        )
    };
    observed.migration.iter().map(finding).collect()
}
