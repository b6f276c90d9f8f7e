//! The starts that ended while they opened the database.
//!
//! On some damaged files redb panics in a destructor while it unwinds from a panic. That ends the process, and cannot be
//! caught. So each start leaves a byte in a file beside the database until that is open, and reads there how many
//! starts before it did not come so far.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::private_files;

/// Starts in a row that may end so before the database counts as corrupt. A kill or a power cut ends one as well.
const MAX_ENDED: u64 = 3;

/// This start. Dropped once the database is open, or is known not to open.
#[derive(Debug)]
pub(super) struct Attempt(PathBuf);

impl Attempt {
    /// Begins to open the database at `path`. A disk that refuses the byte is no reason not to open it. Blocks.
    pub(super) fn begin(path: &Path) -> Self {
        let own = Self(path.with_extension("opening"));
        let mut options = private_files::file_options();
        let file = options.append(true).create(true).open(&own.0);
        let _ = file.and_then(|mut file| file.write_all(b"."));
        own
    }

    /// Returns whether so many starts in a row have ended that the database counts as corrupt. Blocks.
    pub(super) fn is_one_too_many(&self) -> bool {
        // With the byte of this one.
        fs::symlink_metadata(&self.0).is_ok_and(|found| found.len() > MAX_ENDED)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
