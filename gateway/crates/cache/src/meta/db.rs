//! The database file: redb, opened, read, written, and set aside when it is corrupt.
//!
//! redb promises that a commit is there whole or not at all. It does not promise to notice every damaged
//! page, and may panic on one. So each call is guarded and each row is sealed. A corrupt file is renamed
//! and a new one begun, at start or at any time later.

mod attempts;
pub(super) mod failure;
#[cfg(test)]
pub(super) mod faulty_disk;

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use redb::{Database, DatabaseError, ReadableDatabase, StorageError};
use tracing::warn;

use self::attempts::Attempt;
use self::failure::DbFailure;
use super::batch::{Batch, Run, now_micros};
use super::purges::{PurgeEdit, PurgeSet};
use super::sweep::Sweep;
use super::tables::{PinRows, RECORDS_TABLE, StoredState, read_state, write};
use crate::pins::PinRow;
use crate::{StoreError, private_files};
use tidegate_telemetry::locks::Recover as _;

/// Bytes of redb's own page cache: the cache already holds the hot entries.
const PAGE_CACHE_SIZE: usize = 8 << 20;

/// The file, and the database in it.
#[derive(Debug)]
pub(super) struct Db {
    path: PathBuf,
    opener: Arc<dyn Opener>,
    /// `None` while it cannot be opened after a failure.
    current: RwLock<Option<Arc<OpenDatabase>>>,
    run: Mutex<Run>,
    sweep: Mutex<Sweep>,
}

/// A way to open the file of a database, or to create it.
pub(super) trait Opener: Send + Sync + std::fmt::Debug {
    /// Opens the file. Blocks.
    fn open(&self, path: &Path) -> Result<Database, DatabaseError>;
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
        let db = Self {
            path: path.to_path_buf(),
            opener,
            current: RwLock::new(Some(Arc::new(database))),
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
    /// is corrupt, begins a new one. Writes the present purges and pins into it. Blocks.
    pub(super) fn recover(
        &self,
        failure: &DbFailure,
        purges: Vec<(Vec<u8>, u64)>,
        pins: Vec<PinRow>,
    ) -> Result<(), DbFailure> {
        // The lock is held during no system call: a file that hangs must not block other callers.
        self.set(None);
        if failure.corrupt {
            set_aside(&self.path, &failure.message).map_err(DbFailure::io)?;
            if let Some(dir) = self.path.parent() {
                private_files::make_dir(dir).map_err(DbFailure::io)?;
            }
        }
        let database = guarded(|| self.opener.open(&self.path).map_err(DbFailure::from))?;
        let database = OpenDatabase(Some(database));
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
        self.set(Some(Arc::new(database)));
        Ok(())
    }

    /// Returns whether the file is open now. Never blocks.
    pub(super) fn is_open(&self) -> bool {
        self.current
            .try_read()
            .is_ok_and(|current| current.is_some())
    }

    fn set(&self, database: Option<Arc<OpenDatabase>>) {
        *self.current.write().recover() = database;
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
struct OpenDatabase(Option<Database>);

impl Deref for OpenDatabase {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("open until it is dropped")
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        let database = self.0.take();
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
) -> Result<(OpenDatabase, StoredState, Run), OpenError> {
    let opened = catch_unwind(AssertUnwindSafe(|| opener.open(path)));
    let database = match opened {
        Ok(Ok(database)) => OpenDatabase(Some(database)),
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
    Ok((database, found, run))
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
