//! Our custom resources: their definitions, their conversion to documents, and their status.
//!
//! Converts objects to text and JSON. Never reads or writes them.

mod definition;
mod object;
mod status;

pub use definition::definitions;
pub use object::{FINALIZER, ObjectState, StoredObject};
pub use status::*;
