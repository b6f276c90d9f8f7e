//! The disks of the cache: the chunks that each takes, its speed, and the reads that it serves.

pub mod admission;
pub mod meter;
pub mod placement;
mod state;
pub mod tiering;

pub use state::DiskState;
