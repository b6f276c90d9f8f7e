//! A database file on a disk that fails or hangs when a test says so.

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use redb::backends::FileBackend;
use redb::{BackendError, Database, DatabaseError, StorageBackend, StorageError};

use super::Opener;
use super::overlay::Overlay;

use tidegate_telemetry::locks::Recover as _;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::meta) enum DiskCall {
    Read,
    Write,
    Sync,
}

/// The faults of the disk.
#[derive(Debug, Default)]
struct DiskFaults {
    /// A failing kind of call: how many calls still succeed, and how many then fail.
    fails: Option<(DiskCall, u64, u64)>,
    hangs: bool,
}

/// A disk; clones share it.
#[derive(Debug, Clone, Default)]
pub(in crate::meta) struct FaultyDisk(Arc<(Mutex<DiskFaults>, Condvar)>);

impl FaultyDisk {
    fn change(&self, change: impl FnOnce(&mut DiskFaults)) {
        change(&mut self.0.0.lock().recover());
        self.0.1.notify_all();
    }

    /// Makes `times` calls of a kind fail, after `after` that succeed.
    pub(in crate::meta) fn fail(&self, call: DiskCall, after: u64, times: u64) {
        self.change(|faults| faults.fails = Some((call, after, times)));
    }

    pub(in crate::meta) fn heal(&self) {
        self.change(|faults| *faults = DiskFaults::default());
    }

    /// Makes every call wait until the disk is healed.
    pub(in crate::meta) fn hang(&self) {
        self.change(|faults| faults.hangs = true);
    }

    fn pass(&self, call: DiskCall) -> io::Result<()> {
        let faults = self.0.0.lock().recover();
        let faults = self.0.1.wait_while(faults, |faults| faults.hangs);
        let mut faults = faults.recover();
        match &mut faults.fails {
            Some((kind, after, _)) if *kind == call && *after > 0 => {
                *after -= 1;
                Ok(())
            }
            Some((kind, _, times)) if *kind == call && *times > 0 => {
                *times -= 1;
                Err(io::Error::from_raw_os_error(5))
            }
            _ => Ok(()),
        }
    }
}

impl FaultyDisk {
    fn backend(&self, path: &Path) -> Result<Backend, DatabaseError> {
        let mut options = std::fs::File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(StorageError::from)?;
        Ok(Backend {
            disk: self.clone(),
            file: FileBackend::new(file)?,
        })
    }
}

impl Opener for FaultyDisk {
    fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
        // Without a cache, every read reaches the disk.
        let mut builder = Database::builder();
        builder
            .set_cache_size(0)
            .create_with_backend(self.backend(path)?)
    }

    fn open_to_read(&self, path: &Path) -> Result<Database, DatabaseError> {
        let backend = Overlay::new(self.backend(path)?).map_err(StorageError::from)?;
        let mut builder = Database::builder();
        builder.set_cache_size(0).create_with_backend(backend)
    }
}

#[derive(Debug)]
struct Backend {
    disk: FaultyDisk,
    file: FileBackend,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.pass(DiskCall::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.pass(DiskCall::Write)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.pass(DiskCall::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.pass(DiskCall::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
