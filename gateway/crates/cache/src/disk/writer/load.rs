//! The start: reads the index files, the newest segment first, and cleans up after a crash.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use tracing::{info, warn};

use super::super::entry::{DiskLocation, ENTRY_SIZE, decode_all, live_entries};
use super::super::files::{FileAccess, LogFile, is_shortage};
use super::super::layout::CLEAN_MARKER;
use super::super::log::Log;
use super::super::queue::QueuePhase;
use super::super::refusal::Fault;
use super::super::segment::{Segment, parse_name};
use super::Writer;
use crate::ChunkKey;
use tidegate_telemetry::progress::ProgressLines;

/// The segments that are still to be loaded, and what was found in the others.
#[derive(Debug)]
struct LoadProgress {
    began: Instant,
    /// The numbers, and whether each has a data file; the newest is last.
    left: Vec<(u32, bool)>,
    tally: LoadTally,
    lines: ProgressLines,
}

/// The chunks that were found.
#[derive(Debug, Default)]
struct LoadTally {
    chunks: u64,
    dropped: u64,
}

/// The load of the index.
#[derive(Debug, Default)]
pub(in crate::disk) struct Load(Option<LoadProgress>);

impl Writer {
    /// Loads the index. Ends early if the log is closed meanwhile. `false`: the disk or the system does not let it go on
    /// now; the caller tries again later, and nothing is written before.
    pub(in crate::disk) fn load(&mut self, load: &mut Load) -> bool {
        let progress = match &mut load.0 {
            Some(progress) => progress,
            None => match self.begin_load() {
                Ok(progress) => load.0.insert(progress),
                Err(error) => {
                    self.note_load_fault(&error);
                    return false;
                }
            },
        };
        let log = Arc::clone(&self.log);
        let path = log.dir.display().to_string();
        while let Some((number, data)) = progress.left.pop() {
            if log.queue.phase() != QueuePhase::Open {
                break;
            }
            if let Err(error) = self.load_segment(number, data, &mut progress.tally) {
                progress.left.push((number, data));
                self.note_load_fault(&error);
                return false;
            }
            log.set_step_start(Some(Instant::now()));
            let loaded = log.loaded.fetch_add(1, Ordering::Relaxed) + 1;
            if progress.lines.is_due(Instant::now()) {
                let of = log.to_load.load(Ordering::Relaxed);
                info!(
                    path,
                    loaded, of, "still loading the index of the cache disk"
                );
            }
        }
        let seconds = progress.began.elapsed().as_secs_f64();
        let LoadTally { chunks, dropped } = progress.tally;
        info!(path, chunks, dropped, seconds, "cache disk is open");
        self.finish_load();
        true
    }

    /// Lists the segments.
    fn begin_load(&mut self) -> io::Result<LoadProgress> {
        let (began, log) = (Instant::now(), Arc::clone(&self.log));
        // The time goes on while the disk is tried in vain.
        if !log.is_stepping() {
            log.set_step_start(Some(began));
        }
        let found = self.find_segments()?;
        let clean = log.files.unlink(&log.dir.join(CLEAN_MARKER)).is_ok();
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        log.to_load.store(count, Ordering::Relaxed);
        self.next = found
            .last_key_value()
            .map_or(0, |(last, _)| last.wrapping_add(1));
        let path = log.dir.display().to_string();
        info!(
            path,
            segments = count,
            clean,
            "loading the index of the cache disk"
        );
        Ok(LoadProgress {
            began,
            left: found.into_iter().collect(),
            tally: LoadTally::default(),
            lines: ProgressLines::begin(began),
        })
    }

    /// Logs why the index cannot be loaded now, unless that was logged before.
    fn note_load_fault(&self, error: &io::Error) {
        if self.log.health.set_load_fault(error) {
            let path = self.log.dir.display();
            warn!(%path, %error, "cannot read the cache disk; it is tried again until its index is loaded");
        }
    }

    /// Declares the loaded index complete.
    pub(in crate::disk) fn finish_load(&self) {
        self.log.set_step_start(None);
        self.log.health.set_loaded();
        // It is set already if loading panicked after it was done.
        let _ = self.log.ready.set(());
    }

    /// Returns the numbers of all segments, and whether each has a data file.
    fn find_segments(&self) -> io::Result<BTreeMap<u32, bool>> {
        let mut found = BTreeMap::new();
        // Another process may have it.
        if !self.log.layout.is_locked() {
            return Ok(found);
        }
        let names = match self.log.files.list(&self.log.dir) {
            // It was deleted a moment ago.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        for name in names {
            if let Some((number, data)) = parse_name(&name) {
                *found.entry(number).or_default() |= data;
            }
        }
        Ok(found)
    }

