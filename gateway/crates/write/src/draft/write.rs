//! Writing bytes into the spool, and truncating.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
use tokio::task::spawn_blocking;

use crate::WriteError;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::spool::FILES_BYTES;
use crate::spool::space::Space;
use crate::task::run_to_completion;
use tidegate_plan::ByteRange;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::upload::SendOccasion;

/// Room reserved for a write. Released if the write does not begin.
pub(crate) struct ReservedRoom<'a> {
    space: &'a Space,
    bytes: u64,
}

impl ReservedRoom<'_> {
    /// Hands the room over to the write.
    fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for ReservedRoom<'_> {
    fn drop(&mut self) {
        self.space.give(self.bytes);
    }
}

/// The gate, held for the duration of a write.
pub(crate) enum GateGuard {
    Shared(#[expect(dead_code, reason = "held, not looked at")] OwnedRwLockReadGuard<()>),
    Exclusive(#[expect(dead_code, reason = "held, not looked at")] OwnedRwLockWriteGuard<()>),
}

/// The place of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WritePlace {
    /// At this offset.
    At(u64),
    /// At this offset, as far as the object goes.
    Within(u64),
    /// At the end at that moment.
    End,
}

impl WritePlace {
    pub(crate) fn offset(self) -> Option<u64> {
        match self {
            Self::At(offset) | Self::Within(offset) => Some(offset),
            Self::End => None,
        }
    }
}

/// A change of the length, or of the bytes at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Resize {
    /// To this length.
    To(u64),
    /// To this length, unless it is longer.
    AtLeast(u64),
    /// To zeros from the start of the range on, if the range goes to the end.
    Zero(ByteRange),
}

impl Resize {
    /// Returns the bytes that stay of `size`, and the new length.
    fn of(self, size: u64) -> (u64, u64) {
        match self {
            Self::To(to) => (size.min(to), to),
            Self::AtLeast(to) => (size, size.max(to)),
            Self::Zero(range) if range.end < size => (size, size),
            Self::Zero(range) => (size.min(range.start), size),
        }
    }
}

impl SharedDraft {
    /// Returns whether bytes that left the spool can be read back.
    pub(crate) fn can_read_back(&self) -> bool {
        self.state().upload().is_staged()
    }

