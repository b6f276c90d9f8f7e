//! Locks of folders that are being renamed. Meanwhile no mount of this process creates, opens for
//! writing, removes or renames anything below them: a file that came in between would stay behind.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};

use crate::Writers;
use tidegate_engine::ReadContext;
use tidegate_plan::OriginId;
use tidegate_telemetry::locks::Recover as _;

/// See the module documentation. Clones share one table.
#[derive(Debug, Default, Clone)]
pub(crate) struct FolderLocks(Arc<SharedTable>);

#[derive(Debug, Default)]
struct SharedTable {
    table: Mutex<FolderLockTable>,
    /// The signal that a lock was released.
    freed: Notify,
    /// Changes with each object that a rename of any folder has copied or deleted.
    progress: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct FolderLockTable {
    /// Paths that an operation is using.
    used: Vec<LockedPaths>,
    /// Folders that are being renamed, or wait for that. Each ends in `/`.
    moved: Vec<LockedPaths>,
    count: u64,
}

#[derive(Debug)]
struct LockedPaths {
    number: u64,
    bucket: OriginId,
    paths: Vec<String>,
}

/// Paths whose folders are not renamed until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct PathLock {
    locks: FolderLocks,
    number: u64,
}

/// Folders in which no name is used until this and all its clones are dropped.
#[derive(Debug, Clone)]
#[must_use]
pub struct FolderLock(Arc<PathLock>);

impl LockedPaths {
    /// Returns whether a path is one of these folders, or lies in one.
    fn cover(&self, bucket: OriginId, path: &str) -> bool {
        let lies_in = |folder: &String| path.starts_with(folder) || format!("{path}/") == *folder;
        self.bucket == bucket && self.paths.iter().any(lies_in)
    }

    /// Returns whether a path of one lies in a folder of the other.
    fn meets(&self, other: &Self) -> bool {
        let within = |one: &Self, other: &Self| {
            let mut paths = other.paths.iter();
            paths.any(|path| one.cover(other.bucket, path))
        };
        within(self, other) || within(other, self)
    }
}

impl FolderLocks {
    fn table(&self) -> MutexGuard<'_, FolderLockTable> {
        self.0.table.lock().recover()
    }

    /// Waits until `try_to` returns a value.
    async fn when<T>(&self, mut try_to: impl FnMut(&mut FolderLockTable) -> Option<T>) -> T {
        loop {
            let mut freed = std::pin::pin!(self.0.freed.notified());
            freed.as_mut().enable();
            let done = try_to(&mut self.table());
            if let Some(done) = done {
                return done;
            }
            freed.await;
        }
    }

    /// Notes that a rename has got on.
    pub(crate) fn note_progress(&self) {
        self.0.progress.send_replace(());
    }

    /// Returns once no folder is being renamed.
    pub(crate) async fn settled(&self) {
        self.when(|table| table.moved.is_empty().then_some(()))
            .await;
    }

    fn lock(&self, number: u64) -> PathLock {
        let locks = self.clone();
        PathLock { locks, number }
    }

    async fn use_paths(&self, bucket: OriginId, paths: Vec<String>) -> PathLock {
        let number = self.when(|table| {
            let is_moved = |path: &String| table.moved.iter().any(|it| it.cover(bucket, path));
            if paths.iter().any(is_moved) {
                return None;
            }
            let held = table.held(bucket, paths.clone());
            let number = held.number;
            table.used.push(held);
            Some(number)
        });
        self.lock(number.await)
    }

    async fn move_folders(&self, bucket: OriginId, folders: Vec<String>) -> FolderLock {
        let number = self.when(|table| {
            let held = table.held(bucket, folders.clone());
            if table.moved.iter().any(|other| other.meets(&held)) {
                return None;
            }
            let number = held.number;
            table.moved.push(held);
            Some(number)
        });
        // From here on, no name in the folders can be locked. The drop of `lock` undoes this if the
        // caller stops waiting.
        let lock = FolderLock(Arc::new(self.lock(number.await)));
        self.when(|table| {
            let moved = table.moved.iter().find(|it| it.number == lock.0.number)?;
            let in_use =
                |held: &LockedPaths| held.paths.iter().any(|it| moved.cover(held.bucket, it));
            (!table.used.iter().any(in_use)).then_some(())
        })
        .await;
        lock
    }
}

impl FolderLockTable {
    fn held(&mut self, bucket: OriginId, paths: Vec<String>) -> LockedPaths {
        self.count += 1;
        LockedPaths {
            number: self.count,
            bucket,
            paths,
        }
    }
}

impl Drop for PathLock {
    fn drop(&mut self) {
        let mut table = self.locks.table();
        table.used.retain(|held| held.number != self.number);
        table.moved.retain(|held| held.number != self.number);
        drop(table);
        self.locks.0.freed.notify_waiters();
    }
}

impl Writers {
    /// Waits while a folder of one of these paths is being renamed, and prevents such a rename
    /// afterwards.
    pub async fn use_paths(&self, source: &ReadContext, paths: &[&str]) -> PathLock {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        self.0.folders.use_paths(self.bucket(source), paths).await
    }

    /// Waits until no name in these folders is in use, and prevents further use. Each ends in `/`.
    pub async fn lock_folders(&self, source: &ReadContext, folders: [&str; 2]) -> FolderLock {
        let folders = folders.map(str::to_owned).to_vec();
        let bucket = self.bucket(source);
        self.0.folders.move_folders(bucket, folders).await
    }

    /// Returns a receiver that changes as long as folders are being renamed and that gets on.
    #[must_use]
    pub fn rename_progress(&self) -> watch::Receiver<()> {
        self.0.folders.0.progress.subscribe()
    }

    /// Notes that the rename of a folder has got on, for callers that wait for it.
    pub fn note_rename_progress(&self) {
        self.0.folders.note_progress();
    }

    /// Returns one identifier for all identities of a bucket.
    fn bucket(&self, source: &ReadContext) -> OriginId {
        let id = source.origin.id();
        let all = self.0.core.identities_of(id);
        all.into_iter().min().unwrap_or(id)
    }
}

#[cfg(test)]
mod tests;
