//! The free room of the spool's disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use tidegate_cache::space::Space;

/// The longest wait for the disk's answer.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The free room, as the disk has last said it.
#[derive(Debug)]
pub(crate) struct DiskRoom {
    directory: PathBuf,
    known: AtomicU64,
    /// Whether the disk is being asked. A dead one holds one thread at most.
    is_asked: AtomicBool,
}

impl DiskRoom {
    /// Asks the disk of a directory. Blocks.
    pub(super) fn of(directory: &Path) -> Arc<Self> {
        let room = Self {
            directory: directory.to_owned(),
            known: AtomicU64::new(u64::MAX),
            is_asked: AtomicBool::new(false),
        };
        room.ask();
        Arc::new(room)
    }

    /// Returns the last known room, in bytes.
    pub(super) fn known(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// Asks the disk; returns the room in bytes. If the disk does not answer soon, that is the last known one.
    pub(crate) async fn free(self: &Arc<Self>) -> u64 {
        if !self.is_asked.swap(true, Ordering::SeqCst) {
            let room = self.clone();
            let asked = spawn_blocking(move || {
                room.ask();
                room.is_asked.store(false, Ordering::SeqCst);
            });
            let _ = timeout(MAX_WAIT, asked).await;
        }
        self.known()
    }

    fn ask(&self) {
        match Space::of(&self.directory) {
            Ok(space) => self.known.store(space.free, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "the spool's disk does not say its free room"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_that_does_not_answer_has_the_room_that_it_had() {
        let directory = tempfile::tempdir().expect("a folder");
        let room = DiskRoom::of(directory.path());
        assert!(room.known() < u64::MAX);
        room.known.store(7, Ordering::Relaxed);
        room.is_asked.store(true, Ordering::SeqCst);
        assert_eq!(room.free().await, 7, "it is being asked still");
        room.is_asked.store(false, Ordering::SeqCst);
        assert_ne!(room.free().await, 7);
        let gone = DiskRoom::of(&directory.path().join("none"));
        assert_eq!(gone.free().await, u64::MAX, "nothing is known");
    }
}
