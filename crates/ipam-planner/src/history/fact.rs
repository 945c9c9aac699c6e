//! Something that a document or an object said about the subject.

use crate::explain::Relation;

/// What was said, without the place. It stays the same fact when it moves to another line or file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// The document or object, such as `NodeAssignment/worker-7`.
    pub object: String,
    pub field: String,
    pub value: String,
    /// How the value lies to the addresses in question.
    pub relation: Option<Relation>,
}
