//! Objects of at most one part, which are put in one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::WriteError;
use crate::change::change_mark::change_key;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::uncertain::{has_metadata_of, is_made_with};
use crate::publish::published_version::{PublishedVersion, SentBytes};
use crate::spool::data::FRAME_BYTES;
use tidegate_engine::budget::Charge;
use tidegate_engine::written::{Chunks, RequestStart, WriteAnswer, WriteConfirmation};
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, OriginError, Payload};
use tidegate_plan::{ByteRange, ChangeKind, ETag, Version};

/// Returns the tag of an object that is put in one request (S3, unless encrypted with keys of its
/// own).
fn tag(pieces: &[Bytes]) -> ETag {
    ETag::of_bytes(pieces.iter().map(AsRef::as_ref))
}

impl SharedDraft {
    /// Puts an object of at most one part, in one request.
    pub(crate) async fn put_single(
        self: &Arc<Self>,
        size: u64,
        guard: Guard,
    ) -> Result<PublishedVersion, WriteError> {
        // The draft was larger once.
        let unused = self.state().forget_begun_upload();
        unused
            .into_iter()
            .for_each(|upload| self.abandon_upload(upload));
        let _memory = self.memory(size.max(1)).await?;
        let pieces = self.read_pieces(size).await?;
        let (key, headers) = {
            let state = self.state();
            (state.id().key.clone(), state.headers_to_store())
        };
        if guard != Guard::None {
            self.note_try(&pieces, &headers).await?;
        }
        let payload = self.report_progress(Payload::pieces(pieces.clone()));
        let origin = self.source.origin.writing();
        let put = origin.put(&key, headers.clone(), payload, guard.clone());
        let core = &self.inner.core;
        let (id, profile) = (self.id(), self.source.profile.load_full());
        let asked = RequestStart::now(core, &id).await;
        let put = change_key(core, (&id, ChangeKind::Created), put);
        let cut = Chunks::cut(core, &profile, &pieces, false);
        let (put, chunks) = tokio::join!(put, cut);
        match put {
            Ok(written) => Ok(PublishedVersion {
                known: WriteConfirmation::Answered(WriteAnswer::now(core, asked, written.answered)),
                version: Version {
                    etag: written.etag,
                    size,
                    last_modified: None,
                    version_id: written.version_id,
                    headers,
                },
                bytes: SentBytes::InOneRequest(chunks),
            }),
            Err(error) if guard == Guard::None => Err(error.into()),
            Err(OriginError::Changed) => {
                let mut state = self.state();
                if state.uncertain().is_earlier() {
                    state.add_uncertain(tag(&pieces), None);
                }
                Err(WriteError::Changed)
            }
            Err(error) => {
                let sent = (tag(&pieces), size, headers);
                self.after_failed_put(sent, &guard, error).await
            }
        }
    }

    /// Finds out what became of a guarded put whose answer says it not: `error` may have come after the object was there,
    /// or in place of a refusal.
    async fn after_failed_put(
        &self,
        (ours, size, headers): (ETag, u64, Headers),
        guard: &Guard,
        error: OriginError,
    ) -> Result<PublishedVersion, WriteError> {
        if error.proves_undone() {
            return Err(error.into());
        }
        let id = self.id();
        let asked = RequestStart::now(&self.inner.core, &id).await;
        let found = self.find_version(&id.key).await.ok().flatten();
        let is_equal = |version: &Version| version.etag.weak_eq(&ours) && version.size == size;
        // The object before may have the same bytes, and other attributes.
        let is_ours =
            |version: &Version| is_equal(version) && has_metadata_of(&version.headers, &headers);
        let found = match found {
            // Of two writers of the same lock file, one was first.
            Some(version)
                if *guard == Guard::Absent && !is_made_with(&version.headers, &headers) =>
            {
                return Err(WriteError::Changed);
            }
            // The empty object that is to be changed has the tag of its changed one.
            Some(version)
                if is_ours(&version)
                    && (!guard.holds_for(&version.etag)
                        || is_made_with(&version.headers, &headers)) =>
            {
                return Ok(PublishedVersion::found(version, asked));
            }
            found => found,
        };
        self.state().add_uncertain(ours, Some(headers));
        // A store that refuses a large body may close before its answer is heard, each time.
        if found.is_some_and(|version| !guard.holds_for(&version.etag)) {
            return Err(WriteError::Changed);
        }
        Err(error.into())
    }

    /// Reads the whole object, once it is sure that the spool has it.
    async fn read_pieces(self: &Arc<Self>, size: u64) -> Result<Vec<Bytes>, WriteError> {
        self.check_spooled(size).await?;
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < size {
            let end = size.min(at + FRAME_BYTES);
            pieces.push(self.read_range(ByteRange::new(at, end)).await?);
            at = end;
        }
        Ok(pieces)
    }

    /// Returns once the bytes in the spool read back as they were written.
    async fn check_spooled(&self, size: u64) -> Result<(), WriteError> {
        let file = self.state().file().cloned();
        match file {
            Some(file) if file.may_differ() => {
                let looked = file.blocking(move |file| file.look(ByteRange::new(0, size)));
                Ok(looked.await?)
            }
            _ => Ok(()),
        }
    }

    /// Reserves memory for an object. It first waits in turn for the share of such objects, without
    /// a bound, because each of them ends in bounded time; then for the whole budget.
    async fn memory(&self, bytes: u64) -> Result<[Charge; 2], WriteError> {
        let share = self.inner.path.put.in_turn(bytes).await;
        Ok([share, self.inner.core.budget.demand(bytes).await?])
    }

    /// Notes the tag of the object for the next process. That process may need bytes of the version
    /// that this put replaces, which then exist nowhere.
    async fn note_try(&self, pieces: &[Bytes], headers: &Headers) -> Result<(), WriteError> {
        let needs_base = {
            let mut state = self.state();
            let needs_base = state.draft().base() > 0;
            // Otherwise the same object is put once more, and recognized by its tag.
            if !state.phase().is_promised() || !(needs_base || state.phase().is_behind()) {
                return Ok(());
            }
            state.add_uncertain(tag(pieces), Some(headers.clone()));
            needs_base
        };
        match needs_base {
            true => self.flush_durably().await,
            false => self.flush().await,
        }
    }

    /// Reports each piece that is taken for the first time as progress.
    fn report_progress(self: &Arc<Self>, payload: Payload) -> Payload {
        let (writing, size) = (self.clone(), payload.len());
        let taken = AtomicU64::new(0);
        payload.observed(move |piece| {
            if taken.fetch_add(piece as u64, Ordering::Relaxed) < size {
                writing.progress.send_replace(());
            }
        })
    }
}
