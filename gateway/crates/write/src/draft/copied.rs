//! Drafts that begin as a copy of another object's version.
//!
//! Such a version is the draft's base, under a key that is not the draft's own: the store copies its bytes at the
//! publish, and nothing is sent. The base exists only as long as its object is not changed. So no promise rests on it,
//! and no journal names it: before a `fsync` or a background close returns, and before this process changes the other
//! object, its bytes are read into the spool ([`SharedDraft::detach_base`]). If another process changes it first, the
//! bytes that are cached count, and a draft that lacks others is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_core::future::BoxFuture;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::draft::base_version::BaseVersion;
use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::publish::staging_key::is_staging_key;
use crate::spool::data::FRAME_BYTES;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError, Writer};
use tidegate_engine::{Error, Object};
use tidegate_plan::parts::MAX_OBJECT;
use tidegate_plan::{ByteRange, ObjectId};

impl Writer {
    /// Continues the draft with a range of a published version, which the store copies at the publish. Returns whether
    /// it did: only if the bytes have the same offsets here, the draft begins with them or with earlier ones of the
    /// version, and nothing of it is promised or sent. Waits for a publish under way.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`].
    pub async fn copy_published(
        &self,
        source: &Object,
        range: ByteRange,
    ) -> Result<bool, WriteError> {
        if range.end > MAX_OBJECT {
            return Err(WriteError::TooLarge);
        }
        if range.end > source.version().size || is_staging_key(source.key().as_str()) {
            return Ok(false);
        }
        let source = BaseVersion {
            key: source.key().clone(),
            version: source.version().clone(),
        };
        let writing = &self.writing;
        let held = [
            exclusive(&writing.gate).await,
            exclusive(&writing.page).await,
        ];
        let taken = {
            let mut state = writing.state();
            let taken = state.take_copy(&source, range);
            if taken.is_some() {
                // Under the lock of the state: see `detach_copies_of`.
                writing.inner.has_copies.store(true, Ordering::SeqCst);
                state.note_change(writing.inner.core.now());
            }
            taken
        };
        drop(held);
        let is_taken = taken.is_some();
        writing.delete_staged_base(taken.flatten());
        Ok(is_taken)
    }
}

async fn exclusive(lock: &Arc<RwLock<()>>) -> OwnedRwLockWriteGuard<()> {
    lock.clone().write_owned().await
}

impl Drafts {
    /// Makes the drafts that began as copies of an object independent of it, because it is about to change.
    pub(crate) async fn detach_copies_of(&self, id: &ObjectId) {
        for copy in self.copies_of(id) {
            if let Err(error) = copy.detach_base().await {
                let key = copy.id().key;
                tracing::warn!(%error, key = key.as_str(), "a copy could not be made independent of its source, which changes");
            }
        }
    }

    /// Returns the drafts that began as copies of an object.
    fn copies_of(&self, id: &ObjectId) -> Vec<Arc<SharedDraft>> {
        // Held throughout: another caller must not find the flag cleared before all drafts were looked at.
        let writings = self.writings();
        let of_bucket = self.core.of_bucket(id);
        // A draft that takes a copy after it was looked at sets this again.
        if !self.has_copies.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        let is_of_it = |writing: &&Arc<SharedDraft>| {
            let state = writing.state();
            let Some(base) = state.copied_base() else {
                return false;
            };
            self.has_copies.store(true, Ordering::SeqCst);
            let source = ObjectId {
                origin: state.id().origin,
                key: base.key.clone(),
            };
            source.key == id.key && self.core.of_bucket(&source) == of_bucket
        };
        writings.values().filter(is_of_it).cloned().collect()
    }
}

impl SharedDraft {
    /// Reads the bytes of a copied base into the spool, and gives the base up. A caller that holds the gate may call
    /// it. If the version is gone, and the cache lacks bytes of it, the draft is lost.
    ///
    /// # Errors
    /// [`WriteError::Full`], [`WriteError::Spool`], [`WriteError::Lost`], the origin's.
    pub(crate) fn detach_base(self: &Arc<Self>) -> BoxFuture<'static, Result<(), WriteError>> {
        let writing = self.clone();
        // Boxed, because it may wait for room, and another draft that leaves the spool is synced first.
        Box::pin(async move {
            let mut at = 0;
            while let Some(base) = writing.next_copied(at) {
                let Some((base, piece)) = base else {
                    let _page = writing.page.write().await;
                    writing.state().leave_copied_base();
                    at = 0;
                    continue;
                };
                at = piece.end;
                // A write to the disk that outlives its caller must keep the lock of the pages.
                let (draft, inner) = (writing.clone(), writing.inner.clone());
                let kept = async move { draft.keep_piece(&base, piece).await };
                run_to_completion(&inner.core, kept).await?;
            }
            Ok(())
        })
    }

    /// Returns a copied base with a range from `at` on that only it has. `None`: there is no such base; `Some(None)`: the
    /// spool has the rest.
    fn next_copied(&self, at: u64) -> Option<Option<(BaseVersion, ByteRange)>> {
        let state = self.state();
        let base = state.copied_base()?;
        let gap = state.draft().first_of_base(ByteRange::new(at, u64::MAX));
        let piece =
            |gap: ByteRange| ByteRange::new(gap.start, gap.end.min(gap.start + FRAME_BYTES));
        Some(gap.map(|gap| (base.clone(), piece(gap))))
    }

    /// Reads a piece of a copied base into the spool, unless it was written, cut or copied anew meanwhile.
    async fn keep_piece(
        self: &Arc<Self>,
        base: &BaseVersion,
        piece: ByteRange,
    ) -> Result<(), WriteError> {
        let bytes = match self.bytes_of(Some(base), piece).await {
            Err(WriteError::Changed) => {
                let mut state = self.state();
                if state.copied_base().is_some_and(|now| now.is(base)) {
                    state.step(Step::Lose);
                }
                return Err(WriteError::Lost);
            }
            read => read?,
        };
        let room = self.reserve_room(piece.len()).await?;
        let _page = self.page.write().await;
        loop {
            let gap = {
                let mut state = self.state();
                let same = state.copied_base().is_some_and(|now| now.is(base));
                let gap = same.then(|| state.draft().first_of_base(piece)).flatten();
                // A discarded draft has no base any more, and gets no new file.
                gap.map(|gap| (gap, self.file_of(&mut state)))
            };
            let Some((gap, file)) = gap else { break };
            let bytes = bytes.slice(gap.within(piece.start));
            file.blocking(move |file| file.write(gap.start, bytes))
                .await?;
            let filled = self.state().record_fill(gap);
            self.inner.spool.space.take(filled);
        }
        drop(room);
        self.progress.send_replace(());
        Ok(())
    }

    /// Makes the draft independent of a source that the bucket has in this version no more.
    ///
    /// # Errors
    /// Those of [`Self::detach_base`].
    pub(crate) async fn leave_source(self: &Arc<Self>) -> Result<(), WriteError> {
        let source = {
            let state = self.state();
            let base = state.copied_base();
            base.map(|base| ObjectId {
                origin: state.id().origin,
                key: base.key.clone(),
            })
        };
        if let Some(source) = source {
            self.inner.engine.doubt_key_now(&source).await;
        }
        self.detach_base().await
    }

    /// Returns whether a publish failed because the copied version is gone, or may be.
    pub(crate) fn lacks_source(&self, error: &WriteError) -> bool {
        let is_gone = matches!(
            error,
            WriteError::Changed | WriteError::Origin(Error::NotFound)
        );
        is_gone && self.state().copied_base().is_some()
    }
}
