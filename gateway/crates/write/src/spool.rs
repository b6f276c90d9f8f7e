//! The spool: bytes for a bucket, kept on local disk until they are published.
//!
//! Each draft has two files in the spool's directory. `ID.bytes` is sparse and has every byte at
//! its offset in the object. One of the `.journal`s, which are reused (`slots`), names the draft,
//! its data and the state of its upload (`journal`). A small object has only the second one, and
//! none unless it must be durable. The directory belongs to one process (a lock). Every journal
//! names the version of its format; journals of another version are left alone.
//!
//! A journal counts up to its last *synced* record: the bytes that it describes were made durable
//! before that record. Later writes may or may not survive if the process is killed or the machine
//! loses its power.
//!
//! All drafts together take at most the spool's size (`space`). A writer that needs more waits
//! until something has left it.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};

mod behind;
pub(crate) mod blocks;
pub(crate) mod data;
pub(crate) mod file;
pub(crate) mod journal;
mod log;
pub(crate) mod reading;
pub(crate) mod replay;
mod slots;
pub(crate) mod space;
mod tail;

use blocks::Memory;
use file::SpoolFile;
use journal::{Begin, JournalContents, Record};
use reading::SpoolReading;
use replay::Replayed;
use slots::Slots;
use space::Space;
use tidegate_telemetry::progress::ProgressLines;

/// The reasons why a spool cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another process has it.
    #[error("the spool {0} is in use by another process")]
    InUse(PathBuf),
    /// The directory cannot be used.
    #[error("cannot {what} the spool {path}: {error}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// The spool's directory.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
}

/// A directory of drafts. See the module documentation.
#[derive(Debug)]
pub(crate) struct Spool {
    slots: Arc<Slots>,
    pub(crate) space: Space,
    pub(crate) memory: Memory,
}

/// Returns the number of drafts in a spool that no process has open, and of the files beside them whose names `counts`
/// accepts. Blocks.
///
/// # Errors
/// The directory exists and cannot be read.
pub(crate) fn left_in(directory: &Path, counts: impl Fn(&str) -> bool) -> io::Result<usize> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut left = 0;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let is_draft = is(&path, JOURNAL_EXTENSION) && !is_blank(&path)?;
        left += usize::from(is_draft || entry.file_name().to_str().is_some_and(&counts));
    }
    if left == 0 {
        return Ok(0);
    }
    let lock = File::open(directory.join("lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(0),
        tried => tried.map(|()| left).map_err(io::Error::from),
    }
}

/// The extension of data files. Formats before the third have another, and name data like its
/// journal: a process of that time would take this data for an orphan.
const DATA_EXTENSION: &str = "bytes";
const JOURNAL_EXTENSION: &str = "journal";

/// Bytes of a draft's two files beside its data. A journal has this length from its beginning.
pub(crate) const FILES_BYTES: u64 = slots::NEW_FILE_BYTES as u64 + (4 << 10);

fn is(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|it| it == kind)
}

/// Returns whether a file has no journal in it; the process that has the spool may remove it.
fn is_blank(path: &Path) -> io::Result<bool> {
    let start = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        start => start?,
    };
    let mut head = Vec::new();
    let mut start = start.take(journal::BLANK_HEAD.len() as u64);
    start.read_to_end(&mut head)?;
    Ok(journal::read(&head) == JournalContents::Blank)
}

