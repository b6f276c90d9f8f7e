//! The phases of a draft. SEMANTICS says of each which bytes a reader sees in it, and the meaning of a crash.
//!
//! A phase is the product of five enums, each of which changes only here:
//!
//! | transition | content | promise | since close | queue | attempt |
//! | --- | --- | --- | --- | --- | --- |
//! | [`Phase::change`] | published: unpublished | current: behind | unchanged: changed | | |
//! | [`Phase::begin_change`] | | | unchanged: changed | | |
//! | [`Phase::replace_all`] | | | replaced | | |
//! | [`Phase::close`], [`Phase::close_for_queue`] | | | unchanged | | |
//! | [`Phase::begin_sync`] | | current | | | |
//! | [`Phase::fail_sync`] | | current: behind | | | |
//! | [`Phase::drop_promise`] | | none | | | |
//! | [`Phase::request`] | | | | requested | |
//! | [`Phase::begin_try`] | | | | requested: trying | |
//! | [`Phase::leave_queue`] | | | | idle | |
//! | [`Phase::begin_attempt`] | | | | | running |
//! | [`Phase::begin_edition`] | lost: unpublished | none | replaced | | not failed |
//! | [`Phase::end_attempt`], [`Phase::end_reading_back`] | | | | | idle or failed |
//! | [`Phase::lose`] | lost | | | | failed, if none runs |
//! | [`Phase::restore`] | lost: unpublished | | | | not failed |
//! | [`Phase::publish`] | published, unless discarded | | | | |
//! | [`Phase::discard`] | discarded | none | | | |
//!
//! A boolean question is a function of these; no field repeats an answer.

use crate::WriteError;
use crate::spool::journal::Record;

/// See the module documentation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    content: Content,
    promise: Promise,
    since_close: SinceClose,
    queue: QueueState,
    attempt: Attempt,
}

/// The relation of the content to the version in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Content {
    /// It is that version.
    #[default]
    Published,
    /// It differs from that version.
    Unpublished,
    /// It differs, and some of its bytes exist nowhere any more.
    Lost,
    /// The object was deleted, replaced or given up. Handles that were open read and write the draft on, in the
    /// spool alone, until the last one goes. `lost`: writes fail, as before.
    Discarded { lost: bool },
}

/// The promise of a `fsync` or `close`: the journal in the spool has a draft that counts after a
/// crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Promise {
    #[default]
    None,
    /// All of it is synced, or is being synced.
    Current,
    /// It was changed since, or the sync failed.
    Behind,
}

/// The writes since the last close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum SinceClose {
    #[default]
    Unchanged,
    /// A writer may be half way through.
    Changed,
    /// It was truncated to nothing: nothing of the closed version is left to publish.
    Replaced,
}

/// Whether the background queue has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum QueueState {
    #[default]
    Idle,
    /// A publish was requested since the last try began.
    Requested,
    /// No publish was requested since.
    Trying,
}

/// The publishing of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Attempt {
    #[default]
    Idle,
    /// The last one failed, or bytes were lost.
    Failed(WriteError),
    /// One is under way; no part is sent ahead. The error is that of the one before.
    Running(Option<WriteError>),
}

impl Phase {
    /// Returns the phase of a new object: also nothing is content to publish.
    pub(crate) fn created() -> Self {
        Self {
            content: Content::Unpublished,
            ..Self::default()
        }
    }

    /// Returns the phase of a draft that an earlier process left.
    pub(crate) fn recovered(promised: bool) -> Self {
        let promise = match promised {
            true => Promise::Current,
            false => Promise::None,
        };
        Self {
            promise,
            ..Self::created()
        }
    }

    /// Returns whether a handle has anything that its bucket's version has not.
    pub(crate) fn is_dirty(&self) -> bool {
        match self.content {
            Content::Published => false,
            Content::Unpublished | Content::Lost | Content::Discarded { .. } => true,
        }
    }

    /// Returns whether it is to be published.
    pub(crate) fn is_unpublished(&self) -> bool {
        matches!(self.content, Content::Unpublished | Content::Lost)
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(
            self.content,
            Content::Lost | Content::Discarded { lost: true }
        )
    }

    pub(crate) fn is_discarded(&self) -> bool {
        matches!(self.content, Content::Discarded { .. })
    }

    pub(crate) fn is_promised(&self) -> bool {
        self.promise != Promise::None
    }

    /// Returns whether the journal promises less than was written.
    pub(crate) fn is_behind(&self) -> bool {
        self.promise == Promise::Behind
    }

    /// Returns whether it is as its last writer closed it, and promised, so that readers may see it.
    pub(crate) fn is_closed_and_promised(&self) -> bool {
        self.content == Content::Unpublished && self.is_promised() && !self.is_unclosed()
    }

    /// Returns whether it was changed since the last close.
    pub(crate) fn is_unclosed(&self) -> bool {
        self.since_close != SinceClose::Unchanged
    }

