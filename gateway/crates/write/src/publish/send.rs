//! Sending parts: one per stream at once, while the object is still being written.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::publish::staging_key::staging_key;
use crate::spool::data::FRAME_BYTES;
use crate::spool::file::SpoolFile;
use crate::task::catch_panic;
use crate::{MAX_DRAFT_STREAMS, WriteError};
use tidegate_engine::Error;
use tidegate_engine::written::PartCopy;
use tidegate_origin::payload::Frames;
use tidegate_origin::{OriginError, Payload, Sums, Upload};
use tidegate_plan::upload::{PartJob, SendOccasion};
use tidegate_plan::{ByteRange, ETag};

/// A part that was sent to the store.
struct SentPart {
    etag: ETag,
    sums: Sums,
    /// Its chunks, if they are to be kept.
    passing: Option<Arc<PartCopy>>,
}

impl SharedDraft {
    /// Starts all parts that are due.
    pub(crate) fn kick(self: &Arc<Self>, when: SendOccasion) {
        if when == SendOccasion::Writing && self.waits_for_close() {
            return;
        }
        loop {
            let job = {
                let mut state = self.state();
                let paused = state.retry().is_paused(Instant::now());
                let held_up =
                    when != SendOccasion::Closing && (paused || state.phase().is_publishing());
                let is_busy = state.retry().sending() >= MAX_DRAFT_STREAMS;
                if is_busy || state.phase().is_discarded() || held_up {
                    return;
                }
                let Some(job) = state.draft().next_job(when) else {
                    return;
                };
                state.begin_part(&job);
                job
            };
            let writing = self.clone();
            let stop = self.inner.core.stop.clone();
            self.inner.core.spawn(async move {
                let sent = tokio::select! {
                    sent = catch_panic(writing.send(&job)) => sent,
                    () = stop.cancelled() => Err(WriteError::Closing),
                };
                writing.sent(&job, sent).await;
            });
        }
    }

