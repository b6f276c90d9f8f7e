//! The file of a table beside the spool: rows that a table gains are appended to it, behind the callers.
//!
//! A row is queued under the table's own lock, and written by [`TableLog::write_out`], for which callers wait a bounded
//! time. Without a file nothing is queued. A file that has failed is behind the table: it is written anew, with all rows of
//! the table, at once and then after growing pauses. [`rows::RowFile`] is a file of rows of one length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use tidegate_cache::private_files;
use tidegate_telemetry::locks::Recover as _;

pub mod rows;

/// The longest wait of a caller for the file. The next caller has the rest written.
const WRITE_TIMEOUT: Duration = Duration::from_millis(250);

/// The pause after a failure to write a file anew. It is doubled with each, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two attempts to write a file anew.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The most rows that wait to be written. More wait only if the disk hangs.
const MAX_UNWRITTEN: usize = 1 << 17;

/// The file of a table.
pub trait TableFile: Send + 'static {
    /// A row of the table.
    type Row: Send + 'static;

    /// Appends rows. `all` returns those of the table, for a rewrite of the file. Blocks.
    ///
    /// # Errors
    /// Those of the system. The end of the file may be torn then.
    fn append(&mut self, rows: &[Self::Row], all: &dyn Fn() -> Vec<Self::Row>) -> io::Result<()>;

    /// Replaces the file by one that has these rows alone. Blocks.
    ///
    /// # Errors
    /// Those of the system. The old file is there then.
    fn renew(&mut self, all: &[Self::Row]) -> io::Result<()>;

    /// Takes the rows that these replace out of a file that cannot be written anew, if old rows do harm at the next start.
    /// All other rows stay. If these are all rows of the table, those of other keys go as well. Blocks.
    ///
    /// # Errors
    /// Those of the system. Some of the old rows are there then.
    fn forget(&mut self, _rows: &[Self::Row], _are_all: bool) -> io::Result<()> {
        Ok(())
    }

    /// Makes the written rows durable. Blocks.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&mut self) -> io::Result<()>;
}

/// See the module documentation. Clones have the same file.
#[derive(Debug)]
pub struct TableLog<F: TableFile> {
    /// The warning if the file fails: which knowledge does not outlive the process.
    loss: &'static str,
    /// The rows that are to be written; `None`: there is no file.
    unwritten: Arc<Mutex<Option<Vec<F::Row>>>>,
    file: Arc<AsyncMutex<Option<F>>>,
    state: Arc<FileState>,
}

/// The rows that the file lacks or has too many, and the next attempt to write it anew.
#[derive(Debug, Default)]
struct FileState {
    /// Whether rows of the table are missing in it.
    is_behind: AtomicBool,
    /// Whether it has rows besides that the table has not any more.
    is_stale: AtomicBool,
    /// Whether it is not known which rows of the file are replaced.
    has_lost_rows: AtomicBool,
    /// When the file is next written anew, and the pause before that; `None`: at once.
    pause: Mutex<Option<(Instant, Duration)>>,
    /// Whether a task is about to write it anew.
    is_retrying: AtomicBool,
}

impl<F: TableFile> Clone for TableLog<F> {
    fn clone(&self) -> Self {
        Self {
            loss: self.loss,
            unwritten: self.unwritten.clone(),
            file: self.file.clone(),
            state: self.state.clone(),
        }
    }
}

impl<F: TableFile> TableLog<F> {
    /// Returns a log without a file. `loss` is logged if the file fails.
    #[must_use]
    pub fn new(loss: &'static str) -> Self {
        Self {
            loss,
            unwritten: Arc::default(),
            file: Arc::default(),
            state: Arc::default(),
        }
    }

    /// Takes a file, to which all further rows are appended. A failure to open it is logged.
    pub fn attach(&self, opened: io::Result<F>) {
        match opened {
            Ok(file) => {
                if let Ok(mut held) = self.file.try_lock() {
                    *held = Some(file);
                    *self.unwritten() = Some(Vec::new());
                }
            }
            Err(error) => tracing::warn!(%error, "{}", self.loss),
        }
    }

    /// Queues a row. Call it under the table's lock, so that rows are written in the order of their changes.
    pub fn push(&self, row: F::Row) {
        if let Some(unwritten) = self.unwritten().as_mut() {
            if unwritten.len() >= MAX_UNWRITTEN {
                // All rows of the table are written then.
                unwritten.clear();
                self.state.has_lost_rows.store(true, Ordering::SeqCst);
                self.state.is_behind.store(true, Ordering::SeqCst);
            }
            unwritten.push(row);
        }
    }

