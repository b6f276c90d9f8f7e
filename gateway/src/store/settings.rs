//! What the stores are told: sizes and places, checked by the configuration before they come here.

use std::path::PathBuf;
use std::time::Duration;

use crate::plan::Geometry;

/// Both stores' settings. The default keeps everything in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of chunks kept in memory (`cache.memory`); 0 keeps none.
    pub memory: u64,
    /// Size of a chunk (`cache.chunk`). Part of a disk's layout: chunks of another size are not read.
    pub geometry: Geometry,
    /// The cache disks (`[[cache.disk]]`); each holds its share of the chunks.
    pub disks: Vec<DiskSettings>,
    /// The directory of the metadata (`state.path`). `None` keeps it in memory: then chunks on disk
    /// cannot be found again after a restart, so the configuration puts it beside the first disk.
    pub state: Option<PathBuf>,
    /// The size of the database file from which on rows that were confirmed longest ago make room for new
    /// ones.
    pub state_size: u64,
    /// Bytes of metadata kept in memory. An entry takes about half a kilobyte; what does not fit is
    /// read from `state` again.
    pub meta_memory: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            geometry: Geometry::default(),
            disks: Vec::new(),
            state: None,
            state_size: 2 << 30,
            meta_memory: 32 << 20,
        }
    }
}

/// One cache disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// A directory of our own. Its name, as written, decides which chunks it holds: written another
    /// way, chunks move between the disks.
    pub path: PathBuf,
    /// Bytes of cache files at most, on disk: a hard limit.
    pub capacity: u64,
    /// Bytes that stay free on the file system: below it nothing is admitted.
    pub min_free: u64,
    /// Bytes that may wait to be written; what comes on top is refused. The chunks are kept in
    /// memory meanwhile, and can be read.
    pub write_queue: u64,
    /// Reads at a time; each holds a thread while the disk works.
    pub reads: usize,
    /// How much longer than the disk's own norm a read may take before it counts as late: then it
    /// is a miss, and the disk is not read until a probe succeeds. With what the bucket then takes, a
    /// request should wait for no more than 100 ms longer than else.
    pub late: Duration,
}

impl DiskSettings {
    /// A disk with the defaults for everything but place and size.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, capacity: u64) -> Self {
        Self {
            path: path.into(),
            capacity,
            ..Self::default()
        }
    }
}

impl Default for DiskSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("/var/cache/tidegate"),
            capacity: 10 << 30,
            min_free: 1 << 30,
            write_queue: 32 << 20,
            reads: 16,
            late: Duration::from_millis(80),
        }
    }
}