    /// Loads a segment, or drops it if it cannot be read. Fails if that is not the segment's fault.
    fn load_segment(&mut self, number: u32, data: bool, tally: &mut LoadTally) -> io::Result<()> {
        let loaded = if data {
            self.try_load(number, tally)
        } else {
            Err(io::ErrorKind::NotFound.into())
        };
        match loaded {
            Ok(segment) if segment.allocated() > 0 => {
                // Older segments come later, and belong under the hand first.
                self.clocks.push_oldest_trial(number);
                self.check_sparse(&segment);
            }
            Ok(_) => self.unlink(number),
            Err(error) if is_shortage(&error) => return Err(error),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let path = self.log.segments.index_path(number);
                    warn!(path = %path.display(), %error, "cannot read a segment; it is dropped");
                }
                self.log.index.drop_segment(number);
                self.unlink(number);
            }
        }
        Ok(())
    }

    fn try_load(&mut self, number: u32, tally: &mut LoadTally) -> io::Result<Arc<Segment>> {
        let log = Arc::clone(&self.log);
        let index = log
            .files
            .open(&log.segments.index_path(number), FileAccess::Existing)?;
        let data = log
            .files
            .open(&log.segments.data_path(number), FileAccess::Existing)?;
        let (all_entries, stat) = (read_entries(&*index, number)?, data.stat()?);
        let count = u64::try_from(all_entries.len()).unwrap_or(0);
        let entries = live_entries(all_entries);
        let total = entries.len();
        let mut taken: Vec<(u64, u64)> = Vec::with_capacity(total);
        // The segment is known before its chunks are, so that a reader that finds a chunk can read
        // it.
        let begun = stat.created.unwrap_or_else(SystemTime::now);
        let segment = Arc::new(Segment::new(number, Arc::clone(&data), begun, count));
        log.segments.insert(&segment);
        // The last entry of a chunk counts, here as among segments.
        for (key, location) in entries.into_iter().rev() {
            if !is_within(&log, &location, stat.len) {
                log.metrics.count_fault(Fault::Lost);
            } else if log.index.insert(&key, &location) {
                taken.push((location.offset, location.taken()));
            }
        }
        let live = taken.iter().map(|(_, len)| len).sum();
        segment.grow(0, live);
        tally.chunks += u64::try_from(taken.len()).unwrap_or(0);
        tally.dropped += u64::try_from(total - taken.len()).unwrap_or(0);
        if live > 0 && stat.allocated > live {
            let others = punch_gaps(&*data, taken, stat.len);
            // Space that cannot be given back counts until the segment goes.
            if others.is_err() {
                segment.grow(0, stat.allocated - live);
            }
        }
        Ok(segment)
    }
}

/// Bytes of an index file that are read at once.
const INDEX_PIECE: usize = 16 * 1024 * ENTRY_SIZE;

/// Reads the sound entries of an index file, and cuts off the rest, because more is appended there.
fn read_entries(index: &dyn LogFile, number: u32) -> io::Result<Vec<(ChunkKey, DiskLocation)>> {
    let len = index.stat()?.len;
    let mut entries = Vec::new();
    let mut sound = 0;
    // In pieces: a damaged file may say that it is longer than all memory.
    while sound < len {
        let more = decode_all(&index.read_at(sound, INDEX_PIECE)?, number);
        sound += (more.len() * ENTRY_SIZE) as u64;
        let is_whole = more.len() * ENTRY_SIZE == INDEX_PIECE;
        entries.extend(more);
        if !is_whole {
            break;
        }
    }
    if sound < len {
        // A file system that cannot be written takes no appended entries either.
        let _ = index.truncate(sound);
    }
    Ok(entries)
}

/// Returns whether an entry's chunk lies within the data file and is not too long.
fn is_within(log: &Log, location: &DiskLocation, len: u64) -> bool {
    let end = location.offset.checked_add(u64::from(location.len));
    u64::from(location.len) <= log.chunk && end.is_some_and(|end| end <= len)
}

/// Gives back all space between the chunks of a segment: chunks that were evicted, but not given
/// back before the process ended.
fn punch_gaps(data: &dyn LogFile, mut taken: Vec<(u64, u64)>, len: u64) -> io::Result<()> {
    taken.sort_unstable();
    let mut reached = 0;
    for (offset, bytes) in taken.into_iter().chain([(len, 0)]) {
        if offset > reached {
            data.punch(reached, offset - reached)?;
        }
        reached = reached.max(offset + bytes);
    }
    Ok(())
}
