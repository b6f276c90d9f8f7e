//! Publishing a draft: what is left is sent, what is untouched is copied on the server, and the
//! object appears, whole.
//!
//! A commit holds the gate alone: what is written meanwhile waits, and belongs to the next one. What
//! fails for a passing reason leaves the draft as it is, with everything that was sent, so that the
//! next try goes on from there.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::writing::{Pinned, Tried, Writing};
use super::{STREAMS, WriteError};
use crate::engine::names::Facts;
use crate::engine::resolve;
use crate::engine::spool::journal::Record;
use crate::origin::{Guard, OriginError, Upload};
use crate::plan::upload::{Piece, Pieces, When};
use crate::plan::{ByteRange, ETag, ObjectId, Version, VersionId};
use crate::store::{Entry, Record as Known};

/// The most that one request copies of a base: S3 takes 5 GiB, but smaller ones run side by side.
const COPY: u64 = 1 << 30;

/// How often a lost upload is begun anew within one commit.
pub(super) const ATTEMPTS: u32 = 3;

/// A version that was published, and whether the bucket was asked for it since.
pub(super) struct Published {
    pub(super) version: Version,
    pub(super) confirmed: bool,
}

impl Writing {
    /// Publishes what was written since the last commit, also if the caller does not wait for it.
    pub(super) async fn commit(self: &Arc<Self>) -> Result<(), WriteError> {
        let writing = self.clone();
        let work = async move { writing.commit_now().await };
        self.inner.core.to_its_end(work).await
    }

    async fn commit_now(self: &Arc<Self>) -> Result<(), WriteError> {
        let _gate = self.gate.write().await;
        {
            let mut state = self.state();
            if !state.dirty || state.removed {
                return Ok(());
            }
            state.closing = true;
        }
        self.wait_for_parts().await;
        {
            let mut state = self.state();
            state.failure = None;
            state.not_before = None;
        }
        let mut published = self.publish().await;
        for _ in 1..ATTEMPTS {
            let again = match published {
                Err(WriteError::Lost) => Ok(self.can_send_anew()),
                Err(WriteError::Changed) => self.was_ours().await,
                _ => Ok(false),
            };
            published = match again {
                Ok(true) => self.publish().await,
                Ok(false) => break,
                // It is asked with the next try.
                Err(error) => Err(error),
            };
        }
        let result = match published {
            Ok(published) => self.settle(published).await,
            Err(error) => Err(error),
        };
        self.inner.metrics.committed(match &result {
            Ok(()) => "committed",
            Err(WriteError::Changed) => "changed",
            Err(error) if error.is_passing() => "failed",
            Err(_) => "refused",
        });
        {
            let mut state = self.state();
            state.closing = false;
            state.trouble = result.as_ref().err().cloned();
        }
        result
    }

    /// Whether what was lost is here still, or something is to be sent in its place.
    fn can_send_anew(&self) -> bool {
        let state = self.state();
        !state.draft.has_gone() || state.draft.next(When::Closing).is_some()
    }

    async fn publish(self: &Arc<Self>) -> Result<Published, WriteError> {
        if let Some(published) = self.go_on_completing().await? {
            return Ok(published);
        }
        if self.state().hidden {
            if self.state().upload.is_some() {
                self.publish_hidden().await?;
            }
            self.state().hidden = false;
        }
        let (size, guard) = {
            let state = self.state();
            (state.draft.size(), state.guard_now())
        };
        if let Some(published) = self.set_headers(size, &guard).await? {
            // What was appended, and cut off again, may have been sent.
            let unused = self.state().upload.take();
            unused.into_iter().for_each(|upload| self.give_up(upload));
            return Ok(published);
        }
        if size <= self.inner.settings.parts.first() {
            return self.put_whole(size, guard).await;
        }
        let (upload, parts) = self.assemble().await?;
        let published = self.complete(&upload, parts, guard, size).await?;
        self.mend_headers(published).await
    }

    /// Nobody told whether the object was completed; the process may have ended since.
    pub(super) async fn go_on_completing(
        self: &Arc<Self>,
    ) -> Result<Option<Published>, WriteError> {
        let (parts, upload, guard, size) = {
            let mut state = self.state();
            let upload = state.upload.clone();
            let parts = state.completing.take();
            (parts, upload, state.guard_now(), state.draft.size())
        };
        let (Some(parts), Some(upload)) = (parts, upload) else {
            return Ok(None);
        };
        let own = upload.key == self.state().id.key;
        let guard = if own { guard } else { Guard::None };
        match self.complete(&upload, parts.clone(), guard, size).await {
            Ok(published) if own => self.mend_headers(published).await.map(Some),
            Ok(published) => {
                self.rebase(&upload, published.version).await?;
                Ok(None)
            }
            Err(error) => {
                if error.is_passing() {
                    self.state().completing = Some(parts);
                }
                Err(error)
            }
        }
    }

    /// Sends and copies everything that the object is made of.
    pub(super) async fn assemble(
        self: &Arc<Self>,
    ) -> Result<(Upload, Vec<(u32, ETag)>), WriteError> {
        self.verify_sent().await?;
        self.send_rest().await?;
        let pieces = {
            let state = self.state();
            let sizes = state.draft.sizes();
            state
                .draft
                .pieces(if state.apart { sizes.first() } else { COPY })
        };
        let pieces = pieces.map_err(|_| WriteError::Lost)?;
        let upload = self.upload().await?;
        let parts = self.copy_rest(&upload, pieces).await?;
        let noted = parts
            .iter()
            .map(|(number, etag)| (*number, etag.as_str().to_owned()));
        let record = Record::Completing {
            parts: noted.collect(),
        };
        let (promised, all_told) = {
            let mut state = self.state();
            state.note_written();
            state.records.push(record);
            state.completing = Some(parts.clone());
            let told = !state.promised || !state.unsynced;
            (state.promised, told && !state.draft.has_gone())
        };
        // What it is completed of is what a crash must find: not what was promised before.
        let noted = match promised {
            true => self.sync().await,
            false => self.flush().await,
        };
        match noted {
            // A disk that is full must not keep from it what frees room.
            Err(error) if all_told => {
                let key = upload.key.as_str();
                tracing::warn!(%error, key, "the journal cannot be told of a completion");
            }
            noted => noted?,
        }
        Ok((upload, parts))
    }

