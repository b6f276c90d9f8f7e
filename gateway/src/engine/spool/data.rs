//! The bytes of a draft, each at its place in one sparse file.
//!
//! Who writes a large object writes it once, from front to back, and it is sent at once. Through the
//! file cache that would cost a fresh page for each of its pages, and push out what others read. So
//! what is written in order is gathered into blocks (`tail`). Full ones go past the cache (`O_DIRECT`),
//! and stay in memory until they are sent, as far as there is some (`recent`). A small object is sent
//! from memory, and never reaches the disk unless it must be durable.
//!
//! What fills no block, and small pieces elsewhere, go through the cache. Never both ways at once: what two writes of one page
//! do, one past the cache and one through it, is undefined (open(2), NOTES); one after the other they
//! are in order, for a direct write flushes and drops what the cache has of its range.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};

use super::recent::{Memory, Recent};
use super::tail::{BLOCK, Tail};
use crate::plan::ByteRange;
use crate::store::direct::{self, PAGE};

/// What is read at a time: with several parts on their way, memory holds so much of each twice.
pub(in crate::engine) const FRAME: u64 = BLOCK;

/// Who writes so much elsewhere goes on from there.
const LARGE: usize = 64 << 10;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Data {
    file: File,
    /// Held by who writes past the cache, or may have to wait for who does.
    end: Mutex<End>,
    recent: Recent,
    memory: Memory,
}

/// Where it is written to past the cache.
#[derive(Debug)]
struct End {
    /// The same file; `None`: the file system does not know direct writes, and there is no tail.
    direct: Option<File>,
    tail: Tail,
}

