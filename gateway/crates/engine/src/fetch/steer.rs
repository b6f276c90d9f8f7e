//! Steering: the choice between a disk and the origin for a chunk that a disk has.
//!
//! The plain path reads such a chunk from its disk. [`Steering`] leaves it to the origin if that is sooner: a disk may
//! be slow, or busy with other work. `tidegate_plan::tiering` has the rule; this module supplies its inputs.

use std::cell::OnceCell;

use super::version_fetches::VersionFetches;
use tidegate_plan::meter::ReadEstimate;
use tidegate_plan::tiering::{self, ChunkOutlook, ChunkSource, DiskEstimate};

/// A chunk that lies on a disk which may be asked.
#[derive(Clone, Copy)]
pub(crate) struct DiskChunk<'a> {
    pub(crate) fetches: &'a VersionFetches,
    pub(crate) index: u32,
    /// The estimate of the read.
    pub(crate) read: ReadEstimate,
}

/// A reader's approach to the chunks ahead of it.
#[derive(Debug, Clone)]
pub(crate) struct Approach {
    /// The reader's position, its own rate in bytes a second, and whether it takes all bytes at once.
    pub(crate) position: u64,
    pub(crate) rate: Option<f64>,
    pub(crate) takes_at_once: bool,
    /// The number of streams that it may use, and the number of requests that may still be started.
    pub(crate) streams: u32,
    pub(crate) free: u32,
    /// Measured once for a walk through the window, if a chunk lies on a disk.
    pub(crate) speeds: OnceCell<Speeds>,
}

/// Measured speeds in bytes a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speeds {
    /// The speed at which a reader advances.
    reader: f64,
    /// The disks' rate, if known.
    disk: Option<f64>,
}

/// Chooses the source of chunks that lie on a disk.
pub(crate) trait Steer: Send + Sync {
    /// Chooses for a chunk that a reader waits for, of a span that ends before chunk `until`.
    fn choose_awaited(&self, chunk: DiskChunk<'_>, until: u32) -> ChunkSource;

    /// Chooses for a chunk ahead of a reader.
    fn choose_ahead(&self, chunk: DiskChunk<'_>, reader: &Approach) -> ChunkSource;
}

/// Reads every chunk from the disk that has it.
pub(crate) struct DiskPreference;

impl Steer for DiskPreference {
    fn choose_awaited(&self, _: DiskChunk<'_>, _: u32) -> ChunkSource {
        ChunkSource::Disk
    }

    fn choose_ahead(&self, _: DiskChunk<'_>, _: &Approach) -> ChunkSource {
        ChunkSource::Disk
    }
}

/// Takes each chunk from the source that brings it in time.
pub(crate) struct Steering;

impl Steer for Steering {
    fn choose_awaited(&self, chunk: DiskChunk<'_>, until: u32) -> ChunkSource {
        let DiskChunk { fetches, index, .. } = chunk;
        let disk = chunk.disk(fetches.core.chunks.disk_rate());
        let span = fetches.span_len(&fetches.demand_span(index, until));
        let len = fetches.chunk_len(index) as u64;
        tiering::choose_awaited(disk, fetches.rate.connection(), len, span)
    }

    fn choose_ahead(&self, chunk: DiskChunk<'_>, reader: &Approach) -> ChunkSource {
        let DiskChunk { fetches, index, .. } = chunk;
        let speeds = reader.speeds(fetches);
        let start = fetches.core.geometry.start(index);
        let outlook = ChunkOutlook {
            distance: start.saturating_sub(reader.position),
            speed: speeds.reader,
            disk: Some(chunk.disk(speeds.disk)),
            origin: (reader.free > 0).then(|| fetches.rate.connection()),
        };
        outlook.choose(fetches.chunk_len(index) as u64)
    }
}

impl DiskChunk<'_> {
    /// Returns the expected behaviour of its disk. Without a measured rate, that is infinity, so that the disk is tried.
    fn disk(&self, measured: Option<f64>) -> DiskEstimate {
        DiskEstimate {
            read: self.read,
            rate: measured.unwrap_or(f64::INFINITY),
        }
    }
}

impl Approach {
    fn speeds(&self, fetches: &VersionFetches) -> Speeds {
        *self.speeds.get_or_init(|| {
            let disk = fetches.core.chunks.disk_rate();
            // An origin without a measured rate counts as a single connection.
            let origin = match fetches.rate.rate() {
                Some(each) => each * f64::from(self.streams),
                None => fetches.rate.connection().rate,
            };
            let reader = tiering::approach_rate(self.rate, self.takes_at_once, disk, Some(origin));
            Speeds { reader, disk }
        })
    }
}
