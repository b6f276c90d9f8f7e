//! Objects of one part at most: one request, at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::WriteError;
use super::published::{Published, Sent};
use super::writing::Writing;
use crate::engine::budget::Charge;
use crate::engine::spool::data::FRAME;
use crate::engine::spool::journal::Record;
use crate::engine::written::{Answered, Chunks, Known};
use crate::origin::{Guard, OriginError, Payload};
use crate::plan::{ByteRange, ETag, Version};

/// The tag of an object that is put in one request (S3, unless encrypted with keys of its own).
fn tag(pieces: &[Bytes]) -> ETag {
    ETag::of_bytes(pieces.iter().map(AsRef::as_ref))
}

impl Writing {
    /// An object of one part at most, in one request.
    pub(super) async fn put_whole(
        self: &Arc<Self>,
        size: u64,
        guard: Guard,
    ) -> Result<Published, WriteError> {
        let upload = self.state().upload.take();
        if let Some(upload) = upload {
            // It was larger once.
            let mut state = self.state();
            state.draft.forget_sent();
            state.records.push(Record::Unsent);
            drop(state);
            self.give_up(upload);
        }
        let _memory = self.memory(size.max(1)).await?;
        self.look(size).await?;
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < size {
            let end = size.min(at + FRAME);
            pieces.push(self.gather(ByteRange::new(at, end)).await?);
            at = end;
        }
        let (key, headers) = {
            let state = self.state();
            (state.id.key.clone(), state.headers.clone())
        };
        if guard != Guard::None {
            self.note_try(&pieces).await?;
        }
        let payload = self.told(Payload::pieces(pieces.clone()));
        let origin = self.source.origin.writing();
        let put = origin.put(&key, headers.clone(), payload, guard.clone());
        let core = &self.inner.core;
        let (id, profile, asked) = (self.id(), self.source.profile.load_full(), core.now());
        let put = core.change_key(&id, put);
        let cut = Chunks::cut(core, &profile, &pieces, false);
        let (put, chunks) = tokio::join!(put, cut);
        match put {
            Ok(written) => Ok(Published {
                known: Known::Answered(Answered::now(core, asked, written.answered)),
                version: Version {
                    etag: written.etag,
                    size,
                    last_modified: None,
                    version_id: written.version_id,
                    headers,
                },
                bytes: Sent::Whole(chunks),
            }),
            Err(error) if guard == Guard::None => Err(error.into()),
            Err(OriginError::Changed) => {
                let mut state = self.state();
                if state.tried.is_earlier() {
                    state.tries(tag(&pieces));
                }
                Err(WriteError::Changed)
            }
            Err(error) => {
                let (ours, asked) = (tag(&pieces), core.now());
                let found = self.look_for(&key, size, Some(&ours), 1).await;
                if let Ok(Some(version)) = found {
                    return Ok(Published::found(version, asked));
                }
                if !error.proves_undone() {
                    self.state().tries(ours);
                }
                Err(error.into())
            }
        }
    }

    /// Returns once what is in the spool reads as what was written there.
    async fn look(&self, size: u64) -> Result<(), WriteError> {
        let file = self.state().file.clone();
        match file {
            Some(file) if file.may_differ() => {
                let looked = file.blocking(move |file| file.look(ByteRange::new(0, size)));
                Ok(looked.await?)
            }
            _ => Ok(()),
        }
    }

    /// Memory for an object on its way: in turn from the share of such objects, however long that takes, for
    /// each of them ends in bounded time; and then from all.
    async fn memory(&self, bytes: u64) -> Result<[Charge; 2], WriteError> {
        let core = &self.inner.core;
        let share = core.put.in_turn(bytes).await;
        Ok([share, core.budget.demand(bytes).await?])
    }

    /// Notes what is about to be there, for the next process: it may need bytes of the version that this
    /// replaces, which nobody has then.
    async fn note_try(&self, pieces: &[Bytes]) -> Result<(), WriteError> {
        let needs_base = {
            let mut state = self.state();
            let needs_base = state.draft.base() > 0;
            // Else the same is put once more, and known by its tag.
            if !state.promised || !(needs_base || state.unsynced) {
                return Ok(());
            }
            state.tries(tag(pieces));
            needs_base
        };
        match needs_base {
            true => self.flush_durably().await,
            false => self.flush().await,
        }
    }

    /// Each piece that is taken of it for the first time is progress.
    fn told(self: &Arc<Self>, payload: Payload) -> Payload {
        let (writing, size) = (self.clone(), payload.len());
        let taken = AtomicU64::new(0);
        payload.observed(move |piece| {
            if taken.fetch_add(piece as u64, Ordering::Relaxed) < size {
                writing.progress.send_replace(());
            }
        })
    }
}
