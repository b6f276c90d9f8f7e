//! Sending parts: as many at once as there are streams, while the object is still being written.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::writing::{State, Writing};
use super::{STREAMS, WriteError};
use crate::engine::Error;
use crate::engine::core::caught;
use crate::engine::spool::data::FRAME;
use crate::engine::spool::file::SpoolFile;
use crate::engine::spool::journal::Record;
use crate::engine::written::Passing;
use crate::origin::payload::Frames;
use crate::origin::write::Headers;
use crate::origin::{CompletedPart, OriginError, PartSums, Payload, Sums, Upload};
use crate::plan::retry::Backoff;
use crate::plan::upload::{Job, When};
use crate::plan::{ByteRange, ETag, ObjectKey};

/// A part that the store has.
struct SentPart {
    etag: ETag,
    sums: Sums,
    /// Its bytes as they passed by, if they are to be kept.
    passing: Option<Arc<Passing>>,
}

/// How long sending ahead pauses after a failure, which the origin's own retries did not mend.
const PAUSE: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(30),
};

impl Writing {
    /// Begins to send whatever wants to be sent now.
    pub(super) fn kick(self: &Arc<Self>, when: When) {
        loop {
            let job = {
                let mut state = self.state();
                let paused = state.not_before.is_some_and(|until| Instant::now() < until);
                let held_up = when != When::Closing && (paused || state.closing);
                if state.sending >= STREAMS || state.removed || held_up {
                    return;
                }
                let Some(job) = state.draft.next(when) else {
                    return;
                };
                state.draft.begin_send(&job);
                state.sending += 1;
                job
            };
            let writing = self.clone();
            let stop = self.inner.core.stop.clone();
            self.inner.core.spawn(async move {
                let sent = tokio::select! {
                    sent = caught(writing.send(&job)) => sent,
                    () = stop.cancelled() => Err(WriteError::Closing),
                };
                writing.sent(&job, sent).await;
            });
        }
    }

