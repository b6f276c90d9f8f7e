//! The files for journals: created in advance, and reused.
//!
//! To create a file durably takes two commits of the file system's own journal, and to delete it
//! durably a third. To overwrite existing bytes takes one flush of the device. So the journal of a
//! removed draft is blanked and waits for the next one, as the segments of a write-ahead log do
//! (PostgreSQL, 28.5: "WAL segment files are recycled").
//!
//! After the end of a journal there may be remains of an earlier one. They do not count: each
//! journal has an identity of its own, which seeds its hashes (`journal`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::JOURNAL_EXTENSION;
use super::journal::BLANK_HEAD;
use tidegate_cache::private_files;
use tidegate_telemetry::locks::Recover as _;

/// Files created at once, with one sync of their names.
const CREATED_AT_ONCE: usize = 8;

/// The maximum number of spare files. Their bytes are not counted among the spool's.
const MAX_SPARE_FILES: usize = 64;

/// The length of a new file. Records within it overwrite existing bytes.
pub(super) const NEW_FILE_BYTES: usize = 16 << 10;

/// The length beyond which a file is truncated before its reuse.
const MAX_REUSED_BYTES: u64 = 128 << 10;

/// All journal files of a spool.
#[derive(Debug)]
pub(super) struct Slots {
    directory: PathBuf,
    /// Keeps other processes out as long as a draft may still be written to.
    _lock: Option<File>,
    spare: Mutex<Vec<Arc<NamedFile>>>,
    /// A lock that is held while files are created.
    making: Mutex<()>,
}

/// A file and its path.
#[derive(Debug)]
struct NamedFile {
    path: PathBuf,
    file: File,
}

/// A file of one draft. Once it is blanked, the drop of this makes it available to the next draft:
/// it has no readers any more.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    held: Arc<NamedFile>,
    state: SlotState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Blank,
    Used,
    /// Its name was deleted, and may return after a crash.
    Unlinked,
    /// It was deleted.
    Removed,
}

