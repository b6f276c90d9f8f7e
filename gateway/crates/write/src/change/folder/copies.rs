//! The copies of a folder's objects under its new name.

use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::{StreamExt as _, stream};

use super::listing::check_both;
use super::proof::CopyProofs;
use super::record::RecordedRename;
use super::{AnsweredCopy, CopyOutcome, Item};
use crate::change::server_copy::copy;
use crate::change::{delete_object, leaves_doubt};
use crate::{Drafts, MAX_DRAFT_STREAMS, WriteError};
use tidegate_engine::written::{RequestStart, WriteAnswer};
use tidegate_engine::{Core, Error, ReadContext};
use tidegate_origin::{Guard, ListedObject, OriginError, WrittenVersion};
use tidegate_plan::{ETag, ObjectId, ObjectKey};
use tidegate_telemetry::progress::told_of;

impl AnsweredCopy {
    /// Returns a copy that an earlier process has made, as a listing shows it.
    pub(super) async fn earlier(core: &Core, id: &ObjectId, etag: ETag) -> Self {
        let written = WrittenVersion {
            etag,
            version_id: None,
            answered: None,
        };
        Self {
            answered: WriteAnswer::now(core, RequestStart::now(core, id).await, None),
            written,
        }
    }
}

impl Drafts {
    /// Makes the record durable, copies all objects, and notes that in the record.
    pub(super) async fn copy_recorded(
        &self,
        source: &ReadContext,
        recorded: &mut RecordedRename,
        (found, items): (&[ListedObject], &[Item]),
    ) -> (Vec<CopyOutcome>, Result<(), WriteError>) {
        if let Err(error) = recorded.begin().await {
            return (Vec::new(), Err(error));
        }
        let proofs = CopyProofs::default();
        let names = recorded.record.names();
        let (outcomes, mut copied) = self.copy_all(source, names, items, (found, &proofs)).await;
        if copied.is_ok() {
            copied = recorded.note_copied().await;
        }
        (outcomes, copied)
    }

    /// Copies all items. The marker of an empty folder is replaced last: until then an error leaves that as it was.
    pub(super) async fn copy_all(
        &self,
        source: &ReadContext,
        names: (&str, &str),
        items: &[Item],
        (found, proofs): (&[ListedObject], &CopyProofs),
    ) -> (Vec<CopyOutcome>, Result<(), WriteError>) {
        let mut outcomes = self.copy_items(source, items, proofs, false).await;
        let mut copied = first_error(&outcomes);
        if copied.is_ok() {
            copied = check_both(source, names, found, items).await;
        }
        if copied.is_ok() {
            outcomes.extend(self.copy_items(source, items, proofs, true).await);
            copied = first_error(&outcomes);
        }
        (outcomes, copied)
    }

    /// Copies the items that replace a marker, or all others, until one copy fails. Copies that were begun by then run to
    /// their end: the store might carry out a cancelled one all the same.
    async fn copy_items(
        &self,
        source: &ReadContext,
        items: &[Item],
        proofs: &CopyProofs,
        replaces: bool,
    ) -> Vec<CopyOutcome> {
        let (failed, done) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        let mut starts = Vec::new();
        for item in items {
            starts.push(RequestStart::now(&self.core, &item.new).await);
        }
        let starts = &starts;
        let wanted = (0..items.len()).filter(|number| items[*number].replaces == replaces);
        let copies = wanted.map(|number| async move {
            let item = &items[number];
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(etag) = item.copied.clone() {
                let copy = AnsweredCopy::earlier(&self.core, &item.new, etag);
                return Some((number, Ok(copy.await)));
            }
            let asked = starts[number].later(&self.core);
            let copied = self.copy_item(source, item, proofs).await;
            failed.fetch_or(copied.is_err(), Ordering::Relaxed);
            done.fetch_add(1, Ordering::Relaxed);
            self.folders.note_progress();
            let made = copied.map(|written| AnsweredCopy {
                answered: WriteAnswer::now(&self.core, asked, written.answered),
                written,
            });
            Some((number, made.map_err(missing_is_changed)))
        });
        let copies = stream::iter(copies).buffer_unordered(MAX_DRAFT_STREAMS);
        told_of(copies.filter_map(ready).collect(), || {
            let (copied, of) = (done.load(Ordering::Relaxed), items.len());
            let key = items.first().map(|item| item.new.key.as_str());
            tracing::info!(copied, of, key, "still copying a folder that is renamed");
        })
        .await
    }

