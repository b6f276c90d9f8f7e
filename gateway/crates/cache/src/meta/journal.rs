//! The write-behind journal: changes wait in memory, by key, until a thread of its own writes them.
//!
//! A change is visible from the moment it is queued until it is committed. So a read that misses the cache
//! finds it here, and never an older row. Every batch is durable. One is written a second after a version
//! became known or was forgotten, as the chunks of that second are synced; for each purge; and at the end.
//! Confirmations wait for the next batch, half a minute at most.
//!
//! Changes that cannot be written stay queued until they can. A change is lost only if too many wait: then
//! every older record must be confirmed or, after a lost removal, is ignored.

mod recovery;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::warn;

use super::batch::Run;
use super::db::Db;
use super::db::failure::DbFailure;
use super::entry_cache::EntryCache;
use super::marks::Marks;
use super::metrics::MetaMetrics;
use super::purges::PurgeEdit;
use super::queue::{ChangeQueue, JournalEnd, RecordChange, TakenChanges, Urgency};
use super::reads::{PROBE_PAUSE, RowReads, StoredRow};
use super::record::{encode, row_key, seal};
use crate::pins::SharedPins;
use crate::{MetaError, StateTimeouts};
use tidegate_plan::ObjectId;
use tidegate_telemetry::locks::Recover as _;

/// The time that news wait for others to be written with them: at most one durable commit a second.
const NEWS_DELAY: Duration = Duration::from_secs(1);

/// The time that confirmations wait for news to be written with.
const CONFIRMATION_DELAY: Duration = Duration::from_secs(30);

/// The most waiting changes before records are dropped: the disk is stuck then.
const MAX_RECORDS: usize = 65_536;

/// The most waiting changes: of those above [`MAX_RECORDS`] each is a removal.
pub(super) const MAX_CHANGES: usize = 2 * MAX_RECORDS;

/// The pause after a failure, before the database is tried again.
const RECOVERY_PAUSE: Duration = Duration::from_secs(5);

/// The time that the owner of a store waits for the writer thread at its end. A thread in a system call that
/// does not return is left behind.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The queue and the thread that empties it.
#[derive(Debug)]
pub(super) struct Journal {
    shared: Arc<JournalState>,
    reads: RowReads,
    write_timeout: Duration,
    /// Disconnected when the writer thread has ended.
    writer: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct JournalState {
    db: Arc<Db>,
    cache: Arc<EntryCache>,
    pins: SharedPins,
    metrics: MetaMetrics,
    marks: Marks,
    queue: Mutex<ChangeQueue>,
    wake: Condvar,
    /// When the write under way began.
    writing_since: Mutex<Option<Instant>>,
    /// The reason why the last write failed; `None`: it succeeded.
    write_fault: Mutex<Option<String>>,
}

impl Journal {
    /// Starts the thread.
    pub(super) fn new(
        db: Db,
        marks: Marks,
        cache: &Arc<EntryCache>,
        pins: &SharedPins,
        metrics: MetaMetrics,
        timeouts: StateTimeouts,
    ) -> std::io::Result<Self> {
        let db = Arc::new(db);
        let times = (timeouts.read, PROBE_PAUSE);
        let reads = RowReads::new(Arc::clone(&db) as _, metrics.clone(), times)?;
        let shared = Arc::new(JournalState {
            db,
            cache: Arc::clone(cache),
            pins: Arc::clone(pins),
            metrics,
            marks,
            queue: Mutex::default(),
            wake: Condvar::new(),
            writing_since: Mutex::default(),
            write_fault: Mutex::default(),
        });
        let writing = Arc::clone(&shared);
        let (ended, writer) = channel();
        thread::Builder::new()
            .name("tidegate-meta".to_owned())
            .spawn(move || {
                let _ended: std::sync::mpsc::Sender<()> = ended;
                writing.run();
                // The database is dropped before the thread's end is announced.
                drop(writing);
            })?;
        Ok(Self {
            shared,
            reads,
            write_timeout: timeouts.write,
            writer: Mutex::new(writer),
        })
    }