impl Data {
    /// A file that was opened here.
    pub(super) fn new(file: File, path: &Path, memory: Memory) -> Self {
        let end = End {
            direct: direct::open(OpenOptions::new().write(true), path).ok(),
            tail: Tail::default(),
        };
        Self {
            file,
            end: Mutex::new(end),
            recent: Recent::default(),
            memory,
        }
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has it. Does not block.
    fn end_now(&self) -> Option<MutexGuard<'_, End>> {
        match self.end.try_lock() {
            Ok(end) => Some(end),
            Err(TryLockError::Poisoned(end)) => Some(end.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes bytes in that fill no block, and so need no disk. Does not block.
    pub(super) fn take_in(&self, offset: u64, bytes: &[u8]) -> bool {
        self.end_now().is_some_and(|mut end| {
            end.direct.is_some()
                && end.tail.reaches(offset)
                && bytes.len() < Tail::room(offset)
                && end.tail.push(offset, bytes, &self.memory)
        })
    }

    /// Writes bytes at their place. After an error those of the range are undefined.
    pub(super) fn write(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut end = self.end();
        if end.direct.is_none() {
            drop(end);
            return self.write_cached(offset, bytes);
        }
        self.make_way(&mut end, offset, bytes.len())?;
        while !bytes.is_empty() {
            let done = match end.tail.reaches(offset) {
                true => self.gather(&mut end, offset, bytes)?,
                false => self.write_apart(&end, offset, bytes)?,
            };
            (offset, bytes) = (offset + done as u64, &bytes[done..]);
        }
        Ok(())
    }

    /// Puts the tail away, unless a write goes on from it, or is a small one before it.
    fn make_way(&self, end: &mut End, offset: u64, length: usize) -> io::Result<()> {
        let tail = end.tail.range();
        let is_before = length < LARGE && offset + length as u64 <= tail.start;
        match offset == tail.end || is_before {
            true => Ok(()),
            false => self.put_away(end),
        }
    }

    /// Puts bytes behind the tail, up to the end of its block; says how many.
    fn gather(&self, end: &mut End, offset: u64, bytes: &[u8]) -> io::Result<usize> {
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

    /// Writes bytes that the tail does not reach to; where there is none, only those up to the next
    /// page, for one can begin there. Says how many.
    fn write_apart(&self, end: &End, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let to_page = usize::try_from(PAGE - offset % PAGE).unwrap_or(usize::MAX);
        let piece = match end.tail.is_empty() {
            true => &bytes[..bytes.len().min(to_page)],
            false => bytes,
        };
        self.write_cached(offset, piece)?;
        Ok(piece.len())
    }

    fn write_cached(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        self.recent.forget(ByteRange::new(offset, end));
        self.file.write_all_at(bytes, offset)
    }

    /// Empties the tail into the file: a full one past the cache.
    fn put_away(&self, end: &mut End) -> io::Result<()> {
        let (range, tail) = (end.tail.range(), &mut end.tail);
        if let Some(direct) = end.direct.as_ref().filter(|_| tail.is_full()) {
            match direct.write_all_at(tail.bytes(), range.start) {
                Ok(()) => {
                    match tail.take(&self.memory) {
                        Some((bytes, charged)) => self.recent.keep(range.start, bytes, charged),
                        None => self.recent.forget(range),
                    }
                    return Ok(());
                }
                Err(error) if direct::is_unsupported(&error) => end.direct = None,
                Err(error) => return Err(error),
            }
        }
        self.write_cached(range.start, tail.bytes())?;
        tail.clear();
        Ok(())
    }

    /// Reads a range; what was never written is zero.
    pub(super) fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        let first = self.first(range)?;
        if first.len() as u64 == range.len() {
            return Ok(first);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        bytes.extend_from_slice(&first);
        while (bytes.len() as u64) < range.len() {
            let rest = ByteRange::new(range.start + bytes.len() as u64, range.end);
            bytes.extend_from_slice(&self.first(rest)?);
        }
        Ok(bytes.into())
    }

    /// The first bytes of a range that are in one place.
    pub(super) fn first(&self, range: ByteRange) -> io::Result<Bytes> {
        match self.in_memory(&self.end().tail, range) {
            Ok(kept) => Ok(kept),
            Err(end) => self.read_file(ByteRange::new(range.start, end)),
        }
    }

    /// The same, if no disk has to be read for it. Does not block.
    pub(super) fn at_hand(&self, range: ByteRange) -> Option<Bytes> {
        self.in_memory(&self.end_now()?.tail, range).ok()
    }

    /// The first bytes of a range that are in memory; or where in the range there are some, which is
    /// its end if there are none.
    fn in_memory(&self, tail: &Tail, range: ByteRange) -> Result<Bytes, u64> {
        if let Some(bytes) = tail.from(range.start) {
            let most = usize::try_from(range.len()).unwrap_or(usize::MAX);
            return Ok(Bytes::copy_from_slice(&bytes[..bytes.len().min(most)]));
        }
        let mut end = range.end;
        if !tail.is_empty() && tail.range().start > range.start {
            end = end.min(tail.range().start);
        }
        self.recent.first(ByteRange::new(range.start, end))
    }

    fn read_file(&self, range: ByteRange) -> io::Result<Bytes> {
        let length = usize::try_from(range.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            let at = range.start + done as u64;
            match self.file.read_at(&mut bytes[done..], at) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes.into())
    }

    /// Lets go of what is in memory of a range: it is read from the disk from now on.
    pub(super) fn let_go(&self, range: ByteRange) {
        self.recent.forget(range);
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut end = self.end();
        self.put_away(&mut end)?;
        // Of many that are closed and wait to be committed none holds a buffer.
        end.tail = Tail::default();
        drop(end);
        self.file.sync_data()
    }

    /// Lets go of data; it reads as zero from now on.
    pub(super) fn punch(&self, range: ByteRange) -> io::Result<()> {
        self.touch(range)?;
        self.recent.forget(range);
        if range.is_empty() {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let end = range.end.min(self.file.metadata()?.len()).max(range.start);
        match fallocate(&self.file, flags, range.start, end - range.start) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets data from `size` on.
    pub(super) fn cut(&self, size: u64) -> io::Result<()> {
        let beyond = ByteRange::new(size, u64::MAX);
        self.touch(beyond)?;
        self.recent.forget(beyond);
        if self.file.metadata()?.len() > size {
            self.file.set_len(size)?;
        }
        Ok(())
    }

    /// A range goes: the tail with it, if all of it does; else what is in it goes into the file first.
    fn touch(&self, range: ByteRange) -> io::Result<()> {
        let mut end = self.end();
        match end.tail.range().intersect(range) {
            Some(within) if within == end.tail.range() => end.tail.clear(),
            Some(_) => self.put_away(&mut end)?,
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::engine::Budget;

    const MIB: u64 = 1 << 20;

    fn data(directory: &Path, memory: u64) -> Data {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let path = directory.join("data");
        let file = options.open(&path).expect("opened");
        let memory = Memory {
            share: Budget::new(memory),
            budget: Budget::new(1 << 30),
        };
        Data::new(file, &path, memory)
    }

    fn pattern(seed: u64, length: u64) -> Vec<u8> {
        (0..length).map(|at| (at * 31 + seed * 7) as u8).collect()
    }

    /// Has blocks written elsewhere.
    fn exchange(data: &Data, to: File) -> File {
        data.end()
            .direct
            .replace(to)
            .expect("it wrote them directly")
    }

    fn is_direct(data: &Data) -> bool {
        data.end().direct.is_some()
    }

    /// The bytes that a file should have.
    struct Truth<'a>(&'a Data, Vec<u8>);

    impl Truth<'_> {
        fn put(&mut self, at: u64, bytes: &[u8]) {
            let (start, end) = (at as usize, at as usize + bytes.len());
            let longer = self.1.len().max(end);
            self.1.resize(longer, 0);
            self.1[start..end].copy_from_slice(bytes);
            if !self.0.take_in(at, bytes) {
                self.0.write(at, bytes).expect("written");
            }
            self.holds();
            let some = ByteRange::new(at / 2 + 1, at / 2 + MIB);
            let found = self.0.first(some).expect("read");
            let known = &self.1[(some.start as usize).min(self.1.len())..];
            let known = &known[..known.len().min(found.len())];
            assert!(!found.is_empty() && found.starts_with(known));
        }

        fn holds(&self) {
            let all = ByteRange::new(0, self.1.len() as u64);
            assert!(self.0.read(all).expect("read") == self.1);
        }
    }

    /// The same bytes whichever way they went, from memory and from the disk.
    #[test]
    fn reads_what_was_written_past_the_cache_and_through_it() {
        let directory = tempfile::tempdir().expect("a folder");
        for (memory, piece) in [0, MIB, 3 * MIB, 64 * MIB]
            .into_iter()
            .flat_map(|memory| [10_000, 128 << 10, MIB, 3 * MIB].map(|piece| (memory, piece)))
        {
            let data = data(directory.path(), memory.max(MIB));
            let can = is_direct(&data);
            let _none_left = (memory == 0).then(|| data.memory.take(MIB));
            let mut truth = Truth(&data, Vec::new());
            for n in 0..(5 * MIB).div_ceil(piece) {
                truth.put(n * piece, &pattern(n, piece));
            }
            // Elsewhere, by pages.
            truth.put(16 * MIB, &pattern(1, MIB));
            truth.put(MIB / 2, &pattern(2, MIB));
            truth.put(12 * MIB, &pattern(3, 100));
            data.sync().expect("durable");
            truth.holds();
            truth.put(12 * MIB + 100, &pattern(4, 2 * MIB));
            truth.put(MIB + 5, &pattern(5, 100));
            data.let_go(ByteRange::new(0, MIB));
            truth.put(5 * MIB - 10, &pattern(6, 10));
            data.punch(ByteRange::new(0, MIB)).expect("punched");
            truth.1[..MIB as usize].fill(0);
            data.cut(4 * MIB).expect("cut");
            truth.1[4 * MIB as usize..].fill(0);
            truth.holds();
            // Here and there, and on: as who writes an image does.
            for n in 0..40 {
                let at = (n * 1_234_567 + n % 3 * 777) % (6 * MIB);
                let at = if n % 2 == 0 { at - at % 4096 } else { at };
                truth.put(at, &pattern(n, 1 + n * 7001));
                truth.put(6 * MIB + n * 70_000, &pattern(n, 70_000));
            }
            assert_eq!(is_direct(&data), can);
        }
    }

    #[test]
    fn what_is_cut_is_gone_wherever_it_was() {
        let directory = tempfile::tempdir().expect("a folder");
        for size in [0, MIB / 2, MIB, 2 * MIB, 2 * MIB + 100, 3 * MIB] {
            let data = data(directory.path(), 64 * MIB);
            let mut truth = Truth(&data, Vec::new());
            truth.put(0, &pattern(1, 2 * MIB + 5000));
            data.cut(size).expect("cut");
            truth.1.truncate(size as usize);
            truth.1.resize(5 * MIB as usize, 0);
            truth.holds();
            truth.put(size, &pattern(2, MIB));
        }
    }

    /// A small object costs the disk nothing, unless it must be durable.
    #[test]
    fn what_fills_no_block_stays_in_memory() {
        let directory = tempfile::tempdir().expect("a folder");
        let data = data(directory.path(), 64 * MIB);
        let length = || data.file.metadata().expect("there").size();
        if !is_direct(&data) {
            return;
        }
        assert!(data.take_in(0, &pattern(1, 8192)) && data.take_in(8192, b"more"));
        assert_eq!(
            data.at_hand(ByteRange::new(8190, 9000))
                .expect("there")
                .len(),
            6
        );
        assert_eq!(length(), 0);
        data.sync().expect("durable");
        assert_eq!(length(), 8196);
    }

    /// What goes past the cache leaves memory no larger than it may be.
    #[test]
    fn keeps_no_more_than_there_is_memory_for() {
        let directory = tempfile::tempdir().expect("a folder");
        let data = data(directory.path(), 3 * MIB);
        for at in 0..8 {
            data.write(at * MIB, &pattern(at, MIB)).expect("written");
        }
        let kept = (0..8).filter(|at| {
            let range = ByteRange::new(at * MIB, (at + 1) * MIB);
            data.at_hand(range).is_some()
        });
        // And one that is filled.
        let most = if is_direct(&data) { 2 } else { 0 };
        assert_eq!(kept.count(), most);
        assert_eq!(data.file.metadata().expect("there").size(), 8 * MIB);
    }

    /// A disk that is full takes nothing from what it has.
    #[test]
    fn a_write_that_fails_leaves_what_was_written_before() {
        let directory = tempfile::tempdir().expect("a folder");
        let mut data = data(directory.path(), 64 * MIB);
        if !is_direct(&data) {
            return;
        }
        assert!(data.take_in(0, &pattern(1, 5000)));
        let full = OpenOptions::new().write(true).open("/dev/full");
        let full = full.expect("there is one");
        let file = std::mem::replace(&mut data.file, full.try_clone().expect("cloned"));
        let direct = exchange(&data, full);
        assert!(data.write(5000, &pattern(2, MIB)).is_err());
        assert!(data.sync().is_err());
        let found = data.at_hand(ByteRange::new(0, 9000)).expect("there");
        assert_eq!(found, pattern(1, 5000));
        data.file = file;
        exchange(&data, direct);
        data.write(5000, &pattern(2, MIB))
            .expect("there is room again");
        let all = [pattern(1, 5000), pattern(2, MIB)].concat();
        assert!(data.read(ByteRange::new(0, 5000 + MIB)).expect("read") == all);
    }
}
