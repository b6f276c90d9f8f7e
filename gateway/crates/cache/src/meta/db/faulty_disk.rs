//! A database file on a disk that fails or hangs when a test says so.

use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use redb::backends::FileBackend;
use redb::{BackendError, Database, DatabaseError, StorageBackend, StorageError};

use super::Opener;

use tidegate_plan::locks::Recover as _;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::meta) enum Call {
    Read,
    Write,
    Sync,
}

/// The faults of the disk.
#[derive(Debug, Default)]
struct Mood {
    /// A failing kind of call: how many calls still succeed, and how many then fail.
    fails: Option<(Call, u64, u64)>,
    hangs: bool,
}

/// A disk; clones share it.
#[derive(Debug, Clone, Default)]
pub(in crate::meta) struct SickDisk(Arc<(Mutex<Mood>, Condvar)>);

impl SickDisk {
    fn change(&self, change: impl FnOnce(&mut Mood)) {
        change(&mut self.0.0.lock().recover());
        self.0.1.notify_all();
    }

    /// Makes `times` calls of a kind fail, after `after` that succeed.
    pub(in crate::meta) fn fail(&self, call: Call, after: u64, times: u64) {
        self.change(|mood| mood.fails = Some((call, after, times)));
    }

    pub(in crate::meta) fn heal(&self) {
        self.change(|mood| *mood = Mood::default());
    }

    /// Makes every call wait until the disk is healed.
    pub(in crate::meta) fn hang(&self) {
        self.change(|mood| mood.hangs = true);
    }

    fn pass(&self, call: Call) -> io::Result<()> {
        let mood = self.0.0.lock().recover();
        let mood = self.0.1.wait_while(mood, |mood| mood.hangs);
        let mut mood = mood.recover();
        match &mut mood.fails {
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

impl Opener for SickDisk {
    fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
        let mut options = std::fs::File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(StorageError::from)?;
        let backend = Backend {
            disk: self.clone(),
            file: FileBackend::new(file)?,
        };
        // Without a cache, every read reaches the disk.
        let mut builder = Database::builder();
        builder.set_cache_size(0).create_with_backend(backend)
    }
}

#[derive(Debug)]
struct Backend {
    disk: SickDisk,
    file: FileBackend,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.pass(Call::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.pass(Call::Write)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.pass(Call::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.pass(Call::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