    pub(super) fn run(&self) -> Run {
        self.shared.db.run()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ChangeQueue> {
        self.shared.lock()
    }

    pub(super) fn marks(&self) -> &Marks {
        &self.shared.marks
    }

    /// Queues a change, under the caller's lock. Drops it if too many wait already.
    pub(super) fn push(
        &self,
        queue: &mut ChangeQueue,
        id: &ObjectId,
        change: RecordChange,
        urgency: Urgency,
    ) {
        let removes = matches!(change, RecordChange::Remove);
        let most = if removes { MAX_CHANGES } else { MAX_RECORDS };
        if queue.changes.len() >= most && !queue.changes.contains_key(id) {
            self.shared.record_loss(queue, removes);
            return;
        }
        queue.changes.insert(id.clone(), change);
        let (now, news) = (Instant::now(), urgency == Urgency::News);
        if queue.since.is_none() || news && queue.news_since.is_none() {
            self.shared.wake.notify_one();
        }
        queue.since.get_or_insert(now);
        if news {
            queue.news_since.get_or_insert(now);
        }
    }

    /// Queues purges, and the queued changes of pins, to be written durably. The receiver gets the result.
    pub(super) fn push_purges(
        &self,
        queue: &mut ChangeQueue,
        edits: Vec<PurgeEdit>,
    ) -> oneshot::Receiver<Result<(), MetaError>> {
        queue.purges.extend(edits);
        self.wait_for(queue)
    }

    /// Returns the longest wait until something is durable.
    pub(super) fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    fn wait_for(&self, queue: &mut ChangeQueue) -> oneshot::Receiver<Result<(), MetaError>> {
        let (sender, result) = oneshot::channel();
        // After the end no result follows: `sender` is dropped, and the receiver gets an error.
        if queue.end.is_none() {
            queue.waiters.push(sender);
            self.shared.wake.notify_one();
        }
        result
    }

    /// Reads the row of a key, in bounded time. An error is logged and counted.
    pub(super) async fn read(&self, id: &ObjectId) -> StoredRow {
        let shared = Arc::clone(&self.shared);
        let failed = move |failure| shared.suspect(failure);
        self.reads.read(row_key(id), failed).await
    }

    /// Describes the faults of the database in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let since = *self.shared.writing_since();
        let stuck = since.and_then(|since| describe_hang(since.elapsed(), self.write_timeout));
        let fault = self.shared.write_fault.lock().recover().clone();
        let fault = fault.map(|why| format!("metadata store: the last write failed ({why})"));
        let notes = self.reads.note().into_iter();
        notes.chain(stuck).chain(fault).collect()
    }

    /// Returns whether a batch is being written.
    #[cfg(test)]
    pub(super) fn is_writing(&self) -> bool {
        self.shared.writing_since().is_some()
    }

    /// Writes everything that waits.
    pub(super) async fn flush(&self) {
        let result = self.wait_for(&mut self.lock());
        // Errors are logged at their source.
        let _ = result.await;
    }

    /// Has the thread write everything that waits and end. The receiver gets the result; `None`: it ends already.
    pub(super) fn end_in_order(&self) -> Option<oneshot::Receiver<Result<(), MetaError>>> {
        let mut queue = self.lock();
        if queue.end.is_some() {
            return None;
        }
        let result = self.wait_for(&mut queue);
        queue.end = Some(JournalEnd::Orderly);
        Some(result)
    }

    /// Writes everything that waits and ends the thread.
    pub(super) async fn close(&self) {
        if let Some(result) = self.end_in_order() {
            // Errors are logged at their source.
            let _ = result.await;
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.lock().end.get_or_insert(JournalEnd::Abandoned);
        self.shared.wake.notify_one();
        let writer = self.writer.lock().recover();
        if writer.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            warn!("the metadata store hangs; its thread is left behind");
        }
    }
}

/// Returns a note if a write takes longer than on a healthy disk.
fn describe_hang(time: Duration, longest: Duration) -> Option<String> {
    let seconds = time.as_secs();
    (time >= longest).then(|| {
        format!(
            "metadata store: nothing is written to it (a write has not returned for {seconds} s)"
        )
    })
}

impl JournalState {
    fn writing_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.writing_since.lock().recover()
    }

