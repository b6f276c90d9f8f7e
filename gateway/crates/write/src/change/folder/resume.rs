//! Renames of folders that an earlier process has not ended.
//!
//! As long as not every copy is known to be there, the rename goes on if nothing has changed in the old folder, and the
//! new one has nothing but copies (`proof`). Otherwise it ends there: this process cannot tell its own copies from equal
//! ones that another program has made, so it removes nothing. Once every copy is there, the old objects go that are as
//! they were and have one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::ending::{EndingRename, RenameLocks};
use super::listing::are_copies;
use super::proof::CopyProofs;
use super::record::{RecordedRename, RenameRecord, left_in};
use super::{AnsweredCopy, Item, list, map_deleted};
use crate::locks::folder_locks::FolderLock;
use crate::{Drafts, MAX_DRAFT_STREAMS, RETRY_PAUSE, WriteError, Writers};
use tidegate_engine::names::HiddenFolder;
use tidegate_engine::{Error, ReadContext, Scope};
use tidegate_origin::ListedObject;
use tidegate_plan::{ETag, ObjectKey};

impl Writers {
    /// Goes on with the renames that an earlier process left. Their folders are locked when this returns, and one of each
    /// is hidden, so that readers of names see the other one whole. Blocks.
    pub(crate) fn resume_renames(&self, sources: &[Arc<ReadContext>]) {
        let inner = &self.0;
        let left = left_in(&inner.settings.spool, &inner.core).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read which folders were being renamed");
            Vec::new()
        });
        for recorded in left {
            let record = &recorded.record;
            let (from, to, objects) = (record.from.clone(), record.to.clone(), record.len());
            let mut same = sources.iter();
            let source = same.find(|source| source.origin.id() == record.origin());
            let lock = source.and_then(|source| {
                let lock = self.lock_folders(source, [&from, &to]);
                lock.now_or_never()
            });
            let (Some(source), Some(folders)) = (source, lock) else {
                tracing::error!(
                    from,
                    to,
                    "the rename of a folder belongs to no bucket that may be written to; it is left half way"
                );
                recorded.leave();
                continue;
            };
            tracing::info!(from, to, objects, "going on with the rename of a folder");
            let hides = if record.is_copied { &from } else { &to };
            let hidden = inner.core.hide_folder(record.origin(), hides, false);
            if record.is_copied {
                // The new folder is shown from now on. What subscribers write of it, they write when it is reported again.
                let renamed = recorded.renamed(true);
                let told = inner.core.report_rename(record.origin(), &renamed);
                let _ = told.now_or_never();
            }
            let (inner, source) = (inner.clone(), source.clone());
            self.0.core.spawn(async move {
                inner
                    .finish_rename(&source, recorded, hidden, folders)
                    .await;
            });
        }
    }
}

