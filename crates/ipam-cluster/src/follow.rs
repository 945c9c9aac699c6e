//! Events of objects after they were listed.

use std::future::Future;

use serde_json::Value;

use super::{Cluster, ClusterError};
use ipam_cilium::observed::ObservedKind;

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
