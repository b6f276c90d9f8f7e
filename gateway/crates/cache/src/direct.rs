//! Files past the operating system's file cache (`O_DIRECT`, open(2)).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::private_files::flags;
use tidegate_telemetry::locks::Recover as _;

/// The unit of addresses, offsets and lengths of direct reads and writes: no disk has larger sectors.
pub const PAGE_SIZE: u64 = 4096;

const ALIGNMENT: usize = PAGE_SIZE as usize;

/// Opens a file past the file cache. A link is an error.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let direct = flags(OFlags::DIRECT | OFlags::NOFOLLOW);
    options.clone().custom_flags(direct).open(path)
}

/// Returns whether `error` says that the file system does not support direct access.
pub fn is_unsupported(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

/// Reads past the file cache until `bytes` is full or the file ends. Returns the number of bytes read.
pub fn read(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    // A read that stops within a page has reached the end of the file.
    read_while(file, bytes, offset, |done| done.is_multiple_of(ALIGNMENT))
}

/// Reads until `bytes` is full or the file ends, through the file cache or not, as the file was opened. Returns the number
/// of bytes read.
pub fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    read_while(file, bytes, offset, |_| true)
}

/// Reads on while `goes_on` is true for the number of bytes read so far.
fn read_while(
    file: &File,
    bytes: &mut [u8],
    offset: u64,
    goes_on: impl Fn(usize) -> bool,
) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if !goes_on(done) {
            break;
        }
    }
    Ok(done)
}

/// Returns a buffer with room for `room` bytes, filled up to the start of a page, and the offset of
/// that page. Bytes appended there are aligned for direct reads and writes.
pub fn buffer(room: usize) -> (Vec<u8>, usize) {
    let page = usize::try_from(PAGE_SIZE).unwrap_or(usize::MAX);
    let mut bytes: Vec<u8> = Vec::with_capacity(room + page);
    let start = bytes.as_ptr().align_offset(page).min(page);
    bytes.resize(start, 0);
    (bytes, start)
}

/// Buffers of one size, which begin at a page and are reused, because fresh memory costs the system
/// more than filling it. Once no buffer is in use, all spare ones are freed.
#[derive(Debug)]
pub struct BufferPool {
    room: usize,
    /// The most buffers that wait to be reused.
    max_spare: usize,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    spare: Vec<Vec<u8>>,
    in_use: usize,
}

impl BufferPool {
    /// Creates a pool of buffers of `room` bytes, which keeps at most `max_spare` spare ones.
    pub fn new(room: usize, max_spare: usize) -> Arc<Self> {
        Arc::new(Self {
            room,
            max_spare,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().recover()
    }

    /// Returns the bytes that each buffer has room for.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Takes an empty buffer.
    pub fn take(self: &Arc<Self>) -> PageBuffer {
        let spare = {
            let mut state = self.state();
            state.in_use += 1;
            state.spare.pop()
        };
        let bytes = spare.unwrap_or_else(|| zeros(self.room));
        PageBuffer::with_memory(bytes, Some(self.clone()))
    }

    fn put_back(&self, bytes: Vec<u8>) {
        let mut state = self.state();
        state.in_use -= 1;
        if state.in_use == 0 {
            state.spare = Vec::new();
        } else if state.spare.len() < self.max_spare {
            state.spare.push(bytes);
        }
    }
}

/// Bytes that begin at a page. A buffer of a [`BufferPool`] returns its memory to it.
#[derive(Debug, Default)]
pub struct PageBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    pool: Option<Arc<BufferPool>>,
}

/// Returns memory for `room` bytes, wherever in it a page begins.
fn zeros(room: usize) -> Vec<u8> {
    vec![0; room + ALIGNMENT]
}

impl PageBuffer {
    /// Creates an empty buffer that belongs to no pool.
    pub fn new(room: usize) -> Self {
        Self::with_memory(zeros(room), None)
    }

    fn with_memory(bytes: Vec<u8>, pool: Option<Arc<BufferPool>>) -> Self {
        Self {
            start: bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT),
            length: 0,
            bytes,
            pool,
        }
    }

    /// Returns the bytes that there is room for.
    pub fn room(&self) -> usize {
        self.bytes.len().saturating_sub(ALIGNMENT)
    }

    /// Appends bytes, at most as many as there is room for.
    pub fn push(&mut self, bytes: &[u8]) {
        let at = self.length;
        self.set_len(at + bytes.len())[at..].copy_from_slice(bytes);
    }

    /// Sets the length, at most as much as there is room for, and returns all bytes. Those behind the
    /// old length are undefined.
    pub fn set_len(&mut self, length: usize) -> &mut [u8] {
        self.length = length;
        &mut self.bytes[self.start..self.start + length]
    }

    /// Shortens the buffer to at most `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl AsRef<[u8]> for PageBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.put_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_page_and_stays_there() {
        for room in [0, 1, 5000, 1 << 20] {
            let (mut bytes, start) = buffer(room);
            bytes.resize(start + room, 7);
            assert_eq!(bytes[start..].as_ptr().align_offset(4096), 0, "{room}");
        }
    }

    #[test]
    fn a_buffer_of_a_pool_is_used_again_and_begins_at_a_page() {
        let pool = BufferPool::new(10_000, 1);
        let last = pool.take();
        let mut first = pool.take();
        first.push(&[7; 10_000]);
        let (second, place) = (pool.take(), first.as_ref().as_ptr());
        drop(first);
        drop(second);
        assert_eq!(pool.state().spare.len(), 1, "no more than that wait");
        let mut third = pool.take();
        assert_eq!((third.as_ref(), third.as_ref().as_ptr()), (&[][..], place));
        third.push(&[1; 5]);
        third.truncate(3);
        assert_eq!(third.as_ref(), [1; 3]);
        assert_eq!(place.align_offset(4096), 0);
        drop(third);
        assert_eq!(pool.state().spare.len(), 1);
        drop(last);
        assert_eq!(pool.state().spare.len(), 0, "no caller needs them");
    }
}
