//! Bytes on their way into a bucket, kept on local disk.
//!
//! Each object that is written has two files in the spool's directory: `ID.data`, sparse, in which
//! every byte lies where it lies in the object, and `ID.journal`, which says what the first one holds
//! and how far the upload has come (`journal`). A small object has the second one only, and none
//! unless it must be durable. The directory belongs to one process (a lock), and
//! its name of version is part of every journal: another format is left alone.
//!
//! What a journal says counts up to its last *synced* record: then the bytes that it speaks of were
//! made durable before it. That makes no difference to a killed process, whose writes the kernel
//! keeps, and all the difference to a machine that lost its power.
//!
//! All drafts together take at most the spool's size (`space`); whoever wants to write more waits
//! until something has left it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

pub(super) mod blocks;
pub(super) mod data;
pub(super) mod file;
pub(super) mod journal;
pub(super) mod replay;
pub(super) mod space;
mod tail;

use blocks::Memory;
use file::SpoolFile;
use journal::Begin;
use replay::Replayed;
use space::Space;

/// Why there is no spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another process has it.
    #[error("the spool {0} is in use by another process")]
    InUse(PathBuf),
    /// The directory cannot be used.
    #[error("cannot {what} the spool {path}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
}

/// A directory of drafts. See the module's head.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    pub(super) space: Space,
    pub(super) memory: Memory,
    /// Held as long as the spool is open.
    _lock: File,
}

/// How many drafts lie in a spool that no process has open. Blocks.
///
/// # Errors
/// The directory is there and cannot be read.
pub(super) fn left_in(directory: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let journals = entries.filter_map(Result::ok).filter(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|kind| kind == JOURNAL)
    });
    let left = journals.count();
    if left == 0 {
        return Ok(0);
    }
    let lock = File::open(directory.join("lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(0),
        tried => tried.map(|()| left).map_err(io::Error::from),
    }
}

const DATA: &str = "data";
const JOURNAL: &str = "journal";

impl Spool {
    /// Opens the spool in `directory`, made if it is missing, for at most `size` bytes, and memory for
    /// what is sent soon after. Blocks.
    pub(super) fn open(directory: &Path, size: u64, memory: Memory) -> Result<Self, SpoolError> {
        let failed = |what| {
            let path = directory.to_owned();
            move |error| SpoolError::Io { what, path, error }
        };
        // What people write is nobody else's to read.
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o700);
        make.create(directory).map_err(failed("make"))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options
            .open(directory.join("lock"))
            .map_err(failed("lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(SpoolError::InUse(directory.to_owned()));
            }
            Err(error) => return Err(failed("lock")(error.into())),
        }
        Ok(Self {
            directory: directory.to_owned(),
            space: Space::new(size),
            memory,
            _lock: lock,
        })
    }

    /// A new draft, which has no files yet.
    pub(super) fn create(&self, begin: Begin) -> Arc<SpoolFile> {
        let id = super::upload::random();
        let id = format!("{id:016x}");
        let memory = self.memory.clone();
        Arc::new(SpoolFile::new(&self.directory, id, begin, memory))
    }

    /// Every draft that is there, with what its journal says; those that say nothing are removed.
    /// Blocks.
    pub(super) fn recover(&self) -> io::Result<Vec<(Arc<SpoolFile>, Replayed)>> {
        let mut found = Vec::new();
        // The names first: files go while this looks at others.
        let entries: io::Result<Vec<_>> = fs::read_dir(&self.directory)?.collect();
        for path in entries?.into_iter().map(|entry| entry.path()) {
            let of = |kind: &str| path.extension().is_some_and(|it| it == kind);
            let orphan = of(DATA) && !path.with_extension(JOURNAL).exists();
            if orphan || of(file::UNFINISHED) {
                file::remove(&path);
            }
            if !of(JOURNAL) {
                continue;
            }
            match self.recover_one(&path) {
                Ok(Some(draft)) => found.push(draft),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, path = %path.display(), "a draft in the spool cannot be read; it is left as it is");
                }
            }
        }
        Ok(found)
    }

    fn recover_one(&self, journal: &Path) -> io::Result<Option<(Arc<SpoolFile>, Replayed)>> {
        let bytes = fs::read(journal)?;
        let Some((records, sound)) = journal::read(&bytes) else {
            tracing::warn!(path = %journal.display(), "a journal of another format is left alone");
            return Ok(None);
        };
        let id = journal.file_stem().unwrap_or_default().to_string_lossy();
        let Some(replayed) = replay::replay(&records).map_err(io::Error::other)? else {
            // Not even its beginning was written: nothing was promised.
            for path in [journal, &journal.with_extension(DATA)] {
                file::remove(path);
            }
            return Ok(None);
        };
        let memory = self.memory.clone();
        let file = SpoolFile::reopen(&self.directory, &id, sound, &replayed, memory)?;
        self.space.take(replayed.draft.local().bytes());
        Ok(Some((Arc::new(file), replayed)))
    }
}
