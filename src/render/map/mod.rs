//! The map of the address space as one HTML page that needs nothing else, and as a list.
//!
//! Returns text; never prints. Every text of the cluster is data to it, never markup.

mod data;
mod html;
mod layout;
mod list;
mod palette;

pub use html::html;
pub use list::area_list;