    /// Reserves the room in the spool that a write of `length` bytes needs.
    pub(crate) async fn make_room(
        &self,
        offset: Option<u64>,
        length: u64,
    ) -> Result<ReservedRoom<'_>, WriteError> {
        let (growth, used, files) = {
            let mut state = self.state();
            let files = if state.file().is_none() {
                FILES_BYTES
            } else {
                0
            };
            let at = offset.unwrap_or_else(|| state.draft().size());
            let range = ByteRange::new(at, at.saturating_add(length));
            (
                state.draft().growth(range),
                state.room_mut().use_up(range),
                files,
            )
        };
        let needed = growth.saturating_sub(used);
        let space = &self.inner.spool.space;
        // Released if the caller gives up while it waits for the rest.
        let mut room = ReservedRoom { space, bytes: used };
        self.inner.reserve(needed + files).await?;
        // The files are counted when they are created; and a fill counts bytes for which room was set aside.
        space.give(files + used + needed - growth);
        room.bytes = growth;
        Ok(room)
    }

    /// Reserves room in the spool, for as long as the result is held.
    pub(crate) async fn reserve_room(&self, bytes: u64) -> Result<ReservedRoom<'_>, WriteError> {
        self.inner.reserve(bytes).await?;
        let space = &self.inner.spool.space;
        Ok(ReservedRoom { space, bytes })
    }

    /// Writes bytes into the spool at their offset.
    pub(crate) async fn write_range(
        self: &Arc<Self>,
        range: ByteRange,
        bytes: Bytes,
        held: GateGuard,
        room: ReservedRoom<'_>,
    ) -> Result<(), WriteError> {
        let file = self.file();
        let page = self.page.clone().read_owned().await;
        self.state().begin_write(range)?;
        let growth = room.keep();
        let length = bytes.len() as u64;
        if file.take_in(range.start, &bytes) {
            self.end_write(range, growth, Ok(()))?;
        } else {
            let writing = self.clone();
            // The write runs to its end, also if the caller stops waiting.
            let written = spawn_blocking(move || {
                let _held = (held, page);
                // A write that began must be ended, also after a panic.
                let written = catch_unwind(AssertUnwindSafe(|| file.write(range.start, bytes)));
                let written = written.unwrap_or_else(|_| Err(io::Error::other("a bug")));
                writing.end_write(range, growth, written)
            });
            written.await.map_err(|_| WriteError::Closing)??;
        }
        self.inner.metrics.written.inc_by(length);
        self.kick(SendOccasion::Writing);
        Ok(())
    }

    /// Copies borrowed bytes to the end, if that needs no wait for room, a lock or the disk.
    /// `false`: nothing was written.
    pub(crate) fn copy_in(self: &Arc<Self>, range: ByteRange, bytes: &[u8]) -> bool {
        let (Ok(_held), Ok(_page)) = (self.gate.try_read(), self.page.try_read()) else {
            return false;
        };
        let space = &self.inner.spool.space;
        let (file, room) = {
            let mut state = self.state();
            let goes_on = range.start == state.draft().size() && !state.phase().is_lost();
            let file = state.file().filter(|_| goes_on);
            let file = file.filter(|file| file.goes_on(range.start, bytes));
            let Some(file) = file.cloned() else {
                return false;
            };
            let bytes = state.draft().growth(range);
            if state.room().has_set_aside() || !space.try_take(bytes) {
                return false;
            }
            let room = ReservedRoom { space, bytes };
            if state.begin_write(range).is_err() {
                return false;
            }
            (file, room)
        };
        if !file.copy_in(range.start, bytes) {
            self.state().fail_write(range);
            return false;
        }
        let ended = self.end_write(range, room.keep(), Ok(()));
        self.inner.metrics.written.inc_by(range.len());
        self.kick(SendOccasion::Writing);
        ended.is_ok()
    }

    fn end_write(
        &self,
        range: ByteRange,
        growth: u64,
        written: io::Result<()>,
    ) -> Result<(), WriteError> {
        self.end_write_in(&mut self.state(), (range, growth), written)
    }

    fn end_write_in(
        &self,
        state: &mut DraftState,
        (range, growth): (ByteRange, u64),
        written: io::Result<()>,
    ) -> Result<(), WriteError> {
        let space = &self.inner.spool.space;
        if let Err(error) = written {
            state.fail_write(range);
            space.give(growth);
            return Err(error.into());
        }
        let grown = state.end_write(range, self.inner.core.now());
        // Two concurrent writes of the same new bytes reserved them twice.
        space.give(growth.saturating_sub(grown));
        space.take(grown.saturating_sub(growth));
        Ok(())
    }

    /// Makes a piece of the base, with these bytes, the draft's own, as far as no program has written to it or cut it
    /// meanwhile. A write makes a set time void, but these are no new bytes.
    pub(crate) async fn own_piece(
        self: &Arc<Self>,
        piece: ByteRange,
        bytes: Bytes,
    ) -> Result<(), WriteError> {
        // Before the gate: freeing room may need it.
        let room = self.make_room(Some(piece.start), piece.len()).await?;
        let _gate = self.gate.read().await;
        let _page = self.page.write().await;
        loop {
            let (gap, file) = {
                let mut state = self.state();
                let Some(gap) = state.draft().first_of_base(piece) else {
                    break;
                };
                state.begin_write(gap)?;
                (gap, self.file_of(&mut state))
            };
            let bytes = bytes.slice(gap.within(piece.start));
            let written = file.blocking(move |file| file.write(gap.start, bytes));
            let written = written.await;
            let mut state = self.state();
            let dated = Attributes::of(state.headers()).modified;
            self.end_write_in(&mut state, (gap, 0), written)?;
            let now = self.inner.core.now();
            state.set_attributes(now, |kept| kept.modified = kept.modified.or(dated));
        }
        drop(room);
        self.kick(SendOccasion::Writing);
        Ok(())
    }

    /// Changes the length or the end, and returns the length before. Waits for a publish under way; a caller that gives
    /// up then has changed nothing.
    pub(crate) async fn resize(self: &Arc<Self>, change: Resize) -> Result<u64, WriteError> {
        if let Resize::To(0) = change {
            return Ok(self.empty(None).await.unwrap_or_default());
        }
        let gate = self.gate.clone().write_owned().await;
        let page = self.page.clone().write_owned().await;
        let writing = self.clone();
        let work = async move {
            let _held = (gate, page);
            writing.resize_now(change).await
        };
        run_to_completion(&self.inner.core, work).await
    }

    async fn resize_now(self: &Arc<Self>, change: Resize) -> Result<u64, WriteError> {
        let before = self.state().draft().size();
        let (kept, size) = change.of(before);
        let freed = {
            let mut state = self.state();
            if (kept, size) == (before, before) {
                return Ok(before);
            }
            state.resize((kept, size), self.inner.core.now())?
        };
        let file = self.file();
        // Before bytes go: see `Record::Cut`. They go even if the record fails; otherwise they
        // would reappear when the draft grows.
        let appended = self.flush_durably().await;
        let cut = file.blocking(move |file| file.cut(kept)).await;
        self.inner.spool.space.give(freed);
        appended.and(cut.map_err(WriteError::from))?;
        Ok(before)
    }
}
