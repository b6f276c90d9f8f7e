//! Ranges of bytes, and the division of objects into chunks and parts.

mod extents;
mod geometry;
pub mod parts;
mod range;

pub use extents::Extents;
pub use geometry::Geometry;
pub use parts::PartSizes;
pub use range::{ByteRange, RangeSpec};