impl Slots {
    pub(super) fn new(directory: &Path, lock: Option<File>) -> Arc<Self> {
        Arc::new(Self {
            directory: directory.to_owned(),
            _lock: lock,
            spare: Mutex::default(),
            making: Mutex::default(),
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<NamedFile>>> {
        self.spare.lock().recover()
    }

    /// Returns a blank file, whose name is durable. Blocks.
    pub(super) fn take(self: &Arc<Self>) -> io::Result<Slot> {
        let waiting = self.take_spare();
        let held = match waiting {
            Some(held) => held,
            None => {
                let _one = self.making.lock().recover();
                // Another caller may have created some meanwhile.
                let waiting = self.take_spare();
                waiting.map_or_else(|| self.make(), Ok)?
            }
        };
        Ok(Slot {
            slots: self.clone(),
            held,
            state: SlotState::Blank,
        })
    }

    /// Returns a spare file that still has its name.
    fn take_spare(&self) -> Option<Arc<NamedFile>> {
        loop {
            let spare = self.spare().pop()?;
            if check_name(&spare.file, &spare.path).is_ok() {
                return Some(spare);
            }
        }
    }

    /// Opens a file that was found at a path. Blocks.
    pub(super) fn found(self: &Arc<Self>, path: &Path) -> io::Result<Slot> {
        let path = path.to_owned();
        let mut options = private_files::file_options();
        let file = private_files::open(options.read(true).write(true), &path)?;
        Ok(Slot {
            slots: self.clone(),
            held: Arc::new(NamedFile { path, file }),
            state: SlotState::Used,
        })
    }

    /// Returns a file on a full disk, under a name of its own, because it may be removed.
    #[cfg(test)]
    pub(super) fn full_disk(self: &Arc<Self>, path: &Path) -> Slot {
        use std::os::fd::IntoRawFd as _;
        let disk = File::options().read(true).write(true).open("/dev/full");
        let disk = disk.expect("it is there");
        let target = format!("/proc/self/fd/{}", disk.into_raw_fd());
        std::os::unix::fs::symlink(target, path).expect("a name");
        self.found(path).expect("there is one")
    }

    /// Creates a batch; returns one, and keeps the others as spare.
    fn make(&self) -> io::Result<Arc<NamedFile>> {
        let first = self.make_one()?;
        // A disk that has no room for the whole batch may have room for one.
        let others = (1..CREATED_AT_ONCE).map_while(|_| self.make_one().ok());
        let others = Vec::from_iter(others);
        if let Err(error) = self.sync_names() {
            for made in others.iter().chain([&first]) {
                remove_file(&made.path);
            }
            return Err(error);
        }
        self.spare().extend(others);
        Ok(first)
    }

    fn make_one(&self) -> io::Result<Arc<NamedFile>> {
        let name = format!("{:016x}.{JOURNAL_EXTENSION}", crate::random());
        let path = self.directory.join(name);
        let mut options = private_files::file_options();
        options.read(true).write(true).create_new(true);
        let file = private_files::open(&options, &path)?;
        let filled = file.write_all_at(&[0; NEW_FILE_BYTES], 0);
        if filled.is_err() {
            remove_file(&path);
        }
        filled.map(|()| Arc::new(NamedFile { path, file }))
    }

    /// Makes the names of all existing files durable. Blocks.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        #[cfg(test)]
        faults::fault(&self.directory)?;
        File::open(&self.directory)?.sync_all()
    }
}

impl Slot {
    pub(super) fn file(&self) -> &File {
        &self.held.file
    }

    /// Checks that it has its name: no crash finds it otherwise. Blocks.
    pub(super) fn check_name(&self) -> io::Result<()> {
        check_name(self.file(), &self.held.path)
    }

    /// Marks it as used.
    pub(super) fn used(&mut self) {
        self.state = SlotState::Used;
    }

    /// Blanks it, durably, for a journal that comes back would publish an old state again. The
    /// bytes after its head stay for their readers. Blocks.
    pub(super) fn blank(&mut self) -> io::Result<()> {
        match self.state {
            SlotState::Used => {}
            SlotState::Unlinked => return self.make_removal_durable(),
            SlotState::Blank | SlotState::Removed => return Ok(()),
        }
        let blanked = self.erase();
        if blanked.is_ok() && self.slots.spare().len() < MAX_SPARE_FILES {
            self.state = SlotState::Blank;
            return Ok(());
        }
        self.remove(&blanked)
    }

    /// Checks that the disk would let it be blanked: writes its head once more, durably. A full disk, which may need new
    /// blocks for that, lets go of whole files still. Blocks.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.state != SlotState::Used {
            return Ok(());
        }
        let mut head = BLANK_HEAD;
        match self.file().read_exact_at(&mut head, 0) {
            // It was cut to nothing after a failed append: it has no journal.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => head = BLANK_HEAD,
            read => read?,
        }
        let written = self.file().write_all_at(&head, 0);
        match written.and_then(|()| self.file().sync_data()) {
            Err(error) if is_full(&error) => Ok(()),
            checked => checked,
        }
    }

    /// Blanks it, durably, and deletes it. Its draft continues in another file with the same
    /// identity, to which the bytes after the head would belong. Blocks.
    pub(super) fn retire(&mut self) -> io::Result<()> {
        let blanked = self.erase();
        self.remove(&blanked)
    }

    fn erase(&self) -> io::Result<()> {
        #[cfg(test)]
        faults::fault(self.slots.directory())?;
        self.file().write_all_at(&BLANK_HEAD, 0)?;
        self.file().sync_data()
    }

    fn remove(&mut self, blanked: &io::Result<()>) -> io::Result<()> {
        match fs::remove_file(&self.held.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.state = SlotState::Unlinked,
        }
        match blanked {
            Ok(()) => {
                self.state = SlotState::Removed;
                Ok(())
            }
            Err(_) => self.make_removal_durable(),
        }
    }

    /// Makes the deletion of its name durable. It cannot be used again: it has no name.
    fn make_removal_durable(&mut self) -> io::Result<()> {
        self.slots.sync_names()?;
        self.state = SlotState::Removed;
        Ok(())
    }

