//! The past of a node, a Service, a pool or an address: which documents named it, and which recorded
//! states of the cluster showed it.
//!
//! Decides from a sequence of states; never reads Git, a file or a clock.

mod document;
mod fact;
mod pull_request;
mod recorded;
mod subject;
mod timeline;

pub use document::{
    AskedDocument, Beginning, CommitDocument, Edge, GapDocument, HistoryDocument, MergeDocument,
    RecordedDocument, Shallow,
};
pub use fact::Fact;
pub use pull_request::pull_request;
pub use recorded::recorded;
pub use subject::Subject;
pub use timeline::{Interval, Place, Said, Timeline};