    /// Returns whether rows of the table are missing in the file, because the disk has refused them.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.state.is_behind.load(Ordering::SeqCst)
    }

    /// Returns whether the file has rows that the table has not any more, and the disk refuses to take them out.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.state.is_stale.load(Ordering::SeqCst)
    }

    /// Writes the queued rows, and waits for that a bounded time. `all` returns those of the table. A file that cannot be
    /// written anew is tried again after a pause.
    pub async fn write_out(&self, all: impl Fn() -> Vec<F::Row> + Send + Sync + 'static) {
        let is_written = self.unwritten().as_ref().is_none_or(Vec::is_empty);
        if is_written && (!self.is_behind() || self.state.is_paused()) {
            return;
        }
        let all = Arc::new(all);
        let written = self.write_due(&all);
        let _ = tokio::time::timeout(WRITE_TIMEOUT, written).await;
        if self.state.pause().is_some() && !self.state.is_retrying.swap(true, Ordering::SeqCst) {
            let log = self.clone();
            tokio::spawn(async move {
                while let Some((due, _)) = log.state.pause() {
                    tokio::time::sleep_until(due).await;
                    let _ = log.write_due(&all).await;
                    if log.state.pause().is_some_and(|(next, _)| next == due) {
                        // Nothing was tried.
                        break;
                    }
                }
                log.state.is_retrying.store(false, Ordering::SeqCst);
            });
        }
    }

    /// Writes the queued rows, unless the file is to be written anew and its pause is not over.
    async fn write_due(
        &self,
        all: &Arc<impl Fn() -> Vec<F::Row> + Send + Sync + 'static>,
    ) -> io::Result<()> {
        let all = all.clone();
        self.write(move || all(), true, |_| Ok(())).await
    }

    /// Writes the queued rows, and makes all written ones durable. Waits for the disk for as long as that takes.
    ///
    /// # Errors
    /// Those of the system. There is no file.
    pub async fn sync(&self, all: impl Fn() -> Vec<F::Row> + Send + 'static) -> io::Result<()> {
        self.write(all, false, F::sync).await
    }

    /// Writes the queued rows, or all if the file is behind, and then calls `then`. The file is behind after an error.
    /// During a pause nothing is written anew if `waits`.
    async fn write(
        &self,
        all: impl Fn() -> Vec<F::Row> + Send + 'static,
        waits: bool,
        then: impl FnOnce(&mut F) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (unwritten, loss, state) = (self.unwritten.clone(), self.loss, self.state.clone());
        let mut held = self.file.clone().lock_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            let file = held.as_mut();
            let file = file.ok_or_else(|| io::Error::other("there is no file"))?;
            let rows = unwritten.lock().recover().as_mut().map(mem::take);
            let rows = rows.unwrap_or_default();
            if waits && state.is_paused() {
                state.forget(file, &rows, &all);
                return Ok(());
            }
            let written = state.write(file, &rows, &all);
            let written = written.and_then(|()| {
                // The kernel may have dropped what could not be synced.
                then(file).inspect_err(|_| state.is_behind.store(true, Ordering::SeqCst))
            });
            if let Err(error) = &written {
                tracing::warn!(%error, "{loss}");
            }
            written
        });
        written
            .await
            .unwrap_or_else(|_| Err(io::Error::other("a panic")))
    }

    fn unwritten(&self) -> MutexGuard<'_, Option<Vec<F::Row>>> {
        self.unwritten.lock().recover()
    }
}

impl FileState {
    /// Appends rows, or writes the file anew if it is behind.
    fn write<F: TableFile>(
        &self,
        file: &mut F,
        rows: &[F::Row],
        all: &dyn Fn() -> Vec<F::Row>,
    ) -> io::Result<()> {
        if !self.is_behind.load(Ordering::SeqCst) {
            if rows.is_empty() {
                return Ok(());
            }
            match file.append(rows, all) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::debug!(%error, "a file of a table is written anew"),
            }
        }
        // Before the rows are taken: one that comes meanwhile is appended, or makes it behind again.
        self.is_behind.store(false, Ordering::SeqCst);
        let has_lost_rows = self.has_lost_rows.swap(false, Ordering::SeqCst);
        let renewed = file.renew(&all());
        let mut pause = self.pause.lock().recover();
        *pause = match &renewed {
            Ok(()) => None,
            Err(_) => {
                let next = pause.map_or(FIRST_PAUSE, |(_, last)| (2 * last).min(MAX_PAUSE));
                Some((Instant::now() + next, next))
            }
        };
        drop(pause);
        if renewed.is_err() {
            self.is_behind.store(true, Ordering::SeqCst);
            self.has_lost_rows.fetch_or(has_lost_rows, Ordering::SeqCst);
            self.forget(file, rows, all);
        } else {
            self.is_stale.store(false, Ordering::SeqCst);
        }
        renewed
    }

    /// Takes what these rows replace out of a file that cannot be written anew.
    fn forget<F: TableFile>(&self, file: &mut F, rows: &[F::Row], all: &dyn Fn() -> Vec<F::Row>) {
        let is_forgotten = match self.has_lost_rows.swap(false, Ordering::SeqCst) {
            true => file.forget(&all(), true),
            false => file.forget(rows, false),
        };
        let is_stale = is_forgotten.is_err();
        self.has_lost_rows.fetch_or(is_stale, Ordering::SeqCst);
        self.is_stale.store(is_stale, Ordering::SeqCst);
    }

    fn pause(&self) -> Option<(Instant, Duration)> {
        *self.pause.lock().recover()
    }

    fn is_paused(&self) -> bool {
        self.pause().is_some_and(|(due, _)| Instant::now() < due)
    }
}

/// Opens a file of a directory to be read and appended to, and creates it if it is missing. No other user may read it:
/// it shows which keys there are.
///
/// # Errors
/// Those of the system.
pub fn open(directory: &Path, name: &str) -> io::Result<File> {
    private_files::open(options().create(true).read(true), &directory.join(name))
}

/// Puts a new file in the place of another one, and returns it to be appended to.
///
/// # Errors
/// Those of the system. The old file is there then.
pub fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<File> {
    let new = directory.join(format!("{name}.new"));
    let _ = fs::remove_file(&new);
    let mut file = private_files::open(options().create_new(true), &new)?;
    // A name that is durable before the bytes would leave an empty file.
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    if written.is_err() {
        // It takes the room that a full disk lacks.
        let _ = fs::remove_file(&new);
    }
    written?;
    fs::rename(&new, directory.join(name))?;
    Ok(file)
}

fn options() -> OpenOptions {
    let mut options = private_files::file_options();
    options.append(true);
    options
}

#[cfg(test)]
mod tests;
