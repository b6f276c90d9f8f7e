//! Reading a closed draft that is not in the bucket yet.
//!
//! A writer was promised it, so readers of this process see the draft as it was closed. It has no
//! version and no tag yet. A reader holds the draft itself, and notices if it is written to again.
//! If a writer replaces it, the reader continues with the closed edition until the next one is
//! promised.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;

use crate::WriteError;
use crate::WritePath;
use crate::draft::edition::ClosedEdition;
use crate::draft::shared_draft::SharedDraft;
use tidegate_engine::{Error, ReadContext};
use tidegate_origin::write::Headers;
use tidegate_plan::{ByteRange, ObjectKey};

/// Bytes that are read from a draft at once.
const PIECE_BYTES: u64 = 256 << 10;

/// A draft as it was closed.
#[derive(Clone)]
pub struct ClosedDraft {
    writing: Arc<SharedDraft>,
    revision: u64,
    size: u64,
    headers: Headers,
    /// The closed edition, if a writer was replacing it already.
    replaced: Option<Arc<ClosedEdition>>,
}

impl fmt::Debug for ClosedDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedDraft")
            .field("writing", &self.writing)
            .finish_non_exhaustive()
    }
}

impl WritePath {
    /// Returns the draft of an object that was closed and promised, and is not in the bucket yet.
    /// Returns `None` also if some of its bytes have left the spool; the bucket's version is served
    /// until it is published, see [`WritePath::unreadable_draft`]. Costs one load if this process writes nothing.
    #[must_use]
    pub fn closed_draft(&self, source: &ReadContext, key: &ObjectKey) -> Option<ClosedDraft> {
        let writing = self.listed_draft(source, key)?;
        let state = writing.state();
        let replaced = state.replaced_closed_edition();
        let (revision, draft, headers) = match &replaced {
            _ if state.phase().is_closed_and_promised() => {
                (state.revision(), state.draft(), state.headers())
            }
            Some(before) => (before.revision, &before.draft, &before.headers),
            None => return None,
        };
        if draft.has_gone_bytes() {
            return None;
        }
        let (size, headers) = (draft.size(), headers.clone());
        let replaced = replaced.filter(|before| before.revision == revision);
        drop(state);
        Some(ClosedDraft {
            writing,
            revision,
            size,
            headers,
            replaced,
        })
    }
}

impl WritePath {
    /// Returns the draft of an object that was closed and promised, if bytes of it have left the spool. The bucket may
    /// have no version of the object yet. Costs one load if this process writes nothing.
    #[must_use]
    pub fn unreadable_draft(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
    ) -> Option<UnreadableDraft> {
        let writing = self.listed_draft(source, key)?;
        let is_unreadable = {
            let state = writing.state();
            state.phase().is_closed_and_promised() && state.draft().has_gone_bytes()
        };
        is_unreadable.then_some(UnreadableDraft(writing))
    }

    fn listed_draft(&self, source: &ReadContext, key: &ObjectKey) -> Option<Arc<SharedDraft>> {
        if self.drafted.load(Ordering::Acquire) == 0 {
            return None;
        }
        let drafts = self.drafts.get().and_then(Weak::upgrade)?;
        drafts.writings().get(&source.object(key)).cloned()
    }
}

/// A closed draft that readers cannot read before it is in the bucket.
pub struct UnreadableDraft(Arc<SharedDraft>);

impl fmt::Debug for UnreadableDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnreadableDraft").field(&self.0).finish()
    }
}

impl UnreadableDraft {
    /// Waits until it is published. `false`: it was refused or changed, or nothing of it was sent for as long as a writer
    /// waits for room.
    pub async fn wait_for_publish(&self) -> bool {
        let most = self.0.inner.settings.patience;
        self.0.wait_for_gone_bytes(most, most).await
    }
}

impl ClosedDraft {
    /// Returns its length, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the headers that its object will have.
    #[must_use]
    pub const fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Reads a range.
    #[must_use]
    pub fn read_at(&self, range: ByteRange) -> ClosedDraftReader {
        ClosedDraftReader {
            draft: self.clone(),
            left: range,
            waits: None,
        }
    }

    /// Returns the closed bytes: from the spool, or from the version that was published.
    async fn piece(self, range: ByteRange) -> Result<Bytes, Error> {
        let core = &self.writing.inner.core;
        let _charge = core.budget.demand(range.len()).await?;
        let read = self.read(range).await;
        let bytes = read.map_err(|error| match error {
            WriteError::Origin(error) => error,
            _ => Error::Changed,
        })?;
        if bytes.len() as u64 != range.len() {
            return Err(Error::Changed);
        }
        core.count_delivered(range.len());
        Ok(bytes)
    }

    async fn read(&self, range: ByteRange) -> Result<Bytes, WriteError> {
        if let Some(replaced) = self.replaced() {
            return self.writing.read_replaced(&replaced, range).await;
        }
        let read = self.writing.read_range(range).await;
        let is_same = {
            let state = self.writing.state();
            state.revision() == self.revision && !state.phase().is_discarded()
        };
        match self.replaced() {
            _ if is_same => read,
            // A writer has begun to replace it meanwhile.
            Some(replaced) => self.writing.read_replaced(&replaced, range).await,
            None => Err(WriteError::Changed),
        }
    }

    /// Returns the closed edition of this revision, if a writer replaces it.
    fn replaced(&self) -> Option<Arc<ClosedEdition>> {
        let since = || self.writing.state().replaced_closed_edition();
        let found = self.replaced.clone().or_else(since);
        found.filter(|edition| edition.revision == self.revision)
    }
}

/// The bytes of a range of a closed draft, in order. Ends with an error if the draft is written to
/// again or deleted.
pub struct ClosedDraftReader {
    draft: ClosedDraft,
    left: ByteRange,
    waits: Option<BoxFuture<'static, Result<Bytes, Error>>>,
}

impl fmt::Debug for ClosedDraftReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedDraftReader")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Stream for ClosedDraftReader {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let end = self.left.end.min(self.left.start + PIECE_BYTES);
        let next = ByteRange::new(self.left.start, end);
        let draft = self.draft.clone();
        let waits = self
            .waits
            .get_or_insert_with(|| Box::pin(draft.piece(next)));
        let piece = ready!(waits.as_mut().poll(cx));
        self.waits = None;
        if let Ok(piece) = &piece {
            self.left.start += piece.len() as u64;
        }
        Poll::Ready(Some(piece))
    }
}
