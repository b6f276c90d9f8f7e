//! The way of a change of attributes into the bucket.
//!
//! A change of an object becomes a draft of which no byte is written. Its publish is a copy of the object onto itself
//! with new metadata, by parts if it is too large for one request; a writer who opens the object meanwhile joins the draft.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use super::changes::{Change, QUIET_TIME};
use crate::change::markers::{FOLDER_TYPE, find_marker, put_marker};
use crate::change::supersede::{ChangedKey, supersede};
use crate::draft::begin;
use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::task::run_to_completion;
use crate::{Drafts, RETRY_PAUSE, Stage, WriteError, Writer};
use tidegate_engine::{Error, OpenOptions, ReadContext};
use tidegate_origin::write::Headers;
use tidegate_plan::ObjectId;
use tidegate_plan::attributes::Attributes;

/// The outcome of a try.
enum SendOutcome {
    /// It is in the bucket, has no object any more, or is among the attributes of a refused draft.
    Done,
    /// A writer of the object takes it along, or is in the way.
    Postponed,
    /// A folder was changed again, or removed. A folder that was made meanwhile under its name has a marker of its own.
    Overtaken,
}

impl Drafts {
    /// Starts the task that sends the change of a key.
    pub(super) fn start_send(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        task: u64,
    ) {
        let (inner, source, id) = (self.clone(), source.clone(), id.clone());
        self.core
            .spawn(async move { inner.send_changes(&source, &id, task).await });
    }

    /// Sends the change of a key, and those that follow it, until there is none.
    async fn send_changes(self: Arc<Self>, source: &Arc<ReadContext>, id: &ObjectId, task: u64) {
        let stop = self.core.stop.clone();
        let (mut failures, mut again) = (0, false);
        loop {
            tokio::select! {
                () = self.wait_until_due(id, again) => {}
                () = stop.cancelled() => return,
            }
            let change = self.attributes.get(id);
            if change.is_none() {
                self.markers.end(id, None);
            }
            let Some(change) = change.filter(|change| change.task == task) else {
                return;
            };
            let sent = {
                let Ok(_turn) = self.attributes.sends.acquire().await else {
                    return;
                };
                match &change.etag {
                    Some(_) => self.send(source, id, &change).await,
                    None => self.send_folder(source, id, &change).await,
                }
            };
            let (key, is_new) = (id.key.as_str(), self.markers.is_new(id));
            again = !matches!(sent, Ok(SendOutcome::Done | SendOutcome::Overtaken));
            match sent {
                Ok(SendOutcome::Done) => {
                    self.metrics.sent_attributes("sent");
                    failures = 0;
                    self.end_change(id, &change);
                    self.markers.end(id, None);
                }
                Ok(SendOutcome::Overtaken) => {}
                Ok(SendOutcome::Postponed) => self.attributes.postpone(id, QUIET_TIME),
                Err(WriteError::Closing) => return,
                Err(error) if error.is_passing() => {
                    self.metrics.sent_attributes("failed");
                    let pause = RETRY_PAUSE.pause(failures, 1.0);
                    failures += 1;
                    let what = match is_new {
                        true => "a new folder is not in the bucket yet",
                        false => "changed attributes are not in the bucket yet",
                    };
                    tracing::warn!(%error, ?pause, key, "{what}");
                    self.attributes.postpone(id, pause);
                    self.markers.note_failed(id);
                }
                Err(error) => {
                    self.metrics.sent_attributes("refused");
                    self.note_refused(id, is_new, &error);
                    self.end_change(id, &change);
                    self.markers.end(id, Some(error));
                }
            }
            self.attributes.write_out().await;
        }
    }

    /// Says that the bucket refuses a change for good. A new folder is then there only as long as files in it are.
    fn note_refused(&self, id: &ObjectId, is_new: bool, error: &WriteError) {
        let key = id.key.as_str();
        if is_new {
            tracing::warn!(%error, key, "a new folder was refused; it is there as long as files in it are");
            self.core.forget_name(id.origin, key.trim_end_matches('/'));
        } else {
            tracing::warn!(%error, key, "changed attributes were refused, and are dropped");
        }
    }

    /// Ends a change, unless another one came after it. If it is not in the bucket, it is shown no more.
    fn end_change(&self, id: &ObjectId, change: &Change) {
        self.attributes.remove(id, Some(change.revision));
        if self.attributes.get(id).is_none() {
            self.core.drop_pending((id.origin, id.key.as_str()));
        }
    }

