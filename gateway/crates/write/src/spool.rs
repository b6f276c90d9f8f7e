//! The spool: bytes for a bucket, kept on local disk until they are published.
//!
//! Each draft has two files in the spool's directory. `ID.bytes` is sparse and has every byte at
//! its offset in the object. One of the `.journal`s, which are reused (`slots`), names the draft,
//! its data and the state of its upload (`journal`). A small object has only the second one, and
//! none unless it must be durable. The directory belongs to one process (a lock). Every journal
//! names the version of its format; journals of another version are left alone, with
//! their data.
//!
//! A journal counts up to its last *synced* record: the bytes that it describes were made durable
//! before that record. Later writes may or may not survive if the process is killed or the machine
//! loses its power.
//!
//! All drafts together take at most the spool's size (`space`). A writer that needs more waits
//! until something has left it.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{FlockOperation, flock};

pub(crate) mod blocks;
pub(crate) mod data;
pub(crate) mod disk_room;
pub(crate) mod file;
pub(crate) mod journal;
mod log;
pub(crate) mod reading;
mod recover;
pub(crate) mod replay;
mod slots;
pub(crate) mod space;
mod tail;
mod write_behind;

use blocks::Memory;
use disk_room::DiskRoom;
use file::SpoolFile;
use journal::{Begin, JournalContents};
use slots::Slots;
#[cfg(test)]
pub(crate) use slots::faults;
use space::Space;
use tidegate_cache::private_files::{self, file_options};

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
    pub(crate) disk_room: Arc<DiskRoom>,
    pub(crate) memory: Memory,
    /// The drafts that the start could not read. They stay in the directory.
    pub(crate) left_alone: AtomicUsize,
    /// The number of the next draft.
    next_order: AtomicU64,
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
    let lock = private_files::open_to_read(&directory.join("lock"))?;
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
    let start = match private_files::open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        start => start?,
    };
    let mut head = Vec::new();
    let mut start = start.take(journal::BLANK_HEAD.len() as u64);
    start.read_to_end(&mut head)?;
    Ok(journal::read(&head) == JournalContents::Blank)
}

/// Warns if a spool of this size finds its disk full, which has `free` bytes beside the files of the directory. Blocks.
fn warn_of_small_disk(directory: &Path, size: u64, free: u64) {
    if size <= free {
        return;
    }
    let most = free.saturating_add(disk_bytes(directory));
    if size > most {
        let folder = directory.display();
        tracing::warn!(%folder, size, most, "the spool's disk has less room than the spool's size: writers find it full earlier");
    }
}

/// Returns the bytes that the files of a directory take on the disk. Blocks.
fn disk_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.metadata().ok());
    all.map(|it| it.blocks() * 512).sum()
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
        let mut options = file_options();
        options.write(true).create(true).truncate(false);
        let lock = private_files::open(&options, &directory.join("lock"));
        let lock = lock.map_err(failed("lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(SpoolError::InUse(directory.to_owned()));
            }
            Err(error) => return Err(failed("lock")(error.into())),
        }
        let disk_room = DiskRoom::of(directory);
        warn_of_small_disk(directory, size, disk_room.known());
        Ok(Self {
            slots: Slots::new(directory, Some(lock)),
            space: Space::new(size),
            disk_room,
            memory,
            left_alone: AtomicUsize::new(0),
            next_order: AtomicU64::new(1),
        })
    }

    /// Creates a draft, which has no files yet. `before` is the edition that it replaces, as
    /// `begin` says.
    pub(crate) fn create(&self, begin: Begin, before: Option<Arc<SpoolFile>>) -> Arc<SpoolFile> {
        let id = crate::random();
        let order = self.next_order.fetch_add(1, Ordering::Relaxed);
        let begin = Begin { order, ..begin };
        let file = SpoolFile::new(self.slots.clone(), id, begin, self.memory.clone());
        Arc::new(file.replacing(before))
    }
}

