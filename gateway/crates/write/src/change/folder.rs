//! Renaming a folder: copies every object in it on the server, and deletes the sources once all
//! copies are known to exist. The next process goes on with a rename that a crash has cut (ADR 0033).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::attributes::changes::Change;
use crate::change::supersede::{ChangedKey, supersede};
use crate::locks::folder_locks::FolderLock;
use crate::locks::publish_hold::PublishHold;
use crate::{Drafts, WriteError, Writers};
use tidegate_cache::Entry;
use tidegate_engine::times::KnownAttributes;
use tidegate_engine::written::WriteAnswer;
use tidegate_engine::{Error, ReadContext, records};
use tidegate_origin::write::Headers;
use tidegate_origin::{ListedObject, OriginError, WrittenVersion};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ETag, ObjectId, ObjectKey, Version};

mod copies;
mod deletions;
mod ending;
mod listing;
mod proof;
mod record;
mod resume;
mod unmarked;

use copies::missing_is_changed;
use ending::{EndingRename, GivenUpCopies, RenameLocks};
use listing::list;
pub(crate) use record::is_record;
use record::{RecordedRename, RenameRecord};

/// The outcome of a folder's rename, if the origin did not fail before the deletions.
#[derive(Debug)]
pub enum FolderRename {
    /// The folder has too many objects, or one whose new key would be invalid: nothing was changed. The target folder is
    /// empty.
    TooMany,
    /// The target folder is not empty: nothing was changed.
    NotEmpty,
    /// All objects were copied.
    Copied(CopiedFolder),
}

/// A folder whose objects have all been copied.
#[derive(Debug)]
pub struct CopiedFolder {
    /// The error of the first source that could not be deleted.
    pub left: Option<WriteError>,
}

/// An object to be renamed.
struct Item {
    old: ObjectId,
    new: ObjectId,
    /// The version under the old key; without its headers if they are not cached.
    version: Version,
    is_at_hand: bool,
    /// Whether this is the folder's marker, and replaces the one of an empty folder.
    replaces: bool,
    /// The change of attributes that waits for it; then the version's headers have it.
    waiting: Option<Change>,
    /// The tag of its copy, if an earlier process has made that.
    copied: Option<ETag>,
}

impl Item {
    /// Returns the headers of the copy, if they are others than the version's in the bucket.
    fn changed_headers(&self) -> Option<Headers> {
        self.waiting.is_some().then(|| self.version.headers.clone())
    }
}

/// A rename of which nothing was done yet.
struct PreparedRename {
    found: Vec<ListedObject>,
    items: Vec<Item>,
    holds: Vec<PublishHold>,
    /// The marker of the empty folder that is replaced.
    marker: Option<ObjectId>,
    /// All its keys are held.
    locks: RenameLocks,
}

/// A copy that the store answered.
struct AnsweredCopy {
    written: WrittenVersion,
    answered: WriteAnswer,
}

/// The number of an item, and the outcome of its copy.
type CopyOutcome = (usize, Result<AnsweredCopy, WriteError>);

impl Writers {
    /// Replaces the prefix `from` of all keys below it by `to`, if there are at most `most`
    /// objects. Both prefixes end in `/`, and are locked. Drafts below `from` are published first,
    /// and their handles continue under the new keys.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such folder; the error of the first failed copy;
    /// [`WriteError::Changed`] if another process has changed an object meanwhile. The sources stay
    /// then, and the copies are deleted.
    pub async fn rename_folder(
        &self,
        source: &Arc<ReadContext>,
        (from, to): (&str, &str),
        most: usize,
        folders: &FolderLock,
    ) -> Result<FolderRename, WriteError> {
        let inner = &self.0;
        inner.send_waiting_markers(source, (from, to)).await?;
        let mut there = list(source, to, 1).await?;
        if marker_of(to, there.as_deref()).is_err() {
            return Ok(FolderRename::NotEmpty);
        }
        if most == 0 || self.has_more(source, from, most).await? {
            return Ok(FolderRename::TooMany);
        }
        let holds = inner.hold_folder(source, from).await?;
        // Before the listing: it has what was sent until then, and nothing follows.
        let mut locks = RenameLocks {
            keys: inner.lock_changed(source, (from, to)).await,
            _folders: folders.clone(),
        };
        let Some(found) = list(source, from, most).await? else {
            return Ok(FolderRename::TooMany);
        };
        if !holds.is_empty() {
            // Another program may have filled the target while the drafts were published.
            there = list(source, to, 1).await?;
        }
        let Ok(marker) = marker_of(to, there.as_deref()) else {
            return Ok(FolderRename::NotEmpty);
        };
        let marker = marker.map(|key| source.object(&key));
        // A new folder may have no marker in the bucket yet.
        let waits = inner.attributes.folders_below(source.origin.id(), from);
        if found.is_empty() && waits.is_empty() {
            return Err(Error::NotFound.into());
        }
        let Some(items) = inner
            .items(source, (from, to), &found, &marker, &holds)
            .await?
        else {
            return Ok(FolderRename::TooMany);
        };
        let keys = items.iter().flat_map(|it| [&it.old, &it.new]);
        let keys = keys.chain(&marker);
        inner.path.keys.lock_more(&mut locks.keys, keys).await;
        for hold in &holds {
            check_base(hold, &items)?;
        }
        let prepared = PreparedRename {
            found,
            items,
            holds,
            marker,
            locks,
        };
        let copied = inner.carry_out(source, (from, to), prepared).await?;
        Ok(FolderRename::Copied(copied))
    }
}

