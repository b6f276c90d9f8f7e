//! The names of a known folder, for its readers.

use super::{Extent, Folder};
use crate::names::answer::{Continuation, KnownNames, ListingProgress, Meaning, NameRequest};
use crate::names::table::{KnownName, Table};
use tidegate_plan::folder::{self, is_name};

/// The most names of a folder that are asked for one after the other, in place of its listing.
const MAX_ASKED: usize = 8;

impl Table {
    /// Returns up to `count` names of a folder that a reader has not had, if all of them are known and fresh.
    pub(in crate::names) fn names(
        &self,
        asked: &NameRequest,
        prefix: &str,
        had: &ListingProgress,
        count: usize,
    ) -> Option<KnownNames> {
        let names = self.lock();
        let folder = names
            .folders
            .get(asked.origin, prefix.trim_end_matches('/'))?;
        if folder.time_left(asked).0.is_zero() {
            return None;
        }
        let end = match &folder.extent {
            Extent::UpTo(cursor) => Some(folder::first_unlisted(&cursor.reached)),
            _ => None,
        };
        let mut found = Vec::new();
        let told = |name: &str| end.is_none_or(|end| name < end);
        let after = Some(&*had.up_to).filter(|name| !name.is_empty());
        let all = names.in_folder(asked.origin, prefix, after);
        for (name, _, known) in all.take_while(|(name, ..)| told(name)) {
            if !is_there(known, folder)? || !is_name(name) || had.has(name) {
                continue;
            }
            if found.len() == count {
                let then = Continuation::More;
                return Some(KnownNames { names: found, then });
            }
            found.extend(known.meaning.entry().map(|entry| (name.to_owned(), entry)));
        }
        let then = match &folder.extent {
            Extent::UpTo(cursor) => Continuation::Page(cursor.clone()),
            _ => Continuation::End,
        };
        Some(KnownNames { names: found, then })
    }

    /// Returns whether a folder is empty, if that is known and fresh.
    pub(in crate::names) fn is_empty(&self, asked: &NameRequest, prefix: &str) -> Option<bool> {
        let some = self.names(asked, prefix, &ListingProgress::default(), 1)?;
        let names = self.lock();
        let folder = names
            .folders
            .get(asked.origin, prefix.trim_end_matches('/'))?;
        match some.then {
            _ if !some.names.is_empty() => Some(false),
            Continuation::End if !folder.odd && !folder.time_left(asked).1.is_zero() => Some(true),
            _ => None,
        }
    }

    /// Returns the paths of a known folder's names that are to be asked for, if those are few: no more than its pages, and
    /// than [`MAX_ASKED`].
    pub(in crate::names) fn unknown_names(
        &self,
        asked: &NameRequest,
        prefix: &str,
    ) -> Option<Vec<String>> {
        let names = self.lock();
        let folder = names
            .folders
            .get(asked.origin, prefix.trim_end_matches('/'))?;
        if folder.time_left(asked).0.is_zero() {
            return None;
        }
        let most = (folder.pages as usize).min(MAX_ASKED);
        let all = names.in_folder(asked.origin, prefix, None);
        let unknown = all.filter(|(_, _, known)| is_there(known, folder).is_none());
        let unknown: Vec<_> = unknown
            .map(|(_, path, _)| path.to_string())
            .take(most + 1)
            .collect();
        (1..=most).contains(&unknown.len()).then_some(unknown)
    }
}

/// Returns whether a name of the table exists in its listed folder; `None` if that must be asked.
fn is_there(known: &KnownName, folder: &Folder) -> Option<bool> {
    match known.meaning {
        // The listing did not have it.
        _ if known.epoch < folder.epoch => Some(false),
        Meaning::Unknown => None,
        Meaning::Missing => Some(false),
        Meaning::File(_) | Meaning::Folder => Some(true),
    }
}
