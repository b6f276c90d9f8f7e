//! Folder prefetch: fetches small objects ahead of a reader that takes one after another of a folder.
//!
//! `plan::siblings` chooses the objects among the names in the table of names; no request is sent to find more. An
//! object costs as much as opening it would; prefetch only uses memory and requests that are free at that moment.

use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::StreamExt as _;
use tokio::sync::Semaphore;

use super::object::{Found, Object};
use super::{Engine, Open, ReadContext};
use tidegate_plan::readahead::Limits;
use tidegate_plan::siblings::{File, Run};
use tidegate_plan::{ByteRange, ObjectKey, OriginId, RangeSpec};

/// The maximum number of remembered readers; one more displaces the one that read longest ago.
const READERS: usize = 32;

/// The readers that go through folders, the most recent one last.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    readers: Mutex<Vec<Reader>>,
}

#[derive(Debug)]
struct Reader {
    origin: OriginId,
    run: Run,
    /// The concurrent fetches allowed. Closed when the reader is forgotten: fetches that have not begun are then
    /// dropped.
    places: Arc<Semaphore>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.places.close();
    }
}

impl Siblings {
    fn readers(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.readers
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

impl Engine {
    /// Reports that a reader has come to the end of an object of at most `small` bytes, which it opened by name in a
    /// folder. If it also read those before it, the next objects that are as small are fetched ahead, within the
    /// profile's read-ahead. Never waits.
    pub fn read_whole(&self, source: &Arc<ReadContext>, object: &Object, small: u64) {
        let pinned = &object.pinned;
        if pinned.limits.window == 0 || !pinned.terms.storable {
            return;
        }
        let first = (Arc::from(pinned.id.key.as_str()), object.version().size);
        let (next, places) = self.come_next(pinned.id.origin, first, small, pinned.limits);
        for (path, size) in next {
            let ahead = Ahead {
                engine: self.clone(),
                source: source.clone(),
                places: places.clone(),
            };
            self.core.spawn(ahead.fetch(path, size));
        }
    }

    /// Returns the files to fetch now that this one was read, and the reader's permits.
    fn come_next(
        &self,
        origin: OriginId,
        read: File,
        small: u64,
        limits: Limits,
    ) -> (Vec<File>, Arc<Semaphore>) {
        let mut readers = self.core.siblings.readers();
        let known = readers
            .iter_mut()
            .position(|reader| reader.origin == origin && reader.run.took(&read.0));
        let mut reader = match known {
            Some(at) => readers.remove(at),
            None => Reader {
                origin,
                run: Run::new(read),
                places: Arc::new(Semaphore::new(limits.streams.max(1) as usize)),
            },
        };
        let (count, after) = reader.run.unknown();
        let names = &self.core.names;
        let more = names.files_after((origin, after), count, small);
        reader.run.extend(more);
        let next = reader.run.ask(limits);
        let places = reader.places.clone();
        if readers.len() == READERS {
            readers.remove(0);
        }
        readers.push(reader);
        (next, places)
    }
}

/// The prefetch of one object.
struct Ahead {
    engine: Engine,
    source: Arc<ReadContext>,
    places: Arc<Semaphore>,
}

impl Ahead {
    async fn fetch(self, path: Arc<str>, size: u64) {
        let stop = self.engine.core.stop.clone();
        tokio::select! {
            _ = self.at_its_turn(&path, size) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Fetches the object in its turn. `None`: it was dropped; a reader that needs the object asks for it itself and
    /// gets the error.
    async fn at_its_turn(&self, path: &str, size: u64) -> Option<()> {
        let _place = self.places.acquire().await.ok()?;
        let key = ObjectKey::new(path).ok()?;
        let how = Open {
            first: Some(RangeSpec::Bounded {
                first: 0,
                last: size - 1,
            }),
            quiet: true,
            ..Open::default()
        };
        let core = &self.engine.core;
        let object = self.engine.open(&self.source, &key, how).await.ok()?;
        let whole = ByteRange::new(0, object.version().size);
        if let Some(lease) = object.pinned.brings() {
            core.metrics.siblings.inc();
            lease.part().landed().await;
        } else if !matches!(object.locate(whole), Found::All(_)) {
            core.metrics.siblings.inc();
            let _charge = core.budget.ahead(whole.len())?;
            let mut reader = object.quietly().read_at(whole);
            while reader.next().await?.is_ok() {}
        }
        Some(())
    }
}
