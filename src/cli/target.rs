//! The cluster that the flags select.

use jiff::Timestamp;

use super::Common;
use super::failure::Failure;
use ipam_cilium::observed::ObservedKind;
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{
    Cluster, ClusterError, Durability, FileCluster, LeaseName, ListVisitor, LockSeen, Moment,
    Opening, Saved, Seen, Write, WriteError, Written,
};

pub(super) enum Target {
    File(Box<FileCluster>),
    Live(LiveCluster),
}

impl Target {
    pub(super) async fn open(common: &Common, opening: Opening) -> Result<Target, Failure> {
        if let Some(path) = &common.cluster {
            return Ok(Target::File(Box::new(FileCluster::open(path, opening)?)));
        }
        Ok(Target::Live(
            LiveCluster::connect(common.connection(common.patience)).await?,
        ))
    }
}

impl Cluster for Target {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        match self {
            Target::File(cluster) => cluster.list(kind, namespace, moment, visitor).await,
            Target::Live(cluster) => cluster.list(kind, namespace, moment, visitor).await,
        }
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        match self {
            Target::File(cluster) => cluster.write(write).await,
            Target::Live(cluster) => cluster.write(write).await,
        }
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        match self {
            Target::File(cluster) => cluster.lock(name).await,
            Target::Live(cluster) => cluster.lock(name).await,
        }
    }

    fn now(&self) -> Timestamp {
        match self {
            Target::File(cluster) => cluster.now(),
            Target::Live(cluster) => cluster.now(),
        }
    }

    fn durability(&self) -> Durability {
        match self {
            Target::File(cluster) => cluster.durability(),
            Target::Live(cluster) => cluster.durability(),
        }
    }

    async fn save(&self) -> Result<Saved, ClusterError> {
        match self {
            Target::File(cluster) => cluster.save().await,
            Target::Live(cluster) => cluster.save().await,
        }
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        match self {
            Target::File(cluster) => cluster.finish().await,
            Target::Live(cluster) => cluster.finish().await,
        }
    }
}