impl Drafts {
    /// Copies all objects, and deletes them under their old keys. A durable record says so from before the first copy on:
    /// the next process goes on where this one ends.
    async fn carry_out(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        (from, to): (&str, &str),
        prepared: PreparedRename,
    ) -> Result<CopiedFolder, WriteError> {
        let PreparedRename {
            found,
            items,
            holds,
            marker,
            locks,
        } = prepared;
        let (core, origin) = (&self.core, source.origin.id());
        let mut hidden = core.hide_folder(origin, to, marker.is_some());
        let record = RenameRecord::new(origin, (from, to), &found, marker.is_some());
        let mut recorded = RecordedRename::new(&self.settings.spool, record, core);
        let (outcomes, copied) = self
            .copy_recorded(source, &mut recorded, (&found, &items))
            .await;
        if let Err(error) = copied {
            if core.stop.is_cancelled() {
                recorded.leave();
                return Err(WriteError::Closing);
            }
            let given_up = Some(GivenUpCopies {
                error: error.clone(),
                found,
                items,
                outcomes,
                _hidden: hidden,
            });
            let ending = EndingRename::new(recorded, given_up, locks);
            self.end_rename(source, ending).await;
            return Err(error);
        }
        self.drop_marker(source, from, marker, &items).await;
        self.note_copies(source, &items, &outcomes).await;
        let unmarked = self.move_folder_changes(source, (from, to)).await;
        self.move_writings(&items, &holds, &outcomes);
        let renamed = recorded.renamed(false);
        core.report_rename(origin, &renamed).await;
        hidden.hide_instead(from);
        let copied = self.delete_sources(source, &items);
        let copied = copied.await;
        match &copied.left {
            None => self.forget_folders(source, (&items, &unmarked), from),
            Some(_) if core.stop.is_cancelled() => {
                recorded.leave();
                return Ok(copied);
            }
            Some(error) => {
                tracing::warn!(%error, from, to, "a folder was copied; some objects could not be deleted under their old names");
            }
        }
        self.end_rename(source, EndingRename::new(recorded, None, locks))
            .await;
        Ok(copied)
    }
}

impl Drafts {
    /// Publishes all drafts below a folder, and keeps them from being written to.
    async fn hold_folder(
        &self,
        source: &ReadContext,
        from: &str,
    ) -> Result<Vec<PublishHold>, WriteError> {
        let origin = source.origin.id();
        let is_below = |id: &&ObjectId| id.is_below(origin, from);
        let drafts: BTreeSet<_> = self.writings().keys().filter(is_below).cloned().collect();
        let mut holds = Vec::new();
        for id in &drafts {
            if let Some(hold) = self.hold_publishing(id).await {
                holds.push(hold.publish().await?);
            }
        }
        Ok(holds)
    }

    /// Pairs each object with its new key. `None`: one of the new keys is invalid.
    async fn items(
        &self,
        source: &ReadContext,
        (from, to): (&str, &str),
        found: &[ListedObject],
        marker: &Option<ObjectId>,
        holds: &[PublishHold],
    ) -> Result<Option<Vec<Item>>, WriteError> {
        let mut items = Vec::new();
        for listed in found {
            let rest = listed.key.get(from.len()..).unwrap_or_default();
            let new = ObjectKey::new(&format!("{to}{rest}"));
            let (Ok(old), Ok(new)) = (ObjectKey::new(&listed.key), new) else {
                return Ok(None);
            };
            let (old, new) = (source.object(&old), source.object(&new));
            let held = holds.iter().find(|hold| hold.writing.id() == old);
            let at_hand = match held.and_then(|hold| base_of(hold, listed)) {
                Some(version) => Some(version),
                None => self.at_hand(&old, listed).await,
            };
            let waiting = match &listed.etag {
                Some(etag) => self.attributes.of_version(&old, etag),
                None => None,
            };
            let is_at_hand = at_hand.is_some() || waiting.is_some();
            let mut version = match (at_hand, &listed.etag) {
                (Some(version), _) => version,
                (None, Some(etag))
                    if listed.size <= self.settings.max_copy && waiting.is_none() =>
                {
                    Version {
                        etag: etag.clone(),
                        size: listed.size,
                        last_modified: listed.last_modified,
                        version_id: None,
                        headers: Vec::new(),
                    }
                }
                // A copy in parts does not copy the headers, and one that changes them needs all of them.
                _ => source.origin.head(&old.key).await.map_err(map_deleted)?,
            };
            if let Some(change) = &waiting {
                change.attributes.store(&mut version.headers);
            }
            items.push(Item {
                waiting,
                copied: None,
                replaces: marker.as_ref() == Some(&new),
                old,
                new,
                version,
                is_at_hand,
            });
        }
        Ok(Some(items))
    }

