//! The settings of the stores: sizes and places, already checked by the configuration.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;

use tidegate_plan::Geometry;
use tidegate_plan::tags::DEFAULT_TAGS_HEADER;

/// The settings of both stores. The default keeps everything in memory.
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
    /// The size of the database file from which rows that were confirmed longest ago are removed for new
    /// ones.
    pub state_size: u64,
    /// The longest waits for the disk of the metadata.
    pub state_timeouts: StateTimeouts,
    /// Bytes of metadata kept in memory. An entry takes about half a kilobyte; entries that do not fit
    /// are read from `state` again.
    pub meta_memory: u64,
    /// The header that names an object's tags (`cache.tags_header`).
    pub tags_header: HeaderName,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            geometry: Geometry::default(),
            disks: Vec::new(),
            state: None,
            state_size: 2 << 30,
            state_timeouts: StateTimeouts::default(),
            meta_memory: 32 << 20,
            tags_header: HeaderName::from_static(DEFAULT_TAGS_HEADER),
        }
    }
}

/// The longest waits for the disk of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateTimeouts {
    /// The wait of a request for the row of its key, with the wait for its turn; then the row is unknown
    /// (`state.read_timeout`).
    pub read: Duration,
    /// The wait of a purge, and of a change of pins or of an object, until it is durable (`state.write_timeout`). Purges
    /// and pins hold in memory from the start. A write that takes longer hangs.
    pub write: Duration,
}

impl Default for StateTimeouts {
    fn default() -> Self {
        Self {
            read: Duration::from_millis(250),
            write: Duration::from_secs(5),
        }
    }
}

/// One cache disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// The gateway's own directory. Its name, as written, decides which chunks it holds: if it is written
    /// another way, chunks move between the disks.
    pub path: PathBuf,
    /// The most bytes of cache files on disk: a hard limit.
    pub capacity: u64,
    /// Bytes that stay free on the file system: below it nothing is admitted.
    pub min_free: u64,
    /// Bytes that may wait to be written; chunks beyond that are refused. Waiting chunks are kept in
    /// memory, and can be read.
    pub write_queue: u64,
    /// Reads at a time; each holds a thread while the disk works.
    pub reads: usize,
    /// The time that a read may take beyond the disk's own norm before it counts as late. A late read is
    /// a miss, and the disk is not read until a probe succeeds. Including the bucket's time, a request
    /// should then wait at most 100 ms longer than otherwise.
    pub late: Duration,
}

impl DiskSettings {
    /// Returns a disk with the defaults for everything but path and capacity.
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
