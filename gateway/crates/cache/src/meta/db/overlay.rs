//! A database that is only read, on a disk that takes no writes.
//!
//! redb opens a file that was not closed in order only if it may write to it: it marks it, and mends it if need be. So
//! its writes go to pages in memory that lie over the file, and end with the database. The file stays as it is.

use std::collections::HashMap;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use redb::{BackendError, StorageBackend};

use tidegate_telemetry::locks::Recover as _;

/// Bytes of a page in memory.
const PAGE: usize = 4096;

/// Pages in memory over a file that is not written.
#[derive(Debug)]
pub(in crate::meta) struct Overlay<B> {
    file: B,
    changed: Mutex<ChangedPages>,
}

#[derive(Debug)]
struct ChangedPages {
    len: u64,
    /// Pages that differ from the file, by number.
    pages: HashMap<u64, Box<[u8]>>,
}

impl<B: StorageBackend> Overlay<B> {
    /// Puts an overlay on `file`. Blocks.
    pub(in crate::meta) fn new(file: B) -> io::Result<Self> {
        let changed = ChangedPages {
            len: file.len()?,
            pages: HashMap::new(),
        };
        Ok(Self {
            file,
            changed: Mutex::new(changed),
        })
    }

    fn changed(&self) -> MutexGuard<'_, ChangedPages> {
        self.changed.lock().recover()
    }

    /// Reads from the file alone; beyond its end there are zeros.
    fn read_file(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.file.len()?.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        let (from_file, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        match from_file {
            [] => Ok(()),
            bytes => self.file.read(offset, bytes),
        }
    }
}

/// Returns the pieces of a range: page, offset in it, and bytes, in order.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = usize::try_from(at % PAGE as u64).unwrap_or(0);
        let piece = (PAGE - within).min(len - done);
        done += piece;
        (piece > 0).then_some((at / PAGE as u64, within, piece))
    })
}

impl<B: StorageBackend> StorageBackend for Overlay<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changed().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_file(offset, out)?;
        let changed = self.changed();
        let mut done = 0;
        for (page, within, len) in pieces(offset, out.len()) {
            if let Some(bytes) = changed.pages.get(&page) {
                out[done..done + len].copy_from_slice(&bytes[within..within + len]);
            }
            done += len;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.changed().len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        for (page, within, len) in pieces(offset, data.len()) {
            let mut fresh = Vec::new();
            if !self.changed().pages.contains_key(&page) {
                fresh.resize(PAGE, 0);
                self.read_file(page * PAGE as u64, &mut fresh)?;
            }
            let mut changed = self.changed();
            let bytes = changed
                .pages
                .entry(page)
                .or_insert_with(|| fresh.into_boxed_slice());
            bytes[within..within + len].copy_from_slice(&data[done..done + len]);
            done += len;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // A descriptor that cannot write gets shared locks only. They keep a process away that would write.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn writes_are_read_back_and_the_file_stays_as_it_is() {
        let file = InMemoryBackend::new();
        file.set_len(10_000).expect("long");
        file.write(0, &[1; 10_000]).expect("written");
        let overlay = Overlay::new(file).expect("read");
        overlay.write(4000, &[2; 200]).expect("in memory");
        overlay.set_len(20_000).expect("in memory");
        overlay.write(15_000, &[3; 10]).expect("in memory");
        let mut all = vec![9; 20_000];
        overlay.read(0, &mut all).expect("read");
        let parts = [
            (4000, 1),
            (200, 2),
            (5800, 1),
            (5000, 0),
            (10, 3),
            (4990, 0),
        ];
        let expected: Vec<u8> = parts
            .into_iter()
            .flat_map(|(len, byte)| vec![byte; len])
            .collect();
        assert!(all == expected);
        assert_eq!(overlay.len().expect("known"), 20_000);
        let mut below = vec![0; 10_000];
        overlay.file.read(0, &mut below).expect("read");
        assert!(overlay.file.len().expect("known") == 10_000 && below == [1; 10_000]);
    }
}
