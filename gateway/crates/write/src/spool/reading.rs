//! The progress of reading a spool at the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of work that is done, and of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The part that is done.
    pub done: usize,
    /// All of the work.
    pub of: usize,
}

/// Counts the files of a spool while it is read. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct SpoolReading(Arc<[AtomicUsize; 2]>);

impl SpoolReading {
    /// Returns the files that were read, and the number of all that were found.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let [done, of] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        Progress { done, of }
    }

    /// So many more files have been found.
    pub(crate) fn found(&self, count: usize) {
        self.0[1].fetch_add(count, Ordering::Relaxed);
    }

    /// One more has been read.
    pub(crate) fn read(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }
}
