//! The metadata of each key: a bounded cache in memory and, with a state directory, a database behind it
//! that is written behind.
//!
//! The cache (`cache`) answers on every request and holds all purges (`purges`). The database (`db`)
//! keeps records and purges across restarts; changes reach it through a queue (`journal`). Every row is
//! sealed (`record`). A purged record is never accepted: its address was made under a generation, and
//! only the key's present one makes the same address.

mod batch;
mod db;
mod durable;
mod entry_cache;
mod journal;
mod marks;
mod metrics;
mod open;
mod pinning;
mod purges;
mod queue;
mod reads;
mod record;
mod sweep;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;

use self::durable::{await_durable, await_result};
use self::entry_cache::EntryCache;
use self::journal::Journal;
use self::metrics::MetaMetrics;
use self::purges::PurgeEdit;
pub use self::purges::{PurgeEffect, PurgeScope};
use self::queue::{ChangeQueue, RecordChange, Urgency};
use self::reads::StoredRow;
use self::record::{decode, row_key, unseal};
use super::pins::SharedPins;
use super::{Entry, MetaError, MetaStore, PinId, Record};
use tidegate_plan::{ObjectId, OriginId, Timestamp, Version};

/// The shortest time between two writes of confirmations of an unchanged version. To write each 304
/// through would wear the disk; a restart costs at most this much freshness.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(300);

/// The most reads of a row that is written meanwhile; after them it is unknown.
const MAX_ROW_READS: usize = 3;

/// The database in the state directory.
const DATABASE_FILE: &str = "meta-v1.redb";

/// The marks of keys that are being changed, beside it.
const MARKS_FILE: &str = "meta-v1.marks";

/// The metadata store.
#[derive(Debug)]
pub struct Meta {
    cache: Arc<EntryCache>,
    pins: SharedPins,
    /// `None`: kept in memory only.
    journal: Option<Journal>,
    /// The reason why nothing is kept that should be: the state's disk failed at the start.
    fault: Option<MetaError>,
    metrics: MetaMetrics,
}

/// The outcome of a read of a row.
enum RowOutcome {
    /// The row's entry, which the cache has now.
    Found(Entry),
    /// There is no entry.
    Nothing,
    /// The row was written meanwhile: read it again.
    Again,
}

impl Meta {
    /// Has the store end in order while it is dropped, as after a start that served nothing.
    pub(crate) fn end_in_order(&self) {
        if let Some(journal) = &self.journal {
            drop(journal.end_in_order());
        }
    }

    /// Fails if something that must be durable cannot be, without a journal.
    fn check_kept(&self) -> Result<(), MetaError> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Returns the pins, for the disks that keep them.
    pub(super) fn shared_pins(&self) -> SharedPins {
        Arc::clone(&self.pins)
    }

    async fn load_row(&self, journal: &Journal, id: &ObjectId) -> Option<Entry> {
        for _ in 0..MAX_ROW_READS {
            let seen = {
                let queue = journal.lock();
                if let Some(change) = queue.pending(id) {
                    let RecordChange::Put(record) = change else {
                        return None;
                    };
                    // The cache dropped it before it was written; a purge would have replaced it.
                    return self.reload_pending(id, record);
                }
                queue.batches
            };
            // Nothing may be concluded from an unknown row: the origin is asked.
            let row = match journal.read(id).await {
                StoredRow::Found(row) => row,
                StoredRow::Absent => {
                    self.note_absent(journal, id, seen);
                    return None;
                }
                StoredRow::Unknown => return None,
            };
            match self.accept_row(journal, id, &row, seen) {
                RowOutcome::Found(entry) => return Some(entry),
                RowOutcome::Nothing => return None,
                RowOutcome::Again => {}
            }
        }
        None
    }

