//! The bytes of a draft, each at its offset in one sparse file.
//!
//! A large object is written once, from front to back, and is sent soon after. Through the file
//! cache that would take a fresh page for each of its pages, and evict pages that others read. So
//! sequential writes are gathered into blocks (`tail`). Full blocks go past the cache (`O_DIRECT`)
//! both ways, and stay in memory until they are sent, as far as there is room (`blocks`). Meanwhile
//! writers do not wait for the disk (`behind`). A small object is sent from memory, and has no file
//! unless it must be durable; then the journal has its bytes.
//!
//! Bytes that fill no block, and small pieces elsewhere, go through the cache, but never at the
//! same time: two concurrent writes of one page, one past the cache and one through it, are
//! undefined (open(2), NOTES). In sequence they are ordered, because a direct write flushes and
//! drops the cached pages of its range. So all waiting blocks are written before any other write or
//! sync.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use bytes::{Buf as _, Bytes};
use tokio::runtime::Handle;

use super::blocks::{BLOCK_BYTES, Blocks, Memory, MemoryCharge};
use super::journal;
use super::slots::check_name;
use super::tail::Tail;
use super::write_behind::WriteBehindQueue;
use tidegate_cache::direct::{self, PAGE_SIZE};
use tidegate_cache::private_files::{self, file_options};
use tidegate_origin::Sums;
use tidegate_plan::{ByteRange, Extents};
use tidegate_telemetry::locks::Recover as _;

mod flush;
mod page_cache;
mod read;

use page_cache::PageCacheRanges;

/// Bytes read at once. While several parts are sent, memory holds twice this for each of them.
pub(crate) const FRAME_BYTES: u64 = BLOCK_BYTES;

/// The length from which a write before the tail moves the tail there.
const MIN_TAIL_MOVE: usize = 64 << 10;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Data {
    path: PathBuf,
    /// The data file, created when bytes must be written to it.
    file: OnceLock<File>,
    /// The same file, opened with `O_DIRECT` for the first block.
    direct: OnceLock<File>,
    /// The lock for writes to the file, except those of `behind`.
    end: Mutex<DataEnd>,
    /// Grows only while `end` is held.
    behind: WriteBehindQueue,
    blocks: Blocks,
    memory: Memory,
    /// Ranges that the file cache has, and the disk may not.
    cached: Mutex<PageCacheRanges>,
    /// Held while the file is synced, and never taken by a thread that has `end`.
    sync_turn: Mutex<()>,
}

/// The end of sequential writes, and the bytes that are not in the file yet.
#[derive(Debug, Default)]
struct DataEnd {
    way: WriteMode,
    tail: Tail,
    kept: Option<JournaledBytes>,
    /// Whether the kept bytes are in the file by now, or gone.
    moved: bool,
    /// Whether a sync failed. The kernel counts the failed pages as written, so no later sync makes
    /// them durable.
    is_lost: bool,
}

/// The way in which the file system takes blocks, learned from the first one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    #[default]
    Unknown,
    PastCache,
    /// The file system has no direct writes, and there is no tail.
    ThroughCache,
}

/// The place where bytes were made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncLocation {
    /// The journal, which is durable with them.
    InJournal,
    /// The file; or there were none.
    InPlace,
    /// The file; the journal's copy counts no more.
    Moved,
}

/// Bytes that are in a journal, and not in the file.
#[derive(Debug)]
pub(super) struct JournaledBytes {
    /// Their range in the object.
    pub(super) range: ByteRange,
    /// The journal's file.
    pub(super) file: File,
    /// Their offset in the journal.
    pub(super) place: u64,
    /// The journal's identity.
    pub(super) id: u64,
}

