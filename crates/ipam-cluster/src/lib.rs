//! A cluster: lists objects as raw JSON, and takes guarded writes.
//!
//! Decides nothing. Three clusters are here: a live one, one that is kept in a file, and one that
//! exists only in memory. The latter two follow the API server's rules.

mod cache;
mod file;
mod follow;
mod lock;
mod merge_patch;
mod observe;
mod rules;
mod snapshot;
mod write;

pub mod live;
pub mod sim;

use std::future::Future;

use jiff::Timestamp;

use ipam_cilium::observed::{ObservedKind, ReadError, Understood};
use ipam_core::net::Block;

pub use cache::{ClusterCache, Direct, Rollback, Snapshot, Touched};
pub use file::{
    FileCluster, Opening, open_regular, replace as replace_file,
    replace_private as replace_private_file,
};
pub use follow::{Follow, Following, ObjectEvent, Stored};
pub use lock::{LeaseName, LockRecord, LockSeen};
pub use observe::{Extent, observe};
pub use snapshot::snapshot;
pub use write::{Operation, Target, Write, WriteError, Written};

/// Where Events of objects without a namespace lie (client-go `tools/record`).
pub const EVENT_NAMESPACE: &str = "default";

/// How far a kind could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All objects of the kind.
    All,
    /// The server does not know the kind, so there are none.
    NotServed,
    /// The server does not show it to us.
    Hidden(String),
}

/// Why the cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No answer.
    #[error("the cluster does not answer: {0}")]
    Unreachable(String),
    /// An answer that is an error.
    #[error("the cluster refused to list {resource}: {message}")]
    Refused {
        /// Plural name with group.
        resource: &'static str,
        /// The server's words.
        message: String,
    },
    /// A list took so long that the server forgot it.
    #[error("the list of {resource} expired while it was read")]
    Expired {
        /// Plural name with group.
        resource: &'static str,
    },
    /// A list that shows an earlier moment than the claims do.
    #[error(
        "the list of {resource} is older than the claims that were read before it ({list} < {claims})"
    )]
    Stale {
        /// Plural name with group.
        resource: &'static str,
        /// The list's resourceVersion.
        list: u64,
        /// That of the claims.
        claims: u64,
    },
    /// A server whose store went back in time while it ran: what it lists is no more.
    #[error(
        "the API server lists claims at resourceVersion {listed} that its store does not have: where etcd was restored, restart every kube-apiserver"
    )]
    Outdated {
        /// The resourceVersion in the list.
        listed: u64,
    },
    /// Claims of an earlier time than those that were known.
    #[error(
        "the claims went back from resourceVersion {from} to {to}: was a backup of etcd restored?"
    )]
    WentBack {
        /// The version that was known.
        from: u64,
        /// That in the list, 0 where there are none.
        to: u64,
    },
    /// An answer that makes no sense.
    #[error("the cluster sent something else than a list of {resource}: {message}")]
    Malformed {
        /// Plural name with group.
        resource: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// An object that makes no sense.
    #[error(transparent)]
    Object(#[from] ReadError),
    /// Without this kind nothing may be planned.
    #[error(
        "{resource} cannot be read, and without it nobody knows which blocks are taken: {message}"
    )]
    Indispensable {
        /// Plural name with group.
        resource: &'static str,
        /// The server's words.
        message: String,
    },
    /// The file that keeps the cluster.
    #[error("cluster file {path}: {message}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The file that keeps the cluster takes no writes.
    #[error("cluster file {path} cannot be written, and stays as it is: {message}")]
    Unsaved {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
    /// Another process applies to the same file.
    #[error("cluster file {path} is in use by another apply")]
    Locked {
        /// The file.
        path: String,
    },
    /// Somebody else holds the lock.
    #[error("{holder} holds the lock since {since}, for: {operation}")]
    Held {
        /// Who.
        holder: String,
        /// What for.
        operation: String,
        /// Since when.
        since: String,
    },
    /// Without claims nothing is written.
    #[error("the claims in ConfigMap kube-system/cilium-ipam-claims cannot be kept: {0}")]
    Claims(WriteError),
    /// The object that keeps the claims has no room for more.
    #[error(
        "the claims in ConfigMap kube-system/cilium-ipam-claims have no room for more: {quarantined} blocks are quarantined, {claimed} are claimed"
    )]
    ClaimsFull {
        /// Blocks in quarantine.
        quarantined: usize,
        /// Blocks that are claimed.
        claimed: usize,
    },
    /// OpenStack's credentials, without which neither the addresses of pools nor the pairs of ports
    /// are known.
    #[error("OpenStack cannot be asked for subnets and ports: {0}")]
    OpenStack(String),
    /// The credentials cannot be used.
    #[error("the cluster's credentials cannot be used: {0}")]
    Credentials(String),
}

/// The moment that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// As late as possible.
    Latest,
    /// That of another list, by its resourceVersion.
    Of(String),
}

/// Hears of a list while it is read.
pub trait Listener: Send {
    /// The moment that the list shows is fixed from now on. `version` is the resourceVersion of the
    /// list, empty where it has none.
    ///
    /// # Errors
    /// A list that shows an earlier moment than it must; it ends the list.
    fn begun(&mut self, _version: &str) -> Result<(), ClusterError> {
        Ok(())
    }

    /// The `apiVersion` in which the server gives the list, where it says so.
    fn served(&mut self, _api_version: &str) {}

    /// Addresses that an object showed a moment ago, and of which it is not known yet whether
    /// another object shows them by now.
    fn lingering(&mut self, _block: Block) {}

    /// One object as JSON text.
    ///
    /// # Errors
    /// An object that is not of the kind; it ends the list.
    fn object(&mut self, json: &str) -> Result<(), ReadError>;

    /// One object that was read before, as text and as it was understood then.
    ///
    /// # Errors
    /// As for an object.
    fn known(&mut self, json: &str, _understood: &Understood) -> Result<(), ReadError> {
        self.object(json)
    }
}

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is answered.
    Answered,
    /// When it is saved with others, see [`Cluster::save`].
    Saved,
}

/// How far writes are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// All that were answered are.
    All,
    /// Some wait for others.
    Some,
}

/// Where objects are read and written.
pub trait Cluster: Sync {
    /// Gives every object of a kind to `listener`, from one consistent list of that moment.
    /// `namespace` is where Cilium's settings lie.
    fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        listener: &mut dyn Listener,
    ) -> impl Future<Output = Result<Seen, ClusterError>> + Send;

    /// Sends one guarded write.
    fn write(&self, write: &Write) -> impl Future<Output = Result<Written, WriteError>> + Send;

    /// Reads a lock.
    fn lock(&self, name: LeaseName) -> impl Future<Output = Result<LockSeen, ClusterError>> + Send;

    /// The time, by the clock that freed blocks rest by.
    fn now(&self) -> Timestamp;

    /// When its writes are durable.
    fn durability(&self) -> Durability {
        Durability::Answered
    }

    /// Makes writes durable if enough of them wait for it.
    fn save(&self) -> impl Future<Output = Result<Saved, ClusterError>> + Send {
        async { Ok(Saved::All) }
    }

    /// Makes all writes durable; without effect where each write is durable by itself.
    fn finish(&self) -> impl Future<Output = Result<(), ClusterError>> + Send;
}
