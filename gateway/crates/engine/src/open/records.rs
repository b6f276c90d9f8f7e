//! The records of keys: which version each has, and who may write that.
//!
//! Every write holds the lock of the resolves under way, so that a resolve never overwrites what was recorded after it
//! began.

use std::sync::Arc;
use std::time::Duration;

use crate::{Core, ReadContext};
use tidegate_cache::{Entry, Record};
use tidegate_plan::freshness::{Judgement, Policy};
use tidegate_plan::{ObjectId, Timestamp};

/// Supersedes every matching resolve begun so far: those will install nothing.
pub fn supersede(core: &Core, matches: impl Fn(&ObjectId) -> bool) {
    core.resolves().retain(|id, _| !matches(id));
}

/// Records a write's result for a key; supersedes every resolve and doubt begun so far.
pub fn put(core: &Core, id: &ObjectId, entry: Option<Entry>) {
    let mut resolves = core.resolves();
    resolves.remove(id);
    match entry {
        Some(entry) => core.meta.put(id, entry),
        None => core.meta.remove(id),
    }
}

/// Records the version that a write has made, which the bucket was asked for at `asked`. It is confirmed before it is
/// served if the bucket has reported another version since.
pub(crate) fn put_written(core: &Core, id: &ObjectId, record: Arc<Record>) {
    let mut resolves = core.resolves();
    resolves.remove(id);
    let overtaken = core
        .reported
        .contradict(id, &record.version.etag, record.confirmed);
    let record = match overtaken {
        true => Arc::new(Record {
            must_confirm: true,
            ..Record::clone(&record)
        }),
        false => record,
    };
    core.meta.put(id, Entry::Present(record));
}

/// Returns whether the known version must be confirmed before it is served.
pub(crate) fn is_doubted(core: &Core, id: &ObjectId) -> bool {
    matches!(core.meta.peek(id), Some(Entry::Present(record)) if record.must_confirm)
}

/// Marks the known version for confirmation before it is served next, if `is_doubted` says so. The table's lock is
/// held meanwhile, so a concurrent write is recorded after this and not overwritten by the version that it replaced. No
/// listing confirms the version in between either.
pub(crate) fn doubt(core: &Core, id: &ObjectId, is_doubted: impl FnOnce(&Record) -> bool) {
    let _lock = core.resolves();
    if let Some(Entry::Present(record)) = core.meta.peek(id)
        && !record.must_confirm
        && is_doubted(&record)
    {
        let doubted = Record {
            must_confirm: true,
            ..Record::clone(&record)
        };
        core.meta.put(id, Entry::Present(Arc::new(doubted)));
    }
}

/// Drops a key's negative entry of before `at`: a request sent then has shown the key. The table's lock is held, so an own
/// deletion, which is later, stays.
pub(crate) fn drop_missing(core: &Core, id: &ObjectId, at: Timestamp) {
    let _lock = core.resolves();
    if let Some(Entry::Missing { since }) = core.meta.peek(id)
        && since < at
    {
        core.meta.remove(id);
    }
}

/// Records that a version was confirmed, if it is still the known one.
pub(crate) fn confirm(core: &Core, id: &ObjectId, known: &Arc<Record>, confirmed: &Arc<Record>) {
    let _lock = core.resolves();
    if core.meta.peek(id).as_ref() == Some(&Entry::Present(known.clone())) {
        core.meta.put(id, Entry::Present(confirmed.clone()));
    }
}

/// Returns whether no hard purge has covered the version since the record was made.
pub fn is_of(core: &Core, record: &Record, id: &ObjectId, generation: u64) -> bool {
    record.id == core.meta.address(id, &record.version, generation)
}

/// The freshness of a record under the rules of a [`ReadContext`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordFreshness {
    pub(crate) policy: Policy,
    pub(crate) judgement: Judgement,
    /// Whether the version has to be confirmed before its next use, however fresh it is.
    pub(crate) must_confirm: bool,
    /// The time since the version was last confirmed, by the bucket or by its events.
    pub(crate) age: Duration,
    /// The age that counts for the freshness: a soft purge ended the lifetime.
    pub(crate) counted_age: Duration,
}

impl Core {
    /// Judges the freshness of a record at the time `now`.
    pub(crate) fn judge(
        &self,
        source: &ReadContext,
        id: &ObjectId,
        record: &Record,
        now: Timestamp,
    ) -> RecordFreshness {
        let confirmed = source.confirmed(record.confirmed, now);
        let age = now.since(confirmed);
        let policy = source.policy(record, confirmed);
        let softened = self.meta.softened(id, record);
        let softened = softened.map(|softened| now.since(softened));
        let counted_age = policy.counted_age(age, softened);
        let must_confirm =
            self.doubted.must_confirm(id.origin, record) || confirmed.is_after_a_step(now);
        RecordFreshness {
            policy,
            judgement: policy.judge(counted_age, must_confirm),
            must_confirm,
            age,
            counted_age,
        }
    }
}