impl JournaledBytes {
    fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        let bytes = journal::read_raw(&self.file, self.id, self.place)?;
        let within = range.within(self.range.start);
        match within.end <= bytes.len() {
            true => Ok(Bytes::from(bytes).slice(within)),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Data {
    /// Creates data without a file. It will be at `path`.
    pub(super) fn new(path: &Path, memory: Memory) -> Self {
        Self {
            path: path.to_owned(),
            file: OnceLock::new(),
            direct: OnceLock::new(),
            end: Mutex::default(),
            behind: WriteBehindQueue::default(),
            blocks: Blocks::default(),
            memory,
            cached: Mutex::default(),
            sync_turn: Mutex::default(),
        }
    }

    /// Opens existing data at `path`, if there is a file, or in a journal.
    pub(super) fn reopen(
        path: &Path,
        kept: Option<JournaledBytes>,
        memory: Memory,
    ) -> io::Result<Self> {
        let data = Self::new(path, memory);
        data.end().kept = kept;
        if path.try_exists()? {
            data.file()?;
        }
        Ok(data)
    }

    /// Returns the file; creates it if it is missing.
    pub(super) fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let mut options = file_options();
        options.read(true).write(true).create(true).truncate(false);
        let file = private_files::open(&options, &self.path)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Returns the file opened past the cache.
    fn direct(&self) -> io::Result<&File> {
        if let Some(direct) = self.direct.get() {
            return Ok(direct);
        }
        self.file()?;
        let direct = direct::open(file_options().read(true).write(true), &self.path)?;
        Ok(self.direct.get_or_init(|| direct))
    }

    /// Returns whether there is a file.
    pub(super) fn has_file(&self) -> bool {
        self.file.get().is_some()
    }

    /// Checks that the file, if there is one, has its name: no crash finds its bytes otherwise. Blocks.
    pub(super) fn check_name(&self) -> io::Result<()> {
        let file = self.file.get();
        file.map_or(Ok(()), |file| check_name(file, &self.path))
    }

    /// Returns the length of the file in bytes.
    pub(super) fn length(&self) -> io::Result<u64> {
        self.file
            .get()
            .map_or(Ok(0), |file| Ok(file.metadata()?.len()))
    }

    fn end(&self) -> MutexGuard<'_, DataEnd> {
        self.end.lock().recover()
    }

    /// Locks the end if it is free. Does not block.
    fn end_now(&self) -> Option<MutexGuard<'_, DataEnd>> {
        match self.end.try_lock() {
            Ok(end) => Some(end),
            Err(TryLockError::Poisoned(end)) => Some(end.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes bytes if their writer need not wait for the disk: they fill no block, or one that can
    /// be written in the background, and begin another. Does not block.
    pub(super) fn take_in(&self, offset: u64, bytes: &Bytes) -> bool {
        let whole = self.whole(offset, bytes);
        let end = self.end_now();
        end.is_some_and(|mut end| self.take_now(&mut end, offset, bytes, whole))
    }

    /// Returns whether bytes continue the tail, and are better copied into it than made a block of
    /// their own. Does not block.
    pub(super) fn goes_on(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = self.end_now().filter(|_| !has_block(offset, bytes));
        end.is_some_and(|end| end.way != WriteMode::ThroughCache && end.tail.reaches(offset))
    }

    /// Takes borrowed bytes that continue the tail, like [`Self::take_in`].
    pub(super) fn copy_in(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = self.end_now();
        end.is_some_and(|mut end| self.take_now(&mut end, offset, bytes, None))
    }

    /// Returns a block made of exactly these bytes, its checksums, and memory to keep it.
    fn whole(&self, offset: u64, bytes: &Bytes) -> Option<(Bytes, Sums, MemoryCharge)> {
        let is_whole = is_block(offset, bytes) && bytes.len() == Tail::room(offset);
        let can_wait = is_whole && self.behind.has_room();
        let charged = can_wait.then(|| self.memory.take(BLOCK_BYTES)).flatten()?;
        Some((bytes.clone(), Sums::of(bytes), charged))
    }

    fn take_now(
        &self,
        end: &mut DataEnd,
        offset: u64,
        bytes: &[u8],
        whole: Option<(Bytes, Sums, MemoryCharge)>,
    ) -> bool {
        let is_cached = end.way == WriteMode::ThroughCache;
        let needs_file = is_cached || end.kept.is_some() || self.behind.has_failed();
        if needs_file || !end.tail.reaches(offset) {
            return false;
        }
        let room = Tail::room(offset);
        if bytes.len() < room {
            return end.tail.push(offset, bytes, &self.memory);
        }
        let start = match end.tail.is_empty() {
            true => offset,
            false => end.tail.range().start,
        };
        let range = ByteRange::new(start, offset + room as u64);
        let is_direct = end.way == WriteMode::PastCache;
        let can_wait = is_direct && self.behind.has_room() && !self.behind.meets(range);
        // Bytes of the next block begin the next tail.
        let rest = bytes.len() - room;
        if !can_wait || rest as u64 >= BLOCK_BYTES || !end.tail.charge(rest, &self.memory) {
            return false;
        }
        let (block, sums, charged) = match whole {
            Some(whole) if end.tail.is_empty() => whole,
            _ => {
                let Some(charged) = self.memory.take(BLOCK_BYTES) else {
                    return false;
                };
                if !end.tail.push(offset, &bytes[..room], &self.memory) {
                    return false;
                }
                let sums = Sums::of(end.tail.bytes());
                (end.tail.take(), sums, charged)
            }
        };
        self.blocks
            .note_behind(range, sums, (block.clone(), charged));
        self.behind.push(range, block);
        rest == 0 || end.tail.push(range.end, &bytes[room..], &self.memory)
    }

    /// Writes bytes at their offset. After an error, the range is undefined.
    pub(super) fn write(&self, mut offset: u64, mut bytes: Bytes) -> io::Result<()> {
        self.behind.make_room(self.to_disk())?;
        let whole = self.whole(offset, &bytes);
        let mut end = self.end();
        // Another caller held the end before, or there was no room.
        if self.take_now(&mut end, offset, &bytes, whole) {
            return Ok(());
        }
        self.move_kept(&mut end)?;
        self.make_way(&mut end, offset, bytes.len())?;
        while !bytes.is_empty() {
            // The first block may show this.
            if end.way == WriteMode::ThroughCache {
                self.put_away(&mut end)?;
                drop(end);
                return self.write_cached(offset, &bytes);
            }
            let done = match end.tail.reaches(offset) {
                true if end.tail.is_empty() && is_block(offset, &bytes) => {
                    self.write_block(&mut end, offset, bytes.slice(..Tail::room(offset)))?
                }
                true => self.gather(&mut end, offset, &bytes)?,
                false => self.write_apart(&end, offset, &bytes)?,
            };
            offset += done as u64;
            bytes.advance(done);
        }
        Ok(())
    }

    /// Flushes the tail, unless the write continues it, or is a small one before it.
    fn make_way(&self, end: &mut DataEnd, offset: u64, length: usize) -> io::Result<()> {
        let tail = end.tail.range();
        let is_before = length < MIN_TAIL_MOVE && offset + length as u64 <= tail.start;
        match offset == tail.end || is_before {
            true => Ok(()),
            false => self.put_away(end),
        }
    }

    /// Appends bytes to the tail, up to the end of its block; returns how many.
    fn gather(&self, end: &mut DataEnd, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(Tail::room(offset))];
        if !end.tail.push(offset, piece, &self.memory) {
            self.put_away(end)?;
            self.write_cached(offset, piece)?;
            return Ok(piece.len());
        }
        if end.tail.is_full()
            && let Err(error) = self.put_away(end)
        {
            end.tail.take_back(piece.len());
            return Err(error);
        }
        Ok(piece.len())
    }

    /// Writes bytes that do not continue the tail. Without a tail, writes only those up to the next
    /// page, where a tail can begin. Returns how many.
    fn write_apart(&self, end: &DataEnd, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let to_page = usize::try_from(PAGE_SIZE - offset % PAGE_SIZE).unwrap_or(usize::MAX);
        let piece = match end.tail.is_empty() {
            true => &bytes[..bytes.len().min(to_page)],
            false => bytes,
        };
        self.write_cached(offset, piece)?;
        Ok(piece.len())
    }

    fn write_cached(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.settle()?;
        let range = ByteRange::new(offset, offset + bytes.len() as u64);
        self.blocks.forget(range);
        self.write_to_cache(range, bytes)
    }

    /// Discards the waiting blocks because the file is about to be deleted. Open readers keep
    /// theirs in memory.
    pub(super) fn abandon(&self) {
        self.behind.discard();
    }

    /// Moves the bytes in the journal into the file.
    fn move_kept(&self, end: &mut DataEnd) -> io::Result<()> {
        if let Some(kept) = &end.kept {
            self.write_cached(kept.range.start, &kept.read(kept.range)?)?;
            end.kept = None;
            end.moved = true;
        }
        Ok(())
    }

    /// Returns whether the journal has bytes that are nowhere else.
    pub(super) fn is_in_journal(&self) -> bool {
        self.end().kept.is_some()
    }

    /// Releases the memory of a range, which is read from the disk from now on.
    pub(super) fn let_go(&self, range: ByteRange) {
        self.blocks.let_go(range);
    }

    /// Removes all bytes outside `kept` and beyond `size` from a recovered file. Other bytes there
    /// do not count, and must read as zeros.
    pub(super) fn keep_only(&self, kept: &Extents, size: u64) -> io::Result<()> {
        self.cut(size)?;
        let gaps = kept.gaps(ByteRange::new(0, size));
        gaps.into_iter().try_for_each(|gap| self.punch(gap))
    }

    /// Drops a range from memory. Bytes that are only in memory need no disk for that.
    fn touch(&self, range: ByteRange) -> io::Result<()> {
        let mut end = self.end();
        match &end.kept {
            Some(kept) if kept.range.intersect(range) == Some(kept.range) => {
                end.kept = None;
                end.moved = true;
            }
            Some(kept) if kept.range.intersect(range).is_some() => self.move_kept(&mut end)?,
            _ => {}
        }
        let punched = |bytes: &Bytes, hole| self.memory.punched(bytes, hole);
        for (block, bytes) in self.behind.punch(range, punched) {
            self.blocks.replace(block.start, Sums::of(&bytes), bytes);
        }
        end.tail.punch(range);
        Ok(())
    }
}

impl Drop for Data {
    /// Closes the files in a blocking thread. The last handle on a file without a name frees its
    /// blocks, which takes a disk a tenth of a second or more for each gigabyte.
    fn drop(&mut self) {
        let files = (self.file.take(), self.direct.take());
        if let (Some(_), Ok(runtime)) = (&files.0, Handle::try_current()) {
            runtime.spawn_blocking(move || drop(files));
        }
    }
}

/// Returns whether bytes begin with a whole block.
fn has_block(offset: u64, bytes: &[u8]) -> bool {
    offset.is_multiple_of(BLOCK_BYTES) && bytes.len() >= Tail::room(offset)
}

/// Returns whether, in addition, a direct write takes them as they are.
fn is_block(offset: u64, bytes: &[u8]) -> bool {
    has_block(offset, bytes) && bytes.as_ptr().align_offset(PAGE_SIZE as usize) == 0
}

#[cfg(test)]
mod tests;