    /// Has parts sent again that an earlier process sent and that are something else in the spool: it was
    /// killed after it had written into them.
    async fn verify_sent(&self) -> Result<(), WriteError> {
        while let Some((index, range, crc64)) = self.next_unverified() {
            let file = self.file();
            let found = file.blocking(move |file| file.crc64(range)).await?;
            let mut state = self.state();
            if found != crc64 {
                state.draft.unsend(index);
            }
            state.unverified.remove(&index);
        }
        Ok(())
    }

    fn next_unverified(&self) -> Option<(u32, ByteRange, u64)> {
        let mut state = self.state();
        loop {
            let (index, crc64) = state.unverified.first_key_value()?;
            let (index, crc64) = (*index, *crc64);
            match state.draft.sent_from(index) {
                Some(range) => return Some((index, range, crc64)),
                None => drop(state.unverified.remove(&index)),
            }
        }
    }

    /// Sends every part that must be; returns when none is on its way any more.
    async fn send_rest(self: &Arc<Self>) -> Result<(), WriteError> {
        let mut progress = self.progress.subscribe();
        loop {
            progress.mark_unchanged();
            let failed = self.state().failure.is_some();
            if !failed {
                self.kick(When::Closing);
            }
            if self.state().sending == 0 {
                break;
            }
            // It is `sent` that changes it, whatever comes of a part.
            let _ = progress.changed().await;
        }
        match self.state().failure.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Has what is the base's copied on the server.
    async fn copy_rest(
        self: &Arc<Self>,
        upload: &Upload,
        pieces: Pieces,
    ) -> Result<Vec<(u32, ETag)>, WriteError> {
        let base = self.state().base.as_ref().map(Pinned::source);
        let copied = pieces.into_iter().map(|piece| {
            let base = base.clone();
            async move {
                let (number, range) = match piece {
                    Piece::Sent(number, etag) => return Ok((number, etag)),
                    Piece::Copy(number, range) => (number, range),
                };
                let source = base.ok_or(WriteError::Lost)?;
                let _stream = self.inner.streams.acquire().await;
                let origin = self.source.origin.writing();
                match origin.copy_part(upload, number, source, range).await {
                    Ok(etag) => {
                        self.progress.send_replace(());
                        Ok((number, etag))
                    }
                    Err(OriginError::NoSuchUpload) => {
                        self.lost(upload);
                        Err(WriteError::Lost)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        });
        stream::iter(copied).buffered(STREAMS).try_collect().await
    }

    pub(super) async fn wait_for_parts(&self) {
        let mut progress = self.progress.subscribe();
        loop {
            progress.mark_unchanged();
            if self.state().sending == 0 {
                return;
            }
            let _ = progress.changed().await;
        }
    }

    /// The object is there: so says the bucket, and from now on everybody here.
    pub(super) async fn settle(self: &Arc<Self>, published: Published) -> Result<(), WriteError> {
        let id = self.id();
        let version = Arc::new(published.version);
        let known = published.confirmed.then(|| version.clone());
        supersede(&self.inner, &id, known).await;
        self.inner.core.name_written(&id, self.facts(&version));
        let (before, file) = {
            let mut state = self.state();
            let file = self.drop_file(&mut state);
            state.draft = state.draft.next_from(version.size);
            state.guard = Guard::Same(version.etag.clone());
            state.upload = None;
            state.completing = None;
            state.tried = Tried::No;
            state.dirty = false;
            state.committed = Some(version.clone());
            let base = Pinned {
                key: id.key,
                version,
            };
            (state.base.replace(base), file)
        };
        if let Some(file) = file {
            // Before anything newer is written: a journal found later would publish this once more.
            file.removed().await?;
        }
        self.drop_hidden(before);
        Ok(())
    }
}

impl Writing {
    /// What is known of a version that was just written. When the bucket says that was is not asked;
    /// it is about now.
    fn facts(&self, version: &Arc<Version>) -> Facts {
        let now = self.inner.core.now();
        let modified = version.last_modified.or(Some(now));
        Facts {
            modified,
            version: None,
            ..Facts::of(version)
        }
    }
}

impl super::writing::State {
    /// What must hold of the key now. What needs no byte of the base replaces whatever is there, but
    /// for an object that was to be new.
    fn guard_now(&self) -> Guard {
        match &self.guard {
            Guard::Same(_) if self.draft.base() == 0 => Guard::None,
            guard => guard.clone(),
        }
    }
}

/// Nothing that was begun before brings an old version back; the new one is known, if it is.
pub(super) async fn supersede(inner: &super::Inner, id: &ObjectId, known: Option<Arc<Version>>) {
    let core = &inner.core;
    resolve::supersede(core, |other| other == id);
    match known {
        Some(version) => {
            let generation = core.meta.generation(id).await;
            let record = Known {
                id: VersionId::new(id, &version, generation),
                version,
                confirmed: core.now(),
                must_confirm: false,
            };
            core.meta.put(id, Entry::Present(Arc::new(record)));
        }
        None => core.meta.remove(id),
    }
    // Once more, for those that looked at the old entry in between.
    resolve::supersede(core, |other| other == id);
}
