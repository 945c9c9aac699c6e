//! Carries out a migration: wave by wave, node by node, step by step. It tells a person what
//! happens, and checks before nodes move on, or back, that no two nodes show the same addresses.
//!
//! Every step is recorded in the cluster before it is done, so another program can take over at
//! any moment. What comes next is decided in `ipam_migrate::migration`; nothing here decides it.

mod act;
mod assign;
mod drive;
mod reserve;
mod run;
mod store;
mod wave;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use store::{put_migration, put_node};

use ipam_cilium::budgets::DisruptionBudget;
use ipam_cilium::observed::{Observed, ReadError};
use ipam_cilium::pods::Pod;
use ipam_cluster::{Cluster, ClusterError, Extent, PodsOf, Workloads, WriteError, observe};
use ipam_core::model::NodeName;
use ipam_core::net::{RangeIndex, overlapping_pairs};
use ipam_migrate::migration::{
    Budgets, Direction, MigrationRecord, MigrationRecordError, NodeRecord, Phase, State,
    Workloads as PodsByNode,
};

pub use drive::waiting;
pub use run::{Ended, Migration};
pub use store::{Stored, Stores, stored};

/// How long blocks are reserved for the nodes of a migration. Every wave renews it.
pub const RESERVED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What a migration needs beside a cluster.
pub trait Host: Sync {
    /// Waits for this duration.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Whether the migration shall stop after the steps that are under way.
    fn is_stopping(&self) -> bool;

    /// Reports progress to the user.
    fn report(&self, event: &MigrationEvent<'_>);

    /// Runs the person's check of a node that was moved.
    fn check(&self, node: &NodeName) -> impl Future<Output = Result<(), String>> + Send;

    /// Whether the user gave a check of moved nodes.
    fn has_check(&self) -> bool;
}

/// Why a migration ended early. It can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Object(#[from] ReadError),
    /// A record cannot be stored.
    #[error("the record in ConfigMap kube-system/{name} cannot be kept: {error}")]
    Store { name: String, error: WriteError },
    /// Another program changed a record of this migration.
    #[error("another program continues this migration: it changed ConfigMap kube-system/{0}")]
    TakenOver(String),
    /// A stored record is unusable.
    #[error("ConfigMap kube-system/{name}: {error}")]
    Record {
        name: String,
        error: MigrationRecordError,
    },
    /// The schedule is unusable.
    #[error("{0}")]
    Schedule(String),
    /// The user lacks a permission for a step.
    #[error("node {node}: no permission to {action}: {why}")]
    Forbidden {
        node: NodeName,
        action: &'static str,
        why: String,
    },
    /// Blocks cannot be reserved, because other nodes use them now.
    #[error("blocks cannot be reserved: {0}")]
    Reserve(String),
}

/// The Pods of the cluster by node, and their budgets.
///
/// # Errors
/// Fails if the cluster does not answer, or if Pods cannot be read. Unreadable budgets are reported
/// in the schedule.
pub async fn pods_by_node<C: Workloads>(cluster: &C) -> Result<PodsByNode, MigrationError> {
    let pods = cluster.pods(&PodsOf::All).await?;
    let pods = pods.iter().map(Pod::read).collect::<Result<Vec<_>, _>>()?;
    let budgets = match cluster.budgets().await {
        Ok(budgets) => {
            let budgets = budgets.iter().map(DisruptionBudget::read);
            Budgets::Known(budgets.collect::<Result<_, _>>()?)
        }
        Err(ClusterError::Indispensable { message, .. }) => Budgets::Hidden(message),
        Err(error) => return Err(error.into()),
    };
    Ok(PodsByNode::new(pods, budgets))
}

/// What a plan needs of the cluster.
async fn observed<C: Cluster>(cluster: &C) -> Result<Observed, MigrationError> {
    Ok(observe(cluster, Extent::Plan).await?)
}

/// A name for a migration that begins now.
pub fn migration_id(now: Timestamp) -> String {
    now.strftime("%Y%m%dt%H%M%Sz").to_string()
}

/// The stored records of nodes, by name.
pub type NodeStates = BTreeMap<NodeName, Stored<NodeRecord>>;

/// Progress of a migration.
#[derive(Debug)]
pub enum MigrationEvent<'e> {
    Wave {
        /// Number of the wave, from 1.
        number: usize,
        /// Number of waves of the migration.
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

impl<C: Workloads, H: Host> Migration<'_, C, H> {
    /// Why no node may move now: two nodes have the same addresses.
    pub(super) fn unsafe_now(&self, snapshot: &Observed) -> Option<String> {
        let shown = snapshot.shown_blocks();
        let of_moved = |name: &NodeName| self.nodes.contains_key(name);
        let pairs = overlapping_pairs(shown.map(|(name, block)| (block.range(), name)));
        let pair = pairs
            .into_iter()
            .find(|(a, b)| a != b && (of_moved(a) || of_moved(b)))?;
        let (a, b) = pair;
        Some(format!("nodes {a} and {b} show the same addresses"))
    }

    /// Nodes among these whose old block another node shows, and which.
    pub(super) fn old_blocks_taken(
        &self,
        snapshot: &Observed,
        nodes: &[NodeName],
    ) -> BTreeMap<NodeName, String> {
        let shown = snapshot.shown_blocks();
        let shown = RangeIndex::new(shown.map(|(name, block)| (block.range(), name)));
        let records = nodes.iter().map(|name| &self.nodes[name].record);
        let blocks = records.flat_map(|one| one.from.iter().map(move |block| (&one.node, block)));
        let taken = blocks.filter_map(|(node, block)| {
            let mut others = shown.overlapping(&block.range());
            let (_, other) = others.find(|(_, other)| *other != node)?;
            let why = format!("{block}, the old block of node {node}, belongs to node {other} now");
            Some((node.clone(), why))
        });
        taken.collect()
    }

    /// Every node that cannot go on, and why.
    pub(super) fn failures(&self) -> Vec<String> {
        let failed = self.nodes.values().filter_map(|stored| {
            let NodeRecord {
                node,
                phase,
                failure,
                ..
            } = &stored.record;
            Some(format!("node {node}, {phase}: {}", failure.as_ref()?))
        });
        failed.collect()
    }

    pub(super) fn failed_nodes(&self) -> Vec<NodeName> {
        let failed = self.nodes.iter();
        let failed = failed.filter(|(_, stored)| stored.record.failure.is_some());
        failed.map(|(name, _)| name.clone()).collect()
    }

    /// Why the migration stopped, and what keeps nodes of the failed wave from being back.
    pub(super) fn why_stopped(&self) -> String {
        let cause = self.main.record.note.clone().unwrap_or_default();
        match self.main.record.not_back.is_empty() {
            true => cause,
            false => {
                let failures = self.failures().join("; ");
                format!("{cause}; and not all of the wave is back: {failures}")
            }
        }
    }
}

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
