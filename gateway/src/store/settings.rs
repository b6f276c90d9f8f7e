//! What the stores are told: sizes and places, checked by the configuration before they come here.

use std::path::PathBuf;

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
    /// Bytes of cache files at most.
    pub capacity: u64,
    /// Bytes that stay free on the file system: below it nothing is admitted.
    pub min_free: u64,
    /// Bytes that may wait to be written; what comes on top is refused. The disk writes from two
    /// buffers of this size, so a disk that cannot keep up costs twice this in memory, and the
    /// chunks it waits for once more.
    pub write_queue: u64,
    /// Reads at a time; each holds a thread while the disk works.
    pub reads: usize,
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
            write_queue: 16 << 20,
            reads: 16,
        }
    }
}
