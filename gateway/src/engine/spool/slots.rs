//! The files that journals are written into: made ahead, and used again.
//!
//! To make a file and its name durable takes two commits of the file system's own journal, and to take
//! it away durably a third; to write over bytes that are there takes a flush of the device. So the
//! journal of a draft that has gone is blanked and waits for the next one, as the segments of a
//! write-ahead log do (PostgreSQL, 28.5: "WAL segment files are recycled").
//!
//! Behind the end of a journal there may be what is left of an earlier one. That counts for nothing:
//! each has an identity of its own, which seeds its hashes (`journal`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::JOURNAL;
use super::journal::BLANK;

/// So many are made at a time, with one sync for their names.
const BATCH: usize = 8;

/// So many wait for a draft. Their bytes are not counted among the spool's.
const SPARE: usize = 64;

/// How long one is made: what fits is written over bytes that are there.
pub(super) const MADE: usize = 16 << 10;

/// One that has grown beyond this is cut.
const LONGEST: u64 = 128 << 10;

/// All of a spool.
#[derive(Debug)]
pub(super) struct Slots {
    directory: PathBuf,
    /// What keeps other processes out, as long as one draft may still be written to.
    _lock: Option<File>,
    spare: Mutex<Vec<Arc<Named>>>,
    /// Held while some are made.
    making: Mutex<()>,
}

/// A file, and where it is.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    file: File,
}

/// One that a draft has. Once it is blanked, the next has it as soon as this is dropped: nobody reads
/// in it any more then.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    held: Arc<Named>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Blank,
    Used,
    /// It has no name any more.
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

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<Named>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A blank one, whose name is durable. Blocks.
    pub(super) fn take(self: &Arc<Self>) -> io::Result<Slot> {
        let waiting = self.spare().pop();
        let held = match waiting {
            Some(held) => held,
            None => {
                let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
                // Somebody else may have made some meanwhile.
                let waiting = self.spare().pop();
                waiting.map_or_else(|| self.make(), Ok)?
            }
        };
        Ok(Slot {
            slots: self.clone(),
            held,
            state: State::Blank,
        })
    }

    /// One that was found at a path. Blocks.
    pub(super) fn found(self: &Arc<Self>, path: &Path) -> io::Result<Slot> {
        let path = path.to_owned();
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        Ok(Slot {
            slots: self.clone(),
            held: Arc::new(Named { path, file }),
            state: State::Used,
        })
    }

    /// Makes some; all but one wait.
    fn make(&self) -> io::Result<Arc<Named>> {
        let first = self.make_one()?;
        // A disk that has room for a few only has room for one.
        let others = (1..BATCH).map_while(|_| self.make_one().ok());
        let others = Vec::from_iter(others);
        if let Err(error) = self.sync_names() {
            for made in others.iter().chain([&first]) {
                super::file::remove(&made.path);
            }
            return Err(error);
        }
        self.spare().extend(others);
        Ok(first)
    }

    fn make_one(&self) -> io::Result<Arc<Named>> {
        let name = format!("{:016x}.{JOURNAL}", crate::engine::upload::random());
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        // What people write is nobody else's to read.
        let file = options.mode(0o600).open(&path)?;
        let filled = file.write_all_at(&[0; MADE], 0);
        if filled.is_err() {
            super::file::remove(&path);
        }
        filled.map(|()| Arc::new(Named { path, file }))
    }

    /// Makes the names of all files that there are durable. Blocks.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

impl Slot {
    pub(super) fn file(&self) -> &File {
        &self.held.file
    }

    /// It is written to.
    pub(super) fn used(&mut self) {
        self.state = State::Used;
    }

    /// Makes it blank, durably: a journal that comes back would publish once more what is old by then.
    /// What is behind its head stays, for those who read it. Blocks.
    pub(super) fn blank(&mut self) -> io::Result<()> {
        if self.state != State::Used {
            return Ok(());
        }
        let blanked = self.erase();
        if blanked.is_ok() && self.slots.spare().len() < SPARE {
            self.state = State::Blank;
            return Ok(());
        }
        self.remove(&blanked)
    }

    /// Makes it blank, durably, and takes it away: its draft goes on in another file, and what is behind
    /// its head would be no stranger's to it. Blocks.
    pub(super) fn retire(&mut self) -> io::Result<()> {
        let blanked = self.erase();
        self.remove(&blanked)
    }

    fn erase(&self) -> io::Result<()> {
        self.file().write_all_at(&BLANK, 0)?;
        self.file().sync_data()
    }

    fn remove(&mut self, blanked: &io::Result<()>) -> io::Result<()> {
        fs::remove_file(&self.held.path)?;
        self.state = State::Removed;
        match blanked {
            Ok(()) => Ok(()),
            Err(_) => self.slots.sync_names(),
        }
    }

    /// Cuts it to what it was made as, if it has grown.
    fn shorten(&self) -> io::Result<()> {
        match self.file().metadata()?.len() > LONGEST {
            true => self.file().set_len(MADE as u64),
            false => Ok(()),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Not before: it was read until now.
        if self.state == State::Blank && self.shorten().is_ok() {
            self.slots.spare().push(self.held.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).expect("a folder").count()
    }

    #[test]
    fn one_is_used_again_once_it_is_blank_and_nobody_has_it() {
        let directory = tempfile::tempdir().expect("a folder");
        let slots = Slots::new(directory.path(), None);
        let mut first = slots.take().expect("made");
        assert_eq!(names(directory.path()), BATCH);
        first.file().write_all_at(b"a journal", 0).expect("written");
        first.used();
        let path = first.held.path.clone();
        first.blank().expect("blanked");
        let others = Vec::from_iter((1..BATCH).map(|_| slots.take().expect("one that waits")));
        assert_eq!(names(directory.path()), BATCH, "and it still has its own");
        drop(first);
        let again = slots.take().expect("it waits now");
        assert_eq!(again.held.path, path);
        let start = &fs::read(&path).expect("there")[..BLANK.len()];
        assert_eq!(start, BLANK);

        // Who ends without a word leaves its journal to whoever starts next.
        let mut left = others.into_iter().next().expect("some");
        left.used();
        drop(left);
        assert_eq!(slots.spare().len(), BATCH - 2);
    }

    #[test]
    fn what_is_too_much_goes() {
        let directory = tempfile::tempdir().expect("a folder");
        let slots = Slots::new(directory.path(), None);
        let taken = (0..SPARE + 10).map(|_| slots.take().expect("made"));
        for mut slot in Vec::from_iter(taken) {
            slot.file().set_len(LONGEST + 1).expect("grown");
            slot.used();
            slot.blank().expect("blanked");
        }
        assert_eq!(names(directory.path()), SPARE);
        let of = |entry: io::Result<fs::DirEntry>| entry.and_then(|it| it.metadata());
        let entries = fs::read_dir(directory.path()).expect("a folder");
        let lengths = entries.map(|it| of(it).expect("there").len());
        assert!(lengths.max() <= Some(MADE as u64));
    }
}
