//! The past of a node, a Service, a pool or an address: which documents named it, which recorded
//! states of the cluster showed it, and which applies changed it.
//!
//! Decides from a sequence of states; never reads Git, a file or a clock.

mod document;
mod recorded;
mod subject;
mod timeline;

pub use document::{
    AskedDocument, Beginning, CommitDocument, Edge, GapDocument, HistoryDocument, MergeDocument,
    RecordedDocument, Shallow, UnreadReport,
};
pub use recorded::{AppliedDocument, ApplyReport, recorded};
pub use subject::{Fact, Subject, pull_request};
pub use timeline::{Interval, Place, Said, Timeline};
