//! The record of the last migration, as far as others than the migration itself need it: which nodes
//! it still moves.
//!
//! It must never know how a node is moved.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::MIGRATION_KEY;
use super::view::ConfigMapView;
use ipam_core::model::NodeName;

/// A migration that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedMigration {
    /// The name of the migration.
    pub id: String,
    /// Such as `running` or `stopped`.
    pub state: String,
    pub waves: usize,
    /// Waves that are moved completely.
    pub waves_done: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes of the waves that are moved completely.
    pub moved: usize,
    /// Nodes that it still moves, or moves back.
    moving: BTreeSet<NodeName>,
}

impl UnfinishedMigration {
    /// Reads the record. `None`: the migration is over.
    ///
    /// # Errors
    /// Fails if the object holds no record, or another text.
    pub(super) fn read(
        view: &ConfigMapView,
    ) -> Result<Option<UnfinishedMigration>, serde_json::Error> {
        let text = view.data.get(MIGRATION_KEY).map_or("", String::as_str);
        let RecordView {
            id,
            state,
            wave,
            schedule,
        } = serde_json::from_str(text)?;
        let waves = schedule.waves.len();
        let done = match state.as_str() {
            "done" | "undone" => return Ok(None),
            // All its nodes go back.
            "undoing" => 0,
            _ => wave.min(waves),
        };
        let size = |waves: &[WaveView]| waves.iter().map(|wave| wave.nodes.len()).sum();
        let (moved, rest) = schedule.waves.split_at(done);
        let names = rest.iter().flat_map(|wave| &wave.nodes);
        Ok(Some(UnfinishedMigration {
            id,
            state,
            waves,
            waves_done: done,
            nodes: size(&schedule.waves),
            moved: size(moved),
            moving: names.filter_map(|name| name.parse().ok()).collect(),
        }))
    }

    /// Whether it still moves the node, or moves it back.
    pub fn moves(&self, node: &NodeName) -> bool {
        self.moving.contains(node)
    }
}

#[derive(Deserialize)]
struct RecordView {
    id: String,
    state: String,
    wave: usize,
    schedule: ScheduleView,
}

#[derive(Deserialize)]
struct ScheduleView {
    waves: Vec<WaveView>,
}

#[derive(Deserialize)]
struct WaveView {
    nodes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{Observed, ObservedKind, Reader};
    use jiff::Timestamp;
    use serde_json::json;

    fn observed(record: &str) -> Observed {
        let mut reader = Reader::default();
        let object =
            json!({"metadata": {"name": "cilium-ipam-migration"}, "data": {"record.json": record}});
        reader
            .object(ObservedKind::Migration, &object.to_string())
            .unwrap();
        reader.finish(Timestamp::UNIX_EPOCH)
    }

    fn of_state(state: &str) -> Option<UnfinishedMigration> {
        let waves = json!([{"domain": "a", "nodes": ["n1"]}, {"nodes": ["n2", "n3"]}]);
        let schedule = json!({"waves": waves, "moves": []});
        let record = json!({"id": "m", "state": state, "wave": 1, "schedule": schedule});
        observed(&record.to_string()).migration
    }

    #[test]
    fn only_the_nodes_that_still_move_are_its_own() {
        let moves = |migration: &UnfinishedMigration| {
            ["n1", "n2", "n3", "n4"].map(|name| migration.moves(&name.parse().unwrap()))
        };
        for state in ["running", "stopped", "turning-back", "of a newer version"] {
            let migration = of_state(state).unwrap();
            assert_eq!(moves(&migration), [false, true, true, false], "{state}");
            assert_eq!((migration.moved, migration.nodes), (1, 3));
        }
        let back = of_state("undoing").unwrap();
        assert_eq!(moves(&back), [true, true, true, false]);
        assert_eq!(of_state("done"), None);
        assert_eq!(of_state("undone"), None);
    }

    #[test]
    fn an_unreadable_record_is_a_blind_spot() {
        let observed = observed("{");
        assert!(observed.blind_spot(ObservedKind::Migration).is_some());
        assert_eq!(observed.migration, None);
    }
}
