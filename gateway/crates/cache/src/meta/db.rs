//! The database file: redb, opened, read, written, and set aside when it is corrupt.
//!
//! redb promises that a commit is there whole or not at all. It does not promise to notice every damaged
//! page, and may panic on one. So each call is guarded and each row is sealed. A corrupt file is renamed
//! and a new one begun, at start or at any time later.

mod attempts;
pub(super) mod failure;
#[cfg(test)]
pub(super) mod faulty_disk;
pub(super) mod overlay;

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use redb::backends::FileBackend;
use redb::{Database, DatabaseError, ReadableDatabase, StorageError};
use tracing::{debug, warn};

use self::attempts::Attempt;
use self::failure::DbFailure;
use self::overlay::Overlay;
use super::batch::{Batch, Run, now_micros};
use super::purges::{PurgeEdit, PurgeSet};
use super::sweep::Sweep;
use super::tables::{PinRows, RECORDS_TABLE, StoredState, read_state, write};
use crate::pins::PinRow;
use crate::{StoreError, private_files};
use tidegate_telemetry::locks::Recover as _;

/// Bytes of redb's own page cache: the cache already holds the hot entries.
const PAGE_CACHE_SIZE: usize = 8 << 20;

/// The time that the reads under way get to end before the file is opened again: until then they hold its lock.
const READS_END_TIMEOUT: Duration = Duration::from_secs(1);

/// The file, and the database in it.
#[derive(Debug)]
pub(super) struct Db {
    path: PathBuf,
    opener: Arc<dyn Opener>,
    /// `None` while it cannot be opened after a failure.
    current: RwLock<Option<Arc<OpenDatabase>>>,
    /// Disconnected once the last database is closed.
    ended: Mutex<Receiver<()>>,
    run: Mutex<Run>,
    sweep: Mutex<Sweep>,
}

/// All purges, and all rows of pins, as they are kept in memory.
type KeptRows = (Vec<(Vec<u8>, u64)>, Vec<PinRow>);

/// A database, and a receiver that is disconnected once its file is closed.
type ClosableDatabase = (OpenDatabase, Receiver<()>);

/// A way to open the file of a database, or to create it.
pub(super) trait Opener: Send + Sync + std::fmt::Debug {
    /// Opens the file. Blocks.
    fn open(&self, path: &Path) -> Result<Database, DatabaseError>;

    /// Opens the file of a disk that takes no writes: what is written to the database is lost. Blocks.
    fn open_to_read(&self, path: &Path) -> Result<Database, DatabaseError>;
}

/// Opens a real file on disk.
#[derive(Debug)]
pub(super) struct FileOpener;

impl Opener for FileOpener {
    fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
        let mut options = private_files::file_options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(StorageError::from)?;
        private_files::close_to_others(&file, path);
        Database::builder()
            .set_cache_size(PAGE_CACHE_SIZE)
            .create_file(file)
    }

    fn open_to_read(&self, path: &Path) -> Result<Database, DatabaseError> {
        let file = private_files::open_to_read(path).map_err(StorageError::from)?;
        let backend = Overlay::new(FileBackend::new(file)?).map_err(StorageError::from)?;
        Database::builder()
            .set_cache_size(PAGE_CACHE_SIZE)
            .create_with_backend(backend)
    }
}

impl Db {
    /// Opens the file, or begins a new one if it is corrupt, and removes the rows of `changing`: keys that
    /// were being changed when the last process ended. `None`: these keys are not known. Blocks.
    ///
    /// # Errors
    /// Another process has it open, the directory cannot be used, or the disk fails: a sound file stays
    /// where it is.
    pub(super) fn open(
        path: &Path,
        opener: Arc<dyn Opener>,
        changing: Option<&[Vec<u8>]>,
    ) -> Result<(Self, PurgeSet, PinRows), StoreError> {
        let attempt = Attempt::begin(path);
        if attempt.is_one_too_many() {
            set_aside(path, "starts ended while they opened it")
                .map_err(StoreError::io("set aside", path))?;
        }
        let open = || open_file(path, &*opener, changing);
        let (database, found, run) = match open() {
            Ok(opened) => opened,
            Err(OpenError::Other(error)) => return Err(error),
            Err(OpenError::Corrupt(reason)) => {
                set_aside(path, &reason).map_err(StoreError::io("set aside", path))?;
                open().map_err(|error| match error {
                    OpenError::Other(error) => error,
                    OpenError::Corrupt(reason) => StoreError::Meta {
                        path: path.to_path_buf(),
                        reason,
                    },
                })?
            }
        };
        let (database, ended) = database;
        let db = Self {
            path: path.to_path_buf(),
            opener,
            current: RwLock::new(Some(Arc::new(database))),
            ended: Mutex::new(ended),
            run: Mutex::new(run),
            sweep: Mutex::default(),
        };
        Ok((db, found.purges, found.pins))
    }