impl Spool {
    /// Opens the spool in `directory` with at most `size` bytes, and creates it if it is missing.
    /// `memory` is for bytes that are sent soon. Blocks.
    pub(crate) fn open(directory: &Path, size: u64, memory: Memory) -> Result<Self, SpoolError> {
        let failed = |what| {
            let path = directory.to_owned();
            move |error| SpoolError::Io { what, path, error }
        };
        // Other users must not read the written bytes.
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
            slots: Slots::new(directory, Some(lock)),
            space: Space::new(size),
            memory,
        })
    }

    /// Creates a draft, which has no files yet. `before` is the edition that it replaces, as
    /// `begin` says.
    pub(crate) fn create(&self, begin: Begin, before: Option<Arc<SpoolFile>>) -> Arc<SpoolFile> {
        let id = crate::random();
        let file = SpoolFile::new(self.slots.clone(), id, begin, self.memory.clone());
        Arc::new(file.replacing(before))
    }

    /// Returns every draft in the directory as its journal describes it. Removes drafts with empty
    /// journals. Blocks.
    pub(crate) fn recover(
        &self,
        reading: &SpoolReading,
    ) -> io::Result<Vec<(Arc<SpoolFile>, Replayed)>> {
        // Blank files will be used, and the process that made them may not have synced their names.
        self.slots.sync_names()?;
        // All names first: files are removed during the loop.
        let entries: io::Result<Vec<_>> = fs::read_dir(self.slots.directory())?.collect();
        let paths = Vec::from_iter(entries?.into_iter().map(|entry| entry.path()));
        let (journals, all_read) = self.journals(&paths, reading);
        reading.found(journals.len());
        let mut found = Vec::new();
        let mut owned = HashSet::new();
        let mut lines = ProgressLines::begin(Instant::now());
        for (done, read) in journals.iter().enumerate() {
            if lines.is_due(Instant::now()) {
                tracing::info!(
                    done,
                    of = journals.len(),
                    "still reading the drafts in the spool"
                );
            }
            reading.read();
            owned.insert(file::path_of(self.slots.directory(), read.id));
            match self.recover_one(read) {
                Ok(draft) => found.push(draft),
                Err(error) => {
                    tracing::error!(%error, path = %read.path.display(), "a draft in the spool cannot be read; it is left as it is");
                }
            }
        }
        // A journal that could not be read may own any data.
        let orphans = paths
            .iter()
            .filter(|path| all_read && is(path, DATA_EXTENSION));
        for path in orphans.filter(|path| !owned.contains(*path)) {
            slots::remove_file(path);
        }
        self.leave_replaced(&mut found, &journals, all_read);
        Ok(found)
    }

    /// Removes editions that a promised one replaces. If one cannot be removed, both are left
    /// alone. Otherwise it would be published over its replacement after the next restart.
    fn leave_replaced(
        &self,
        found: &mut Vec<(Arc<SpoolFile>, Replayed)>,
        journals: &[ReadJournal],
        all_read: bool,
    ) {
        let promised = found.iter().filter(|(_, replayed)| replayed.promised);
        let pairs = promised.filter_map(|(file, it)| Some((file.id(), it.begin.replaces?)));
        for (next, replaced) in Vec::from_iter(pairs) {
            let draft = found.iter_mut().find(|(file, _)| file.id() == replaced);
            let journal = journals.iter().find(|read| read.id == replaced);
            let removed = match (draft, journal) {
                (Some((file, replayed)), _) => {
                    replayed.promised = false;
                    file.try_to_remove()
                }
                (None, Some(read)) => self.slots.found(&read.path).and_then(|mut it| it.blank()),
                (None, None) if all_read => Ok(()),
                (None, None) => Err(io::Error::other("a journal cannot be read")),
            };
            if let Err(error) = removed {
                tracing::error!(%error, "cannot remove the edition that an object in the spool replaces; both are left there");
                found.retain(|(file, _)| ![next, replaced].contains(&file.id()));
            }
        }
    }

    /// Reads the journals, one for each draft; returns also whether all could be read. Blanks the
    /// others.
    fn journals(&self, paths: &[PathBuf], reading: &SpoolReading) -> (Vec<ReadJournal>, bool) {
        let (mut journals, mut all_read) = (Vec::new(), true);
        let mut lines = ProgressLines::begin(Instant::now());
        let files = || paths.iter().filter(|path| is(path, JOURNAL_EXTENSION));
        reading.found(files().count());
        for path in files() {
            reading.read();
            if lines.is_due(Instant::now()) {
                let (read, of) = (journals.len(), paths.len());
                tracing::info!(read, of, "still reading the journals of the spool");
            }
            match self.journal_at(path) {
                Ok(read) => journals.extend(read),
                Err(error) => {
                    all_read = false;
                    tracing::error!(%error, path = %path.display(), "a journal in the spool cannot be read; it is left as it is");
                }
            }
        }
        // A journal that was renewed in another file comes before the first, if it is whole.
        journals.sort_by_key(|read| std::cmp::Reverse((read.is_whole(), read.turn())));
        let mut seen = HashSet::new();
        let (journals, others): (Vec<_>, Vec<_>) =
            journals.into_iter().partition(|read| seen.insert(read.id));
        for ReadJournal { path, .. } in others {
            if let Err(error) = self.slots.found(&path).and_then(|mut slot| slot.blank()) {
                tracing::error!(%error, path = %path.display(), "an outdated journal in the spool cannot be removed");
            }
        }
        (journals, all_read)
    }

    /// Reads a journal file. Blanks it if it has no records.
    fn journal_at(&self, path: &Path) -> io::Result<Option<ReadJournal>> {
        match journal::read(&fs::read(path)?) {
            JournalContents::Journal { id, records, sound } if !records.is_empty() => {
                Ok(Some(ReadJournal {
                    path: path.to_owned(),
                    id,
                    records,
                    sound,
                }))
            }
            JournalContents::OtherFormat => {
                tracing::warn!(path = %path.display(), "a journal of another format is left alone");
                Ok(None)
            }
            // Not even its first record was written.
            JournalContents::Journal { .. } | JournalContents::Blank => {
                self.slots.found(path)?.blank().map(|()| None)
            }
        }
    }

    /// Recovers the draft of a journal.
    fn recover_one(&self, read: &ReadJournal) -> io::Result<(Arc<SpoolFile>, Replayed)> {
        let mut replayed = replay::replay(&read.records).map_err(io::Error::other)?;
        let (slots, memory) = (self.slots.clone(), self.memory.clone());
        let journal = (read.id, read.sound, read.turn());
        let file = SpoolFile::reopen(slots, &read.path, journal, &mut replayed, memory)?;
        self.space.take(replayed.draft.local().bytes());
        Ok((Arc::new(file), replayed))
    }
}