    fn set_writing(&self, since: Option<Instant>) {
        *self.writing_since() = since;
    }

    fn lock(&self) -> MutexGuard<'_, ChangeQueue> {
        self.queue.lock().recover()
    }

    fn run(&self) {
        while let Some(mut taken) = self.next_batch() {
            let rows = taken.changes.iter();
            taken.batch.records = rows.map(|(id, change)| self.row(id, change)).collect();
            self.set_writing(Some(Instant::now()));
            let result = self.db.write(&taken.batch);
            self.set_writing(None);
            let last = taken.batch.last;
            self.settle(taken, result);
            if last {
                return;
            }
        }
    }

    /// Waits for changes to write. `None`: the journal has ended.
    fn next_batch(&self) -> Option<TakenChanges> {
        let mut queue = self.lock();
        loop {
            if queue.end == Some(JournalEnd::Abandoned) {
                return None;
            }
            if let Some(failure) = queue.suspect.clone() {
                queue = self.recover_read(queue, &failure);
                continue;
            }
            let now = Instant::now();
            let news_at = queue.news_since.map(|since| since + NEWS_DELAY);
            let all_at = queue.since.map(|since| since + CONFIRMATION_DELAY);
            let write_at = news_at.into_iter().chain(all_at).min();
            if write_at.is_some_and(|at| at <= now) || !queue.waiters.is_empty() {
                return Some(queue.take());
            }
            queue = match write_at {
                None => self.wake.wait(queue).recover(),
                Some(at) => {
                    let waited = self.wake.wait_timeout(queue, at - now);
                    waited.recover().0
                }
            };
        }
    }

    fn row(&self, id: &ObjectId, change: &RecordChange) -> (Vec<u8>, Option<Vec<u8>>) {
        let key = row_key(id);
        let row = match change {
            RecordChange::Put(record) => Some(seal(&key, &encode(record, self.db.run().number))),
            RecordChange::Remove => None,
        };
        (key, row)
    }

    /// Records that a change is lost, because too many wait.
    fn record_loss(&self, queue: &mut ChangeQueue, removal: bool) {
        self.metrics.lost.inc();
        self.db.distrust(removal);
        if !std::mem::replace(&mut queue.lossy, true) {
            warn!(
                waiting = queue.changes.len(),
                "the metadata store does not keep up; what it has on record will be confirmed before it counts as fresh"
            );
        }
    }

    /// Notes a failure, and tells the waiters the result. After a failure, restores the database and queues the changes again.
    fn settle(&self, taken: TakenChanges, written: Result<(), DbFailure>) {
        let TakenChanges {
            batch,
            changes,
            waiters,
            settled,
        } = taken;
        let fault = written.as_ref().err().map(ToString::to_string);
        *self.write_fault.lock().recover() = fault;
        let result = match &written {
            Ok(()) => {
                let count = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
                self.metrics.writes.inc_by(count);
                self.metrics.commits.inc();
                Ok(())
            }
            Err(failure) => {
                self.report_failure(
                    failure,
                    "cannot write the metadata store; going on in memory",
                );
                Err(MetaError(failure.to_string()))
            }
        };
        {
            let mut queue = self.lock();
            queue.batches += 1;
            match result {
                Ok(()) => {
                    queue.record_written();
                    self.marks.release(settled);
                }
                Err(_) => queue.put_back(changes, settled),
            }
        }
        for waiter in waiters {
            let _ = waiter.send(result.clone());
        }
        if let Err(failure) = written
            && !batch.last
        {
            self.recover(&failure, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_takes_too_long_is_told() {
        let longest = Duration::from_secs(5);
        let before = longest - Duration::from_millis(1);
        assert_eq!(describe_hang(before, longest), None);
        let note = describe_hang(Duration::from_secs(61), longest).expect("a note");
        assert!(note.contains("has not returned for 61 s"), "{note}");
    }
}