    /// Returns whether the closed version was truncated to nothing since.
    pub(crate) fn is_replaced(&self) -> bool {
        self.since_close == SinceClose::Replaced
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.queue != QueueState::Idle
    }

    /// Returns whether a publish was requested since the last try began.
    pub(crate) fn is_requested(&self) -> bool {
        self.queue == QueueState::Requested
    }

    /// Returns whether an attempt to publish it is under way.
    pub(crate) fn is_publishing(&self) -> bool {
        matches!(self.attempt, Attempt::Running(_))
    }

    /// Returns the error of the last attempt.
    pub(crate) fn trouble(&self) -> Option<&WriteError> {
        match &self.attempt {
            Attempt::Idle => None,
            Attempt::Failed(error) => Some(error),
            Attempt::Running(before) => before.as_ref(),
        }
    }

    /// Returns whether it was refused for good.
    pub(crate) fn is_refused(&self) -> bool {
        self.trouble().is_some_and(|error| !error.is_passing())
    }

    /// A write begins, before a byte changes.
    pub(crate) fn begin_change(&mut self) {
        if self.since_close == SinceClose::Unchanged {
            self.since_close = SinceClose::Changed;
        }
    }

    /// It was written to, or a header was set.
    pub(crate) fn change(&mut self) {
        self.begin_change();
        self.fail_sync();
        if self.content == Content::Published {
            self.content = Content::Unpublished;
        }
    }

    /// It was truncated to nothing.
    pub(crate) fn replace_all(&mut self) {
        self.since_close = SinceClose::Replaced;
    }

    /// The last writer closed it or has gone.
    pub(crate) fn close(&mut self) {
        self.since_close = SinceClose::Unchanged;
    }

    /// A writer closed it, and it is to be published in the background.
    pub(crate) fn close_for_queue(&mut self) -> Record {
        self.close();
        Record::Closed
    }

    /// All of it is being synced; from here on a crash may find it.
    pub(crate) fn begin_sync(&mut self) {
        self.promise = Promise::Current;
    }

    /// The journal lacks something of it.
    pub(crate) fn fail_sync(&mut self) {
        if self.promise == Promise::Current {
            self.promise = Promise::Behind;
        }
    }

    /// Its files go, or another edition begins.
    pub(crate) fn drop_promise(&mut self) {
        self.promise = Promise::None;
    }

    /// Requests a publish in the background; returns whether the queue has to take it up.
    pub(crate) fn request(&mut self) -> bool {
        let is_new = !self.is_queued();
        self.queue = QueueState::Requested;
        is_new
    }

    /// The queue begins a try.
    pub(crate) fn begin_try(&mut self) {
        if self.is_queued() {
            self.queue = QueueState::Trying;
        }
    }

    pub(crate) fn leave_queue(&mut self) {
        self.queue = QueueState::Idle;
    }

    /// An attempt to publish it, or to make it readable, begins.
    pub(crate) fn begin_attempt(&mut self) {
        self.attempt = Attempt::Running(self.trouble().cloned());
    }

    /// The attempt to publish it has ended.
    pub(crate) fn end_attempt(&mut self, error: Option<WriteError>) {
        self.attempt = error.map_or(Attempt::Idle, Attempt::Failed);
    }

    /// The attempt to make it readable has ended.
    pub(crate) fn end_reading_back(&mut self) {
        self.end_attempt(self.trouble().cloned());
    }

    /// Bytes of it exist nowhere any more.
    pub(crate) fn lose(&mut self) {
        match &mut self.content {
            Content::Discarded { lost } => *lost = true,
            content => *content = Content::Lost,
        }
        self.set_trouble(Some(WriteError::Lost));
    }

    /// The lost bytes are truncated, and the rest is sent anew; returns what a journal must know.
    pub(crate) fn restore(&mut self) -> Option<Record> {
        if !self.is_lost() {
            return None;
        }
        self.forget_lost();
        self.set_trouble(None);
        Some(Record::Unsent)
    }

    /// Another edition begins, of which nothing is promised, closed, lost or refused.
    pub(crate) fn begin_edition(&mut self) {
        self.forget_lost();
        self.set_trouble(None);
        self.drop_promise();
        self.replace_all();
    }

    /// It is in the bucket.
    pub(crate) fn publish(&mut self) {
        if !self.is_discarded() {
            self.content = Content::Published;
        }
    }

    /// It was deleted, replaced or given up.
    pub(crate) fn discard(&mut self) {
        self.content = Content::Discarded {
            lost: self.is_lost(),
        };
        self.drop_promise();
    }

    fn forget_lost(&mut self) {
        match &mut self.content {
            Content::Discarded { lost } => *lost = false,
            Content::Lost => self.content = Content::Unpublished,
            Content::Published | Content::Unpublished => {}
        }
    }

    fn set_trouble(&mut self, error: Option<WriteError>) {
        match &mut self.attempt {
            Attempt::Running(before) => *before = error,
            attempt => *attempt = error.map_or(Attempt::Idle, Attempt::Failed),
        }
    }
}

#[cfg(test)]
mod tests;