    pub(super) fn run(&self) -> Run {
        *self.lock_run()
    }

    fn lock_run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().recover()
    }

    /// Records that a change is lost: records from before now must be confirmed or, after a lost removal,
    /// are ignored. Durable with the next batch.
    pub(super) fn distrust(&self, removal: bool) {
        let mut run = self.lock_run();
        run.number = now_micros().max(run.number + 1);
        run.trusted = run.number;
        if removal {
            run.sound = run.number;
        }
    }

    /// Reads the row of a record, still sealed. Blocks.
    pub(super) fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DbFailure> {
        let database = self.current()?;
        guarded(|| {
            let table = database.begin_read()?.open_table(RECORDS_TABLE)?;
            Ok(table.get(key)?.map(|row| row.value().to_vec()))
        })
    }

    /// Writes a batch. Blocks until the disk has flushed it.
    pub(super) fn write(&self, batch: &Batch) -> Result<(), DbFailure> {
        let database = self.current()?;
        if !database.writable {
            return Err(DbFailure::io("the database is open for reads alone"));
        }
        if !self.path.try_exists().map_err(DbFailure::io)? {
            return Err(DbFailure::corrupt("the file was deleted"));
        }
        let run = self.run();
        let mut sweep = self.sweep.lock().recover();
        let due = sweep.is_due(&self.path).map_err(DbFailure::io)?;
        guarded(|| write(&database, batch, run, due.then_some(&mut *sweep)))
    }

    /// Bounds the file from the next batch on.
    pub(super) fn bound(&self, sweep: Sweep) {
        *self.sweep.lock().recover() = sweep;
    }

    /// Recovers from a failure: opens the file again (redb refuses all calls after an I/O error) or, if it
    /// is corrupt, begins a new one. Writes `rows` into it: all present purges and pins; `None`: it has them. If that fails,
    /// a sound file is opened for reads alone. Blocks.
    pub(super) fn recover(
        &self,
        failure: &DbFailure,
        rows: Option<KeptRows>,
    ) -> Result<(), DbFailure> {
        self.close();
        let opened = self.open_again(failure, rows);
        match opened {
            Ok((database, ended)) => self.set(database, ended),
            Err(next) => {
                if !failure.corrupt && !next.corrupt {
                    self.read_only();
                }
                return Err(next);
            }
        }
        Ok(())
    }

    fn open_again(
        &self,
        failure: &DbFailure,
        rows: Option<KeptRows>,
    ) -> Result<ClosableDatabase, DbFailure> {
        if failure.corrupt {
            set_aside(&self.path, &failure.message).map_err(DbFailure::io)?;
            if let Some(dir) = self.path.parent() {
                private_files::make_dir(dir).map_err(DbFailure::io)?;
            }
        }
        let database = guarded(|| self.opener.open(&self.path).map_err(DbFailure::from))?;
        let (database, ended) = OpenDatabase::new(database, true);
        let Some((purges, pins)) = rows else {
            return Ok((database, ended));
        };
        let rows = purges.into_iter().map(|(row, n)| PurgeEdit::Set(row, n));
        let batch = Batch {
            purges: std::iter::once(PurgeEdit::Clear).chain(rows).collect(),
            pins,
            all_pins: true,
            ..Batch::default()
        };
        let run = self.run();
        guarded(|| write(&database, &batch, run, None))?;
        private_files::sync_name(&self.path).map_err(DbFailure::io)?;
        Ok((database, ended))
    }

    /// Opens the file for reads alone. What is not in it is in memory: purges, and changes that wait.
    fn read_only(&self) {
        match guarded(|| {
            self.opener
                .open_to_read(&self.path)
                .map_err(DbFailure::from)
        }) {
            Ok(database) => {
                let (database, ended) = OpenDatabase::new(database, false);
                self.set(database, ended);
                debug!(path = %self.path.display(), "the metadata store is read, and not written");
            }
            Err(error) => {
                debug!(path = %self.path.display(), %error, "the metadata store cannot be read either");
            }
        }
    }

    /// Closes the database, and waits for the reads under way, for a second at most.
    fn close(&self) {
        // The lock is held during no system call: a file that hangs must not block other callers.
        let old = self.current.write().recover().take();
        if old.is_some() {
            drop(old);
            let _ = self.ended.lock().recover().recv_timeout(READS_END_TIMEOUT);
        }
    }

    /// Returns whether the file is open now. Never blocks.
    pub(super) fn is_open(&self) -> bool {
        self.current
            .try_read()
            .is_ok_and(|current| current.is_some())
    }

    fn set(&self, database: OpenDatabase, ended: Receiver<()>) {
        *self.ended.lock().recover() = ended;
        *self.current.write().recover() = Some(Arc::new(database));
    }

    fn current(&self) -> Result<Arc<OpenDatabase>, DbFailure> {
        let current = self.current.read().recover();
        current
            .clone()
            .ok_or_else(|| DbFailure::io("the database is closed after a failure"))
    }
}

