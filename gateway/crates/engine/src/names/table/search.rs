//! Searches in the table: the names of a folder, and whether it has any that this process has put or found there.

use std::ops::Bound;
use std::sync::Arc;

use super::{KnownName, NameGenerations, Path};
use crate::names::answer::Meaning;
use tidegate_plan::OriginId;

impl NameGenerations {
    /// Returns the first name from there on.
    pub(super) fn next(&self, from: Bound<Path>) -> Option<(&Path, &KnownName)> {
        let range = (from, Bound::Unbounded);
        let young = self.young.range(range.clone()).next();
        let old = self.old.range(range).next();
        match (young, old) {
            (Some(young), Some(old)) => Some(if old.0 < young.0 { old } else { young }),
            (one, other) => one.or(other),
        }
    }

    /// Returns the names in the folder of this prefix (empty, or with a `/` at its end), in order, starting after
    /// `after`: each with its path and its answer.
    pub(super) fn in_folder<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<str>, &'a KnownName)> {
        let mut from = match after {
            Some(name) => Bound::Excluded((origin, format!("{prefix}{name}").into())),
            None => Bound::Included((origin, prefix.into())),
        };
        std::iter::from_fn(move || {
            loop {
                let (key, known) = self.next(from.clone())?;
                let name = key.1.strip_prefix(prefix).filter(|_| key.0 == origin)?;
                if let Some((below, _)) = name.split_once('/') {
                    // Skips all of that folder: `0` sorts after `/`.
                    from = Bound::Included((origin, format!("{prefix}{below}0").into()));
                    continue;
                }
                from = Bound::Excluded(key.clone());
                return Some((name, &key.1, known));
            }
        })
    }

    /// Returns whether a folder may have a name because this process has put it there.
    pub(super) fn holds_own(&self, origin: OriginId, path: &str) -> bool {
        let prefix = format!("{path}/");
        let mut names = self.in_folder(origin, &prefix, None);
        names.any(|(_, path, known)| {
            let passed = || self.folders.passing_epoch(origin, path);
            let is_put = known.own && !known.meaning.is_missing();
            is_put && passed().is_none_or(|epoch| known.epoch >= epoch)
        })
    }

    /// Returns whether the last answer for a path is this version of it.
    pub(super) fn tells(&mut self, origin: OriginId, path: &str, version: &Meaning) -> bool {
        let known = self.current(origin, path).map(|known| known.meaning);
        match (known, version) {
            (Some(Meaning::File(known)), Meaning::File(version)) => {
                known.etag.is_some() && known.etag == version.etag
            }
            _ => false,
        }
    }

    /// Returns whether a name was found in a folder since this epoch.
    pub(super) fn holds_found(&self, origin: OriginId, path: &str, since: u64) -> bool {
        let prefix = format!("{path}/");
        let mut names = self.in_folder(origin, &prefix, None);
        names.any(|(_, _, known)| known.epoch >= since && known.meaning.entry().is_some())
    }
}
