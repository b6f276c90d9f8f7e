//! Tests of the log whose writer and monitor are called step by step, over files that fail as told.

mod capacity;
mod damage;
mod faults;
mod model;
mod pinned;
mod reads;
mod shortages;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;

use super::files::faulty::{FaultyFiles, FileFaults};
use super::layout::Layout;
use super::log::Log;
use super::monitor::DiskMonitor;
use super::queue::QueuePhase;
use super::reader::ReadLimits;
use super::refusal::{Fault, Refusal};
use super::writer::load::Load;
use super::writer::{NextStep, Writer};
use crate::metrics::{DiskMetrics, StoreMetrics};
use crate::pins::{PinId, SharedPins};
use crate::{ChunkKey, DiskSettings};
use tidegate_plan::{Geometry, VersionId};

const CHUNK: usize = 4096;

/// Pseudorandom numbers, the same in each run.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("64 bits") % sides
    }
}

pub(super) fn key(number: u32) -> ChunkKey {
    ChunkKey {
        version: VersionId(u128::from(number / 4) << 70 | 7),
        index: number,
    }
}

/// Returns bytes that no other chunk has; half of the chunks are shorter than a page.
pub(super) fn content(number: u32) -> Bytes {
    let len = if number.is_multiple_of(2) {
        CHUNK
    } else {
        1 + number as usize % 4000
    };
    let mut dice = Dice(u64::from(number) << 20 | 1);
    let byte = |_| u8::try_from(dice.roll(256)).expect("a byte");
    (0..len).map(byte).collect()
}

/// A log, its writer and its monitor, and a clock that the test moves.
pub(super) struct Rig {
    pub(super) dir: TempDir,
    pub(super) files: FaultyFiles,
    pub(super) settings: DiskSettings,
    pub(super) pins: SharedPins,
    pub(super) log: Arc<Log>,
    pub(super) writer: Writer,
    pub(super) monitor: DiskMonitor,
    pub(super) load: Load,
    pub(super) now: Instant,
}

impl Rig {
    /// Creates an empty log of `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = DiskSettings {
            min_free: 0,
            ..DiskSettings::new(dir.path(), capacity)
        };
        let files = FaultyFiles::default();
        let pins = SharedPins::default();
        let (log, writer, monitor) = open(&settings, &files, &pins);
        let mut rig = Self {
            dir,
            files,
            settings,
            pins,
            log,
            writer,
            monitor,
            load: Load::default(),
            now: Instant::now(),
        };
        rig.load_on();
        rig
    }

    /// Loads the index, or goes on with it. Returns whether it is complete.
    pub(super) fn load_on(&mut self) -> bool {
        self.writer.load(&mut self.load)
    }

    /// Opens the log as another process would; unwritten chunks are lost.
    pub(super) fn reopen(&mut self) {
        self.log.layout.unlock();
        let (log, writer, monitor) = open(&self.settings, &self.files, &self.pins);
        (self.log, self.writer, self.monitor) = (log, writer, monitor);
        self.load = Load::default();
        self.load_on();
    }

    /// Closes the log in order.
    pub(super) fn close(&mut self) {
        self.log.queue.advance(QueuePhase::Closing);
        while self.step() != NextStep::Ended {}
    }

    pub(super) fn step(&mut self) -> NextStep {
        self.writer.step(self.now)
    }

    /// Lets the writer finish all work, and sync.
    pub(super) fn settle(&mut self) {
        loop {
            match self.step() {
                NextStep::Now => {}
                NextStep::After(time) => self.now += time,
                NextStep::OnWake | NextStep::Ended => return,
            }
        }
    }

    /// Moves the clock by a second.
    pub(super) fn tick(&mut self) {
        self.now += Duration::from_secs(1);
        self.monitor.check(self.now);
        self.settle();
    }

    pub(super) fn put(&self, number: u32) -> Result<(), Refusal> {
        self.log.offer(key(number), content(number), PinId::NONE)
    }

    /// Puts chunks in, and writes them along the way.
    pub(super) fn fill(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.put(number).expect("taken");
            if number % 8 == 7 {
                self.settle();
            }
        }
        self.settle();
    }

    /// Reads a chunk, which must be right if it is there.
    pub(super) fn get(&self, number: u32) -> bool {
        let key = key(number);
        let found = self.log.queue.get(&key).or_else(|| {
            let location = self.log.index.touch(&key)?;
            let read = self.log.read(&key, &location, false);
            if read.is_err() {
                self.log.forget(&key, &location);
            }
            read.ok()
        });
        if let Some(bytes) = &found {
            assert_eq!(*bytes, content(number), "{number}");
        }
        found.is_some()
    }

    /// Counts how many of these chunks are there; none may be wrong.
    pub(super) fn count(&self, numbers: impl IntoIterator<Item = u32>) -> usize {
        numbers.into_iter().filter(|n| self.get(*n)).count()
    }

    pub(super) fn data_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.log.dir).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// Returns the bytes that the files take up on the file system.
    pub(super) fn on_disk(&self) -> u64 {
        let blocks = |path: &PathBuf| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
        self.data_files().iter().map(blocks).sum()
    }

    pub(super) fn wrong(&self, wrong: FileFaults) {
        self.files.set(wrong);
    }
}

