//! Folder prefetch: fetches small objects ahead of a reader that takes one after another of a folder.
//!
//! `plan::folder_prefetch` chooses the objects among the names in the table of names; no request is sent to find more. An
//! object costs as much as opening it would; prefetch only uses memory and requests that are free at that moment.

use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::StreamExt as _;
use tokio::sync::Semaphore;

use crate::{Coverage, Engine, Object, OpenOptions, ReadContext};
use tidegate_plan::folder_prefetch::{FolderRun, SmallFile};
use tidegate_plan::readahead::Limits;
use tidegate_plan::{ByteRange, ObjectKey, OriginId, RangeSpec};
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of remembered readers; one more dispermits the one that read longest ago.
const MAX_READERS: usize = 32;

/// The readers that go through folders, the most recent one last.
#[derive(Debug, Default)]
pub(crate) struct FolderReaders {
    readers: Mutex<Vec<FolderReader>>,
}

#[derive(Debug)]
struct FolderReader {
    origin: OriginId,
    run: FolderRun,
    /// The concurrent fetches allowed. Closed when the reader is forgotten: fetches that have not begun are then
    /// dropped.
    permits: Arc<Semaphore>,
}

impl Drop for FolderReader {
    fn drop(&mut self) {
        self.permits.close();
    }
}

impl FolderReaders {
    fn lock(&self) -> MutexGuard<'_, Vec<FolderReader>> {
        self.readers.lock().recover()
    }
}

impl Engine {
    /// Reports that a reader has come to the end of an object of at most `small` bytes, which it opened by name in a
    /// folder. If it also read those before it, the next objects that are as small are fetched ahead, within the
    /// profile's read-ahead. Never waits.
    pub fn record_whole_read(&self, source: &Arc<ReadContext>, object: &Object, small: u64) {
        let pinned = &object.pinned;
        if pinned.limits.window == 0 || !pinned.options.storable {
            return;
        }
        let first = (Arc::from(pinned.id.key.as_str()), object.version().size);
        let (next, permits) = self.next_files(pinned.id.origin, first, small, pinned.limits);
        for (path, size) in next {
            let prefetch = ObjectPrefetch {
                engine: self.clone(),
                source: source.clone(),
                permits: permits.clone(),
            };
            self.core.spawn(prefetch.fetch(path, size));
        }
    }

    /// Returns the files to fetch now that this one was read, and the reader's permits.
    fn next_files(
        &self,
        origin: OriginId,
        read: SmallFile,
        small: u64,
        limits: Limits,
    ) -> (Vec<SmallFile>, Arc<Semaphore>) {
        let mut readers = self.core.folder_readers.lock();
        let known = readers
            .iter_mut()
            .position(|reader| reader.origin == origin && reader.run.record_read(&read.0));
        let mut reader = match known {
            Some(at) => readers.remove(at),
            None => FolderReader {
                origin,
                run: FolderRun::new(read),
                permits: Arc::new(Semaphore::new(limits.streams.max(1) as usize)),
            },
        };
        let (count, after) = reader.run.missing_names();
        let names = &self.core.names;
        let tree = reader.run.is_in_tree();
        let more = names.files_after((origin, after), (count, small), tree);
        reader.run.extend(more);
        let next = reader.run.take_next(limits);
        let permits = reader.permits.clone();
        if readers.len() == MAX_READERS {
            readers.remove(0);
        }
        readers.push(reader);
        (next, permits)
    }
}

/// The prefetch of one object.
struct ObjectPrefetch {
    engine: Engine,
    source: Arc<ReadContext>,
    permits: Arc<Semaphore>,
}

impl ObjectPrefetch {
    async fn fetch(self, path: Arc<str>, size: u64) {
        let stop = self.engine.core.stop.clone();
        tokio::select! {
            _ = self.fetch_in_turn(&path, size) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Fetches the object in its turn. `None`: it was dropped; a reader that needs the object asks for it itself and
    /// gets the error.
    async fn fetch_in_turn(&self, path: &str, size: u64) -> Option<()> {
        let _permit = self.permits.acquire().await.ok()?;
        let key = ObjectKey::new(path).ok()?;
        let how = OpenOptions {
            first: Some(RangeSpec::Bounded {
                first: 0,
                last: size - 1,
            }),
            quiet: true,
            ..OpenOptions::default()
        };
        let core = &self.engine.core;
        let object = self.engine.open(&self.source, &key, how).await.ok()?;
        let whole = ByteRange::new(0, object.version().size);
        if let Some(lease) = object.pinned.first_lease() {
            core.metrics.prefetched.inc();
            lease.part().landed().await;
        } else if !matches!(object.locate(whole), Coverage::All(_)) {
            core.metrics.prefetched.inc();
            let _charge = core.budget.ahead(whole.len())?;
            let mut reader = object.for_background().read_at(whole);
            while reader.next().await?.is_ok() {}
        }
        Some(())
    }
}
