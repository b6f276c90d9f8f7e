//! The changes of attributes that wait: each with the version that it was made to, and the time at which it is due.

pub(crate) mod log;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use self::log::{AttributeLog, AttributeRecord};
use crate::WriteError;
use tidegate_engine::table_log::TableLog;
use tidegate_origin::Guard;
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_plan::{ETag, ObjectId, ObjectKey, OriginId, Timestamp};
use tidegate_telemetry::locks::Recover as _;

/// The time without another change after which a change is sent.
pub(super) const QUIET_TIME: Duration = Duration::from_secs(2);

/// The longest time that a change waits while others follow it.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The most changes that wait.
const MAX_CHANGES: usize = 1 << 14;

/// The changes that are sent at once.
const MAX_SENDS: usize = 8;

/// A change that is not in the bucket yet.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The version that it was made to; `None`: a folder's marker, which may be missing.
    pub(crate) etag: Option<ETag>,
    /// The attributes that the object is to have.
    pub(crate) attributes: Attributes,
    /// Tells an earlier change of the same key apart.
    pub(crate) revision: u64,
    /// Tells the task apart that sends it.
    pub(super) task: u64,
    since: Instant,
    pub(super) due: Instant,
}

impl Change {
    /// Returns whether it was made to the version that a draft began with, as far as the draft's condition names one.
    pub(crate) fn is_of(&self, guard: &Guard) -> bool {
        match (guard, &self.etag) {
            (Guard::Same(base), Some(of)) => of.weak_eq(base),
            _ => true,
        }
    }
}

/// The changes of a process.
#[derive(Debug)]
pub(crate) struct AttributeChanges {
    table: Mutex<ChangeTable>,
    log: TableLog<AttributeLog>,
    /// Whether all changes are due at once, because the process ends.
    pub(super) draining: watch::Sender<bool>,
    /// Changes with every change that leaves the table.
    pub(super) left: watch::Sender<()>,
    pub(super) sends: Semaphore,
}

#[derive(Debug, Default)]
struct ChangeTable {
    /// In the order of their keys, so that those below a folder are found.
    changes: BTreeMap<ObjectId, Change>,
    revision: u64,
}

impl Default for AttributeChanges {
    fn default() -> Self {
        Self {
            table: Mutex::default(),
            log: TableLog::new(
                "changes of attributes that are not in the bucket do not outlive this process",
            ),
            draining: watch::Sender::new(false),
            left: watch::Sender::new(()),
            sends: Semaphore::new(MAX_SENDS),
        }
    }
}

