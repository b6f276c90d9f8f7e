//! The file that disks are measured with: without a name, and read and written past the file cache.
//!
//! If the file system takes `O_DIRECT`, no bytes go through the cache. If not, written bytes are
//! flushed to the disk every few MiB, and pages are released (`posix_fadvise(2)`,
//! `POSIX_FADV_DONTNEED`) as soon as they were used.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};

use tidegate_cache::direct;
use tidegate_plan::diagnosis::Rate;
use tidegate_telemetry::locks::Recover as _;

/// The alignment of buffers, offsets and lengths of direct I/O: no disk has larger sectors.
const ALIGNMENT: usize = direct::PAGE_SIZE as usize;

/// The bytes after which a thread without direct I/O lets the disk catch up.
const SYNC_EVERY: u64 = 8 << 20;

/// The file. Gone when it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    direct: bool,
    size: u64,
    /// The number of bytes written, from the start on.
    written: AtomicU64,
}

/// One way to go through the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// The action on each block.
    pub(super) access: Access,
    /// The order of the blocks.
    pub(super) order: Order,
    /// Bytes of a block, a multiple of 4 KiB.
    pub(super) block: u64,
    /// Blocks at once.
    pub(super) depth: usize,
}

/// The action on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The order of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Sequence,
    Scattered,
}

/// The result of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassResult {
    /// The rate of all blocks together.
    pub(super) rate: Rate,
    /// The median time of a block.
    pub(super) block: Duration,
}

impl fmt::Display for PassResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.block.as_secs_f64() * 1e3;
        write!(f, "{}, {millis:.2} ms a block", self.rate)
    }
}

impl Scratch {
    /// Makes a file in `folder` for up to `size` bytes.
    pub(super) fn make(folder: &Path, size: u64) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        let direct = set_direct(&file);
        Ok(Self {
            direct: direct?,
            file,
            size,
            written: AtomicU64::new(0),
        })
    }

    /// Goes through the file for `time`, or once; at least one block. Blocks the thread.
    pub(super) fn pass(&self, pass: Pass, time: Duration) -> io::Result<PassResult> {
        let fresh = (pass.access, pass.order) == (Access::Write, Order::Sequence);
        let extent = match fresh {
            true => self.size,
            false => self.written.load(Ordering::Relaxed),
        };
        let length = usize::try_from(pass.block).unwrap_or(usize::MAX);
        let buffers: Vec<_> = (0..pass.depth).map(|_| Buffer::new(length)).collect();
        let run = PassRun {
            scratch: self,
            pass,
            count: extent / pass.block,
            next: AtomicU64::new(0),
            times: Mutex::default(),
            began: Instant::now(),
            time,
        };
        std::thread::scope(|scope| {
            let spawn = |buffer| scope.spawn(|| run.run_thread(buffer));
            let threads: Vec<_> = buffers.into_iter().map(spawn).collect();
            let ended = threads.into_iter().map(|thread| {
                let panicked = |_| Err(io::Error::other("a thread panicked"));
                thread.join().unwrap_or_else(panicked)
            });
            ended.collect::<io::Result<()>>()
        })?;
        if pass.access == Access::Write {
            self.file.sync_data()?;
        }
        let took = run.began.elapsed();
        let mut times = run.times.into_inner().expect("no thread panicked");
        times.sort_unstable();
        let bytes = times.len() as u64 * pass.block;
        if fresh {
            self.written.store(bytes, Ordering::Relaxed);
            self.release_pages(0, 0)?;
        }
        Ok(PassResult {
            rate: Rate::new(bytes, took),
            block: times.get(times.len() / 2).copied().unwrap_or_default(),
        })
    }

    /// Releases the file cache's pages; a length of 0 means to the end.
    fn release_pages(&self, offset: u64, length: u64) -> io::Result<()> {
        if self.direct {
            return Ok(());
        }
        let length = std::num::NonZeroU64::new(length);
        Ok(fadvise(&self.file, offset, length, Advice::DontNeed)?)
    }
}

/// Sets `O_DIRECT`, and returns whether it works. Some file systems take the flag and then refuse
/// to write, so it is tried.
fn set_direct(file: &File) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(false);
    }
    if file.write_all_at(Buffer::new(ALIGNMENT).bytes(), 0).is_ok() {
        return Ok(true);
    }
    fcntl_setfl(file, flags)?;
    Ok(false)
}

