//! The phases of a draft. SEMANTICS says of each which bytes a reader sees in it, and the meaning of a crash.
//!
//! A phase is the product of five enums, each of which changes only in its own `after`:
//!
//! | step | content | promise | since close | queue | attempt |
//! | --- | --- | --- | --- | --- | --- |
//! | [`Step::Change`] | published: unpublished | current, beginning: behind | unchanged: changed | | |
//! | [`Step::BeginChange`] | | | unchanged: changed | | |
//! | [`Step::ReplaceAll`] | | | replaced | | |
//! | [`Step::Close`] | | | unchanged | | |
//! | [`Step::BeginSync`] | | beginning, unless current or discarded | | | |
//! | [`Step::EndSync`] | | beginning: current | | | |
//! | [`Step::FailSync`] | | current, beginning: behind | | | |
//! | [`Step::DropPromise`] | | none | | | |
//! | [`Step::Request`] | | | | requested | |
//! | [`Step::BeginTry`] | | | | requested: trying | |
//! | [`Step::LeaveQueue`] | | | | idle | |
//! | [`Step::BeginAttempt`] | | | | | running |
//! | [`Step::BeginEdition`] | lost: unpublished | none | replaced | | not failed |
//! | [`Step::EndAttempt`] | | | | | failed, or idle: always if published |
//! | [`Step::EndReadingBack`] | | | | | idle or failed |
//! | [`Step::Lose`] | lost | | | | failed, if none runs |
//! | [`Step::Restore`] | lost: unpublished | | | | not failed |
//! | [`Step::Publish`] | published, unless discarded | | | | |
//! | [`Step::Discard`] | discarded | none | | | |
//!
//! A boolean question is a function of these; no field repeats an answer. Only `DraftState` takes steps, and queues the
//! journal records of a step with it.

use crate::WriteError;

/// See the module documentation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    content: Content,
    promise: Promise,
    since_close: WritesSinceClose,
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
    /// All of it is being synced: a crash may find it, and its writer was not told so.
    Beginning,
    /// All of it is synced, or is being synced once more.
    Current,
    /// It was changed since, or the sync failed.
    Behind,
}

/// The writes since the last close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum WritesSinceClose {
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

/// A step from one phase to the next: a row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A write begins, before a byte changes.
    BeginChange,
    /// It was written to, or a header was set.
    Change,
    /// It was truncated to nothing.
    ReplaceAll,
    /// A writer closed it, or the last one has gone.
    Close,
    /// All of it is being synced; from here on a crash may find it.
    BeginSync,
    /// All of it that was there at the beginning of a sync is durable.
    EndSync,
    /// The journal lacks something of it.
    FailSync,
    /// Its files go.
    DropPromise,
    /// A publish in the background is requested.
    Request,
    /// The queue begins a try.
    BeginTry,
    LeaveQueue,
    /// An attempt to publish it, or to make it readable, begins.
    BeginAttempt,
    /// The attempt to publish it has ended, with this error.
    EndAttempt(Option<WriteError>),
    /// The attempt to make it readable has ended.
    EndReadingBack,
    /// Bytes of it exist nowhere any more.
    Lose,
    /// The lost bytes are truncated, and the rest is sent anew.
    Restore,
    /// Another edition begins, of which nothing is promised, closed, lost or refused.
    BeginEdition,
    /// It is in the bucket.
    Publish,
    /// It was deleted, replaced or given up.
    Discard,
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

    /// Returns whether it is as its last writer closed it, and promised as it is, so that readers may see it.
    pub(crate) fn is_closed_and_promised(&self) -> bool {
        let is_durable = self.promise == Promise::Current;
        self.content == Content::Unpublished && is_durable && !self.is_unclosed()
    }

    /// Returns whether it was changed since the last close.
    pub(crate) fn is_unclosed(&self) -> bool {
        self.since_close != WritesSinceClose::Unchanged
    }

    /// Returns whether the closed version was truncated to nothing since.
    pub(crate) fn is_replaced(&self) -> bool {
        self.since_close == WritesSinceClose::Replaced
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
        self.attempt.trouble()
    }

    /// Returns whether it was refused for good.
    pub(crate) fn is_refused(&self) -> bool {
        self.trouble().is_some_and(|error| !error.is_passing())
    }

    /// Returns the phase after a step. A discarded draft is never promised again, and never returns. One that was published
    /// has not failed, also if its files could not be removed.
    pub(crate) fn after(&self, step: &Step) -> Self {
        let content = self.content.after(step);
        let promise = match content {
            Content::Discarded { .. } => Promise::None,
            _ => self.promise.after(step),
        };
        Self {
            content,
            promise,
            since_close: self.since_close.after(step),
            queue: self.queue.after(step),
            attempt: match (content, step) {
                (Content::Published, Step::EndAttempt(_)) => Attempt::Idle,
                _ => self.attempt.after(step),
            },
        }
    }
}

