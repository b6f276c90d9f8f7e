//! Changes of keys that the bucket's events report.

use std::sync::Arc;

use futures_util::future::join_all;

use super::pins;
use super::subscribers::Scope;
use crate::{Core, Engine};
use tidegate_cache::{Entry, Record};
use tidegate_plan::{ChangeKind, KeyChange, ObjectId, OriginId};

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
}

async fn apply(core: &Arc<Core>, id: &ObjectId, change: &KeyChange) {
    // Before the record is looked at: a write that ends now sees either this, or its record is seen here.
    core.reported.note(id, change, core.now());
    // Brings the record into memory, if there is one.
    core.meta.load(id).await;
    let (effect, before) = judge_record(core, id, change);
    pins::release(core, id, before);
    core.metrics.reported(effect.label());
    if effect == Effect::Ours {
        return;
    }
    core.names.forget_key(id.origin, id.key.as_str());
    core.report_purge(id.origin, &Scope::Key(id.key.clone()))
        .await;
}

/// Supersedes the resolve of the key that is under way, and gives up what is known if the change may have replaced it.
/// Returns the record of a removed object.
fn judge_record(core: &Core, id: &ObjectId, change: &KeyChange) -> (Effect, Option<Arc<Record>>) {
    let mut resolves = core.resolves();
    let is_doubt = change.is_overtaken || change.kind == ChangeKind::Created;
    match (core.meta.peek(id), change.kind) {
        (Some(Entry::Present(record)), _) if is_doubt => {
            let is_ours = is_reported(&record, change)
                && core.unconfirmed.explains_event(&record, change.time);
            if is_ours && !record.must_confirm {
                return (Effect::Ours, None);
            }
            let is_same = is_reported(&record, change) && is_of_time(&record, change);
            resolves.remove(id);
            if is_same {
                return (Effect::Same, None);
            }
            let doubted = Record {
                must_confirm: true,
                ..Record::clone(&record)
            };
            core.meta.put(id, Entry::Present(Arc::new(doubted)));
            (Effect::Other, None)
        }
        (Some(Entry::Present(record)), ChangeKind::Removed) => {
            resolves.remove(id);
            core.meta.remove(id);
            (Effect::Other, Some(record))
        }
        (Some(Entry::Missing { .. }), ChangeKind::Removed) => {
            // It may have seen an object that came and went since the key was found missing.
            resolves.remove(id);
            match core.reported.take_own_removal(id) {
                true => (Effect::Ours, None),
                false => (Effect::Other, None),
            }
        }
        // Also a record that has left the memory meanwhile.
        _ => {
            resolves.remove(id);
            core.meta.remove(id);
            (Effect::Other, None)
        }
    }
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
