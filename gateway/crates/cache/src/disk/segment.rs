//! The segments of a log: pairs of files, `NNNNNNNN.data` and `NNNNNNNN.index`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use super::entry::ENTRY_SIZE;
use super::files::{LogFile, PAGE_SIZE};

use tidegate_telemetry::locks::Recover as _;

/// Records of extents that fit one page. A file system spends such pages on a file beside its
/// bytes, and a punched file has many extents.
const EXTENTS_PER_PAGE: u64 = 256;

/// One segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// Its number; higher ones were begun later.
    pub(super) number: u32,
    /// For reads, and for giving space back.
    pub(super) data: Arc<dyn LogFile>,
    /// The time at which it was begun.
    begun: SystemTime,
    /// Bytes of chunks in the data file that were not given back.
    allocated: AtomicU64,
    /// Entries in the index file, tombstones included.
    entries: AtomicU64,
}

impl Segment {
    /// Creates a segment that was begun at `begun`, with `entries` in its index file.
    pub(super) fn new(
        number: u32,
        data: Arc<dyn LogFile>,
        begun: SystemTime,
        entries: u64,
    ) -> Self {
        Self {
            number,
            data,
            begun,
            allocated: AtomicU64::new(0),
            entries: AtomicU64::new(entries),
        }
    }

    /// Returns the time since it was begun; none if the clock was set back.
    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed().unwrap_or_default()
    }

    /// Counts written entries and bytes.
    pub(super) fn grow(&self, entries: usize, bytes: u64) {
        let entries = u64::try_from(entries).unwrap_or(0);
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were given back.
    pub(super) fn shrink(&self, bytes: u64) {
        let less = |held: u64| Some(held.saturating_sub(bytes));
        let _ = self
            .allocated
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Returns the bytes of chunks that were not given back.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Returns the length of the index file.
    pub(super) fn index_len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed) * ENTRY_SIZE as u64
    }

    /// Returns the most bytes that both files take up.
    pub(super) fn taken(&self) -> u64 {
        let entries = self.entries.load(Ordering::Relaxed);
        let extents = (1 + entries / EXTENTS_PER_PAGE) * PAGE_SIZE;
        self.allocated() + self.index_len().next_multiple_of(PAGE_SIZE) + extents
    }
}

/// Bytes that a segment without chunks takes up, and one more page of index entries.
pub(super) const EMPTY_SEGMENT_SIZE: u64 = 4 * PAGE_SIZE;

/// All segments of a log by number.
#[derive(Debug)]
pub(super) struct Segments {
    dir: PathBuf,
    map: RwLock<BTreeMap<u32, Arc<Segment>>>,
}

impl Segments {
    /// Creates an empty set of segments in `dir`.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            map: RwLock::default(),
        }
    }

    /// Returns the path of a segment's data file.
    pub(super) fn data_path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{number:08}.data"))
    }

    /// Returns the path of a segment's index file.
    pub(super) fn index_path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{number:08}.index"))
    }

    /// Returns the segment with this number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Segment>> {
        self.read().get(&number).cloned()
    }

    /// Returns the segment that was begun last.
    pub(super) fn newest(&self) -> Option<Arc<Segment>> {
        self.read().last_key_value().map(|(_, last)| last.clone())
    }

    /// Adds a segment.
    pub(super) fn insert(&self, segment: &Arc<Segment>) {
        let mut map = self.map.write().recover();
        map.insert(segment.number, Arc::clone(segment));
    }

    /// Removes a segment.
    pub(super) fn remove(&self, number: u32) {
        let mut map = self.map.write().recover();
        map.remove(&number);
    }

    /// Removes all segments.
    pub(super) fn clear(&self) {
        let mut map = self.map.write().recover();
        map.clear();
    }

    /// Returns the number of segments.
    pub(super) fn len(&self) -> usize {
        self.read().len()
    }

    /// Returns the most bytes that all of them take up.
    pub(super) fn taken(&self) -> u64 {
        self.read().values().map(|segment| segment.taken()).sum()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u32, Arc<Segment>>> {
        self.map.read().recover()
    }
}

/// Returns the number in the name of a segment's file, and whether it is the data file.
pub(super) fn parse_name(name: &str) -> Option<(u32, bool)> {
    let (number, kind) = name.split_once('.')?;
    let data = match kind {
        "data" => true,
        "index" => false,
        _ => return None,
    };
    Some((number.parse().ok()?, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let segments = Segments::new(Path::new("/x"));
        for number in [0, 7, 99_999_999, 100_000_000, u32::MAX] {
            for (path, data) in [
                (segments.data_path(number), true),
                (segments.index_path(number), false),
            ] {
                let name = path.file_name().and_then(|name| name.to_str());
                assert_eq!(name.and_then(parse_name), Some((number, data)));
            }
        }
        for other in ["probe", "clean", "x.data", "1.date", "-1.data"] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
