//! The file of a table beside the spool: rows that a table gains are appended to it, behind the callers.
//!
//! A row is queued under the table's own lock, and written by [`TableLog::write_out`], for which callers wait a bounded
//! time. Without a file nothing is queued. A file that has failed is behind the table: each next write tries to write it
//! anew, with all rows of the table. [`rows::RowFile`] is a file of rows of one length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use tidegate_telemetry::locks::Recover as _;

pub mod rows;

/// The longest wait of a caller for the file. The next caller has the rest written.
const WRITE_TIMEOUT: Duration = Duration::from_millis(250);

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

/// What the file lacks.
#[derive(Debug, Default)]
struct FileState {
    /// Whether rows of the table are missing in it.
    is_behind: AtomicBool,
    /// Whether it has rows besides that the table has not any more.
    is_stale: AtomicBool,
    /// Whether it is not known which rows of the file are replaced.
    has_lost_rows: AtomicBool,
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

    /// Writes the queued rows, and waits for that a bounded time. `all` returns those of the table.
    pub async fn write_out(&self, all: impl Fn() -> Vec<F::Row> + Send + 'static) {
        let is_written = self.unwritten().as_ref().is_none_or(Vec::is_empty);
        if is_written && !self.is_behind() {
            return;
        }
        let _ = tokio::time::timeout(WRITE_TIMEOUT, self.write(all, |_| Ok(()))).await;
    }

    /// Writes the queued rows, and makes all written ones durable. Waits for the disk for as long as that takes.
    ///
    /// # Errors
    /// Those of the system. There is no file.
    pub async fn sync(&self, all: impl Fn() -> Vec<F::Row> + Send + 'static) -> io::Result<()> {
        self.write(all, F::sync).await
    }

    /// Writes the queued rows, or all if the file is behind, and then calls `then`. The file is behind after an error.
    async fn write(
        &self,
        all: impl Fn() -> Vec<F::Row> + Send + 'static,
        then: impl FnOnce(&mut F) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (unwritten, loss, state) = (self.unwritten.clone(), self.loss, self.state.clone());
        let mut held = self.file.clone().lock_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            let file = held.as_mut();
            let file = file.ok_or_else(|| io::Error::other("there is no file"))?;
            let rows = unwritten.lock().recover().as_mut().map(mem::take);
            let written = state.write(file, &rows.unwrap_or_default(), &all);
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
        let all = all();
        let renewed = file.renew(&all);
        let mut is_stale = false;
        if renewed.is_err() {
            self.is_behind.store(true, Ordering::SeqCst);
            let replacing = if has_lost_rows { &all } else { rows };
            is_stale = file.forget(replacing, has_lost_rows).is_err();
        }
        if is_stale {
            self.has_lost_rows.store(true, Ordering::SeqCst);
        }
        self.is_stale.store(is_stale, Ordering::SeqCst);
        renewed
    }
}

/// Opens a file of a directory to be read and appended to, and creates it if it is missing. No other user may read it:
/// it shows which keys there are.
///
/// # Errors
/// Those of the system.
pub fn open(directory: &Path, name: &str) -> io::Result<File> {
    options().read(true).open(directory.join(name))
}

/// Puts a new file in the place of another one, and returns it to be appended to.
///
/// # Errors
/// Those of the system. The old file is there then.
pub fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<File> {
    let new = directory.join(format!("{name}.new"));
    let _ = fs::remove_file(&new);
    let mut file = options().open(&new)?;
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
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that notes what is done to it, and fails while a call is among `failing`.
    #[derive(Default, Clone)]
    struct Notes {
        notes: Arc<Mutex<Vec<String>>>,
        failing: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Notes {
        fn note(&self, call: &'static str, rows: &[u32]) -> io::Result<()> {
            self.notes.lock().recover().push(format!("{call} {rows:?}"));
            match self.failing.lock().recover().contains(&call) {
                true => Err(io::Error::other("the disk failed")),
                false => Ok(()),
            }
        }

        fn fails(&self, calls: &[&'static str]) {
            *self.failing.lock().recover() = calls.to_vec();
        }

        fn taken(&self) -> Vec<String> {
            mem::take(&mut *self.notes.lock().recover())
        }
    }

    impl TableFile for Notes {
        type Row = u32;

        fn append(&mut self, rows: &[u32], _: &dyn Fn() -> Vec<u32>) -> io::Result<()> {
            self.note("append", rows)
        }

        fn renew(&mut self, all: &[u32]) -> io::Result<()> {
            self.note("renew", all)
        }

        fn forget(&mut self, rows: &[u32], are_all: bool) -> io::Result<()> {
            let call = if are_all { "forget all but" } else { "forget" };
            self.note(call, rows)
        }

        fn sync(&mut self) -> io::Result<()> {
            self.note("sync", &[])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sync_covers_all_rows_and_fails_with_its_disk() {
        let (log, file) = (TableLog::new("nothing outlives"), Notes::default());
        assert!(log.sync(Vec::new).await.is_err(), "there is no file");
        log.attach(Ok(file.clone()));
        log.push(1);
        log.sync(Vec::new).await.expect("synced");
        log.push(2);
        log.write_out(Vec::new).await;
        assert_eq!(file.taken(), ["append [1]", "sync []", "append [2]"]);
        file.fails(&["sync"]);
        assert!(log.sync(Vec::new).await.is_err());
        file.fails(&[]);
        log.sync(|| vec![1, 2]).await.expect("synced");
        assert_eq!(file.taken(), ["sync []", "renew [1, 2]", "sync []"]);
    }

    /// A disk that was full once takes all rows when it has room again, and none of the old ones is found until then.
    #[tokio::test(start_paused = true)]
    async fn a_file_that_has_failed_is_written_anew() {
        let (log, file) = (TableLog::new("nothing outlives"), Notes::default());
        log.attach(Ok(file.clone()));
        file.fails(&["append"]);
        log.push(1);
        log.write_out(|| vec![1]).await;
        assert_eq!(file.taken(), ["append [1]", "renew [1]"]);
        assert!(!log.is_behind(), "only its end was torn");
        file.fails(&["append", "renew"]);
        for row in [2, 3] {
            log.push(row);
            log.write_out(move || vec![row]).await;
            assert!(log.is_behind() && !log.is_stale());
        }
        let tried = [
            "append [2]",
            "renew [2]",
            "forget [2]",
            "renew [3]",
            "forget [3]",
        ];
        assert_eq!(file.taken(), tried);
        file.fails(&["append", "renew", "forget"]);
        log.push(4);
        log.write_out(|| vec![3, 4]).await;
        assert!(log.is_behind() && log.is_stale());
        file.fails(&["append", "renew"]);
        log.write_out(|| vec![3]).await;
        assert!(!log.is_stale());
        let tried = [
            "renew [3, 4]",
            "forget [4]",
            "renew [3]",
            "forget all but [3]",
        ];
        assert_eq!(
            file.taken(),
            tried,
            "one that is not forgotten is sought again"
        );
        file.fails(&[]);
        log.write_out(|| vec![3]).await;
        assert!(!log.is_behind() && !log.is_stale());
        log.push(5);
        log.write_out(|| vec![3, 5]).await;
        assert_eq!(file.taken(), ["renew [3]", "append [5]"]);
    }
}