    /// Copies an item. What another program has put under the new key stays. A store that does not compare is asked just
    /// before.
    async fn copy_item(
        &self,
        source: &ReadContext,
        item: &Item,
        proofs: &CopyProofs,
    ) -> Result<WrittenVersion, WriteError> {
        let key = &item.new.key;
        let guard = match item.replaces {
            true => marker_guard(source, key).await?,
            false => Guard::Absent,
        };
        let copy = async |guard| {
            let version = (&item.version, item.changed_headers());
            let moved = || self.folders.note_progress();
            copy(
                self,
                source,
                version,
                &item.old.key,
                (&item.new, guard),
                &moved,
            )
            .await
        };
        match copy(guard.clone()).await {
            Err(WriteError::Unsupported) => match source.origin.peek(key).await? {
                Some(_) if guard == Guard::Absent => Err(WriteError::Changed),
                _ => copy(Guard::None).await,
            },
            Err(WriteError::Changed) if proofs.has_earlier => {
                // The one object or the other.
                let there = source.origin.peek(key).await?;
                let there = there.ok_or(WriteError::Changed)?;
                let etag = proofs.of(source, item, there.size).await?;
                Ok(WrittenVersion {
                    etag,
                    version_id: there.version_id,
                    answered: None,
                })
            }
            copied => copied,
        }
    }

    /// Deletes the copies that were made, or may have been, unless they have changed, or have replaced a marker. Stops at
    /// the first failure.
    pub(super) async fn delete_copies(
        &self,
        source: &ReadContext,
        items: &[Item],
        outcomes: &[CopyOutcome],
    ) {
        let failed = &AtomicBool::new(false);
        let copies = (0..outcomes.len()).map(|place| async move {
            let (number, made) = &outcomes[place];
            let item = &items[*number];
            let is_refused = made.as_ref().is_err_and(|error| !leaves_doubt(error));
            if item.replaces || is_refused {
                return 0;
            }
            if failed.load(Ordering::Relaxed) {
                return 1;
            }
            let ours = made
                .as_ref()
                .map_or(&item.version.etag, |made| &made.written.etag);
            let taken = match source.origin.head(&item.new.key).await {
                Ok(found) if found.etag.weak_eq(ours) => {
                    delete_object(self, source, &item.new, Guard::Same(found.etag)).await
                }
                // The copy was not made, or another writer has replaced it.
                Ok(_) | Err(OriginError::NotFound) => Ok(()),
                Err(error) => Err(error.into()),
            };
            let taken = match taken {
                // So has one after the look.
                Err(WriteError::Changed) => Ok(()),
                taken => taken,
            };
            failed.fetch_or(taken.is_err(), Ordering::Relaxed);
            usize::from(taken.is_err())
        });
        let left = stream::iter(copies).buffer_unordered(MAX_DRAFT_STREAMS);
        let left = left.fold(0, |all, one| ready(all + one)).await;
        if left > 0 {
            tracing::warn!(left, "copies of a folder that was not renamed may be left");
        }
    }

    /// Deletes the marker of the empty folder that is replaced by one without a marker, which shows its files alone.
    pub(super) async fn drop_marker(
        &self,
        source: &ReadContext,
        from: &str,
        marker: Option<ObjectId>,
        items: &[Item],
    ) {
        let Some(marker) = marker else { return };
        let is_copied = items.iter().any(|item| item.replaces);
        let waits = ObjectKey::new(from).is_ok_and(|key| {
            // It replaces the marker.
            self.attributes.get(&source.object(&key)).is_some()
        });
        if !is_copied
            && !waits
            && let Err(error) = self.delete_marker(source, &marker).await
        {
            let key = marker.key.as_str();
            tracing::warn!(%error, key, "a renamed folder has the mode and the owner of the one that it replaced");
        }
    }

    async fn delete_marker(
        &self,
        source: &ReadContext,
        marker: &ObjectId,
    ) -> Result<(), WriteError> {
        let guard = marker_guard(source, &marker.key).await?;
        delete_object(self, source, marker, guard).await
    }
}

/// Returns the condition under which an empty folder's marker is replaced or deleted. An object with bytes is none.
async fn marker_guard(source: &ReadContext, key: &ObjectKey) -> Result<Guard, WriteError> {
    match source.origin.peek(key).await? {
        None => Ok(Guard::Absent),
        Some(marker) if marker.size == 0 => Ok(Guard::Same(marker.etag)),
        Some(_) => Err(WriteError::Changed),
    }
}

/// Returns the error of the first copy that failed.
fn first_error(outcomes: &[CopyOutcome]) -> Result<(), WriteError> {
    let mut errors = outcomes.iter().filter_map(|(_, made)| made.as_ref().err());
    errors.next().map_or(Ok(()), |error| Err(error.clone()))
}

pub(super) fn missing_is_changed(error: WriteError) -> WriteError {
    match error {
        WriteError::Origin(Error::NotFound) => WriteError::Changed,
        error => error,
    }
}
