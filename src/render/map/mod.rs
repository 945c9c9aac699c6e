//! The map of the address space as one file: an HTML page that needs nothing else, or an SVG
//! picture. Both draw the same layout.
//!
//! Returns text; never prints. Every text of the cluster is data to it, never markup.

mod data;
mod html;
mod layout;
mod list;
mod palette;
mod svg;

pub use html::html;
pub use list::area_list;
pub use svg::svg;