impl AttributeChanges {
    fn lock(&self) -> MutexGuard<'_, ChangeTable> {
        self.table.lock().recover()
    }

    /// Opens the file in the spool's directory; returns the changes that an earlier process left. Without the file,
    /// changes do not outlive this process. Blocks.
    pub(crate) fn attach(&self, directory: &Path) -> Vec<AttributeRecord> {
        let (opened, found) = match AttributeLog::open(directory) {
            Ok((log, found)) => (Ok(log), found),
            Err(error) => (Err(error), Vec::new()),
        };
        self.log.attach(opened);
        found
    }

    /// Returns the number of changes that are not in the bucket yet.
    pub(crate) fn len(&self) -> usize {
        self.lock().changes.len()
    }

    /// Returns the change of an object, if it waits.
    pub(crate) fn get(&self, id: &ObjectId) -> Option<Change> {
        self.lock().changes.get(id).cloned()
    }

    /// Returns whether a change still waits, and no other one of the same object came after it.
    pub(super) fn is_current(&self, id: &ObjectId, change: &Change) -> bool {
        let table = self.lock();
        let now = table.changes.get(id);
        now.is_some_and(|now| now.revision == change.revision)
    }

    /// Returns the folders below a prefix whose markers are to be put.
    pub(crate) fn folders_below(&self, origin: OriginId, prefix: &str) -> Vec<ObjectKey> {
        self.keys_below(origin, prefix, |change| change.etag.is_none())
    }

    /// Returns the keys below a prefix whose changes wait.
    pub(crate) fn changed_below(&self, origin: OriginId, prefix: &str) -> Vec<ObjectKey> {
        self.keys_below(origin, prefix, |_| true)
    }

    fn keys_below(
        &self,
        origin: OriginId,
        prefix: &str,
        is_wanted: impl Fn(&Change) -> bool,
    ) -> Vec<ObjectKey> {
        let table = self.lock();
        let first = ObjectKey::new(prefix).map(|key| ObjectId { origin, key });
        let rest = match first {
            Ok(first) => table.changes.range(first..),
            // The bucket's root is no key.
            Err(_) => table.changes.range::<ObjectId, _>(..),
        };
        let below = rest
            .skip_while(|(id, _)| id.origin < origin)
            .take_while(|(id, _)| id.is_below(origin, prefix));
        let wanted = below.filter(|(_, change)| is_wanted(change));
        wanted.map(|(id, _)| id.key.clone()).collect()
    }

    /// Returns the change of a version, if it waits.
    pub(crate) fn of_version(&self, id: &ObjectId, etag: &ETag) -> Option<Change> {
        let change = self.get(id)?;
        change
            .etag
            .as_ref()
            .is_none_or(|of| of.weak_eq(etag))
            .then_some(change)
    }

    /// Adds a change, or replaces the earlier one of the same key. Returns the number of the task to start for it, unless
    /// one sends it already.
    pub(super) fn put(
        &self,
        id: &ObjectId,
        etag: Option<ETag>,
        attributes: Attributes,
    ) -> Option<u64> {
        let now = Instant::now();
        let mut table = self.lock();
        table.revision += 1;
        let revision = table.revision;
        let before = table.changes.get(id);
        let since = before.map_or(now, |before| before.since);
        let task = before.map_or(revision, |before| before.task);
        let change = Change {
            etag,
            attributes,
            revision,
            task,
            since,
            due: (now + QUIET_TIME).min(since + MAX_WAIT),
        };
        self.log.push(AttributeRecord::of(id, &change));
        let is_new = table.changes.insert(id.clone(), change).is_none();
        is_new.then_some(task)
    }

    /// Notes that a change is of a key which is not quiet.
    pub(crate) fn touch(&self, id: &ObjectId) {
        if let Some(change) = self.lock().changes.get_mut(id) {
            change.due = (Instant::now() + QUIET_TIME).min(change.since + MAX_WAIT);
        }
    }

    /// Makes changes due at once.
    pub(crate) fn hurry(&self, ids: &[ObjectId]) {
        let mut table = self.lock();
        for id in ids {
            if let Some(change) = table.changes.get_mut(id) {
                change.due = change.due.min(Instant::now());
            }
        }
        drop(table);
        // The tasks look again.
        self.draining.send_modify(|_| ());
    }

    /// Moves the time at which a change is due.
    pub(super) fn postpone(&self, id: &ObjectId, pause: Duration) {
        if let Some(change) = self.lock().changes.get_mut(id) {
            change.due = Instant::now() + pause;
        }
    }

    /// Removes a change that is in the bucket, or has no object any more; with a revision, unless another change came
    /// after it.
    pub(crate) fn remove(&self, id: &ObjectId, revision: Option<u64>) {
        let mut table = self.lock();
        let is_same = |change: &Change| revision.is_none_or(|it| it == change.revision);
        if table.changes.get(id).is_some_and(is_same) {
            table.changes.remove(id);
            self.log.push(AttributeRecord::gone(id));
            drop(table);
            self.left.send_replace(());
        }
    }

    /// Gives a waiting change the version that its object has now. Content that was `written` meanwhile has the time of
    /// that. Returns the change.
    pub(crate) fn rebase(
        &self,
        id: &ObjectId,
        etag: &ETag,
        written: Option<Timestamp>,
    ) -> Option<Change> {
        let mut table = self.lock();
        let change = table.changes.get_mut(id)?;
        change.etag = Some(etag.clone());
        let written = written.map(UnixTime::from);
        change.attributes.modified = written.or(change.attributes.modified);
        let (change, record) = (change.clone(), AttributeRecord::of(id, change));
        self.log.push(record);
        Some(change)
    }

    /// Writes new records to the file, and waits for that a bounded time.
    pub(crate) async fn write_out(self: &Arc<Self>) {
        self.log.write_out(self.all()).await;
    }

    /// Fails while the file has changes that are replaced or sent, and the disk refuses to take them out: the next start
    /// would carry them out.
    pub(super) async fn check_log(self: &Arc<Self>) -> Result<(), WriteError> {
        match self.log.is_stale() {
            true => Ok(self.log.sync(self.all()).await?),
            false => Ok(()),
        }
    }

    /// Makes the changes that wait durable.
    pub(super) async fn sync(self: &Arc<Self>) -> Result<(), WriteError> {
        // Without any there may be no file, and a record that one has gone may be lost: it is sent once more then.
        match self.len() {
            0 => Ok(()),
            _ => Ok(self.log.sync(self.all()).await?),
        }
    }

    /// Returns a function that returns the records of all changes.
    fn all(self: &Arc<Self>) -> impl Fn() -> Vec<AttributeRecord> + Send + 'static {
        let changes = self.clone();
        move || {
            let table = changes.lock();
            let all = table.changes.iter();
            all.map(|(id, change)| AttributeRecord::of(id, change))
                .collect()
        }
    }

    /// Returns once a change has room in the table, or after `patience` without any.
    pub(crate) async fn room(&self, id: &ObjectId, patience: Duration) -> Result<(), WriteError> {
        let mut left = self.left.subscribe();
        loop {
            {
                let table = self.lock();
                if table.changes.len() < MAX_CHANGES || table.changes.contains_key(id) {
                    return Ok(());
                }
            }
            let moved = tokio::time::timeout(patience, left.changed()).await;
            moved
                .map_err(|_| WriteError::Full)?
                .map_err(|_| WriteError::Closing)?;
        }
    }
}
