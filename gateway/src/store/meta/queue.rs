//! What waits to be written.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::db::{Batch, Failure};
use super::marks::Token;
use super::purges::Edit;
use crate::plan::ObjectId;
use crate::store::pins::Row;
use crate::store::{MetaError, Record};

/// A change of one record.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Put(Arc<Record>),
    Remove,
}

/// How soon a change is to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A version is known, or not, that was not before.
    News,
    /// One that is on disk was confirmed: it can wait for other changes.
    Confirmation,
}

/// A key that is being changed in the bucket.
#[derive(Debug, Default)]
struct Changing {
    /// Changes under way.
    open: usize,
    /// The marks of all of them.
    marks: Vec<Token>,
}

/// What waits. Locked while the front is changed as well, so that both agree.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) changes: HashMap<ObjectId, Change>,
    /// Those that are being written at this moment.
    pub(super) writing: Arc<HashMap<ObjectId, Change>>,
    pub(super) purges: Vec<Edit>,
    pub(super) pins: Vec<Row>,
    pub(super) waiters: Vec<Waiter>,
    /// When the oldest change was queued.
    pub(super) since: Option<Instant>,
    /// When the oldest was queued that is more than a confirmation.
    pub(super) news_since: Option<Instant>,
    /// A change was lost since the last batch was taken.
    pub(super) lossy: bool,
    /// Batches committed so far; tells a reader whether its row may have been replaced meanwhile.
    pub(super) batches: u64,
    /// A read found that the file cannot be believed.
    pub(super) suspect: Option<Failure>,
    pub(super) end: Option<End>,
    changing: HashMap<ObjectId, Changing>,
    /// Marks of changes that have ended, to be released with the next batch.
    settled: Vec<Token>,
}

/// What is taken out of the queue to be written.
pub(super) struct Taken {
    pub(super) batch: Batch,
    pub(super) changes: Arc<HashMap<ObjectId, Change>>,
    pub(super) waiters: Vec<Waiter>,
    /// Marks that are not needed any more when the batch is durable.
    pub(super) settled: Vec<Token>,
}

/// Hears whether what it waits for is written.
pub(super) type Waiter = oneshot::Sender<Result<(), MetaError>>;

/// How the thread is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Everything written, and marked as orderly.
    Orderly,
    /// At once, as it would by a kill.
    Abandoned,
}

impl Queue {
    /// What waits for this key, if anything.
    pub(super) fn pending(&self, id: &ObjectId) -> Option<&Change> {
        self.changes.get(id).or_else(|| self.writing.get(id))
    }

    /// Whether the key is being changed: then no version of it goes to disk.
    pub(super) fn is_changing(&self, id: &ObjectId) -> bool {
        self.changing.contains_key(id)
    }

    /// A change of the key begins, under this mark.
    pub(super) fn begin_change(&mut self, id: &ObjectId, mark: Token) {
        let changing = self.changing.entry(id.clone()).or_default();
        changing.open += 1;
        changing.marks.push(mark);
    }

    /// A change of the key ends. Gives the marks that can be released at once; those of a key whose
    /// removal is still queued wait for it.
    pub(super) fn end_change(&mut self, id: &ObjectId) -> Vec<Token> {
        let Some(changing) = self.changing.get_mut(id) else {
            return Vec::new();
        };
        changing.open -= 1;
        if changing.open > 0 {
            return Vec::new();
        }
        let marks = self.changing.remove(id).unwrap_or_default().marks;
        if self.pending(id).is_none() && !self.lossy {
            return marks;
        }
        self.settled.extend(marks);
        Vec::new()
    }

    /// Takes all that waits, and leaves it visible as being written.
    pub(super) fn take(&mut self) -> Taken {
        (self.since, self.news_since, self.lossy) = (None, None, false);
        self.writing = Arc::new(mem::take(&mut self.changes));
        Taken {
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

    /// Takes back what could not be written, as far as nothing newer is known.
    pub(super) fn put_back(&mut self, changes: Arc<HashMap<ObjectId, Change>>, marks: Vec<Token>) {
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
