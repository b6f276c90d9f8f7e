//! A handle on an object that is being written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::write::{GateGuard, Resize, WritePlace};
use crate::{Commit, Drafts, WriteError};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::parts::MAX_OBJECT;
use tidegate_plan::{ByteRange, ObjectId, ObjectKey};

/// A handle. All handles on one key share one draft: each reads at once the bytes that another has
/// written.
///
/// A drop of the last one without [`Writer::commit`] commits the written bytes in the background.
/// So does the end of the process without a commit.
#[derive(Debug)]
pub struct Writer {
    pub(crate) writing: Arc<SharedDraft>,
}

impl Writer {
    /// Returns another handle on a draft; `None` if the draft has just left the table.
    pub(crate) fn join(inner: &Arc<Drafts>, writing: Arc<SharedDraft>) -> Option<Self> {
        let writings = inner.writings();
        let mut state = writing.state();
        let listed = writings.get(state.id());
        if !listed.is_some_and(|there| Arc::ptr_eq(there, &writing)) {
            return None;
        }
        state.handles_mut().open();
        drop(state);
        drop(writings);
        Some(Self { writing })
    }

    /// Returns a handle on the draft that is listed under a key; a rename may be publishing it under another one.
    pub(crate) fn of_listed(inner: &Drafts, id: &ObjectId) -> Option<Self> {
        let writings = inner.writings();
        let writing = writings.get(id)?.clone();
        writing.state().handles_mut().open();
        drop(writings);
        Some(Self { writing })
    }