    /// Accepts a row or removes it, and puts its record into the cache, unless the key may have been
    /// written since the row was read.
    fn accept_row(&self, journal: &Journal, id: &ObjectId, row: &[u8], seen: u64) -> RowOutcome {
        let mut queue = journal.lock();
        if queue.batches != seen || queue.pending(id).is_some() {
            return RowOutcome::Again;
        }
        let Some((mut record, number)) = unseal(&row_key(id), row).and_then(decode) else {
            self.metrics.corrupt.inc();
            journal.push(&mut queue, id, RecordChange::Remove, Urgency::News);
            return RowOutcome::Nothing;
        };
        let (written, run) = (record.confirmed, journal.run());
        if number < run.sound {
            // Its removal may have been lost.
            journal.push(&mut queue, id, RecordChange::Remove, Urgency::News);
            return RowOutcome::Nothing;
        }
        record.must_confirm |= number < run.trusted;
        let entry = Entry::Present(Arc::new(record));
        if !self.cache.put(id, entry.clone(), Some(written)) {
            self.metrics.purged.inc();
            journal.push(&mut queue, id, RecordChange::Remove, Urgency::News);
            return RowOutcome::Nothing;
        }
        RowOutcome::Found(entry)
    }

    /// Remembers that there is no row, unless the key may have been written since that read.
    fn note_absent(&self, journal: &Journal, id: &ObjectId, seen: u64) {
        let queue = journal.lock();
        let unchanged = queue.batches == seen && queue.pending(id).is_none();
        if unchanged && self.cache.get(id).is_none() {
            self.cache.put_rowless(id);
        }
    }

    fn reload_pending(&self, id: &ObjectId, record: &Arc<Record>) -> Option<Entry> {
        let holds = self.cache.holds(id, record);
        holds.then(|| Entry::Present(Arc::clone(record)))
    }

    /// Puts an entry into the cache and, unless it is nothing new, into the queue.
    fn put_queued(&self, journal: &Journal, queue: &mut ChangeQueue, id: &ObjectId, entry: Entry) {
        let Entry::Present(record) = &entry else {
            // A negative entry is not written: it removes the row of the key, if there may be one. So a flood of keys
            // that never existed writes nothing.
            let rowless = self.cache.is_rowless(id) && queue.pending(id).is_none();
            if self.cache.put(id, entry, None) && !rowless {
                journal.push(queue, id, RecordChange::Remove, Urgency::News);
            }
            return;
        };
        if queue.is_changing(id) {
            // The origin's answer may be outdated, and must not outlive this process.
            if !self.cache.put(id, entry, None) {
                self.metrics.purged.inc();
            }
            return;
        }
        let known = self.cache.get(id);
        let record = Arc::clone(record);
        let urgency = match &known {
            Some((known, Some(_))) if confirms(known, &record) => Urgency::Confirmation,
            _ => Urgency::News,
        };
        let written =
            known.and_then(|(known, written)| confirmed_lately(&known, written?, &record));
        let on_disk = written.unwrap_or(record.confirmed);
        if !self.cache.put(id, entry, Some(on_disk)) {
            self.metrics.purged.inc();
        } else if written.is_some() {
            self.metrics.coalesced.inc();
        } else {
            journal.push(queue, id, RecordChange::Put(record), urgency);
        }
    }

    fn count_purges(&self) {
        let count = i64::try_from(self.cache.purge_count());
        self.metrics.purges.set(count.unwrap_or(i64::MAX));
    }

    /// Purges in memory, and writes that down.
    fn record_purge(
        &self,
        scope: PurgeScope<'_>,
        effect: PurgeEffect,
    ) -> BoxFuture<'static, Result<(), MetaError>> {
        // Purged chunks cannot be told from other chunks of a pin, so the pin gets a new number.
        let pins = |edits: &[PurgeEdit]| {
            self.count_purges();
            let all = edits.contains(&PurgeEdit::Clear);
            self.pins
                .renew(|origin, own| all || touches(scope, effect, origin, own))
        };
        let Some(journal) = &self.journal else {
            pins(&self.cache.purge(scope, effect));
            return Box::pin(std::future::ready(self.check_kept()));
        };
        let result = {
            let mut queue = journal.lock();
            let edits = self.cache.purge(scope, effect);
            queue.pins.extend(pins(&edits));
            if let (PurgeScope::Key(id), PurgeEffect::Remove) = (scope, effect) {
                journal.push(&mut queue, id, RecordChange::Remove, Urgency::News);
            }
            journal.push_purges(&mut queue, edits)
        };
        Box::pin(await_durable(result, journal.write_timeout()))
    }
}

