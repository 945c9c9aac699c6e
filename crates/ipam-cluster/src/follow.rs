//! Hears what happens to objects after they were listed.

use std::future::Future;

use serde_json::Value;

use super::{Cluster, ClusterError};
use ipam_cilium::observed::ObservedKind;

/// What is heard.
#[derive(Clone, Copy, Debug)]
pub enum ObjectEvent<'n> {
    /// An object is new, or is this from now on.
    Changed(&'n Value),
    /// An object is gone; this is the last of it, with the resourceVersion of its end.
    Deleted(&'n Value),
    /// All that happened up to this resourceVersion was heard.
    Bookmark(&'n str),
}

/// Why it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Following {
    /// The server ends it now and then; it goes on from what was heard last.
    Closed,
    /// The server has forgotten what came after that moment, or serves or shows the kind no more:
    /// it must be listed again.
    Lost(String),
}

/// What the server's store has of an object, which may be something else than what the server lists
/// from its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// This resourceVersion.
    At(u64),
    /// No such object.
    Absent,
    /// The server does not show it to us.
    Hidden,
}

/// A cluster that tells what happens.
pub trait Follow: Cluster {
    /// The claims in the server's store.
    ///
    /// # Errors
    /// A cluster that does not answer, or answers nonsense.
    fn stored_claims(&self) -> impl Future<Output = Result<Stored, ClusterError>> + Send;

    /// Hears everything that happens to the objects of a kind after the resourceVersion `from`.
    ///
    /// # Errors
    /// A cluster that does not answer, or answers nonsense.
    fn follow(
        &self,
        kind: ObservedKind,
        namespace: &str,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> impl Future<Output = Result<Following, ClusterError>> + Send;
}