    /// Truncates it to its first length, if it has grown.
    fn shorten(&self) -> io::Result<()> {
        match self.file().metadata()?.len() > MAX_REUSED_BYTES {
            true => self.file().set_len(NEW_FILE_BYTES as u64),
            false => Ok(()),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Not earlier: it had readers until now.
        if self.state == SlotState::Blank && self.shorten().is_ok() {
            self.slots.spare().push(self.held.clone());
        }
    }
}

/// Checks that a file is the one of its name. Another program may have removed it, or its folder. Blocks.
pub(super) fn check_name(file: &File, path: &Path) -> io::Result<()> {
    let identity = |it: fs::Metadata| (it.dev(), it.ino());
    let own = identity(file.metadata()?);
    match fs::metadata(path).map(identity) {
        Ok(named) if named == own => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let folder = path.parent().unwrap_or(path).display();
    tracing::error!(%folder, path = %path.display(), "a file of the spool is not in its folder any more: another program has removed it, or the folder");
    let gone = "a file of the spool was removed";
    Err(io::Error::new(io::ErrorKind::NotFound, gone))
}

fn is_full(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.contains(&error.kind())
}

/// Removes a file, if it exists.
pub(super) fn remove_file(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "cannot remove a file of the spool");
    }
}

#[cfg(test)]
pub(crate) mod faults;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).expect("a folder").count()
    }

    /// An append that failed may have left it without a byte.
    #[test]
    fn one_that_was_cut_to_nothing_can_be_blanked() {
        let directory = tempfile::tempdir().expect("a folder");
        let slots = Slots::new(directory.path(), None);
        let mut slot = slots.take().expect("made");
        slot.used();
        slot.file().set_len(0).expect("cut");
        slot.check().expect("the disk is well");
    }

    #[test]
    fn one_is_used_again_once_it_is_blank_and_free() {
        let directory = tempfile::tempdir().expect("a folder");
        let slots = Slots::new(directory.path(), None);
        let mut first = slots.take().expect("made");
        assert_eq!(names(directory.path()), CREATED_AT_ONCE);
        first.file().write_all_at(b"a journal", 0).expect("written");
        first.used();
        let path = first.held.path.clone();
        first.blank().expect("blanked");
        let others =
            Vec::from_iter((1..CREATED_AT_ONCE).map(|_| slots.take().expect("one that waits")));
        assert_eq!(
            names(directory.path()),
            CREATED_AT_ONCE,
            "and it still has its own"
        );
        drop(first);
        let again = slots.take().expect("it waits now");
        assert_eq!(again.held.path, path);
        let start = &fs::read(&path).expect("there")[..BLANK_HEAD.len()];
        assert_eq!(start, BLANK_HEAD);

        // A process that ends without a word leaves its journal to the next one.
        let mut left = others.into_iter().next().expect("some");
        left.used();
        drop(left);
        assert_eq!(slots.spare().len(), CREATED_AT_ONCE - 2);
    }

    /// A file that can neither be blanked nor durably deleted may come back after a crash, however often that is tried.
    #[test]
    fn a_removal_that_is_not_durable_is_none() {
        let directory = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let (names, away) = (directory.path(), elsewhere.path().join("away"));
        let full = elsewhere.path().join("full");
        let slots = Slots::new(names, None);
        let mut slot = slots.full_disk(&full);
        fs::rename(names, &away).expect("moved");
        for _ in 0..2 {
            assert!(slot.blank().is_err(), "its folder cannot be synced");
        }
        fs::rename(&away, names).expect("moved back");
        slot.blank().expect("durable");
        assert_eq!(slot.state, SlotState::Removed);
        drop(slot);
        assert!(slots.spare().is_empty());
    }

    #[test]
    fn what_is_too_much_goes() {
        let directory = tempfile::tempdir().expect("a folder");
        let slots = Slots::new(directory.path(), None);
        let taken = (0..MAX_SPARE_FILES + 10).map(|_| slots.take().expect("made"));
        for mut slot in Vec::from_iter(taken) {
            slot.file().set_len(MAX_REUSED_BYTES + 1).expect("grown");
            slot.used();
            slot.blank().expect("blanked");
        }
        assert_eq!(names(directory.path()), MAX_SPARE_FILES);
        let of = |entry: io::Result<fs::DirEntry>| entry.and_then(|it| it.metadata());
        let entries = fs::read_dir(directory.path()).expect("a folder");
        let lengths = entries.map(|it| of(it).expect("there").len());
        assert!(lengths.max() <= Some(NEW_FILE_BYTES as u64));
    }
}
