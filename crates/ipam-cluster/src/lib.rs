//! A cluster: lists objects as raw JSON, takes guarded writes, and tells what happens to objects
//! after they were listed. It decides nothing.
//!
//! There are three clusters: a live one, one in a file, and one in an archive of `cilium sysdump`
//! that is only read. The file follows the API server's rules. A cache in front of a cluster keeps
//! a copy of it up to date. Moving a node also reads whole objects beside the kinds of a plan: the
//! Node, its CiliumNode, its Pods, and the records of migrations.

mod cache;
mod file;
mod lock;
mod observe;
mod rules;
mod sysdump;
mod trouble;
mod write;

use std::future::Future;

use jiff::Timestamp;
use serde_json::Value;

use ipam_cilium::observed::{
    MIGRATION_ANNOTATION, ObservedKind, ReadError, Understood, value_of_protobuf,
};
use ipam_core::claims::{DepartedPart, Departure};
use ipam_core::model::NodeName;
use ipam_core::net::Block;

pub use cache::{ClusterCache, Role, Rollback, Settled, Snapshot, Uncached};
pub use file::{
    FileCluster, Opening, check_output as check_output_file, observe_files, open_regular,
    remove_leftovers_of, replace as replace_file, replace_private as replace_private_file,
};
pub use lock::{LeaseName, LockRecord, LockSeen};
pub use observe::{Extent, observe, snapshot};
pub use rules::{patched, version_of};
pub use sysdump::Sysdump;
pub use trouble::{Trouble, TroubleKind};
pub use write::{Operation, Target, Write, WriteError, Written};

pub mod live;

/// Whether a kind could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All objects of the kind.
    All,
    /// The server does not know the kind, so no object of it exists.
    NotServed,
    /// The server denies reading the kind, with its message.
    Hidden(String),
}

/// Why the cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no usable answer. The text names the server and the cause.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is an error.
    #[error("the cluster refused to list {resource}: {message}")]
    Refused {
        /// Plural name with group.
        resource: &'static str,
        /// The server's message.
        message: String,
    },
    /// Reading a list took so long that the server forgot it.
    #[error("the list of {resource} expired while it was read")]
    Expired {
        /// Plural name with group.
        resource: &'static str,
    },
    /// A list shows an earlier moment than the claims.
    #[error(
        "the list of {resource} is older than the claims that were read before it ({list} < {claims})"
    )]
    Stale {
        /// Plural name with group.
        resource: &'static str,
        /// The list's resourceVersion.
        list: u64,
        /// The claims' resourceVersion.
        claims: u64,
    },
    /// The store went back in time while the server ran: the server lists a past that is gone.
    #[error(
        "the API server lists claims at resourceVersion {listed} that its store does not have: if etcd was restored, restart every kube-apiserver"
    )]
    Outdated {
        /// The claims' resourceVersion in the list.
        listed: u64,
    },
    /// A list shows older claims than those that were known.
    #[error(
        "the claims went back from resourceVersion {from} to {to}: was a backup of etcd restored?"
    )]
    WentBack {
        /// The known resourceVersion.
        from: u64,
        /// The resourceVersion in the list, 0 if there are no claims.
        to: u64,
    },
    /// The answer is not a list of the kind.
    #[error("the answer of the cluster is not a list of {resource}: {message}")]
    Malformed {
        /// Plural name with group.
        resource: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// An object is malformed.
    #[error(transparent)]
    Object(#[from] ReadError),
    /// A kind is hidden without which no plan may be made.
    #[error("{resource} cannot be read, and without it the taken blocks are unknown: {message}")]
    Indispensable {
        /// Plural name with group.
        resource: &'static str,
        /// The server's message.
        message: String,
    },
    /// The cluster file cannot be read.
    #[error("cluster file {path}: {message}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The cluster file cannot be written.
    #[error("cluster file {path} cannot be written, and stays as it is: {message}")]
    Unsaved {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
    /// Another process writes the same file.
    #[error("cluster file {path} is in use by another apply")]
    Locked {
        /// The file.
        path: String,
    },
    /// Another process holds the lock.
    #[error("{holder} holds the lock since {since}, for: {operation}")]
    Held {
        /// Who.
        holder: String,
        /// What for.
        operation: String,
        /// Since when.
        since: String,
    },
    /// The claims cannot be stored, so nothing is written.
    #[error("the claims in ConfigMap kube-system/cilium-ipam-claims cannot be kept: {0}")]
    Claims(WriteError),
    /// The ConfigMap of the claims has no room for more.
    #[error(
        "the claims in ConfigMap kube-system/cilium-ipam-claims have no room for more: {quarantined} blocks are quarantined, {claimed} are claimed"
    )]
    ClaimsFull {
        /// Blocks in quarantine.
        quarantined: usize,
        /// Blocks that are claimed.
        claimed: usize,
    },
    /// Blocks of deleted nodes cannot be recorded.
    #[error(
        "the blocks of deleted nodes cannot be recorded in ConfigMap kube-system/{part}, and have no quarantine after a restart: {error}"
    )]
    Departed {
        /// The part of the record.
        part: DepartedPart,
        /// Why.
        error: WriteError,
    },
    /// OpenStack does not answer, so the addresses of pools and the pairs of ports are unknown.
    #[error("OpenStack cannot be asked for subnets and ports: {0}")]
    OpenStack(String),
    /// The credentials cannot be used.
    #[error("the cluster's credentials cannot be used: {0}")]
    Credentials(String),
}

