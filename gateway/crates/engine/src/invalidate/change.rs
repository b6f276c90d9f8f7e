//! Changes of keys that the bucket's events report.

use std::sync::Arc;

use futures_util::future::join_all;

use super::pins;
use super::subscribers::Scope;
use crate::open::unconfirmed::explains_event;
use crate::{Core, Engine};
use tidegate_cache::{Entry, Record};
use tidegate_plan::{ChangeKind, KeyChange, ObjectId, ObjectKey, OriginId};

/// The effect of a reported change on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The known version is the reported one and was written here, or the object was removed here: frontends know it as
    /// well.
    Ours,
    /// The known version is the reported one.
    Same,
    /// The bucket may have something else than what was known, or nothing was known.
    Other,
}

impl Engine {
    /// Applies a change that the bucket has reported, under every identity of the bucket. On return no request gets
    /// what was cached before, unless the bucket confirms it, and all subscribers know. Readers that have begun end on
    /// their version.
    ///
    /// Nothing is written for it: a version is confirmed after an unclean stop anyway, and events cover nothing before a
    /// restart.
    pub async fn apply_change(&self, origin: OriginId, change: &KeyChange) {
        let id = ObjectId {
            origin,
            key: change.key.clone(),
        };
        let ids = self.core.everywhere(&id);
        join_all(ids.iter().map(|id| apply(&self.core, id, change))).await;
    }

    /// Gives up what is known of a key whose object is another one in the bucket, as [`Engine::apply_change`] does. Bytes of
    /// versions that are cached stay, for those who began with them.
    pub async fn doubt_key(&self, id: &ObjectId) {
        // Origins are known by their id here.
        let change = KeyChange::of("", &id.key, ChangeKind::Created);
        self.apply_change(id.origin, &change).await;
    }

    /// Does the same, and does not wait until the subscribers know: the caller may hold what their kernel waits for.
    pub async fn doubt_key_now(&self, id: &ObjectId) {
        let change = KeyChange::of("", &id.key, ChangeKind::Created);
        for id in self.core.everywhere(id) {
            // A doubt names no version, so it is never that of a write made here.
            let _ = note(&self.core, &id, &change).await;
            let core = self.core.clone();
            let told = async move { core.report_purge(id.origin, &Scope::Key(id.key)).await };
            self.core.spawn(told);
        }
    }
}

async fn apply(core: &Arc<Core>, id: &ObjectId, change: &KeyChange) {
    let (effect, emptied) = note(core, id, change).await;
    core.metrics.reported(effect.label());
    if effect == Effect::Ours {
        return;
    }
    for key in std::iter::once(id.key.clone()).chain(emptied) {
        core.report_purge(id.origin, &Scope::Key(key)).await;
    }
}

/// Gives up what is known here of the key. Returns the folders as well that may be gone with it.
async fn note(core: &Arc<Core>, id: &ObjectId, change: &KeyChange) -> (Effect, Vec<ObjectKey>) {
    // Before the record is looked at: a write that ends now sees either this, or its record is seen here.
    let change = &KeyChange {
        is_overtaken: core.reported.note(id, change, core.now()),
        ..change.clone()
    };
    // Brings the record into memory, if there is one.
    core.meta.load(id).await;
    let may_be_gone = change.is_overtaken || change.kind == ChangeKind::Removed;
    let mut emptied = Vec::new();
    let forget_names = || match may_be_gone {
        true => emptied = core.names.forget_removed(id.origin, id.key.as_str()),
        false => core.names.forget_key(id.origin, id.key.as_str()),
    };
    let (effect, before) = judge_record(core, id, change, forget_names);
    pins::release(core, id, before);
    let emptied = emptied.iter().filter_map(|key| ObjectKey::new(key).ok());
    (effect, emptied.collect())
}

/// Supersedes the resolve of the key that is under way, and gives up what is known if the change may have replaced it:
/// first what listings have said of the key, by `forget_names`, since a request that sees the doubted record must not
/// confirm it by a listing from before the change. Returns the record of a removed object.
fn judge_record(
    core: &Core,
    id: &ObjectId,
    change: &KeyChange,
    forget_names: impl FnOnce(),
) -> (Effect, Option<Arc<Record>>) {
    let mut resolves = core.resolves();
    let is_doubt = change.is_overtaken || change.kind == ChangeKind::Created;
    let known = core.meta.peek(id);
    if let Some(Entry::Present(record)) = &known
        && is_doubt
        && is_own_write(record, change)
    {
        return (Effect::Ours, None);
    }
    // It may have seen an object that came and went since the key was found missing.
    resolves.remove(id);
    let is_missing = matches!(known, Some(Entry::Missing { .. }));
    if is_missing && change.kind == ChangeKind::Removed && core.reported.take_own_removal(id) {
        return (Effect::Ours, None);
    }
    forget_names();
    match known {
        Some(Entry::Present(record)) if is_doubt => {
            if is_reported(&record, change) && is_of_time(&record, change) {
                return (Effect::Same, None);
            }
            let doubted = Record {
                must_confirm: true,
                ..Record::clone(&record)
            };
            core.meta.put(id, Entry::Present(Arc::new(doubted)));
            (Effect::Other, None)
        }
        Some(Entry::Present(record)) => {
            core.meta.remove(id);
            (Effect::Other, Some(record))
        }
        // A missing key may have an object again: the removed version may have been a delete marker. And a record may
        // have left the memory meanwhile.
        Some(Entry::Missing { .. }) | None => {
            core.meta.remove(id);
            (Effect::Other, None)
        }
    }
}

/// Returns whether the change is the write that made the known version here, and nothing has cast doubt on it since.
fn is_own_write(record: &Record, change: &KeyChange) -> bool {
    is_reported(record, change) && explains_event(record, change.time) && !record.must_confirm
}

/// Returns whether the reported version has the ETag and size of the known one, and is the last reported one.
fn is_reported(record: &Record, change: &KeyChange) -> bool {
    let same_tag = |etag: &tidegate_plan::ETag| etag.strong_eq(&record.version.etag);
    !change.is_overtaken
        && change.etag.as_ref().is_some_and(same_tag)
        && change.size.is_none_or(|size| size == record.version.size)
}

/// Returns whether the change is not younger than the known version. A copy of an object onto itself keeps the ETag and
/// changes headers; a confirmation by the bucket would compare the same seconds.
fn is_of_time(record: &Record, change: &KeyChange) -> bool {
    let known = record.version.last_modified;
    known
        .zip(change.time)
        .is_some_and(|(known, told)| told.secs() <= known.secs())
}

impl Effect {
    fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Same => "same",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests;
