//! Folders that are not shown: those of which a rename has made, or left, only a part.
//!
//! A rename copies object by object, and removes object by object. Its new folder is hidden until it is whole, and its
//! old one from then on. So readers see one of both, whole.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{NameKind, NamePage};
use crate::{Core, Engine, ReadContext};
use tidegate_plan::{ObjectKey, OriginId};

/// The folders that are not shown.
#[derive(Debug, Default)]
pub(crate) struct HiddenFolders(ArcSwap<Vec<Entry>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    bucket: OriginId,
    /// It ends in `/`.
    prefix: Arc<str>,
    /// Whether the folder is shown as an empty one.
    is_shown_empty: bool,
}

impl Entry {
    fn covers(&self, path: &str, is_object: bool) -> bool {
        // An object that has the name of a hidden folder is none of it.
        let may_be_folder = !is_object && !self.is_shown_empty;
        path.starts_with(&*self.prefix)
            || may_be_folder && self.prefix.strip_suffix('/') == Some(path)
    }
}

/// A folder that is not shown until this is dropped.
#[must_use]
pub struct HiddenFolder {
    core: Arc<Core>,
    entry: Entry,
}

impl std::fmt::Debug for HiddenFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entry.fmt(f)
    }
}

impl Engine {
    /// Returns whether a path, which may be that of an object or of a folder, is hidden by a rename.
    #[must_use]
    pub fn is_hidden(&self, source: &ReadContext, path: &str) -> bool {
        self.core.is_hidden(source.origin.id(), path)
    }

    /// Returns whether an object is hidden by a rename of a folder that it is in.
    #[must_use]
    pub fn is_object_hidden(&self, source: &ReadContext, key: &ObjectKey) -> bool {
        self.core.hides(source.origin.id(), key.as_str(), true)
    }
}

impl Core {
    /// Hides the folder of a prefix, which ends in `/`, from look-ups and listings under every identity of a bucket.
    /// With `is_shown_empty` only what is in it is hidden.
    pub fn hide_folder(
        self: &Arc<Self>,
        origin: OriginId,
        prefix: &str,
        is_shown_empty: bool,
    ) -> HiddenFolder {
        let entry = Entry {
            bucket: self.identities.bucket(origin),
            prefix: prefix.into(),
            is_shown_empty,
        };
        self.hidden.replace(None, Some(&entry));
        HiddenFolder {
            core: self.clone(),
            entry,
        }
    }

    /// Returns whether a path is hidden, which may be that of an object or of a folder.
    pub(super) fn is_hidden(&self, origin: OriginId, path: &str) -> bool {
        self.hides(origin, path, false)
    }

    fn hides(&self, origin: OriginId, path: &str, is_object: bool) -> bool {
        let hidden = self.hidden.0.load();
        if hidden.is_empty() {
            return false;
        }
        let bucket = self.identities.bucket(origin);
        let mut here = hidden.iter().filter(|entry| entry.bucket == bucket);
        here.any(|entry| entry.covers(path, is_object))
    }

    /// Removes the hidden names from a page of the folder of this prefix.
    pub(super) fn hide_names(&self, origin: OriginId, prefix: &str, page: &mut NamePage) {
        if self.hidden.0.load().is_empty() {
            return;
        }
        page.names.retain(|(name, kind)| {
            let is_object = matches!(kind, NameKind::File(_));
            !self.hides(origin, &format!("{prefix}{name}"), is_object)
        });
    }
}

impl HiddenFolder {
    /// Shows this folder, and hides another one of its bucket, in one step.
    pub fn hide_instead(&mut self, prefix: &str) {
        let next = Entry {
            bucket: self.entry.bucket,
            prefix: prefix.into(),
            is_shown_empty: false,
        };
        self.core.hidden.replace(Some(&self.entry), Some(&next));
        self.entry = next;
    }
}

impl HiddenFolders {
    fn replace(&self, old: Option<&Entry>, new: Option<&Entry>) {
        self.0.rcu(|before| {
            let mut entries = Vec::clone(before);
            let at = entries.iter().position(|entry| Some(entry) == old);
            if let Some(at) = at {
                entries.swap_remove(at);
            }
            entries.extend(new.cloned());
            entries
        });
    }
}

impl Drop for HiddenFolder {
    fn drop(&mut self) {
        self.core.hidden.replace(Some(&self.entry), None);
    }
}