impl Drafts {
    /// Tries to end a rename until that is done, the bucket refuses it, or the process ends.
    async fn finish_rename(
        self: Arc<Self>,
        source: &Arc<ReadContext>,
        mut recorded: RecordedRename,
        mut hidden: HiddenFolder,
        folders: FolderLock,
    ) {
        let (from, to) = (recorded.record.from.clone(), recorded.record.to.clone());
        let stop = self.core.stop.clone();
        let mut locks = RenameLocks {
            keys: self.lock_changed(source, (&from, &to)).await,
            _folders: folders,
        };
        let keys = recorded.record.keys(source);
        self.path.keys.lock_more(&mut locks.keys, &keys).await;
        let proofs = CopyProofs::of_earlier();
        for failures in 0.. {
            let resumed = tokio::select! {
                resumed = self.resume(source, (&mut recorded, &proofs), &mut hidden) => resumed,
                () = stop.cancelled() => return,
            };
            match resumed {
                Ok(0) => tracing::info!(
                    from,
                    to,
                    "a folder is renamed that an earlier process began to rename"
                ),
                Ok(left) => {
                    tracing::warn!(
                        left,
                        from,
                        to,
                        "a folder is renamed; what other programs have changed is left under its old name"
                    );
                }
                Err(error) if may_pass(&error) => {
                    let pause = RETRY_PAUSE.pause(failures, 1.0);
                    tracing::warn!(%error, ?pause, from, to, "a folder is not renamed yet");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => continue,
                        () = stop.cancelled() => return,
                    }
                }
                Err(error) if recorded.record.is_copied => {
                    tracing::error!(%error, from, to, "a folder was copied; some objects could not be deleted under their old names");
                }
                Err(error) => {
                    tracing::error!(%error, from, to, "a folder was not renamed; copies of its objects may be left under the new name");
                    self.core.forget_name(source.origin.id(), &to);
                }
            }
            break;
        }
        self.end_in_time(source, EndingRename::new(recorded, None, locks))
            .await;
        drop(hidden);
        self.tell_renamed(source, [&from, &to]);
    }

    /// Makes the copies that are missing, and deletes the old objects. Returns how many objects stay under the old name.
    async fn resume(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        (recorded, proofs): (&mut RecordedRename, &CopyProofs),
        hidden: &mut HiddenFolder,
    ) -> Result<usize, WriteError> {
        let (from, to) = (recorded.record.from.clone(), recorded.record.to.clone());
        if !recorded.record.is_copied {
            self.resume_copies(source, recorded, proofs).await?;
            recorded.note_copied().await?;
        }
        let (found, there) = both(source, (&from, &to)).await?;
        let all = found.len();
        let mut own = recorded.record.own(found);
        own.retain(|listed| there.contains_key(&new_key(listed, (&from, &to))));
        let mut items = self.own_items(source, &recorded.record, &own).await?;
        let mut outcomes = Vec::new();
        for (number, item) in items.iter_mut().enumerate() {
            // Whether the copy has it already is unknown: it is sent once more under the new key.
            item.waiting = None;
            item.is_at_hand = false;
            let copy = there.get(item.new.key.as_str());
            let copy = copy.filter(|copy| copy.size == item.version.size);
            if let Some(etag) = copy.and_then(|copy| copy.etag.clone()) {
                let copy = AnsweredCopy::earlier(&self.core, &item.new, etag);
                outcomes.push((number, Ok(copy.await)));
            }
        }
        self.note_copies(source, &items, &outcomes).await;
        let unmarked = self.move_folder_changes(source, (&from, &to)).await;
        let renamed = recorded.renamed(true);
        self.core.report_rename(source.origin.id(), &renamed).await;
        hidden.hide_instead(&from);
        self.tell_renamed(source, [&from, &to]);
        let copied = self.delete_sources(source, &items).await;
        if let Some(error) = copied.left {
            return Err(error);
        }
        self.forget_folders(source, (&items, &unmarked), &from);
        Ok(all - items.len())
    }

    /// Makes the copies that are missing.
    ///
    /// # Errors
    /// [`WriteError::Changed`] if another program has changed one of both folders; that of the first failed copy.
    async fn resume_copies(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        recorded: &RecordedRename,
        proofs: &CopyProofs,
    ) -> Result<(), WriteError> {
        let record = &recorded.record;
        let names = record.names();
        let (found, there) = both(source, names).await?;
        if !record.is_of(&found) {
            return Err(WriteError::Changed);
        }
        let mut items = self.own_items(source, record, &found).await?;
        if !are_copies(there.values(), names.1, &items) {
            return Err(WriteError::Changed);
        }
        for (number, copy) in found_copies(source, proofs, &items, &there).await? {
            items[number].copied = Some(copy);
        }
        let copies = self.copy_all(source, names, &items, (&found, proofs));
        let (_, copied) = copies.await;
        copied
    }

    /// Pairs objects that are as they were with their new keys.
    async fn own_items(
        &self,
        source: &ReadContext,
        record: &RenameRecord,
        own: &[ListedObject],
    ) -> Result<Vec<Item>, WriteError> {
        let names = record.names();
        let marker = ObjectKey::new(names.1).ok().filter(|_| record.replaces);
        let marker = marker.map(|key| source.object(&key));
        let items = self.items(source, names, own, &marker, &[]).await?;
        items.ok_or(WriteError::KeyRefused)
    }

    /// Tells the mounts of the process that the names in folders are others now. Does not wait for their kernels: one may
    /// hold a folder in which a program waits for the rename.
    fn tell_renamed(&self, source: &ReadContext, folders: [&str; 2]) {
        let (core, origin) = (self.core.clone(), source.origin.id());
        let scopes = folders.map(|folder| Scope::Prefix(folder.into()));
        self.core.spawn(async move {
            for origin in core.identities_of(origin) {
                for scope in &scopes {
                    core.report_purge(origin, scope).await;
                }
            }
        });
    }
}

/// Returns the tags of the copies that are there. The marker that replaces another one is copied once more.
///
/// # Errors
/// [`WriteError::Changed`] if a new key has an object that is no copy.
async fn found_copies(
    source: &ReadContext,
    proofs: &CopyProofs,
    items: &[Item],
    there: &BTreeMap<String, ListedObject>,
) -> Result<Vec<(usize, ETag)>, WriteError> {
    let looks = (0..items.len()).map(|number| async move {
        let item = &items[number];
        let Some(copy) = there.get(item.new.key.as_str()).filter(|_| !item.replaces) else {
            return Ok(None);
        };
        let copy = proofs.of(source, item, copy.size).await?;
        Ok::<_, WriteError>(Some((number, copy)))
    });
    let mut looks = stream::iter(looks).buffer_unordered(MAX_DRAFT_STREAMS);
    let mut found = Vec::new();
    while let Some(looked) = looks.next().await {
        found.extend(looked?);
    }
    Ok(found)
}

/// Lists both folders, the second one with the tags of its objects.
async fn both(
    source: &ReadContext,
    (from, to): (&str, &str),
) -> Result<(Vec<ListedObject>, BTreeMap<String, ListedObject>), WriteError> {
    let found = list(source, from, usize::MAX).await?.unwrap_or_default();
    let there = list(source, to, usize::MAX).await?.unwrap_or_default();
    let tagged = there.into_iter().map(|listed| tagged(source, listed));
    let mut tagged = stream::iter(tagged).buffer_unordered(MAX_DRAFT_STREAMS);
    let mut there = BTreeMap::new();
    while let Some(listed) = tagged.next().await {
        let listed = listed?;
        there.insert(listed.key.clone(), listed);
    }
    Ok((found, there))
}

/// Asks for the tag of an object if the store has not listed it.
async fn tagged(source: &ReadContext, listed: ListedObject) -> Result<ListedObject, WriteError> {
    let key = match (&listed.etag, ObjectKey::new(&listed.key)) {
        (None, Ok(key)) => key,
        _ => return Ok(listed),
    };
    let version = source.origin.head(&key).await.map_err(map_deleted)?;
    Ok(ListedObject {
        etag: Some(version.etag),
        ..listed
    })
}

fn new_key(listed: &ListedObject, (from, to): (&str, &str)) -> String {
    format!("{to}{}", &listed.key[from.len()..])
}

/// Returns whether a rename may succeed later. What the bucket forbids ends it, as it does where a program waits for it.
fn may_pass(error: &WriteError) -> bool {
    error.is_passing() && *error != WriteError::Origin(Error::Forbidden)
}
