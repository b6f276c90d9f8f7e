//! The end of every change of a key: what readers knew of it before counts no more.
//!
//! A commit, a copy, a rename, a deletion and a new folder of a mount all end here. A PUT and a DELETE over HTTP do not:
//! they answer once subscribers know of the change (`receive`). Look-ups that began before the change are superseded by
//! `change_mark`.

use std::sync::Arc;

use tidegate_engine::names::Facts;
use tidegate_engine::{Core, records};
use tidegate_plan::ObjectId;

/// The knowledge of a key after its change.
pub(crate) enum ChangedKey {
    /// Nothing: the next reader asks the bucket.
    Unknown,
    /// It has no object.
    Missing,
    /// It has this version, whose record readers have already.
    Installed(Facts),
    /// It has this version; the next reader asks the bucket for its record.
    Listed(Facts),
}

/// Prevents earlier reads from restoring an old version, and tells readers under all identities of
/// the bucket what the key has now.
pub(crate) fn supersede(core: &Arc<Core>, id: &ObjectId, now: ChangedKey) {
    if !matches!(now, ChangedKey::Installed(_)) {
        records::put(core, id, None);
    }
    core.forget_elsewhere(id);
    match now {
        ChangedKey::Unknown => {}
        ChangedKey::Missing => core.record_removed(id),
        ChangedKey::Installed(facts) | ChangedKey::Listed(facts) => core.name_written(id, facts),
    }
}
