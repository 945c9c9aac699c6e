//! The files of a node: whose port is whose, the warm pool, and which network namespace an
//! interface was made in. Knows nothing of HTTP.

mod attachment_records;
mod file_names;
mod node_state;
mod pool_files;

pub use attachment_records::AttachmentRecords;
pub use node_state::NodeState;
pub use pool_files::Pool;
