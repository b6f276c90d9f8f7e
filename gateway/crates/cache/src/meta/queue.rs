//! The changes that wait to be written.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::batch::Batch;
use super::db::failure::DbFailure;
use super::marks::MarkToken;
use super::purges::PurgeEdit;
use crate::pins::PinRow;
use crate::{MetaError, Record};
use tidegate_plan::ObjectId;

/// A change of one record.
#[derive(Debug, Clone)]
pub(super) enum RecordChange {
    Put(Arc<Record>),
    Remove,
}

/// The urgency of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A version became known or unknown.
    News,
    /// A version on disk was confirmed: the change can wait for others.
    Confirmation,
}

/// A key that is being changed in the bucket.
#[derive(Debug, Default)]
struct KeyChanges {
    /// Changes under way.
    open: usize,
    /// The marks of all of them.
    marks: Vec<MarkToken>,
}

/// The waiting changes. The queue stays locked while the cache is changed, so that both agree.
#[derive(Debug, Default)]
pub(super) struct ChangeQueue {
    pub(super) changes: HashMap<ObjectId, RecordChange>,
    /// The changes that are being written now.
    pub(super) writing: Arc<HashMap<ObjectId, RecordChange>>,
    pub(super) purges: Vec<PurgeEdit>,
    pub(super) pins: Vec<PinRow>,
    pub(super) waiters: Vec<Waiter>,
    /// The time when the oldest change was queued.
    pub(super) since: Option<Instant>,
    /// The time when the oldest change other than a confirmation was queued.
    pub(super) news_since: Option<Instant>,
    /// A change was lost since the last batch was taken.
    pub(super) lossy: bool,
    /// A change was lost before that batch was taken, and no batch since then is durable.
    lossy_batch: bool,
    /// Batches written or failed so far; tells a reader whether its row may have been replaced
    /// meanwhile.
    pub(super) batches: u64,
    /// A read has failed: the thread opens the database again, and clears this.
    pub(super) suspect: Option<DbFailure>,
    /// The time when the thread last opened the database again.
    pub(super) reopened: Option<Instant>,
    pub(super) end: Option<JournalEnd>,
    changing: HashMap<ObjectId, KeyChanges>,
    /// Marks of changes that have ended, to be released with the next batch.
    settled: Vec<MarkToken>,
}

/// The part of the queue that is taken out to be written.
pub(super) struct TakenChanges {
    pub(super) batch: Batch,
    pub(super) changes: Arc<HashMap<ObjectId, RecordChange>>,
    pub(super) waiters: Vec<Waiter>,
    /// Marks that are no longer needed once the batch is durable.
    pub(super) settled: Vec<MarkToken>,
}

/// The sender of the result: whether the awaited changes are written.
pub(super) type Waiter = oneshot::Sender<Result<(), MetaError>>;

/// The way in which the thread is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalEnd {
    /// In order: everything is written, and the end is marked as orderly.
    Orderly,
    /// At once, as after a kill.
    Abandoned,
}

impl ChangeQueue {
    /// Returns the change that waits for this key, if any.
    pub(super) fn pending(&self, id: &ObjectId) -> Option<&RecordChange> {
        self.changes.get(id).or_else(|| self.writing.get(id))
    }

    /// Returns whether the key is being changed. If so, no version of it goes to disk.
    pub(super) fn is_changing(&self, id: &ObjectId) -> bool {
        self.changing.contains_key(id)
    }

    /// Begins a change of the key, under this mark.
    pub(super) fn begin_change(&mut self, id: &ObjectId, mark: MarkToken) {
        let changing = self.changing.entry(id.clone()).or_default();
        changing.open += 1;
        changing.marks.push(mark);
    }

    /// Ends a change of the key. Returns the marks that can be released at once; if the key's
    /// removal is still queued, its marks wait for it.
    pub(super) fn end_change(&mut self, id: &ObjectId) -> Vec<MarkToken> {
        let Some(changing) = self.changing.get_mut(id) else {
            return Vec::new();
        };
        changing.open -= 1;
        if changing.open > 0 {
            return Vec::new();
        }
        let marks = self.changing.remove(id).unwrap_or_default().marks;
        if self.pending(id).is_none() && !self.lossy && !self.lossy_batch {
            return marks;
        }
        self.settled.extend(marks);
        Vec::new()
    }

    /// Takes all waiting changes, and leaves them visible as being written.
    pub(super) fn take(&mut self) -> TakenChanges {
        (self.since, self.news_since) = (None, None);
        self.lossy_batch |= mem::take(&mut self.lossy);
        self.writing = Arc::new(mem::take(&mut self.changes));
        TakenChanges {
            batch: Batch {
                records: Vec::new(),
                purges: mem::take(&mut self.purges),
                pins: mem::take(&mut self.pins),
                all_pins: false,
                last: self.end.is_some(),
            },
            changes: Arc::clone(&self.writing),
            waiters: mem::take(&mut self.waiters),
            settled: mem::take(&mut self.settled),
        }
    }

    /// Records that the batch taken last is durable, and with it that changes were lost before it.
    pub(super) fn record_written(&mut self) {
        self.writing = Arc::default();
        self.lossy_batch = false;
    }

    /// Queues again the changes that could not be written, unless a newer one waits.
    pub(super) fn put_back(
        &mut self,
        changes: Arc<HashMap<ObjectId, RecordChange>>,
        marks: Vec<MarkToken>,
    ) {
        self.writing = Arc::default();
        for (id, change) in changes.iter() {
            let newer = self.changes.entry(id.clone());
            newer.or_insert_with(|| change.clone());
        }
        self.settled.extend(marks);
        let now = Instant::now();
        self.since.get_or_insert(now);
        self.news_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_plan::{ObjectKey, OriginId};

    /// The removal of a changed key was lost. Its mark is all that keeps the next start from its old version, until a
    /// batch is durable that has the next start ignore such records.
    #[test]
    fn a_mark_whose_removal_was_lost_stays_until_a_batch_is_durable() {
        let id = ObjectId {
            origin: OriginId(7),
            key: ObjectKey::new("a").expect("a key"),
        };
        let mut queue = ChangeQueue::default();
        let end_one = |queue: &mut ChangeQueue, mark| {
            queue.begin_change(&id, mark);
            queue.end_change(&id)
        };
        queue.lossy = true;
        let taken = queue.take();
        let released = end_one(&mut queue, 1);
        assert!(released.is_empty(), "the batch is being written");
        queue.put_back(taken.changes, taken.settled);
        let released = end_one(&mut queue, 2);
        assert!(released.is_empty(), "it could not be written");
        assert_eq!(queue.take().settled, [1, 2]);
        queue.record_written();
        assert_eq!(end_one(&mut queue, 3), [3], "it is durable");
    }
}