/// The moment that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The newest moment.
    Latest,
    /// The moment of another list, by its resourceVersion.
    Of(String),
}

/// Receives a list while it is read.
pub trait ListVisitor: Send {
    /// The list begins. `version` is its resourceVersion, empty if it has none.
    ///
    /// # Errors
    /// Fails if the list shows too early a moment; this ends the list.
    fn begun(&mut self, _version: &str) -> Result<(), ClusterError> {
        Ok(())
    }

    /// The `apiVersion` of the list, if the server sends it.
    fn served(&mut self, _api_version: &str) {}

    /// A block that disappeared from one object and may show in another one that is not reported
    /// yet.
    fn tombstone(&mut self, _block: Block) {}

    /// A block of a deleted node that the record of deleted nodes lacks.
    fn departed(&mut self, _block: Block, _departure: &Departure) {}

    /// One object as JSON text.
    ///
    /// # Errors
    /// Fails if the object is not of the kind; this ends the list.
    fn object(&mut self, json: &str) -> Result<(), ReadError>;

    /// One object in the binary encoding. By default, [`object`](ListVisitor::object) receives the
    /// fields that views read, as JSON.
    ///
    /// # Errors
    /// Fails as [`object`](ListVisitor::object) does.
    fn protobuf(&mut self, kind: ObservedKind, object: &[u8]) -> Result<(), ReadError> {
        self.object(&value_of_protobuf(kind, object)?.to_string())
    }

    /// One object that was parsed before, as JSON text and as the result of parsing.
    ///
    /// # Errors
    /// Fails as [`object`](ListVisitor::object) does.
    fn known(&mut self, json: &str, _understood: &Understood) -> Result<(), ReadError> {
        self.object(json)
    }
}

/// A place to read and write objects.
pub trait Cluster: Sync {
    /// Gives every object of a kind to `visitor`, from one consistent list of that moment.
    /// `namespace` is that of Cilium; of DaemonSets, none means all namespaces.
    fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> impl Future<Output = Result<Seen, ClusterError>> + Send;

    /// The namespace of Cilium, if the user names it.
    fn cilium_namespace(&self) -> Option<&str>;

    /// Sends one guarded write.
    fn write(&self, write: &Write) -> impl Future<Output = Result<Written, WriteError>> + Send;

    /// Reads a lock.
    fn lock(&self, name: LeaseName) -> impl Future<Output = Result<LockSeen, ClusterError>> + Send;

    /// The time, by the clock that ends quarantines.
    fn now(&self) -> Timestamp;
}

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

/// An event of a watch.
#[derive(Clone, Copy, Debug)]
pub enum ObjectEvent<'n> {
    /// An object was created or changed.
    Changed(&'n Value),
    /// An object was deleted. This is its last state, with the resourceVersion of the deletion.
    Deleted(&'n Value),
    /// All events up to this resourceVersion were sent.
    Bookmark(&'n str),
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Following {
    /// The server ends a watch now and then. Go on from the newest resourceVersion that it
    /// reported.
    Closed,
    /// The server sent nothing for longer than it may. Its answer, or the connection, was lost on
    /// the way. Go on as after `Closed`.
    Silent,
    /// List again: the server has forgotten the events after that moment, or no longer serves or
    /// shows the kind.
    Lost(String),
}

/// An object in the server's store. A list from the server's memory may show another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is at this resourceVersion.
    At(u64),
    /// It does not exist.
    Absent,
    /// The server denies reading it.
    Hidden,
}

/// A cluster that reports changes.
pub trait Follow: Cluster {
    /// The claims in the server's store.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or the answer is malformed.
    fn stored_claims(&self) -> impl Future<Output = Result<Stored, ClusterError>> + Send;

    /// Reports every event of a kind after the resourceVersion `from`, in order.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or the answer is malformed.
    fn follow(
        &self,
        kind: ObservedKind,
        namespace: &str,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> impl Future<Output = Result<Following, ClusterError>> + Send;
}