    /// Sends one part, after it has read the missing bytes from the base.
    async fn send(self: &Arc<Self>, job: &PartJob) -> Result<SentPart, WriteError> {
        let _stream = self.inner.streams.acquire().await;
        let _memory = self.inner.core.budget.demand(2 * FRAME_BYTES).await?;
        self.file_for(job)?;
        for gap in &job.fill {
            self.fill(job, *gap).await?;
        }
        // Otherwise a crash would find promised bytes replaced in the store by unpromised ones, in
        // a part that no journal knows.
        let replaces = |state: &DraftState| state.replaces_promised(job.index);
        let is_replaced = replaces(&self.state());
        if is_replaced {
            self.sync_if(replaces).await?;
        }
        let file = self.file_for(job)?;
        let upload = self.upload().await?;
        let range = job.range;
        let sums = file.blocking(move |file| file.sums(range)).await?;
        let number = job.index + 1;
        let profile = self.source.profile.load_full();
        let passing = self.chunks.begin(&profile, number, range);
        let frames = self.frames(file, range, passing.clone());
        let payload = Payload::read(range.len(), sums, frames);
        let origin = &self.source.origin;
        let sent = origin.writing().part(&upload, number, payload).await;
        match sent {
            Ok(etag) => Ok(SentPart {
                etag,
                sums,
                passing,
            }),
            // Another task aborted the upload while this part was being sent. The part is sent
            // again; nothing has failed.
            Err(OriginError::NoSuchUpload) if self.state().upload().begun() != Some(&upload) => {
                Err(WriteError::Origin(Error::Unavailable))
            }
            Err(OriginError::NoSuchUpload) => {
                self.lose_upload(&upload);
                Err(WriteError::Lost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the file of a part that is to be sent. Fails if the part was written to or cut since, or the draft was
    /// discarded: no request is sent for it, and a discarded draft gets no new file.
    fn file_for(&self, job: &PartJob) -> Result<Arc<SpoolFile>, WriteError> {
        let mut state = self.state();
        match state.draft().is_current(job) && !state.phase().is_discarded() {
            true => Ok(self.file_of(&mut state)),
            false => Err(Error::Unavailable.into()),
        }
    }

    /// Returns the bytes of a part as a stream, which fills the chunks. Each piece taken is
    /// progress.
    fn frames(
        self: &Arc<Self>,
        file: Arc<SpoolFile>,
        range: ByteRange,
        passing: Option<Arc<PartCopy>>,
    ) -> Frames {
        let writing = self.clone();
        Arc::new(move || {
            let (writing, passing) = (writing.clone(), passing.clone());
            let number = passing.as_ref().map(|it| it.start(&writing.inner.core));
            let passing = passing.zip(number);
            let frames = file.frames(range);
            Box::pin(frames.inspect(move |piece| {
                if let (Some((passing, number)), Ok(piece)) = (&passing, piece) {
                    passing.pass(*number, piece);
                }
                writing.progress.send_replace(());
            }))
        })
    }

    async fn sent(self: &Arc<Self>, job: &PartJob, sent: Result<SentPart, WriteError>) {
        if let Ok(SentPart {
            etag,
            sums,
            passing: Some(passing),
        }) = &sent
        {
            self.chunks.keep(passing, Some(*sums), etag.clone());
        }
        let failed = {
            let mut state = self.state();
            match sent {
                Ok(SentPart { etag, sums, .. }) => {
                    if !state.end_part(job, &etag, sums) {
                        self.inner.metrics.resent.inc();
                        self.chunks.forget(job.index + 1);
                    }
                    None
                }
                Err(error) => {
                    let has_failed = state.fail_part(job, Instant::now(), &error);
                    has_failed.then_some(error)
                }
            }
        };
        if let Err(error) = self.flush().await {
            let mut state = self.state();
            // Otherwise the part is at worst sent again after a crash, and its publish frees room.
            if state.draft().has_gone_bytes() {
                state.retry_mut().fail(error);
            }
        }
        // Writers that wait for room may get it now.
        self.inner.spool.space.nudge();
        self.evict_ahead();
        self.progress.send_replace(());
        match failed {
            None => self.kick(SendOccasion::Writing),
            Some(error) => self.kick_later(&error),
        }
    }

    /// Tries again after the pause. The last of the parts that failed together schedules it.
    fn kick_later(self: &Arc<Self>, error: &WriteError) {
        let (until, key) = {
            let state = self.state();
            (state.retry().pause_when_idle(), state.id().key.clone())
        };
        let Some(until) = until else {
            return;
        };
        match error {
            // An operator can fix this.
            WriteError::StorageFull => {
                tracing::warn!(%error, key = key.as_str(), "no part can be sent; trying again later");
            }
            _ => {
                tracing::debug!(%error, key = key.as_str(), "cannot send a part; trying again later")
            }
        }
        let (writing, stop) = (self.clone(), self.inner.core.stop.clone());
        self.inner.core.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(until) => writing.kick(SendOccasion::Writing),
                () = stop.cancelled() => {}
            }
        });
    }

    /// Copies bytes of the base into the spool, beside the written ones.
    async fn fill(self: &Arc<Self>, job: &PartJob, gap: ByteRange) -> Result<(), WriteError> {
        let mut at = gap.start;
        while at < gap.end {
            let piece = ByteRange::new(at, gap.end.min(at + FRAME_BYTES));
            let bytes = self.base_bytes(piece).await?;
            let _page = self.page.write().await;
            let file = self.file_for(job)?;
            file.blocking(move |file| file.write(piece.start, bytes))
                .await?;
            let new = self.state().record_fill(piece);
            self.inner.spool.space.take(new);
            at = piece.end;
        }
        Ok(())
    }

    /// Returns the upload for the parts; begins it with the first part.
    pub(crate) async fn upload(self: &Arc<Self>) -> Result<Upload, WriteError> {
        let _one = self.uploading.lock().await;
        loop {
            let (is_staged, key, headers, sums) = {
                let state = self.state();
                if let Some(upload) = state.upload().begun().cloned() {
                    return Ok(upload);
                }
                if state.phase().is_discarded() {
                    return Err(WriteError::Lost);
                }
                let is_staged = state.upload().is_staged();
                let key = match is_staged {
                    true => staging_key(&state.id().key),
                    false => state.id().key.clone(),
                };
                let headers = state.headers_to_begin();
                (is_staged, key, headers, state.part_sums())
            };
            let origin = self.source.origin.writing();
            let upload = origin.begin(&key, headers.clone(), sums).await?;
            let is_right = self.state().begin_upload(&upload, is_staged, headers);
            if is_right {
                self.flush().await?;
                return Ok(upload);
            }
            // The draft has another key by now, or was discarded.
            self.abandon_upload(upload);
        }
    }

    /// Handles the loss of the upload: its parts are sent again. If bytes exist nowhere else, they
    /// are lost, and later writes fail.
    pub(crate) fn lose_upload(self: &Arc<Self>, upload: &Upload) {
        let mut state = self.state();
        if state.upload().begun() != Some(upload) {
            return;
        }
        let key = upload.key.as_str();
        if state.draft().has_gone_bytes() {
            tracing::error!(
                key,
                "an upload is gone, and with it what had left the spool"
            );
            state.lose_sent_bytes();
            return;
        }
        tracing::warn!(key, "an upload is gone; beginning it anew");
        let left = state.forget_upload();
        drop(state);
        self.chunks.clear();
        left.into_iter()
            .for_each(|upload| self.abandon_upload(upload));
    }

    /// Handles a part that differs from the expected one, or a store that rejects parts of
    /// different sizes in one upload (R2). Sends all parts again that are here, and copies the
    /// others one by one.
    pub(crate) fn unsend(self: &Arc<Self>, upload: &Upload) {
        let goes_on = self.state().send_apart();
        if !goes_on {
            self.lose_upload(upload);
        }
    }
}
