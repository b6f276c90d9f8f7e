//! Putting bytes into the spool, at their place, and cutting them off.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
use tokio::task::spawn_blocking;

use super::WriteError;
use super::writing::Writing;
use crate::engine::spool::FILES;
use crate::engine::spool::journal::Record;
use crate::engine::spool::space::Space;
use crate::plan::ByteRange;
use crate::plan::upload::When;

/// Room taken for a write that has not begun; given back where it does not.
pub(super) struct Room<'a> {
    space: &'a Space,
    bytes: u64,
}

impl Room<'_> {
    /// The write takes it.
    fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.space.give(self.bytes);
    }
}

/// The gate, held as long as a write takes.
pub(super) enum Held {
    Shared(#[expect(dead_code, reason = "held, not looked at")] OwnedRwLockReadGuard<()>),
    Alone(#[expect(dead_code, reason = "held, not looked at")] OwnedRwLockWriteGuard<()>),
}

impl Writing {
    /// Whether what is gone can be read back.
    pub(super) fn can_read_back(&self) -> bool {
        self.state().hidden
    }

    /// Takes what a write of so many bytes will take of the spool.
    pub(super) async fn make_room(
        &self,
        offset: Option<u64>,
        length: u64,
    ) -> Result<Room<'_>, WriteError> {
        let (growth, files) = {
            let state = self.state();
            let files = if state.file.is_none() { FILES } else { 0 };
            let at = offset.unwrap_or_else(|| state.draft.size());
            let range = ByteRange::new(at, at.saturating_add(length));
            (state.draft.growth(range), files)
        };
        self.inner.reserve(growth + files).await?;
        // Counted when they are made.
        self.inner.spool.space.give(files);
        let space = &self.inner.spool.space;
        Ok(Room {
            space,
            bytes: growth,
        })
    }

    /// Puts bytes into the spool, at their place.
    pub(super) async fn put_in(
        self: &Arc<Self>,
        range: ByteRange,
        bytes: Bytes,
        held: Held,
        room: Room<'_>,
    ) -> Result<(), WriteError> {
        let file = self.file();
        let page = self.page.clone().read_owned().await;
        self.state().begin_write(range)?;
        let growth = room.keep();
        let length = bytes.len() as u64;
        if file.take_in(range.start, &bytes) {
            self.put_in_ended(range, growth, Ok(()))?;
        } else {
            let writing = self.clone();
            // To its end, also if nobody waits for that any more.
            let written = spawn_blocking(move || {
                let _held = (held, page);
                // What is begun here ends here.
                let written = catch_unwind(AssertUnwindSafe(|| file.write(range.start, bytes)));
                let written = written.unwrap_or_else(|_| Err(io::Error::other("a bug")));
                writing.put_in_ended(range, growth, written)
            });
            written.await.map_err(|_| WriteError::Closing)??;
        }
        self.inner.metrics.written.inc_by(length);
        self.kick(When::Writing);
        Ok(())
    }

    /// Puts bytes that are somebody else's behind all others, where nothing has to be waited for: no room, no
    /// lock, no disk. `false`: nothing was written.
    pub(super) fn copy_in(self: &Arc<Self>, range: ByteRange, bytes: &[u8]) -> bool {
        let (Ok(_held), Ok(_page)) = (self.gate.try_read(), self.page.try_read()) else {
            return false;
        };
        let space = &self.inner.spool.space;
        let (file, room) = {
            let mut state = self.state();
            let goes_on = range.start == state.draft.size() && !state.lost;
            let file = state.file.clone().filter(|_| goes_on);
            let Some(file) = file.filter(|file| file.goes_on(range.start, bytes)) else {
                return false;
            };
            let bytes = state.draft.growth(range);
            if !space.try_take(bytes) {
                return false;
            }
            let room = Room { space, bytes };
            if state.begin_write(range).is_err() {
                return false;
            }
            (file, room)
        };
        if !file.copy_in(range.start, bytes) {
            self.state().draft.fail_write(range);
            return false;
        }
        let ended = self.put_in_ended(range, room.keep(), Ok(()));
        self.inner.metrics.written.inc_by(range.len());
        self.kick(When::Writing);
        ended.is_ok()
    }

    fn put_in_ended(
        &self,
        range: ByteRange,
        growth: u64,
        written: io::Result<()>,
    ) -> Result<(), WriteError> {
        let space = &self.inner.spool.space;
        let mut state = self.state();
        if let Err(error) = written {
            state.draft.fail_write(range);
            space.give(growth);
            return Err(error.into());
        }
        let grown = state.draft.end_write(range);
        // Two that wrote the same new bytes side by side reserved them twice.
        space.give(growth.saturating_sub(grown));
        space.take(grown.saturating_sub(growth));
        state.unnoted.insert(range);
        state.touched(self.inner.core.now());
        Ok(())
    }

    /// Gives it another length. Waits for what is being published; who gives up then has changed
    /// nothing.
    pub(super) async fn cut(self: &Arc<Self>, size: u64) -> Result<(), WriteError> {
        let gate = self.gate.clone().write_owned().await;
        let page = self.page.clone().write_owned().await;
        let writing = self.clone();
        self.inner
            .core
            .to_its_end(async move {
                let _held = (gate, page);
                writing.cut_now(size).await
            })
            .await
    }

    async fn cut_now(self: &Arc<Self>, size: u64) -> Result<(), WriteError> {
        if size == 0 && self.begin_edition().await {
            return Ok(());
        }
        let freed = {
            let mut state = self.state();
            if state.draft.size() == size {
                return Ok(());
            }
            state.note_written();
            let freed = state.draft.truncate(size)?;
            state.records.push(Record::Cut { size });
            state.touched(self.inner.core.now());
            state.replaced |= size == 0;
            if state.lost && !state.draft.has_gone() {
                // What was lost is cut off; what is left is here, and is sent anew.
                state.lost = false;
                state.trouble = None;
                state.draft.forget_sent();
                state.records.push(Record::Unsent);
                state.upload = None;
            }
            freed
        };
        let file = self.file();
        // Before bytes go: see `Record::Cut`. They go in any case, or they would be there again when it
        // grows.
        let noted = self.flush_durably().await;
        let cut = file.blocking(move |file| file.cut(size)).await;
        self.inner.spool.space.give(freed);
        noted.and(cut.map_err(WriteError::from))
    }
}
