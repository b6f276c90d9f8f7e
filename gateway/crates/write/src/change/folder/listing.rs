//! The objects of a folder.

use std::collections::HashSet;

use super::Item;
use crate::publish::staging_key::is_staging_key;
use crate::{WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_engine::names::of_listing;
use tidegate_origin::cause::run_for;
use tidegate_origin::list::{EmptyPages, MAX_PAGE_KEYS};
use tidegate_origin::{Cause, List, ListedObject};

/// Lists all objects below a prefix, except those under staging keys. `None`: there are more than
/// `most`.
pub(super) async fn list(
    source: &ReadContext,
    prefix: &str,
    most: usize,
) -> Result<Option<Vec<ListedObject>>, WriteError> {
    let (mut found, mut after, mut empty) = (Vec::new(), None, EmptyPages::default());
    loop {
        let list = List {
            prefix: prefix.to_owned(),
            delimiter: false,
            after,
            limit: MAX_PAGE_KEYS,
        };
        let page = run_for(Cause::Write, source.origin.list(list)).await;
        let page = page.map_err(of_listing)?;
        after = empty.next(&page).map_err(of_listing)?;
        let objects = page.objects.into_iter();
        found.extend(objects.filter(|listed| !is_staging_key(&listed.key)));
        if found.len() > most {
            return Ok(None);
        }
        if after.is_none() {
            return Ok(Some(found));
        }
    }
}

impl Writers {
    /// Returns whether a folder has more than `most` objects, with those that its written drafts are going to be. Without
    /// such drafts the bucket is not asked, for the rename looks at the limit itself.
    ///
    /// # Errors
    /// If the origin failed.
    pub async fn has_more(
        &self,
        source: &ReadContext,
        folder: &str,
        most: usize,
    ) -> Result<bool, WriteError> {
        let drafts = self.snapshots_below(source, folder).into_iter();
        let written = drafts.filter(|(_, draft)| draft.dirty);
        let mut new: HashSet<_> = written.map(|(key, _)| key.as_str().to_owned()).collect();
        if new.is_empty() {
            return Ok(false);
        }
        let Some(found) = list(source, folder, most).await? else {
            return Ok(true);
        };
        for listed in &found {
            new.remove(&listed.key);
        }
        Ok(found.len() + new.len() > most)
    }
}

/// Checks that the old folder has the same objects as when it was listed, and the new one nothing but copies.
pub(super) async fn check_both(
    source: &ReadContext,
    (from, to): (&str, &str),
    found: &[ListedObject],
    items: &[Item],
) -> Result<(), WriteError> {
    let old = list(source, from, found.len());
    // Its marker is no copy, if the old folder has none.
    let new = list(source, to, items.len() + 1);
    let (old, new) = tokio::try_join!(old, new)?;
    let is_same = old.is_some_and(|now| now == found);
    match is_same && new.is_some_and(|now| are_copies(&now, to, items)) {
        true => Ok(()),
        false => Err(WriteError::Changed),
    }
}

/// Returns whether the objects in the new folder have the keys of copies, but for a marker of that folder.
pub(super) fn are_copies<'a>(
    there: impl IntoIterator<Item = &'a ListedObject>,
    to: &str,
    items: &[Item],
) -> bool {
    let new: HashSet<_> = items.iter().map(|item| item.new.key.as_str()).collect();
    let is_marker = |listed: &ListedObject| listed.key == to && listed.size == 0;
    let mut there = there.into_iter();
    there.all(|listed| new.contains(listed.key.as_str()) || is_marker(listed))
}

/// Returns whether every object that was listed has its key still. If one has none, another gateway may be renaming the
/// same folder: what it has under the new name then is all that is left of it. A listing that fails shows nothing.
pub(super) async fn old_are_there(
    source: &ReadContext,
    prefix: &str,
    found: &[ListedObject],
) -> bool {
    let Ok(Some(now)) = list(source, prefix, usize::MAX).await else {
        return false;
    };
    let keys: HashSet<_> = now.iter().map(|listed| &listed.key).collect();
    found.iter().all(|listed| keys.contains(&listed.key))
}
