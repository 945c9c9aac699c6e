//! Custom resources: what is asked for as objects of the cluster instead of files. Their
//! definitions, how an object becomes a document, and the shape of its status.
//!
//! Pure: it is given objects and gives back text and JSON. It never knows how they come and go.

mod definition;
mod object;
mod status;

pub use definition::definitions;
pub use object::{FINALIZER, ObjectState, StoredObject};
pub use status::*;
