//! The past of a node, a Service, a pool or an address: which documents named it, which recorded
//! states of the cluster showed it, and which applies changed it.
//!
//! Decides from a sequence of states; never reads Git, a file or a clock.

mod applied;
mod document;
mod fact;
mod pull_request;
mod recorded;
mod subject;
mod timeline;

pub use applied::{AppliedDocument, ApplyReport};
pub use document::{
    AskedDocument, Beginning, CommitDocument, Edge, GapDocument, HistoryDocument, MergeDocument,
    RecordedDocument, Shallow, UnreadReport,
};
pub use fact::Fact;
pub use pull_request::pull_request;
pub use recorded::recorded;
pub use subject::Subject;
pub use timeline::{Interval, Place, Said, Timeline};