    /// Sends one part, after its bytes that are the base's were read.
    async fn send(self: &Arc<Self>, job: &Job) -> Result<SentPart, WriteError> {
        let _stream = self.inner.streams.acquire().await;
        let _memory = self.inner.core.budget.demand(2 * FRAME).await?;
        for gap in &job.fill {
            self.fill(job, *gap).await?;
        }
        // Else a crash would find what was promised replaced in the store by what was not, and by a part that
        // no journal knows.
        let replaces = |state: &State| state.replaces_promised(job.index);
        let is_replaced = replaces(&self.state());
        if is_replaced {
            self.sync_if(replaces).await?;
        }
        let file = self.file();
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
            // Given up from here while this part was on its way: it is sent again, and nothing has failed.
            Err(OriginError::NoSuchUpload) if self.state().upload.as_ref() != Some(&upload) => {
                Err(WriteError::Origin(Error::Unavailable))
            }
            Err(OriginError::NoSuchUpload) => {
                self.lost(&upload);
                Err(WriteError::Lost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of a part, which pass by as they are taken; each piece that is taken of them is progress.
    fn frames(
        self: &Arc<Self>,
        file: Arc<SpoolFile>,
        range: ByteRange,
        passing: Option<Arc<Passing>>,
    ) -> Frames {
        let writing = self.clone();
        Arc::new(move || {
            let (writing, passing) = (writing.clone(), passing.clone());
            let number = passing.as_ref().map(|it| it.starts(&writing.inner.core));
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

    async fn sent(self: &Arc<Self>, job: &Job, sent: Result<SentPart, WriteError>) {
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
            state.sending -= 1;
            let mut failed = None;
            let current = state.draft.is_current(job);
            match sent {
                Ok(SentPart { etag, sums, .. }) => {
                    state.failures = 0;
                    state.not_before = None;
                    state.note_written();
                    if state.draft.end_send(job, Some(etag.clone())) {
                        state.sums.insert(job.index, sums);
                        let length = job.range.len();
                        let sent = Record::part(job.index, length, &etag, sums);
                        state.records.push(sent);
                    } else {
                        self.inner.metrics.resent.inc();
                        self.chunks.forget(job.index + 1);
                    }
                }
                Err(error) => {
                    state.draft.end_send(job, None);
                    // What was written to while it was read is no failure. Nobody's part is current of an
                    // upload that is gone.
                    if current || error == WriteError::Lost {
                        state.not_before = Some(Instant::now() + PAUSE.pause(state.failures, 1.0));
                        state.failures = state.failures.saturating_add(1);
                        state.failure = Some(error.clone());
                        state.hold_no_memory();
                        failed = Some(error);
                    }
                }
            }
            failed
        };
        if let Err(error) = self.flush().await {
            let mut state = self.state();
            // Else the worst is that it is sent again after a crash; and what is published frees room.
            if state.draft.has_gone() {
                state.failure = Some(error);
            }
        }
        // Room may be made of it now, for those who wait for some.
        self.inner.spool.space.nudge();
        self.evict_ahead();
        self.progress.send_replace(());
        match failed {
            None => self.kick(When::Writing),
            Some(error) => self.kick_later(&error),
        }
    }

    /// Looks again once the pause is over; the last of those that failed together does.
    fn kick_later(self: &Arc<Self>, error: &WriteError) {
        let state = self.state();
        let (until, last) = (state.not_before, state.sending == 0);
        let key = state.id.key.clone();
        drop(state);
        let Some(until) = until.filter(|_| last) else {
            return;
        };
        match error {
            // What an operator mends.
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
                () = tokio::time::sleep_until(until) => writing.kick(When::Writing),
                () = stop.cancelled() => {}
            }
        });
    }

    /// Brings bytes of the base into the spool, beside those that were written.
    async fn fill(self: &Arc<Self>, job: &Job, gap: ByteRange) -> Result<(), WriteError> {
        let mut at = gap.start;
        while at < gap.end {
            let piece = ByteRange::new(at, gap.end.min(at + FRAME));
            let bytes = self.base_bytes(piece).await?;
            let file = self.file();
            let _page = self.page.write().await;
            if !self.state().draft.is_current(job) {
                return Ok(());
            }
            file.blocking(move |file| file.write(piece.start, bytes))
                .await?;
            let new = self.state().draft.filled(piece);
            self.inner.spool.space.take(new);
            at = piece.end;
        }
        Ok(())
    }

    /// The upload that parts go to; begun when the first is sent.
    pub(super) async fn upload(self: &Arc<Self>) -> Result<Upload, WriteError> {
        let _one = self.uploading.lock().await;
        loop {
            let (hidden, key, headers, sums) = {
                let state = self.state();
                if let Some(upload) = state.upload.clone() {
                    return Ok(upload);
                }
                let key = match state.hidden {
                    true => hidden_key(&state.id.key),
                    false => state.id.key.clone(),
                };
                (state.hidden, key, state.headers.clone(), state.part_sums())
            };
            let origin = self.source.origin.writing();
            let upload = origin.begin(&key, headers.clone(), sums).await?;
            if self.begun(&upload, hidden, headers) {
                self.flush().await?;
                return Ok(upload);
            }
            // It goes elsewhere by now, or nowhere.
            self.give_up(upload);
            if self.state().removed {
                return Err(WriteError::Lost);
            }
        }
    }

    /// Whether an upload that was begun is still the one that parts are to go to.
    fn begun(&self, upload: &Upload, hidden: bool, headers: Headers) -> bool {
        let mut state = self.state();
        if state.removed || state.hidden != hidden || (!hidden && state.id.key != upload.key) {
            return false;
        }
        state.records.push(Record::upload(upload, &headers));
        state.begun_with = headers;
        state.upload = Some(upload.clone());
        true
    }

    /// The upload is not there any more: what was sent is sent again. Where bytes were nowhere else,
    /// they are lost, and whoever writes on is told.
    pub(super) fn lost(self: &Arc<Self>, upload: &Upload) {
        let mut state = self.state();
        if state.upload.as_ref() != Some(upload) {
            return;
        }
        let key = upload.key.as_str();
        state.completing = None;
        if state.draft.has_gone() {
            tracing::error!(
                key,
                "an upload is gone, and with it what had left the spool"
            );
            state.lost = true;
            state.trouble = Some(WriteError::Lost);
            return;
        }
        tracing::warn!(key, "an upload is gone; beginning it anew");
        state.draft.forget_sent();
        state.records.push(Record::Unsent);
        let left = state.upload.take();
        drop(state);
        self.chunks.clear();
        left.into_iter().for_each(|upload| self.give_up(upload));
    }

    /// A part is not the one that it was thought to be, or the store takes none of different sizes in one
    /// upload (R2): all that can be are sent again, and copied one by one.
    pub(super) fn unsend(self: &Arc<Self>, upload: &Upload) {
        let mut state = self.state();
        state.apart = true;
        if state.draft.has_gone() {
            state.completing = None;
            state.draft.unsend_local();
        } else {
            drop(state);
            self.lost(upload);
        }
    }
}

impl State {
    fn replaces_promised(&self, index: u32) -> bool {
        self.promised && self.draft.replaces_gone(index)
    }

    /// What the parts of an upload are to carry that begins now.
    fn part_sums(&self) -> PartSums {
        match self.draft.may_copy() {
            true => PartSums::Crc64,
            false => PartSums::Crc32c,
        }
    }

    /// The parts that an upload is completed of, as they are listed.
    pub(super) fn listed(&self, upload: &Upload, parts: Vec<(u32, ETag)>) -> Vec<CompletedPart> {
        let sums = |number: u32| self.sums.get(&(number - 1));
        let listed = parts.into_iter().map(|(number, etag)| CompletedPart {
            number,
            etag,
            crc32c: sums(number).and_then(|it| upload.sums.listed(*it)),
        });
        listed.collect()
    }
}

/// The beginning of the name of a hidden key; 32 hexadecimal digits follow.
const HIDDEN: &str = ".tidegate-";

/// Whether a key is one that [`hidden_key`] makes.
pub(super) fn is_hidden(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    let digits = name.strip_prefix(HIDDEN).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A key beside the object's own, which nobody lists by chance and which tells whose it is.
fn hidden_key(key: &ObjectKey) -> ObjectKey {
    let folder = key
        .as_str()
        .rfind('/')
        .map_or("", |at| &key.as_str()[..=at]);
    let name = format!("{HIDDEN}{:016x}{:016x}", super::random(), super::random());
    let full = ObjectKey::new(&format!("{folder}{name}"));
    // A folder so long that the name does not fit below it: the top has room.
    full.unwrap_or_else(|_| ObjectKey::new(&name).expect("a short name is a key"))
}
