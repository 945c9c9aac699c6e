//! Stores what changes in the records of a running migration. It must never decide what changes.

use super::run::Migration;
use super::store::{put_migration, put_node};
use super::{Host, MigrationError};
use ipam_cluster::Workloads;
use ipam_core::model::NodeName;
use ipam_planner::migration::{MigrationRecord, NodeRecord, State};

impl<C: Workloads, H: Host> Migration<'_, C, H> {
    pub(super) async fn set_state(
        &mut self,
        state: State,
        note: Option<String>,
    ) -> Result<(), MigrationError> {
        let record = MigrationRecord {
            state,
            note,
            not_back: Vec::new(),
            ..self.main.record.clone()
        };
        self.store(record).await
    }

    pub(super) async fn store(&mut self, record: MigrationRecord) -> Result<(), MigrationError> {
        self.main = put_migration(self.cluster, &self.main, record).await?;
        Ok(())
    }

    /// Records what a person has approved anew: other files, rules, or another check.
    ///
    /// # Errors
    /// Fails if the record cannot be stored.
    pub async fn amend(&mut self, record: MigrationRecord) -> Result<(), MigrationError> {
        self.rules = record.rules.into();
        match record == self.main.record {
            true => Ok(()),
            false => self.store(record).await,
        }
    }

    pub(super) async fn put(
        &mut self,
        name: &NodeName,
        record: NodeRecord,
    ) -> Result<(), MigrationError> {
        let stored = put_node(self.cluster, &self.nodes[name], record).await?;
        self.nodes.insert(name.clone(), stored);
        Ok(())
    }
}