/// A pass in progress.
struct PassRun<'s> {
    scratch: &'s Scratch,
    pass: Pass,
    count: u64,
    next: AtomicU64,
    times: Mutex<Vec<Duration>>,
    began: Instant,
    time: Duration,
}

impl PassRun<'_> {
    /// Runs one thread's share.
    fn run_thread(&self, mut buffer: Buffer) -> io::Result<()> {
        let (mut times, mut behind) = (Vec::new(), 0);
        while let Some(offset) = self.offset() {
            let began = Instant::now();
            self.block(&mut buffer, offset)?;
            behind += self.pass.block;
            if self.pass.access == Access::Write && !self.scratch.direct && behind >= SYNC_EVERY {
                self.scratch.file.sync_data()?;
                behind = 0;
            }
            times.push(began.elapsed());
        }
        let mut all = self.times.lock().recover();
        all.append(&mut times);
        Ok(())
    }

    fn offset(&self) -> Option<u64> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let late = nth > 0 && self.began.elapsed() >= self.time;
        if late || nth >= self.count {
            return None;
        }
        let place = match self.pass.order {
            Order::Sequence => nth,
            // Multiples of the golden ratio leave no pattern that a disk could follow (Knuth, 6.4).
            Order::Scattered => (nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % self.count,
        };
        Some(place * self.pass.block)
    }

    fn block(&self, buffer: &mut Buffer, offset: u64) -> io::Result<()> {
        let file = &self.scratch.file;
        match self.pass.access {
            Access::Write => file.write_all_at(buffer.bytes(), offset),
            Access::Read => {
                file.read_exact_at(buffer.bytes_mut(), offset)?;
                self.scratch.release_pages(offset, self.pass.block)
            }
        }
    }
}

/// Bytes that are aligned for direct I/O, and that no file system can compress.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let (mut bytes, start) = direct::buffer(len);
        bytes.extend((0..len).map(|_| noise()));
        Self { bytes, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 64 << 10;

    fn pass(access: Access, order: Order, depth: usize) -> Pass {
        Pass {
            access,
            order,
            block: BLOCK,
            depth,
        }
    }

    #[test]
    fn reads_what_it_wrote_whatever_the_file_system_takes() {
        let folder = tempfile::tempdir().expect("a folder");
        for direct in [true, false] {
            let mut scratch = Scratch::make(folder.path(), 32 * BLOCK).expect("a file");
            if !direct {
                let flags = fcntl_getfl(&scratch.file).expect("flags");
                fcntl_setfl(&scratch.file, flags - OFlags::DIRECT).expect("taken back");
                scratch.direct = false;
            }
            let long = Duration::from_secs(60);
            for (access, order, depth) in [
                (Access::Write, Order::Sequence, 4),
                (Access::Read, Order::Sequence, 4),
                (Access::Write, Order::Scattered, 1),
                (Access::Read, Order::Scattered, 3),
            ] {
                let passed = scratch
                    .pass(pass(access, order, depth), long)
                    .expect("passes");
                assert!(passed.rate.0 > 0.0 && passed.block > Duration::ZERO);
            }
            assert_eq!(scratch.written.load(Ordering::Relaxed), 32 * BLOCK);
            assert_eq!(
                std::fs::read_dir(folder.path()).expect("a folder").count(),
                0
            );
        }
    }

    #[test]
    fn without_time_it_does_one_block() {
        let folder = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::make(folder.path(), 32 * BLOCK).expect("a file");
        let write = pass(Access::Write, Order::Sequence, 2);
        scratch.pass(write, Duration::ZERO).expect("passes");
        assert_eq!(scratch.written.load(Ordering::Relaxed), BLOCK);
    }

    #[test]
    fn scattered_places_lie_within_what_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let scratch = Scratch::make(folder.path(), 7 * BLOCK).expect("a file");
        let run = PassRun {
            scratch: &scratch,
            pass: pass(Access::Read, Order::Scattered, 1),
            count: 7,
            next: AtomicU64::new(0),
            times: Mutex::default(),
            began: Instant::now(),
            time: Duration::MAX,
        };
        let places: Vec<u64> = std::iter::from_fn(|| run.offset()).collect();
        assert_eq!(places.len(), 7);
        assert!(
            places
                .iter()
                .all(|place| place % BLOCK == 0 && *place < 7 * BLOCK)
        );
        assert!(!places.is_sorted());
    }
}