/// Returns whether a purge may cover chunks of a pin. The pin of a single key is released by the engine, which knows its
/// version.
fn touches(scope: PurgeScope<'_>, effect: PurgeEffect, origin: OriginId, pin: &str) -> bool {
    match (effect, scope) {
        (PurgeEffect::Soften(_), _) | (_, PurgeScope::Key(_)) => false,
        (_, PurgeScope::Tag(of, _)) => of == origin,
        (_, PurgeScope::Prefix(of, prefix)) => {
            of == origin && (pin.starts_with(prefix) || prefix.starts_with(pin))
        }
    }
}

/// Returns whether `new` only confirms `known`.
fn confirms(known: &Entry, new: &Record) -> bool {
    let Entry::Present(known) = known else {
        return false;
    };
    known.id == new.id && known.version == new.version && !new.must_confirm
}

/// Returns the confirmation time on disk, if `new` only confirms `known` again, soon after it.
fn confirmed_lately(known: &Entry, written: Timestamp, new: &Record) -> Option<Timestamp> {
    let Entry::Present(known) = known else {
        return None;
    };
    let same = known.id == new.id
        && known.must_confirm == new.must_confirm
        && known.version == new.version
        && new.confirmed.since(written) < CONFIRM_INTERVAL;
    same.then_some(written)
}

impl MetaStore for Meta {
    fn peek(&self, id: &ObjectId) -> Option<Entry> {
        let found = self.cache.peek(id);
        if found.is_some() {
            self.metrics.in_memory.inc();
        }
        found
    }

    fn load<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Option<Entry>> {
        Box::pin(async move {
            if let Some(entry) = self.peek(id) {
                return Some(entry);
            }
            let found = match &self.journal {
                Some(journal) => self.load_row(journal, id).await,
                None => None,
            };
            match found {
                Some(_) => self.metrics.on_disk.inc(),
                None => self.metrics.nowhere.inc(),
            };
            found
        })
    }

    fn put(&self, id: &ObjectId, entry: Entry) {
        match &self.journal {
            Some(journal) => self.put_queued(journal, &mut journal.lock(), id, entry),
            None => {
                if !self.cache.put(id, entry, None) {
                    self.metrics.purged.inc();
                }
            }
        }
    }

    fn remove(&self, id: &ObjectId) {
        let Some(journal) = &self.journal else {
            self.cache.remove(id);
            return;
        };
        let mut queue = journal.lock();
        self.cache.remove(id);
        journal.push(&mut queue, id, RecordChange::Remove, Urgency::News);
    }

    fn begin_change<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>> {
        let Some(journal) = &self.journal else {
            return Box::pin(std::future::ready(self.check_kept()));
        };
        let marked = {
            let mut queue = journal.lock();
            let (mark, marked) = journal.marks().mark(row_key(id));
            queue.begin_change(id, mark);
            self.cache.mark_unwritten(id);
            journal.push(&mut queue, id, RecordChange::Remove, Urgency::News);
            marked
        };
        Box::pin(await_result(marked, journal.write_timeout()))
    }

    fn end_change(&self, id: &ObjectId) {
        if let Some(journal) = &self.journal {
            let released = journal.lock().end_change(id);
            journal.marks().release(released);
        }
    }

    fn generation<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, u64> {
        Box::pin(std::future::ready(self.cache.generation(id)))
    }

    fn pin_of(&self, id: &ObjectId) -> PinId {
        self.pins.covering(id)
    }

    fn tag_generation(&self, origin: OriginId, version: &Version) -> u64 {
        self.cache.tag_generation(origin, version)
    }

    fn last_tag_purge(&self) -> u64 {
        self.cache.last_tag_purge()
    }

    fn softened(&self, id: &ObjectId, record: &Record) -> Option<Timestamp> {
        self.cache.softened(id, record)
    }

    fn purge<'a>(
        &'a self,
        scope: PurgeScope<'a>,
        effect: PurgeEffect,
    ) -> BoxFuture<'a, Result<(), MetaError>> {
        self.record_purge(scope, effect)
    }

    fn notes(&self) -> Vec<String> {
        let fault = self
            .fault
            .iter()
            .map(|why| format!("metadata store: kept in memory until the next start ({why})"));
        let of_journal = self.journal.iter().flat_map(Journal::notes);
        fault.chain(of_journal).collect()
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(journal) = &self.journal {
                journal.flush().await;
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(journal) = &self.journal {
                journal.close().await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