    /// Waits until the change of a key is due, or has left. While the process ends it is due at once, unless it is sent
    /// `again`.
    async fn wait_until_due(&self, id: &ObjectId, again: bool) {
        let mut draining = self.attributes.draining.subscribe();
        loop {
            let Some(change) = self.attributes.get(id) else {
                return;
            };
            let is_drained = *draining.borrow_and_update() && !again;
            if is_drained || change.due <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(change.due) => {}
                _ = draining.changed() => {}
            }
        }
    }

    async fn send(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        change: &Change,
    ) -> Result<SendOutcome, WriteError> {
        let there = self.writings().get(id).cloned();
        if let Some(writing) = &there {
            let state = writing.state();
            let is_taken = state.attributes_of() == Some(change.revision);
            let is_replaced = state.phase().trouble() == Some(&WriteError::Changed);
            // An operator decides about the draft, with the attributes that it has. Or the version that was changed is
            // there no more.
            if state.stage() == Stage::Refused && (is_taken || is_replaced) {
                return Ok(SendOutcome::Done);
            }
            if state.phase().is_dirty() {
                return Ok(SendOutcome::Postponed);
            }
        }
        let writer = match there.map(|writing| Writer::join(self, writing)) {
            Some(None) => return Ok(SendOutcome::Postponed),
            // It is only held open.
            Some(Some(writer)) => writer,
            None => match self.open_to_send(source, id, change).await? {
                Some(writer) => writer,
                None => return Ok(SendOutcome::Done),
            },
        };
        match self.publish_change(&writer, id, change).await {
            Ok(sent) => Ok(sent),
            // Another writer has replaced or removed it.
            Err(WriteError::Changed | WriteError::Origin(Error::NotFound)) => Ok(SendOutcome::Done),
            Err(error) => Err(error),
        }
    }

    /// Publishes a draft of which nothing but the attributes differs, also if the caller stops waiting. Postpones that if
    /// a writer or a rename had the draft before.
    async fn publish_change(
        self: &Arc<Self>,
        writer: &Writer,
        id: &ObjectId,
        change: &Change,
    ) -> Result<SendOutcome, WriteError> {
        let (inner, writing) = (self.clone(), writer.writing.clone());
        let (id, change) = (id.clone(), change.clone());
        let work = async move {
            let _gate = writing.gate.write().await;
            {
                let mut state = writing.state();
                let is_same = *state.id() == id && inner.attributes.is_current(&id, &change);
                if state.phase().is_dirty() || !is_same {
                    return Ok(SendOutcome::Postponed);
                }
                state.close_with_attributes(&change.attributes, change.revision);
            }
            let published = writing.commit_locked().await;
            if published.is_err() {
                // As long as no rename can take it for a file that a program has written.
                inner.give_up(&writing);
            }
            published.map(|()| SendOutcome::Done)
        };
        run_to_completion(&self.core, work).await
    }

    /// Begins a draft of the object's version; `None` if it has another one by now, or the change is gone. It holds the
    /// key meanwhile, so that no draft of a removed object appears.
    async fn open_to_send(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        change: &Change,
    ) -> Result<Option<Writer>, WriteError> {
        let _held = self.path.keys.lock_key(id).await;
        if !self.attributes.is_current(id, change) {
            return Ok(None);
        }
        let how = OpenOptions {
            bare: true,
            ..OpenOptions::default()
        };
        let object = match begin::open_base(self, source, id, how).await {
            Err(Error::NotFound) => {
                self.engine.doubt_key_now(id).await;
                return Ok(None);
            }
            object => object?,
        };
        let same = change
            .etag
            .as_ref()
            .is_none_or(|etag| etag.weak_eq(&object.version().etag));
        if !same {
            self.engine.doubt_key_now(id).await;
            return Ok(None);
        }
        begin::open_version(self, source, id, object.version().clone()).map(Some)
    }

    /// Discards a draft whose publish has failed, unless another writer has joined it.
    fn give_up(&self, writing: &Arc<SharedDraft>) {
        let mut writings = self.writings();
        let mut state = writing.state();
        if state.handles().count() == 1
            && state.draft().local().bytes() == 0
            && !state.is_promised()
        {
            state.step(Step::Discard);
            let id = state.id().clone();
            drop(state);
            writing.unlist(&mut writings, &id);
        }
    }

    /// Sends the change of a folder without waiting until it is due.
    pub(crate) async fn send_folder_now(
        &self,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        change: &Change,
    ) -> Result<(), WriteError> {
        if let SendOutcome::Done = self.send_folder(source, id, change).await? {
            self.end_change(id, change);
            self.markers.end(id, None);
        }
        Ok(())
    }

    /// Puts the marker of a folder, unless the change is gone by the time that the key is held: a folder that was removed
    /// meanwhile does not come back.
    async fn send_folder(
        &self,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        change: &Change,
    ) -> Result<SendOutcome, WriteError> {
        let _hold = self.path.keys.lock_key(id).await;
        if !self.attributes.is_current(id, change) {
            return Ok(SendOutcome::Overtaken);
        }
        let place = (id.origin, id.key.as_str());
        let is_new = self.markers.is_new(id);
        let found = match (is_new, self.known_markers.marker(source, id)) {
            (true, _) => None,
            (false, Some(known)) => Some(known),
            (false, None) => find_marker(source, id).await?,
        };
        // A mount that keeps no attributes sets none.
        let is_bare = is_new && change.attributes == Attributes::default();
        // Another program's marker keeps its other metadata.
        let headers = |mut headers: Headers| {
            if !is_bare && !headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
                headers.push((CONTENT_TYPE, FOLDER_TYPE));
            }
            change.attributes.store(&mut headers);
            headers
        };
        let put = put_marker(self, source, id, (found, headers)).await;
        supersede(&self.core, id, ChangedKey::Unknown);
        put?;
        // Listings that were asked for before do not have the marker of a new folder.
        self.core.folder_confirmed(id);
        if self.attributes.is_current(id, change) {
            self.core.folder_sent(place);
            self.core.times.write_out().await;
        }
        Ok(SendOutcome::Done)
    }
}
