//! Carries out a migration: wave by wave, node by node, step by step.
//!
//! Every step is recorded in the cluster before it is done, so another program can take over at any
//! moment. What comes next is decided in `ipam_planner::migration`; nothing here decides it.

mod act;
mod amend;
mod assign;
mod drive;
mod event;
mod gate;
mod mode;
mod observations;
mod reserve;
mod run;
mod store;
mod waiting;
mod wave;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use ipam_cilium::budgets::DisruptionBudget;
use ipam_cilium::observed::{Observed, ReadError};
use ipam_cilium::pods::Pod;
use ipam_cluster::{Cluster, ClusterError, Extent, PodsOf, Workloads, WriteError, observe};
use ipam_core::model::NodeName;
use ipam_planner::migration::{Budgets, MigrationRecordError, NodeRecord, Workloads as PodsByNode};

pub use event::MigrationEvent;
pub use run::{Ended, Migration};
pub use store::{Stored, Stores, stored};
pub use waiting::waiting;

/// How long blocks are reserved for the nodes of a migration. Every wave renews it.
pub const RESERVED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What a migration needs beside a cluster.
pub trait Host: Sync {
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Whether the migration shall stop after the steps that are under way.
    fn is_stopping(&self) -> bool;

    /// Tells a person.
    fn report(&self, event: &MigrationEvent<'_>);

    /// Runs the person's check of a node that was moved.
    fn check(&self, node: &NodeName) -> impl Future<Output = Result<(), String>> + Send;

    /// Whether there is such a check.
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
    /// Another program changed a record.
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
    /// There is no permission for a step.
    #[error("node {node}: no permission to {action}: {why}")]
    Forbidden {
        node: NodeName,
        action: &'static str,
        why: String,
    },
    /// Blocks cannot be reserved, because others have them now.
    #[error("blocks cannot be reserved: {0}")]
    Reserve(String),
}

/// The Pods of the cluster by node, and their budgets.
///
/// # Errors
/// Fails if the cluster does not answer, or hides Pods. Hidden budgets are told by the schedule.
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