impl Content {
    fn after(self, step: &Step) -> Self {
        match (step, self) {
            (Step::Change, Self::Published) => Self::Unpublished,
            (Step::Lose, Self::Discarded { .. }) => Self::Discarded { lost: true },
            (Step::Lose, _) => Self::Lost,
            (Step::Restore | Step::BeginEdition, Self::Discarded { .. }) => {
                Self::Discarded { lost: false }
            }
            (Step::Restore | Step::BeginEdition, Self::Lost) => Self::Unpublished,
            (Step::Publish, Self::Unpublished | Self::Lost) => Self::Published,
            (Step::Discard, Self::Lost) => Self::Discarded { lost: true },
            (Step::Discard, Self::Published | Self::Unpublished) => Self::Discarded { lost: false },
            (_, now) => now,
        }
    }
}

impl Promise {
    fn after(self, step: &Step) -> Self {
        match (step, self) {
            (Step::BeginSync, Self::None | Self::Behind) => Self::Beginning,
            (Step::EndSync, Self::Beginning) => Self::Current,
            (Step::Change | Step::FailSync, Self::Current | Self::Beginning) => Self::Behind,
            (Step::DropPromise | Step::BeginEdition, _) => Self::None,
            (_, now) => now,
        }
    }
}

impl WritesSinceClose {
    fn after(self, step: &Step) -> Self {
        match (step, self) {
            (Step::BeginChange | Step::Change, Self::Unchanged) => Self::Changed,
            (Step::ReplaceAll | Step::BeginEdition, _) => Self::Replaced,
            (Step::Close, _) => Self::Unchanged,
            (_, now) => now,
        }
    }
}

impl QueueState {
    fn after(self, step: &Step) -> Self {
        match (step, self) {
            (Step::Request, _) => Self::Requested,
            (Step::BeginTry, Self::Requested) => Self::Trying,
            (Step::LeaveQueue, _) => Self::Idle,
            (_, now) => now,
        }
    }
}

impl Attempt {
    fn after(&self, step: &Step) -> Self {
        match step {
            Step::BeginAttempt => Self::Running(self.trouble().cloned()),
            Step::EndAttempt(trouble) => Self::ended(trouble.clone()),
            Step::EndReadingBack => Self::ended(self.trouble().cloned()),
            Step::Lose => self.with(Some(WriteError::Lost)),
            Step::Restore | Step::BeginEdition => self.with(None),
            _ => self.clone(),
        }
    }

    fn ended(trouble: Option<WriteError>) -> Self {
        trouble.map_or(Self::Idle, Self::Failed)
    }

    /// Returns the same with another error.
    fn with(&self, trouble: Option<WriteError>) -> Self {
        match self {
            Self::Running(_) => Self::Running(trouble),
            Self::Idle | Self::Failed(_) => Self::ended(trouble),
        }
    }

    /// Returns the error of the last one that has ended.
    fn trouble(&self) -> Option<&WriteError> {
        match self {
            Self::Idle => None,
            Self::Failed(error) => Some(error),
            Self::Running(before) => before.as_ref(),
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
pub(crate) mod table;
#[cfg(test)]
mod tests;
