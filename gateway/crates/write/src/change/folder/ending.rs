//! The end of a folder's rename: the copies of one that was given up go, and then its record.
//!
//! A record that stays would have the next process carry the rename out. So as long as the disk does not let go of it, the
//! rename counts as one that is under way: names in both folders wait. No copy goes while the record may say that all are
//! there, for the next process deletes old objects then.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::listing::old_are_there;
use super::record::RecordedRename;
use super::{CopyOutcome, Item};
use crate::locks::folder_locks::FolderLock;
use crate::locks::key_locks::KeyLock;
use crate::{Drafts, RETRY_PAUSE, WriteError};
use tidegate_engine::ReadContext;
use tidegate_engine::names::HiddenFolder;
use tidegate_origin::ListedObject;
use tidegate_plan::ObjectId;

/// The locks of a rename, until it has ended.
pub(super) struct RenameLocks {
    pub(super) _folders: FolderLock,
    pub(super) keys: BTreeMap<ObjectId, KeyLock>,
}

/// A rename of which nothing but the end is left.
pub(super) struct EndingRename {
    recorded: RecordedRename,
    given_up: Option<GivenUpCopies>,
    _locks: RenameLocks,
}

impl EndingRename {
    /// `given_up`: the copies that are to be deleted.
    pub(super) fn new(
        recorded: RecordedRename,
        given_up: Option<GivenUpCopies>,
        locks: RenameLocks,
    ) -> Self {
        Self {
            recorded,
            given_up,
            _locks: locks,
        }
    }
}

/// The copies of a rename that was given up.
pub(super) struct GivenUpCopies {
    pub(super) error: WriteError,
    pub(super) found: Vec<ListedObject>,
    pub(super) items: Vec<Item>,
    pub(super) outcomes: Vec<CopyOutcome>,
    /// The new name.
    pub(super) _hidden: HiddenFolder,
}

impl Drafts {
    /// Ends a rename. If the disk keeps the record, that goes on in the background.
    pub(super) async fn end_rename(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        mut ending: EndingRename,
    ) {
        if self.try_to_end(source, &mut ending).await.is_err() {
            let (inner, source) = (self.clone(), source.clone());
            self.core
                .spawn(async move { inner.end_in_time(&source, ending).await });
        }
    }

    /// Tries to end a rename until that is done, or the process ends.
    pub(super) async fn end_in_time(&self, source: &ReadContext, mut ending: EndingRename) {
        for failures in 0.. {
            let pause = RETRY_PAUSE.pause(failures, 1.0);
            tokio::select! {
                ended = self.try_to_end(source, &mut ending) => if ended.is_ok() { return },
                () = self.core.stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.core.stop.cancelled() => return,
            }
        }
    }

    async fn try_to_end(
        &self,
        source: &ReadContext,
        ending: &mut EndingRename,
    ) -> Result<(), WriteError> {
        let recorded = &mut ending.recorded;
        let mut removed = Ok(());
        if ending.given_up.is_some() && recorded.may_say_copied() {
            removed = recorded.remove().await;
        }
        if removed.is_ok() {
            if let Some(copies) = ending.given_up.take() {
                self.delete_given_up(source, recorded.record.names(), copies)
                    .await;
            }
            removed = recorded.remove().await;
        }
        if let Err(error) = &removed {
            let (from, to) = recorded.record.names();
            tracing::error!(%error, from, to, "cannot remove the record of a folder's rename; changes of names in both folders wait for that");
        }
        removed
    }

    /// Deletes the copies of a rename that was given up, if every old object is there.
    async fn delete_given_up(
        &self,
        source: &ReadContext,
        (from, to): (&str, &str),
        copies: GivenUpCopies,
    ) {
        let error = &copies.error;
        let is_whole =
            copies.outcomes.is_empty() || old_are_there(source, from, &copies.found).await;
        match is_whole {
            true => {
                tracing::warn!(%error, from, to, "a folder was not renamed; its copies are removed");
                self.delete_copies(source, &copies.items, &copies.outcomes)
                    .await;
            }
            false => {
                tracing::error!(%error, from, to, "a folder was not renamed; its copies stay, because old objects may have gone");
            }
        }
        self.core.forget_name(source.origin.id(), to);
    }
}
