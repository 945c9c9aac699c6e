//! Reads whole objects that moving a node needs beside the kinds of a plan: the Node, its
//! CiliumNode, its Pods, and the records of migrations. It must never decide.

use std::future::Future;

use serde_json::Value;

use super::{Cluster, ClusterError, Target};
use ipam_cilium::observed::MIGRATION_ANNOTATION;
use ipam_core::model::NodeName;

/// Label of every object that records a migration. Its key is that of the mark on Nodes, and its
/// value is the migration, too.
pub const MIGRATION_LABEL: &str = MIGRATION_ANNOTATION;

/// Which Pods are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodsOf {
    /// Those that are bound to this Node.
    Node(NodeName),
    All,
}

/// A cluster that runs Pods.
pub trait Workloads: Cluster {
    /// One object; `None` if it does not exist.
    fn object(
        &self,
        target: &Target,
    ) -> impl Future<Output = Result<Option<Value>, ClusterError>> + Send;

    /// Pods. A server that hides them is an error, because an empty list would look drained.
    fn pods(&self, of: &PodsOf) -> impl Future<Output = Result<Vec<Value>, ClusterError>> + Send;

    /// PodDisruptionBudgets. A server that hides them is an error, as for Pods.
    fn budgets(&self) -> impl Future<Output = Result<Vec<Value>, ClusterError>> + Send;

    /// The ConfigMaps that record migrations.
    fn migration_records(&self) -> impl Future<Output = Result<Vec<Value>, ClusterError>> + Send;
}
