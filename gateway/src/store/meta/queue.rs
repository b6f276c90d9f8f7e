//! What waits to be written.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::db::{Batch, Failure};
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
    /// Batches committed so far; tells a reader whether its row may have been replaced meanwhile.
    pub(super) batches: u64,
    /// A read found that the file cannot be believed.
    pub(super) suspect: Option<Failure>,
    pub(super) end: Option<End>,
}

/// What is taken out of the queue to be written.
pub(super) struct Taken {
    pub(super) batch: Batch,
    pub(super) changes: Arc<HashMap<ObjectId, Change>>,
    pub(super) waiters: Vec<Waiter>,
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

    /// Takes all that waits, and leaves it visible as being written.
    pub(super) fn take(&mut self, flush: bool) -> Taken {
        self.since = None;
        self.writing = Arc::new(mem::take(&mut self.changes));
        Taken {
            batch: Batch {
                records: Vec::new(),
                purges: mem::take(&mut self.purges),
                pins: mem::take(&mut self.pins),
                all_pins: false,
                durable: flush || !self.waiters.is_empty(),
                last: self.end.is_some(),
            },
            changes: Arc::clone(&self.writing),
            waiters: mem::take(&mut self.waiters),
        }
    }
}
