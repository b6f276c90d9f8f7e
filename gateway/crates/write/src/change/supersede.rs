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
    /// No version: the next reader asks the bucket. Its name is left as it is.
    Unknown,
    /// Nothing: the bucket has another version by now, or the key was purged.
    Overtaken,
    /// It has no object.
    Missing,
    /// It has this version, whose record readers have already.
    Installed(Facts),
    /// It has this version; the next reader asks the bucket for its record.
    Listed(Facts),
}

impl ChangedKey {
    /// Returns what is known of a key for which a version was `installed`, if that still counts.
    pub(crate) fn of_install(installed: bool, facts: Facts) -> Self {
        match installed {
            true => Self::Installed(facts),
            false => Self::Overtaken,
        }
    }
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
        ChangedKey::Overtaken => core.forget_name(id.origin, id.key.as_str()),
        ChangedKey::Missing => core.record_removed(id),
        ChangedKey::Installed(facts) | ChangedKey::Listed(facts) => core.name_written(id, facts),
    }
}