    /// Returns the version of a listed object, if its headers are cached.
    async fn at_hand(&self, id: &ObjectId, listed: &ListedObject) -> Option<Version> {
        let core = &self.core;
        let Some(Entry::Present(record)) = core.meta.load(id).await else {
            return None;
        };
        let generation = core.meta.generation(id).await;
        if !records::is_of(core, &record, id, generation) {
            return None;
        }
        let (etag, modified) = (listed.etag.as_ref(), listed.last_modified?);
        let version = core.confirmed_by(&record, etag, listed.size, modified)?;
        Some(Version::clone(&version))
    }

    /// Moves the handles of held drafts to the new keys.
    fn move_writings(&self, items: &[Item], holds: &[PublishHold], outcomes: &[CopyOutcome]) {
        for (number, item) in items.iter().enumerate() {
            let Some(hold) = holds.iter().find(|hold| hold.writing.id() == item.old) else {
                continue;
            };
            let made = outcomes.iter().find(|(copied, _)| *copied == number);
            let Some(made) = made.and_then(|(_, made)| made.as_ref().ok()) else {
                continue;
            };
            let base = hold.writing.state().base().cloned();
            let version = base.map_or_else(
                || item.version.clone(),
                |base| Version::clone(&base.version),
            );
            let etag = made.written.etag.clone();
            self.move_writing(&hold.writing, &item.old, &item.new, etag, version);
        }
    }

    /// Makes all copies visible to readers of this process, with their times and cached chunks.
    async fn note_copies(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        items: &[Item],
        outcomes: &[CopyOutcome],
    ) {
        let core = &self.core;
        let made = || {
            outcomes
                .iter()
                .filter_map(|(number, made)| Some((&items[*number], made.as_ref().ok()?)))
        };
        for (item, made) in made() {
            let times = core.times_of_moved(&item.old, &item.version, &item.new);
            let attributes = match item.is_at_hand {
                true => KnownAttributes::Stored(Attributes::of(&item.version.headers)),
                false => core.times.attributes_of(&item.old, &item.version.etag),
            };
            core.times
                .keep(&item.new, &made.written.etag, times, attributes);
            let (keys, waiting) = ((&item.old, &item.new), item.waiting.clone());
            self.attributes_moved(source, keys, &made.written.etag, waiting);
        }
        self.write_changes_out().await;
        for (item, made) in made() {
            let version = Version {
                etag: made.written.etag.clone(),
                version_id: made.written.version_id.clone(),
                last_modified: None,
                ..item.version.clone()
            };
            if item.new.key.as_str().ends_with('/') {
                supersede(core, &item.new, ChangedKey::Unknown);
                core.folder_written(&item.new);
            } else if item.is_at_hand {
                let moved = core.version_id(&item.old, &item.version).await;
                self.note_copied(source, &item.new, version, made.answered, moved)
                    .await;
            } else {
                let facts = core.listed_facts(&item.new, &version);
                supersede(core, &item.new, ChangedKey::Listed(facts));
            }
        }
    }
}

/// Returns the marker of a target folder, if it is empty but for that. An object of that key with bytes is no marker.
fn marker_of(folder: &str, found: Option<&[ListedObject]>) -> Result<Option<ObjectKey>, ()> {
    match found {
        Some([]) => Ok(None),
        Some([one]) if one.key == folder && one.size == 0 => Ok(ObjectKey::new(folder).ok()),
        _ => Err(()),
    }
}

/// Returns the version that the draft's handles have, if the listing shows it.
fn base_of(hold: &PublishHold, listed: &ListedObject) -> Option<Version> {
    let state = hold.writing.state();
    let version = &state.base()?.version;
    let is_same = listed.etag.as_ref()?.strong_eq(&version.etag);
    is_same.then(|| Version::clone(version))
}

/// Checks that the draft's handles have the version that is moved. Otherwise they would have its
/// length and another version's bytes under the new key.
fn check_base(hold: &PublishHold, items: &[Item]) -> Result<(), WriteError> {
    let id = hold.writing.id();
    let moved = items.iter().find(|item| item.old == id);
    let state = hold.writing.state();
    let base = state.base().map(|base| &base.version.etag);
    match moved {
        Some(item) if base.is_none_or(|etag| *etag == item.version.etag) => Ok(()),
        _ => Err(WriteError::Changed),
    }
}

/// Maps an error for an object that was deleted after it was listed.
fn map_deleted(error: OriginError) -> WriteError {
    missing_is_changed(error.into())
}
