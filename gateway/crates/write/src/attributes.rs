//! Changes of attributes of objects that are in the bucket already.
//!
//! A change counts for all readers of this process at once. It is noted in a file beside the spool (`log`), and sent
//! once the key is quiet (`send`): as one copy of the object onto itself. So `chmod`, `chown` and `utimensat` after a
//! close cost one request together. A rename, or another write of the object, takes the change along before that; a
//! deletion drops it. ADR 0050 has the reasons.

pub(crate) mod log;
pub(crate) mod send;
mod sync;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use self::log::{AttributeLog, AttributeRecord};
use crate::{Drafts, WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_engine::names::{Facts, NameEpoch};
use tidegate_engine::table_log::TableLog;
use tidegate_engine::times::{KnownAttributes, Times};
use tidegate_origin::Guard;
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_plan::{ETag, ObjectId, ObjectKey, OriginId, Timestamp};
use tidegate_telemetry::locks::Recover as _;

/// The time without another change after which a change is sent.
const QUIET_TIME: Duration = Duration::from_secs(2);

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
    task: u64,
    since: Instant,
    due: Instant,
}

impl Change {
    /// Returns whether it was made to the version that a draft began with, as far as the draft's condition names one.
    fn is_of(&self, guard: &Guard) -> bool {
        match (guard, &self.etag) {
            (Guard::Same(base), Some(of)) => of.weak_eq(base),
            _ => true,
        }
    }
}

