//! Changes of attributes of objects that are in the bucket already.
//!
//! A change counts for all readers of this process at once. It is noted in a file beside the spool (`changes::log`), and
//! sent once the key is quiet (`send`): as one copy of the object onto itself. So `chmod`, `chown` and `utimensat` after
//! a close cost one request together. A rename, or another write of the object, takes the change along before that; a
//! deletion drops it. ADR 0050 has the reasons.

pub(crate) mod changes;
pub(crate) mod send;
mod sync;

use std::sync::Arc;

use crate::{Drafts, WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_engine::names::{Facts, NameEpoch};
use tidegate_engine::times::{KnownAttributes, Times};
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_plan::{ETag, ObjectId, ObjectKey, Timestamp};

impl Writers {
    /// Sets the attributes of an object that is in the bucket, as `facts` describe it: those that a look-up has found
    /// which began at `since`. They are shown at once, and sent once the key is quiet. Returns the time of the change.
    ///
    /// # Errors
    /// [`WriteError::Full`] if too many changes wait; [`WriteError::Spool`] if the disk keeps older changes that it cannot
    /// replace; [`WriteError::Changed`] if the version is not known, or the name was
    /// changed or found otherwise since: nothing was set.
    pub async fn change_attributes(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        (facts, since): (&Facts, NameEpoch),
        attributes: Attributes,
    ) -> Result<Timestamp, WriteError> {
        let (inner, id) = (&self.0, source.object(key));
        let etag = facts.etag.clone().ok_or(WriteError::Changed)?;
        inner.attributes.check_log().await?;
        inner.attributes.room(&id, inner.settings.patience).await?;
        let core = &inner.core;
        let modified = facts.modified.unwrap_or_else(|| core.now());
        // The copy changes the bucket's own time of the object.
        let attributes = Attributes {
            modified: attributes.modified.or(Some(UnixTime::from(modified))),
            ..attributes
        };
        let times = Times {
            modified,
            changed: core.next_time(&id),
        };
        let facts = Facts {
            changed: Some(times.changed),
            attributes: Some(attributes),
            version: None,
            ..facts.clone()
        };
        if !inner.engine.change_facts(source, key, facts, since) {
            return Err(WriteError::Changed);
        }
        core.times
            .keep(&id, &etag, times, KnownAttributes::Pending(attributes));
        inner.put_change(source, &id, Some(etag), attributes);
        inner.write_changes_out().await;
        Ok(times.changed)
    }

    /// Sets the attributes of a folder: those of the empty object whose key is the folder's, which ends in `/`.
    ///
    /// # Errors
    /// [`WriteError::Full`] if too many changes wait.
    pub async fn change_folder(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        attributes: Attributes,
    ) -> Result<(), WriteError> {
        let (inner, id) = (&self.0, source.object(key));
        inner.attributes.check_log().await?;
        inner.attributes.room(&id, inner.settings.patience).await?;
        inner.put_folder_change(source, &id, attributes);
        inner.write_changes_out().await;
        Ok(())
    }

    /// Takes up the changes that an earlier process left. The drafts that it left have taken theirs along.
    pub(crate) fn recover_attributes(&self, sources: &[Arc<ReadContext>]) {
        let inner = &self.0;
        for record in inner.attributes.attach(&inner.settings.spool) {
            let source = sources
                .iter()
                .find(|source| source.origin.id() == record.origin());
            let Some((source, (id, etag, attributes))) = source.zip(record.change()) else {
                tracing::warn!(
                    "a change of attributes belongs to no bucket that may be written to"
                );
                continue;
            };
            match etag {
                Some(etag) => {
                    inner.core.keep_pending(&id, &etag, attributes);
                    inner.put_change(source, &id, Some(etag), attributes);
                    inner.note_taken(&id);
                }
                None => inner.put_folder_change(source, &id, attributes),
            }
        }
    }
}

impl Drafts {
    /// Adds a change that is to be sent.
    pub(crate) fn put_change(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        etag: Option<ETag>,
        attributes: Attributes,
    ) {
        if let Some(task) = self.attributes.put(id, etag, attributes) {
            self.start_send(source, id, task);
        }
    }

    /// Shows the attributes of a folder at once, and adds the change of its marker to those that are to be sent.
    pub(crate) fn put_folder_change(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        attributes: Attributes,
    ) {
        let known = KnownAttributes::Pending(attributes);
        self.core.keep_folder((id.origin, id.key.as_str()), known);
        self.put_change(source, id, None, attributes);
    }

    /// Writes the changes, and the attributes that are shown meanwhile, to their files.
    pub(crate) async fn write_changes_out(&self) {
        self.core.times.write_out().await;
        self.attributes.write_out().await;
    }

    /// Returns once no change of attributes waits any more; all are due at once meanwhile.
    pub(crate) async fn attributes_settled(&self) {
        let mut left = self.attributes.left.subscribe();
        self.attributes.draining.send_replace(true);
        while self.attributes.len() > 0 {
            let _ = left.changed().await;
        }
        // Otherwise the next process would send the last ones once more.
        self.attributes.write_out().await;
        self.attributes.draining.send_replace(false);
    }

    /// Notes that the draft of an object, if there is one, has taken the waiting change along.
    fn note_taken(&self, id: &ObjectId) {
        let there = self.writings().get(id).cloned();
        if let Some((draft, change)) = there.zip(self.attributes.get(id)) {
            let mut state = draft.state();
            if change.is_of(state.guard()) {
                state.note_attributes_of(change.revision);
            }
        }
    }
}
