//! The files of a node: its name, the warm pool, the records of interfaces, and locks. Must never
//! know HTTP.

mod attachment_records;
mod node_state;
mod pool_files;

pub use attachment_records::{AttachmentRecords, Creation};
pub use node_state::NodeState;
pub use pool_files::{Confirmed, Pool};