/// A journal that was found in the directory.
struct ReadJournal {
    path: PathBuf,
    id: u64,
    records: Vec<Record>,
    sound: u64,
}

impl ReadJournal {
    /// Returns the number of files that the draft had before this one.
    fn turn(&self) -> u64 {
        match self.records.first() {
            Some(Record::Anew { turn, .. }) => (*turn).max(1),
            _ => 0,
        }
    }

    /// Returns whether the journal is complete. Earlier versions wrote its head together with the
    /// rest.
    fn is_whole(&self) -> bool {
        let is_promised = matches!(
            self.records.first(),
            Some(Record::Anew { promised: true, .. })
        );
        self.turn() == 0 || !is_promised || self.records.contains(&Record::Synced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_engine::Budget;

    fn recovered(directory: &Path) -> usize {
        let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 20));
        let spool = Spool::open(directory, 1 << 20, memory).expect("a spool");
        spool
            .recover(&SpoolReading::default())
            .expect("it can be read")
            .len()
    }

    fn has(directory: &Path, name: &str) -> bool {
        directory.join(name).exists()
    }

    fn is_zero(bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == 0)
    }

    #[test]
    fn what_is_of_no_draft_goes_and_what_is_not_understood_stays() {
        let directory = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            fs::write(directory.path().join(name), bytes).expect("written");
        };
        write("0000000000000001.bytes", b"orphan");
        write("0000000000000002.journal", &[0; 5000]);
        write("0000000000000003.journal", b"");
        let torn = [journal::head(4), vec![9; 30]].concat();
        write("0000000000000004.journal", &torn);
        write("0000000000000004.bytes", b"of nothing");
        assert_eq!(
            left_in(directory.path(), |_| false).ok(),
            None,
            "no lock yet"
        );
        assert_eq!(recovered(directory.path()), 0);
        assert_eq!(left_in(directory.path(), |_| false).expect("read"), 0);
        let names = fs::read_dir(directory.path()).expect("a folder").count();
        assert_eq!(names, 4, "the lock, and three for journals to come");

        // It was renewed in another file, and its first could not be blanked. An incomplete renewal
        // does not count.
        let begin = |key| Box::new(Begin::of(key));
        let (first, second) = (Record::Begin(begin("first")), begin("second"));
        let second = Record::Anew {
            begin: second,
            promised: true,
            turn: 1,
        };
        let torn = journal::begun(4, &second);
        let whole = [&torn[..], &journal::framed(4, &Record::Synced)].concat();
        for (bytes, left) in [(torn, "7"), (whole, "8")] {
            write("0000000000000008.journal", &bytes);
            for name in ["7", "9"] {
                let bytes = journal::begun(4, &first);
                write(&format!("000000000000000{name}.journal"), &bytes);
            }
            assert_eq!(recovered(directory.path()), 1);
            let is_left = |name: &str| {
                let kept = fs::read(
                    directory
                        .path()
                        .join(format!("000000000000000{name}.journal")),
                );
                !is_zero(&kept.expect("there")[..journal::BLANK_HEAD.len()])
            };
            assert!(is_left(left) || left == "7" && is_left("9"));
            assert_eq!(is_left("8"), left == "8");
        }
        assert_eq!(recovered(directory.path()), 1);
        assert_eq!(left_in(directory.path(), |_| false).expect("read"), 1);
        let kept = fs::read(directory.path().join("0000000000000008.journal"));
        assert!(!is_zero(&kept.expect("there")));
        write("0000000000000008.journal", b"");

        // Of another format, whose data has another extension.
        write("0000000000000005.journal", b"tidegate-spool-2\n...");
        write("0000000000000005.data", b"promised");
        write("0000000000000006.bytes", b"orphan");
        assert_eq!(recovered(directory.path()), 0);
        assert!(has(directory.path(), "0000000000000005.data"));
        assert!(has(directory.path(), "0000000000000005.journal"));
        assert!(!has(directory.path(), "0000000000000006.bytes"));
        assert_eq!(left_in(directory.path(), |_| false).expect("read"), 1);
    }
}
