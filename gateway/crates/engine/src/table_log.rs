//! The file of a table beside the spool: rows that a table gains are appended to it, behind the callers.
//!
//! A row is queued under the table's own lock, and written by [`TableLog::write_out`], for which callers wait a bounded
//! time. Without a file, or once it has failed, nothing is queued. [`rows::RowFile`] is a file of rows of one length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
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
    /// Those of the system. The file is not used any more then.
    fn append(&mut self, rows: &[Self::Row], all: &dyn Fn() -> Vec<Self::Row>) -> io::Result<()>;

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
}

impl<F: TableFile> Clone for TableLog<F> {
    fn clone(&self) -> Self {
        Self {
            loss: self.loss,
            unwritten: self.unwritten.clone(),
            file: self.file.clone(),
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
            unwritten.truncate(MAX_UNWRITTEN);
            unwritten.push(row);
        }
    }

    /// Writes the queued rows, and waits for that a bounded time. `all` returns those of the table.
    pub async fn write_out(&self, all: impl Fn() -> Vec<F::Row> + Send + 'static) {
        if self.unwritten().as_ref().is_none_or(Vec::is_empty) {
            return;
        }
        let _ = tokio::time::timeout(WRITE_TIMEOUT, self.write(all, |_| Ok(()))).await;
    }

    /// Writes the queued rows, and makes all written ones durable. Waits for the disk for as long as that takes.
    ///
    /// # Errors
    /// Those of the system. There is no file, or none any more.
    pub async fn sync(&self, all: impl Fn() -> Vec<F::Row> + Send + 'static) -> io::Result<()> {
        self.write(all, F::sync).await
    }

    /// Writes the queued rows, and then calls `then`. The file is not used any more after an error.
    async fn write(
        &self,
        all: impl Fn() -> Vec<F::Row> + Send + 'static,
        then: impl FnOnce(&mut F) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (unwritten, loss) = (self.unwritten.clone(), self.loss);
        let mut held = self.file.clone().lock_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            let file = held.as_mut();
            let file = file.ok_or_else(|| io::Error::other("the file is not used any more"))?;
            let rows = unwritten.lock().recover().as_mut().map(mem::take);
            let rows = rows.unwrap_or_default();
            let written = match rows.is_empty() {
                true => Ok(()),
                false => file.append(&rows, &all),
            };
            let written = written.and_then(|()| then(file));
            if let Err(error) = &written {
                tracing::warn!(%error, "{loss}");
                *held = None;
                *unwritten.lock().recover() = None;
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
    file.write_all(bytes)?;
    // A name that is durable before the bytes would leave an empty file.
    file.sync_data()?;
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

    /// A file that notes what is done to it.
    #[derive(Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl TableFile for Notes {
        type Row = u32;

        fn append(&mut self, rows: &[u32], _: &dyn Fn() -> Vec<u32>) -> io::Result<()> {
            let mut notes = self.0.lock().recover();
            notes.push(format!("append {rows:?}"));
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            let mut notes = self.0.lock().recover();
            notes.push("sync".to_owned());
            match notes.len() {
                0..4 => Ok(()),
                _ => Err(io::Error::other("the disk failed")),
            }
        }
    }

    #[tokio::test]
    async fn a_sync_covers_all_rows_and_fails_with_its_disk() {
        let (log, file) = (TableLog::new("nothing outlives"), Notes::default());
        assert!(log.sync(Vec::new).await.is_err(), "there is no file");
        let notes = file.0.clone();
        log.attach(Ok(file));
        log.push(1);
        log.sync(Vec::new).await.expect("synced");
        log.push(2);
        log.write_out(Vec::new).await;
        assert!(log.sync(Vec::new).await.is_err());
        assert_eq!(
            *notes.lock().recover(),
            ["append [1]", "sync", "append [2]", "sync"]
        );
        assert!(log.sync(Vec::new).await.is_err(), "for good");
    }
}