pub(super) fn metrics() -> DiskMetrics {
    StoreMetrics::default().disk("disk")
}

fn open(
    settings: &DiskSettings,
    files: &FaultyFiles,
    pins: &SharedPins,
) -> (Arc<Log>, Writer, DiskMonitor) {
    let geometry = Geometry::new(CHUNK as u64).expect("a power of two");
    let layout = Layout::prepare(settings, geometry, files).expect("can be used");
    let log = Log::new(settings, layout, Arc::new(files.clone()), metrics(), pins);
    let log = Arc::new(log);
    let writer = Writer::new(Arc::clone(&log));
    let monitor = DiskMonitor::new(
        Arc::clone(&log),
        ReadLimits::unmeasured(Duration::from_secs(3600)),
    );
    (log, writer, monitor)
}

#[test]
fn what_is_queued_can_be_read_and_then_what_is_written() {
    let mut rig = Rig::new(1 << 20);
    for number in 0..20 {
        rig.put(number).expect("taken");
        assert_eq!(rig.put(number), Err(Refusal::Present));
    }
    assert_eq!(rig.count(0..20), 20);
    assert_eq!(rig.log.index.len(), 0);
    rig.settle();
    assert_eq!((rig.log.index.len(), rig.log.queue.bytes()), (20, 0));
    assert_eq!(
        rig.put(3),
        Err(Refusal::Present),
        "nothing is written twice"
    );
    assert_eq!(rig.count(0..30), 20);
    assert_eq!(
        rig.log.offer(key(99), Bytes::new(), PinId::NONE),
        Err(Refusal::Size)
    );
    let long = Bytes::from(vec![1; CHUNK + 1]);
    assert_eq!(
        rig.log.offer(key(99), long, PinId::NONE),
        Err(Refusal::Size)
    );
}

#[test]
fn a_restart_finds_all_that_was_written_in_order_or_not() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..300);
    rig.reopen();
    assert_eq!(rig.count(0..300), 300);
    rig.fill(300..400);
    for number in 400..405 {
        rig.put(number).expect("taken");
    }
    rig.close();
    assert_eq!(rig.put(500), Err(Refusal::Closed));
    assert!(rig.log.dir.join("clean").exists());
    rig.reopen();
    assert_eq!(rig.count(0..405), 405);
    assert!(!rig.log.dir.join("clean").exists());
}

#[test]
fn what_was_removed_stays_away_and_gives_its_space_back() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..200);
    let (before, taken) = (rig.on_disk(), rig.log.segments.taken());
    for number in (0..200).filter(|n| n % 4 != 0) {
        rig.log.remove(&key(number));
    }
    rig.put(500).expect("taken");
    rig.log.remove(&key(500));
    rig.settle();
    assert_eq!(rig.count(0..200), 50);
    assert!(rig.on_disk() < before / 2, "{} of {before}", rig.on_disk());
    assert!(rig.log.segments.taken() < taken / 2);
    rig.reopen();
    assert_eq!(rig.count(0..501), 50);
}

/// The chunk is removed between its write and its entry into the index: the writer has the batch in
/// hand.
#[test]
fn a_chunk_removed_while_it_is_written_is_not_entered() {
    let rig = Rig::new(1 << 20);
    rig.put(1).expect("taken");
    let batch = rig.log.queue.take(u64::MAX);
    rig.log.remove(&key(1));
    assert_eq!(rig.log.queue.finish(&batch[0].key, batch[0].ticket), None);
    assert!(!rig.get(1));
}
