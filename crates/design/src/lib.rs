//! The physical design of a database, as values.

mod footprint;
mod ids;
mod key;
mod range;

pub use footprint::{Access, Footprint, Item, Span};
pub use ids::{SiteId, TableId, Time, Version};
pub use key::{KEY_BYTES_MAX, Key, put_int, take_int};
pub use range::KeyRange;