    /// Returns the object's key, which a rename may have changed.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.writing.state().id().key.clone()
    }

    /// Returns its current length, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.writing.state().draft().size()
    }

    /// Returns whether it differs from the bucket's version.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.writing.state().phase().is_dirty()
    }

    /// Returns whether it is as it was closed, and the publish of that close failed.
    #[must_use]
    pub fn is_left_by_close(&self) -> bool {
        let state = self.writing.state();
        let is_closed = state.phase().is_unpublished() && !state.phase().is_unclosed();
        is_closed && state.phase().trouble().is_some()
    }

    /// Counts a change of its bytes that the caller is about to make, for [`Writer::changes`].
    pub fn count_change(&self) {
        self.writing.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of changes that were counted through all handles on the draft. A caller that counts its own as
    /// well knows whether another one has changed it.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.writing.changes.load(Ordering::Relaxed)
    }

    /// Writes bytes at an offset. A gap between the end and the offset becomes zeros. Waits while
    /// the spool is full.
    ///
    /// # Errors
    /// [`WriteError::Full`], [`WriteError::Gone`], [`WriteError::TooLarge`], [`WriteError::Spool`],
    /// [`WriteError::Lost`]. After an error the bytes of the range are undefined, and all others as they were.
    pub async fn write_at(&self, offset: u64, bytes: Bytes) -> Result<(), WriteError> {
        self.write(WritePlace::At(offset), bytes).await.map(drop)
    }

    /// Appends bytes at once, if `offset` is the end, the bytes do not begin with a whole block,
    /// and no wait is needed. `false`: nothing was written. Does not block, and copies once less
    /// than [`Writer::write_at`].
    #[must_use]
    pub fn write_now(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        let is_some = offset < end && end <= MAX_OBJECT;
        is_some && self.writing.copy_in(ByteRange::new(offset, end), bytes)
    }

    /// Appends bytes at the end at that moment; returns the offset.
    ///
    /// # Errors
    /// As for [`Writer::write_at`].
    pub async fn append(&self, bytes: Bytes) -> Result<u64, WriteError> {
        self.write(WritePlace::End, bytes).await
    }

    pub(crate) async fn write(
        &self,
        place: WritePlace,
        mut bytes: Bytes,
    ) -> Result<u64, WriteError> {
        let (writing, offset) = (&self.writing, place.offset());
        writing.state().check_not_lost()?;
        loop {
            // Before the gate: freeing room may need it.
            let room = writing.make_room(offset, bytes.len() as u64).await?;
            let held = match place {
                WritePlace::At(_) => GateGuard::Shared(writing.gate.clone().read_owned().await),
                // The end must stay where it is.
                WritePlace::Within(_) | WritePlace::End => {
                    GateGuard::Exclusive(writing.gate.clone().write_owned().await)
                }
            };
            let at = offset.unwrap_or_else(|| self.size());
            if let WritePlace::Within(at) = place {
                let rest = self.size().saturating_sub(at);
                bytes.truncate(usize::try_from(rest).unwrap_or(usize::MAX));
            }
            let end = at.checked_add(bytes.len() as u64);
            let end = end.filter(|end| *end <= MAX_OBJECT);
            let range = ByteRange::new(at, end.ok_or(WriteError::TooLarge)?);
            if range.is_empty() {
                return Ok(at);
            }
            match writing.write_range(range, bytes.clone(), held, room).await {
                Ok(()) => return Ok(at),
                Err(WriteError::Gone(_)) if writing.can_read_back() => {}
                Err(error) => return Err(error),
            }
            writing.read_back().await?;
        }
    }

    /// Reads bytes, as far as the object goes: those written by any handle, and those of the base.
    ///
    /// # Errors
    /// [`WriteError::Gone`] if the bytes have left the spool and the upload is not complete.
    pub async fn read_at(&self, range: ByteRange) -> Result<Bytes, WriteError> {
        match self.writing.read_range(range).await {
            Err(WriteError::Gone(_)) if self.writing.can_read_back() => {
                self.writing.read_back().await?;
                self.writing.read_range(range).await
            }
            read => read,
        }
    }

    /// Waits for the bytes that [`Writer::read_at`] has reported as [`WriteError::Gone`], if the object is closed: they can
    /// be read once it is in the bucket. Returns whether the caller may try again. `false`: the object is not closed or was
    /// refused, or nothing of it was sent within `most`.
    pub async fn wait_for_gone_bytes(&self, most: Duration, in_all: Duration) -> bool {
        self.writing.wait_for_gone_bytes(most, in_all).await
    }

    /// Changes the length. Truncates the rest, or appends zeros.
    ///
    /// # Errors
    /// [`WriteError::Gone`], [`WriteError::TooLarge`], [`WriteError::Spool`].
    pub async fn truncate(&self, size: u64) -> Result<(), WriteError> {
        self.resize(Resize::To(size)).await.map(drop)
    }

    /// Appends zeros up to a length. Does nothing if the object is longer by then.
    ///
    /// # Errors
    /// As for [`Writer::truncate`].
    pub async fn grow(&self, size: u64) -> Result<(), WriteError> {
        self.resize(Resize::AtLeast(size)).await.map(drop)
    }

    /// Changes the length or the end; returns the length before.
    pub(crate) async fn resize(&self, change: Resize) -> Result<u64, WriteError> {
        if let Resize::To(size) | Resize::AtLeast(size) = change
            && size > MAX_OBJECT
        {
            return Err(WriteError::TooLarge);
        }
        loop {
            match self.writing.resize(change).await {
                Err(WriteError::Gone(_)) if self.writing.can_read_back() => {
                    self.writing.read_back().await?;
                }
                resized => return resized,
            }
        }
    }

    /// Makes the written bytes durable on the local disk (`fsync`), without publishing. After a
    /// crash of the process or the machine they are still there, and are committed.
    ///
    /// # Errors
    /// [`WriteError::Spool`], [`WriteError::Lost`].
    pub async fn sync(&self) -> Result<(), WriteError> {
        self.writing.state().check_not_lost()?;
        match self.is_dirty() {
            true => self.writing.sync().await,
            false => Ok(()),
        }
    }

    /// Publishes the written bytes (a `close` of a handle that wrote). With [`Commit::Background`], and for a new file with
    /// a temporary name, makes them durable and queues them. A new file whose name the store may refuse is published
    /// at once all the same, if the bucket answers within some seconds. Does nothing if nothing was written.
    ///
    /// # Errors
    /// The reason of the failure. The object in the bucket is then the one from before.
    pub async fn commit(&self, commit: Commit) -> Result<(), WriteError> {
        if !self.is_dirty() {
            return Ok(());
        }
        match commit {
            Commit::Close if !self.writing.state().may_close_early() => self.publish().await,
            Commit::Close | Commit::Background => self.close_in_background().await,
        }
    }

    /// Makes everything durable and queues it. A copy of another object is published at once, if the bucket answers:
    /// that sends no bytes, and the spool need not have them. So is an object whose name the store may refuse: its program
    /// is told, and the draft does not wait for ever. If the bucket does not answer in time, its publish goes on behind the
    /// program's back.
    async fn close_in_background(&self) -> Result<(), WriteError> {
        let (is_copied, is_asked) = {
            let state = self.writing.state();
            let may_be_refused = state.may_be_refused() && !state.awaits_rename();
            (state.copied_base().is_some(), may_be_refused)
        };
        let published = match (is_copied, is_asked) {
            (true, _) => Some(self.publish().await),
            (false, true) => {
                let most = self.writing.inner.settings.verdict_wait();
                timeout(most, self.publish()).await.ok()
            }
            (false, false) => None,
        };
        match published {
            Some(Err(error)) if error.is_passing() => {}
            Some(done) => return done,
            None => {}
        }
        self.writing.close_in_background().await
    }

    /// Publishes the written bytes, whatever [`Commit`] is configured.
    ///
    /// # Errors
    /// As for [`Writer::commit`].
    pub async fn publish(&self) -> Result<(), WriteError> {
        self.writing.state().step(Step::Close);
        self.writing.commit().await
    }

    /// Queues the draft, which the caller calls complete, for publishing in the background; unless
    /// it was deleted or refused for good.
    pub fn publish_behind(&self) {
        let due = {
            let mut state = self.writing.state();
            state.step(Step::Close);
            state.phase().is_unpublished() && !state.phase().is_refused()
        };
        if due {
            self.writing.enqueue();
        }
    }

    /// Returns once no publish of it is under way.
    pub async fn wait_for_publish(&self) {
        let _shared = self.writing.gate.read().await;
    }

    /// Changes the attributes that the object will have.
    pub async fn set_attributes(&self, change: impl FnOnce(&mut Attributes)) {
        let _shared = self.writing.gate.read().await;
        let now = self.writing.inner.core.now();
        self.writing.state().set_attributes(now, change);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.writing.release();
    }
}