#[cfg(test)]
mod tests {
    use super::journal::Record;
    use super::reading::SpoolReading;
    use super::*;
    use tidegate_engine::Budget;
    use tidegate_plan::Timestamp;

    fn recovered(directory: &Path) -> usize {
        let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 20));
        let spool = Spool::open(directory, 1 << 20, memory).expect("a spool");
        spool
            .recover(&SpoolReading::default(), Timestamp::default())
            .expect("it can be read")
            .len()
    }

    fn has(directory: &Path, name: &str) -> bool {
        directory.join(name).exists()
    }

    fn is_zero(bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == 0)
    }

    /// Another user of the machine may have put it there: what it points at is no file of the spool.
    #[test]
    fn no_link_is_followed() {
        let elsewhere = tempfile::tempdir().expect("a folder");
        let target = elsewhere.path().join("target");
        // It would count as a journal that was begun, and be blanked.
        let bytes = [journal::head(4), vec![9; 30]].concat();
        fs::write(&target, &bytes).expect("written");
        let memory = || Memory::new(Budget::new(1 << 20), Budget::new(1 << 20));
        let open = |directory: &Path| Spool::open(directory, 1 << 20, memory());
        let is_told = |error: &dyn std::fmt::Display| {
            let text = error.to_string();
            assert!(text.contains("is a symbolic link"), "{text}");
            assert_eq!(fs::read(&target).expect("there"), bytes);
        };
        for name in ["lock", "0000000000000001.journal", "0000000000000002.bytes"] {
            let directory = tempfile::tempdir().expect("a folder");
            let link = directory.path().join(name);
            std::os::unix::fs::symlink(&target, &link).expect("a link");
            match name {
                "lock" => is_told(&open(directory.path()).expect_err("a link")),
                "0000000000000001.journal" => {
                    let spool = open(directory.path()).expect("a spool");
                    let found = spool.recover(&SpoolReading::default(), Timestamp::default());
                    assert_eq!(found.expect("it can be read").len(), 0);
                    assert_eq!(spool.left_alone.load(Ordering::Relaxed), 1);
                    is_told(&spool.slots.found(&link).expect_err("a link"));
                    is_told(&left_in(directory.path(), |_| false).expect_err("a link"));
                }
                _ => {
                    let data = data::Data::new(&link, memory());
                    is_told(&data.file().expect_err("a link"));
                }
            }
        }
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

    /// A process of another version has promised it. This one neither publishes nor removes it.
    #[test]
    fn a_journal_of_another_format_keeps_its_data() {
        let later = journal::framed(7, &Record::Closed);
        let body = br#"{"Later":{"size":5}}"#;
        let unknown = [
            &journal::begun(8, &Record::Begin(Box::new(Begin::of("k")))),
            &journal::frame(8, body, 0)[..],
        ];
        let journals: [(&[u8], u64); 4] = [
            (
                &[b"tidegate-spool-5 0000000000000007\n", &later[..]].concat(),
                7,
            ),
            (b"tidegate-spool-3 0000000000000007\n...", 7),
            // Its version has names of its own.
            (b"tidegate-spool-12\nsomething else", 9),
            // A record that was added later.
            (&unknown.concat(), 8),
        ];
        for (bytes, id) in journals {
            let directory = tempfile::tempdir().expect("a folder");
            let journal = directory.path().join("0000000000000001.journal");
            let data = file::path_of(directory.path(), id);
            fs::write(&journal, bytes).expect("written");
            fs::write(&data, b"promised").expect("written");
            for _ in 0..2 {
                let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 20));
                let spool = Spool::open(directory.path(), 1 << 20, memory).expect("a spool");
                let found = spool
                    .recover(&SpoolReading::default(), Timestamp::default())
                    .expect("read");
                assert_eq!(found.len(), 0);
                assert_eq!(spool.left_alone.load(Ordering::Relaxed), 1);
            }
            assert_eq!(fs::read(&journal).expect("there"), bytes);
            assert_eq!(fs::read(&data).expect("there"), b"promised", "{id}");
        }
    }
}