/// A database whose end does not panic. That of redb does after a panic in a call, which is how a damaged file may show.
#[derive(Debug)]
struct OpenDatabase {
    database: Option<Database>,
    writable: bool,
    /// Dropped once the file is closed.
    _end: Sender<()>,
}

impl OpenDatabase {
    /// Returns the database, and a receiver that is disconnected once the file is closed.
    fn new(database: Database, writable: bool) -> ClosableDatabase {
        let (end, ended) = channel();
        let database = Self {
            database: Some(database),
            writable,
            _end: end,
        };
        (database, ended)
    }
}

impl Deref for OpenDatabase {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.database.as_ref().expect("open until it is dropped")
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        let database = self.database.take();
        if catch_unwind(AssertUnwindSafe(|| drop(database))).is_err() {
            warn!("redb panicked at the end of a damaged file");
        }
    }
}

enum OpenError {
    Corrupt(String),
    Other(StoreError),
}

impl OpenError {
    /// Returns the error that a failure of the file at `path` means for its opening.
    fn of(path: &Path, failure: DbFailure) -> Self {
        if failure.corrupt {
            return Self::Corrupt(failure.message);
        }
        Self::Other(match failure.errno {
            Some(errno) => StoreError::io("open", path)(io::Error::from_raw_os_error(errno)),
            None => StoreError::Meta {
                path: path.to_path_buf(),
                reason: failure.message,
            },
        })
    }
}

fn open_file(
    path: &Path,
    opener: &dyn Opener,
    changing: Option<&[Vec<u8>]>,
) -> Result<(ClosableDatabase, StoredState, Run), OpenError> {
    let opened = catch_unwind(AssertUnwindSafe(|| opener.open(path)));
    let (database, ended) = match opened {
        Ok(Ok(database)) => OpenDatabase::new(database, true),
        Ok(Err(error)) => return Err(classify(path, error)),
        Err(_) => return Err(OpenError::Corrupt("redb panicked".to_owned())),
    };
    let failed = |failure| OpenError::of(path, failure);
    let mut found = guarded(|| read_state(&database)).map_err(failed)?;
    let number = found
        .before
        .map_or(0, |(run, _)| run.number + 1)
        .max(now_micros());
    let mut run = match found.before {
        Some((run, true)) => run,
        Some((run, false)) => {
            warn!(path = %path.display(), "the last run did not end in order; cached versions are confirmed before they count as fresh");
            Run {
                trusted: number,
                sound: run.sound.min(number),
                ..run
            }
        }
        // The earlier purges are unknown, so all chunks on disk count as purged.
        None => {
            found.mended = found.purges.purge_everything(number);
            Run {
                trusted: number,
                sound: number,
                number,
            }
        }
    };
    run.number = number;
    if changing.is_none() {
        (run.trusted, run.sound) = (number, number);
    }
    let removed = changing.unwrap_or_default().iter();
    let begin = Batch {
        records: removed.map(|row| (row.clone(), None)).collect(),
        purges: std::mem::take(&mut found.mended),
        ..Batch::default()
    };
    guarded(|| write(&database, &begin, run, None)).map_err(failed)?;
    Ok(((database, ended), found, run))
}

fn classify(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Other(StoreError::InUse {
            path: path.to_path_buf(),
            holder: None,
        }),
        error => OpenError::of(path, error.into()),
    }
}

/// Renames the file, if it is there, and logs that.
fn set_aside(path: &Path, reason: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".corrupt-{}", now_micros() / 1_000_000));
    match fs::rename(path, &name) {
        Ok(()) => {
            warn!(path = %path.display(), aside = ?name, reason, "the metadata store is corrupt; it is set aside and begun anew");
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            warn!(path = %path.display(), reason, "the metadata store is gone; it is begun anew");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Runs a call into redb, and treats a panic as a sign of corruption.
fn guarded<T>(call: impl FnOnce() -> Result<T, DbFailure>) -> Result<T, DbFailure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(DbFailure::corrupt("redb panicked")))
}