/// The changes of a process. See the module documentation.
#[derive(Debug)]
pub(crate) struct AttributeChanges {
    table: Mutex<ChangeTable>,
    log: TableLog<AttributeLog>,
    /// Whether all changes are due at once, because the process ends.
    draining: watch::Sender<bool>,
    /// Changes with every change that leaves the table.
    left: watch::Sender<()>,
    sends: Semaphore,
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
    fn is_current(&self, id: &ObjectId, change: &Change) -> bool {
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
    fn put(&self, id: &ObjectId, etag: Option<ETag>, attributes: Attributes) -> Option<u64> {
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
    fn postpone(&self, id: &ObjectId, pause: Duration) {
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
    fn rebase(&self, id: &ObjectId, etag: &ETag, written: Option<Timestamp>) -> Option<Change> {
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

impl Writers {
    /// Sets the attributes of an object that is in the bucket, as `facts` describe it: those that a look-up has found
    /// which began at `since`. They are shown at once, and sent once the key is quiet. Returns the time of the change.
    ///
    /// # Errors
    /// [`WriteError::Full`] if too many changes wait; [`WriteError::Spool`] if the disk keeps older changes that it cannot
    /// replace; [`WriteError::Changed`] if the version is not known, or the name was
    /// changed or found otherwise since: nothing was set.
    pub async fn change_attributes(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        (facts, since): (&Facts, NameEpoch),
        attributes: Attributes,
    ) -> Result<Timestamp, WriteError> {
        let (inner, id) = (&self.0, source.object(key));
        let etag = facts.etag.clone().ok_or(WriteError::Changed)?;
        inner.attributes.check_log().await?;
        inner.attributes.room(&id, inner.settings.patience).await?;
        let core = &inner.core;
        let modified = facts.modified.unwrap_or_else(|| core.now());
        // The copy changes the bucket's own time of the object.
        let attributes = Attributes {
            modified: attributes.modified.or(Some(UnixTime::from(modified))),
            ..attributes
        };
        let times = Times {
            modified,
            changed: core.next_time(&id),
        };
        let facts = Facts {
            changed: Some(times.changed),
            attributes: Some(attributes),
            version: None,
            ..facts.clone()
        };
        if !inner.engine.change_facts(source, key, facts, since) {
            return Err(WriteError::Changed);
        }
        core.times
            .keep(&id, &etag, times, KnownAttributes::Pending(attributes));
        inner.put_change(source, &id, Some(etag), attributes);
        inner.write_changes_out().await;
        Ok(times.changed)
    }

    /// Sets the attributes of a folder: those of the empty object whose key is the folder's, which ends in `/`.
    ///
    /// # Errors
    /// [`WriteError::Full`] if too many changes wait.
    pub async fn change_folder(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        attributes: Attributes,
    ) -> Result<(), WriteError> {
        let (inner, id) = (&self.0, source.object(key));
        inner.attributes.check_log().await?;
        inner.attributes.room(&id, inner.settings.patience).await?;
        inner.put_folder_change(source, &id, attributes);
        inner.write_changes_out().await;
        Ok(())
    }

    /// Takes up the changes that an earlier process left. The drafts that it left have taken theirs along.
    pub(crate) fn recover_attributes(&self, sources: &[Arc<ReadContext>]) {
        let inner = &self.0;
        for record in inner.attributes.attach(&inner.settings.spool) {
            let source = sources
                .iter()
                .find(|source| source.origin.id() == record.origin());
            let Some((source, (id, etag, attributes))) = source.zip(record.change()) else {
                tracing::warn!(
                    "a change of attributes belongs to no bucket that may be written to"
                );
                continue;
            };
            match etag {
                Some(etag) => {
                    inner.core.keep_pending(&id, &etag, attributes);
                    inner.put_change(source, &id, Some(etag), attributes);
                    inner.note_taken(&id);
                }
                None => inner.put_folder_change(source, &id, attributes),
            }
        }
    }
}

impl Drafts {
    /// Adds a change that is to be sent.
    pub(crate) fn put_change(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        etag: Option<ETag>,
        attributes: Attributes,
    ) {
        if let Some(task) = self.attributes.put(id, etag, attributes) {
            self.start_send(source, id, task);
        }
    }

    /// Shows the attributes of a folder at once, and adds the change of its marker to those that are to be sent.
    pub(crate) fn put_folder_change(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        attributes: Attributes,
    ) {
        let known = KnownAttributes::Pending(attributes);
        self.core.keep_folder((id.origin, id.key.as_str()), known);
        self.put_change(source, id, None, attributes);
    }

    /// Writes the changes, and the attributes that are shown meanwhile, to their files.
    pub(crate) async fn write_changes_out(&self) {
        self.core.times.write_out().await;
        self.attributes.write_out().await;
    }

    /// Returns once no change of attributes waits any more; all are due at once meanwhile.
    pub(crate) async fn attributes_settled(&self) {
        let mut left = self.attributes.left.subscribe();
        self.attributes.draining.send_replace(true);
        while self.attributes.len() > 0 {
            let _ = left.changed().await;
        }
        // Otherwise the next process would send the last ones once more.
        self.attributes.write_out().await;
        self.attributes.draining.send_replace(false);
    }

    /// Notes that the draft of an object, if there is one, has taken the waiting change along.
    fn note_taken(&self, id: &ObjectId) {
        let there = self.writings().get(id).cloned();
        if let Some((draft, change)) = there.zip(self.attributes.get(id)) {
            let mut state = draft.state();
            if change.is_of(state.guard()) {
                state.note_attributes_of(change.revision);
            }
        }
    }

    /// Notes that the draft of an object, which began with the version that `guard` names, is published as this version,
    /// with the attributes of the change of the revision `taken`, and with content that was `written` then. A later
    /// change waits on for the new version; one of another version is dropped.
    pub(crate) fn attributes_published(
        &self,
        (id, etag): (&ObjectId, &ETag),
        (guard, taken): (&Guard, Option<u64>),
        written: Option<Timestamp>,
    ) {
        if taken.is_some() {
            self.attributes.remove(id, taken);
        }
        let other = self.attributes.get(id).filter(|it| !it.is_of(guard));
        if let Some(other) = other {
            self.attributes.remove(id, Some(other.revision));
        }
        if let Some(change) = self.attributes.rebase(id, etag, written) {
            self.core.keep_pending(id, etag, change.attributes);
        }
    }
}
