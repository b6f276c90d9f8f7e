//! The folder prefetch: the read-ahead for a reader that takes the small files of a folder one after another.
//!
//! A file that arrives whole with the request that opens it leaves no bytes to read ahead. So a reader that copies,
//! packs or searches a folder would wait once for each file. [`FolderRun`] watches the files of one such pass through a
//! folder. It says which of the next files, in the order of their names, to fetch before their request. Callers pass in
//! the folder's files.
//!
//! As with the bytes of one file (`readahead`), the window is earned. No file is fetched ahead before [`MIN_RUN`] files
//! were read one after another, and from there never more files than were read. Each file that was fetched and skipped
//! costs [`SKIP_PENALTY`] of those. So for any pattern of reads, the files fetched ahead and never read stay fewer than the
//! read ones; and so do their bytes, but for [`FIRST_BYTES`].
//!
//! A program that goes through a tree takes one folder after another. A run that has gone on in a second folder is
//! such a pass, and from there the window reaches beyond the end of a folder.

use std::collections::VecDeque;
use std::sync::Arc;

use super::object::folder::folder_of;
use super::readahead::Limits;

/// The number of files in a row that prove a pass through a folder.
pub const MIN_RUN: u32 = 3;

/// The number of files that must be read for each that was fetched in vain.
const SKIP_PENALTY: u32 = 4;

/// The widest window in files: at a millisecond for each, the time of two slow requests.
const MAX_WINDOW: u32 = 64;

/// The number of files that a reader may skip and still follow the folder's order.
const MAX_SKIP: usize = 4;

/// The number of files by which a read of a reader with several threads may be late.
const MAX_BEHIND: usize = 16;

/// The bytes that may be fetched ahead of a reader that has read few.
pub const FIRST_BYTES: u64 = 256 << 10;

/// A small file: its path, and its size in bytes.
pub type SmallFile = (Arc<str>, u64);

/// One pass through a folder; see the module.
#[derive(Debug)]
pub struct FolderRun {
    /// The last files that were read or skipped, newest last.
    behind: VecDeque<PassedFile>,
    /// The next files, as far as they were looked up, and the number of these that were requested.
    next: VecDeque<SmallFile>,
    asked: usize,
    read: FileSum,
    /// The files that were requested and skipped.
    passed: FileSum,
    /// Whether the run has gone on in another folder.
    crossed: bool,
}

#[derive(Debug)]
struct PassedFile {
    file: SmallFile,
    /// Whether it was requested and is not read yet.
    passed: bool,
}

/// A number of files and of their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct FileSum {
    files: u32,
    bytes: u64,
}

impl FileSum {
    fn add(&mut self, size: u64) {
        self.files = self.files.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
    }

    fn remove(&mut self, size: u64) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

impl FolderRun {
    /// Creates a run that begins with the first file that was read.
    #[must_use]
    pub fn new(first: SmallFile) -> Self {
        let mut run = Self {
            behind: VecDeque::new(),
            next: VecDeque::new(),
            asked: 0,
            read: FileSum::default(),
            passed: FileSum::default(),
            crossed: false,
        };
        run.read.add(first.1);
        run.leave_behind(first, false);
        run
    }

    /// Records that a file was read to its end. Returns whether it belongs to this run; if not, nothing changes.
    pub fn record_read(&mut self, path: &str) -> bool {
        if let Some(late) = self.behind.iter_mut().find(|late| *late.file.0 == *path) {
            if std::mem::take(&mut late.passed) {
                self.passed.remove(late.file.1);
                self.read.add(late.file.1);
            }
            return true;
        }
        let Some(at) = self.next.iter().position(|(next, _)| **next == *path) else {
            return false;
        };
        self.crossed |= self.folder() != Some(folder_of(path));
        for over in 0..=at {
            let was_asked = self.asked > 0;
            self.asked = self.asked.saturating_sub(1);
            let Some(file) = self.next.pop_front() else {
                break;
            };
            let passed = over < at && was_asked;
            match (over < at, passed) {
                (false, _) => self.read.add(file.1),
                (true, true) => self.passed.add(file.1),
                (true, false) => {}
            }
            self.leave_behind(file, passed);
        }
        true
    }

    fn leave_behind(&mut self, file: SmallFile, passed: bool) {
        self.behind.push_back(PassedFile { file, passed });
        if self.behind.len() > MAX_BEHIND {
            self.behind.pop_front();
        }
    }

    /// Returns the number of files beyond the last read one to fetch.
    fn window(&self) -> u32 {
        let lost = self.passed.files.saturating_mul(SKIP_PENALTY);
        let earned = self.read.files.saturating_sub(lost);
        if earned < MIN_RUN {
            0
        } else {
            earned.min(MAX_WINDOW)
        }
    }

    /// Returns the folder of the last file, with a `/` at its end.
    fn folder(&self) -> Option<&str> {
        self.behind.back().map(|last| folder_of(&last.file.0))
    }

    /// Returns whether the next files are those of the whole tree, not of one folder.
    #[must_use]
    pub fn is_in_tree(&self) -> bool {
        self.crossed
    }

    /// Returns how many more of the next files should be looked up, and after which path.
    #[must_use]
    pub fn missing_names(&self) -> (usize, &str) {
        let known = self.next.back();
        let last = known.or_else(|| self.behind.back().map(|last| &last.file));
        let wanted = self.window() as usize + MAX_SKIP;
        let path = last.map_or("", |(path, _)| path);
        (wanted.saturating_sub(self.next.len()), path)
    }

    /// Adds the files that come after the known next files.
    pub fn extend(&mut self, files: impl IntoIterator<Item = SmallFile>) {
        self.next.extend(files);
    }

    /// Returns the next files to request now. Each is returned once.
    pub fn take_next(&mut self, limits: Limits) -> Vec<SmallFile> {
        let window = (self.window() as usize).min(self.next.len());
        let lost = self.passed.bytes.saturating_mul(SKIP_PENALTY.into());
        let earned = self.read.bytes.checked_sub(lost);
        let most = earned.map_or(0, |earned| earned.max(FIRST_BYTES));
        let most = most.min(limits.window);
        let mut bytes = self
            .next
            .iter()
            .take(self.asked)
            .map(|(_, size)| size)
            .sum::<u64>();
        let mut files = Vec::new();
        while self.asked < window {
            let file = self.next[self.asked].clone();
            if !self.crossed && self.folder() != Some(folder_of(&file.0)) {
                break;
            }
            bytes = bytes.saturating_add(file.1);
            if bytes > most {
                break;
            }
            self.asked += 1;
            files.push(file);
        }
        files
    }
}

#[cfg(test)]
mod tests;
