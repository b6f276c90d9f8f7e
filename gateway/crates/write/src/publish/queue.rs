//! Drafts that were closed and are not in the bucket yet.
//!
//! Each is tried until it is published or refused, with growing pauses. A draft is refused if
//! another writer changed the object. It then stays in the spool, and is listed until an operator
//! decides. The queue continues after a restart of the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::draft::state::stage::Stage;
use crate::publish::failure_log::FailedDraft;
use crate::spool::file::SpoolFile;
use crate::{RETRY_PAUSE, WriteError, Writers};
use tidegate_plan::{ObjectId, Timestamp, Version};

/// The longest wait of a closed draft for another writer, and the interval of the checks.
const MAX_WAIT_FOR_CLOSE: Duration = Duration::from_secs(60);
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The wait of a new file that was closed empty for another writer before it is published.
const EMPTY_FILE_DELAY: Duration = Duration::from_millis(500);

/// The wait of a new, closed file for a rename, before the first request for it is sent. A rename then costs one request
/// in place of five.
const RENAME_DELAY: Duration = Duration::from_millis(100);

/// That wait of a file with a temporary name.
const TEMPORARY_DELAY: Duration = Duration::from_secs(2);

/// An object that is being written, for display.
#[derive(Debug, Clone)]
pub struct PendingWrite {
    /// The object.
    pub id: ObjectId,
    /// Its current length, in bytes.
    pub size: u64,
    /// Bytes of it in the spool.
    pub spooled: u64,
    /// The step that it waits for.
    pub stage: Stage,
    /// The error of the last try to publish it.
    pub trouble: Option<WriteError>,
    /// The bytes of it that the bucket has already, in parts.
    pub sent: u64,
    /// The time until the next try, if it waits for one.
    pub next_try: Option<Duration>,
    /// The version that it began with.
    pub base: Option<Arc<Version>>,
    /// The time of its last write.
    pub modified: Timestamp,
}

impl Writers {
    /// Returns every object that is open for writing, or closed and not yet in the bucket.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingWrite> {
        let writings: Vec<_> = self.0.writings().values().cloned().collect();
        let mut pending: Vec<_> = writings.iter().map(|it| it.pending()).collect();
        pending.sort_by(|a, b| a.id.cmp(&b.id));
        pending
    }

    /// Returns when no draft waits for a background commit any more, except refused ones.
    pub(crate) async fn drafts_settled(&self) {
        loop {
            let waiting = self
                .0
                .writings()
                .values()
                .find(|it| it.state().phase().is_queued())
                .cloned();
            let Some(writing) = waiting else {
                return;
            };
            let mut progress = writing.progress.subscribe();
            if writing.state().phase().is_queued() {
                let _ = progress.changed().await;
            }
        }
    }
}

/// The state of a draft that may be due for publishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishDue {
    /// It is as its last writer closed it.
    Closed,
    /// A writer is half way through more of it, and the wait for that writer has ended.
    HalfWay,
    /// A writer replaces it, and publishes it at its own close.
    Left,
}

impl SharedDraft {
    fn pending(&self) -> PendingWrite {
        let state = self.state();
        let stage = state.stage();
        PendingWrite {
            id: state.id().clone(),
            size: state.draft().size(),
            spooled: state.draft().local().bytes(),
            stage,
            trouble: state.phase().trouble().cloned(),
            sent: state
                .draft()
                .sent_parts()
                .map(|(_, part)| part.length)
                .sum(),
            next_try: state
                .retry()
                .next_try()
                .map(|next| next.duration_since(Instant::now())),
            base: state.base().map(|base| base.version.clone()),
            modified: state.times().modified,
        }
    }

    /// Makes everything durable locally, and queues it for publishing.
    pub(crate) async fn close_in_background(self: &Arc<Self>) -> Result<(), WriteError> {
        {
            let mut state = self.state();
            state.check_not_lost()?;
            // Published or discarded since the caller looked.
            if !state.phase().is_unpublished() {
                return Ok(());
            }
            state.close_for_queue();
        }
        self.sync().await?;
        self.enqueue();
        Ok(())
    }

    /// Queues it for publishing, unless it is queued already.
    pub(crate) fn enqueue(self: &Arc<Self>) {
        {
            let mut state = self.state();
            let is_queued = state.phase().is_queued();
            state.step(Step::Request);
            if is_queued {
                return;
            }
        }
        let writing = self.clone();
        self.inner
            .core
            .spawn(async move { writing.run_queue().await });
    }

    async fn run_queue(self: Arc<Self>) {
        let stop = self.inner.core.stop.clone();
        self.wait_while_blank().await;
        self.wait_for_rename().await;
        let mut failed = None;
        for failures in 0.. {
            let due = self.wait_for_close().await;
            if due == PublishDue::Left {
                break;
            }
            let outcome = {
                let Ok(_turn) = self.inner.commits.acquire().await else {
                    return;
                };
                self.state().step(Step::BeginTry);
                // A draft that a writer has begun anew is not published, however long its close takes.
                self.commit_unless(match due {
                    PublishDue::Closed => DraftState::is_half_way,
                    _ => DraftState::is_half_replaced,
                })
                .await
            };
            let key = self.id().key;
            match outcome {
                // A writer has begun the next version since the check.
                Ok(false) => {
                    self.state().step(Step::Request);
                }
                Ok(true) => {
                    let mut state = self.state();
                    // Closed again meanwhile, or dropped by its last handle with unpublished bytes.
                    let left_with_more =
                        state.phase().is_unpublished() && !state.handles().is_open();
                    if !state.phase().is_requested() && !left_with_more {
                        state.step(Step::LeaveQueue);
                        break;
                    }
                }
                Err(WriteError::Closing) => return,
                Err(error) if error.is_passing() => {
                    let pause = RETRY_PAUSE.pause(failures, 1.0);
                    let failed = failed.get_or_insert_with(|| FailedDraft::new(&self.inner));
                    failed.log(&error, pause, &key);
                    self.progress.send_replace(());
                    self.state().hold_no_memory();
                    self.sync_closed().await;
                    self.state().retry_mut().begin_wait(Instant::now() + pause);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => return,
                    }
                    self.state().retry_mut().end_wait();
                }
                Err(error) => {
                    if self.refuse(&error).await {
                        break;
                    }
                }
            }
        }
        self.leave_if_done();
        self.progress.send_replace(());
    }

    /// Leaves the queue, because the draft was refused for good; returns whether it did. If a writer has closed it again
    /// meanwhile, it is tried once more. One that has nothing to decide about is discarded: another
    /// writer was faster to make an object that this one only touched. It would hide that object here.
    async fn refuse(self: &Arc<Self>, error: &WriteError) -> bool {
        let key = self.id().key;
        let has_nothing = |state: &DraftState| state.is_blank() && !state.is_promised();
        if *error == WriteError::Changed && self.discard_if(has_nothing).await {
            tracing::info!(
                key = key.as_str(),
                "an empty file that another writer has made meanwhile is theirs"
            );
        } else {
            tracing::error!(%error, key = key.as_str(), "a closed object was refused; it stays in the spool");
            self.state().hold_no_memory();
        }
        let mut state = self.state();
        let leaves = state.phase().is_discarded() || !state.phase().is_requested();
        if leaves {
            state.step(Step::LeaveQueue);
        }
        leaves
    }

    /// Discards it, if it has no handles and `is_due` holds; returns whether it did.
    async fn discard_if(self: &Arc<Self>, is_due: impl FnOnce(&DraftState) -> bool) -> bool {
        let id = self.id();
        let hold = self.inner.hold_publishing(&id).await;
        let Some(hold) = hold.filter(|hold| Arc::ptr_eq(&hold.writing, self)) else {
            return false;
        };
        // What was promised is never due.
        let is_discarded = hold.discard_unused(is_due).await.unwrap_or(true);
        if is_discarded {
            self.inner.engine.doubt_key(&id).await;
        }
        is_discarded
    }

    /// Syncs a closed draft that could not be published, so that it survives a restart before the
    /// bucket is back or has room. Excludes a draft that a writer is half way through.
    async fn sync_closed(self: &Arc<Self>) {
        let is_due =
            |state: &DraftState| !state.phase().is_promised() && !state.phase().is_unclosed();
        if let Err(error) = self.sync_if(is_due).await {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "a closed object that is not in the bucket yet would not outlive a restart");
        }
    }

    /// Waits a moment if a new file was closed empty. Programs that test whether they may write a
    /// file, such as ImageMagick, open it again at once. Only one object is published then, and the
    /// writer does not wait for an empty one first.
    async fn wait_while_blank(&self) {
        let look = |state: &mut DraftState| (!state.is_blank()).then_some(());
        self.look_for(EMPTY_FILE_DELAY, look).await;
    }

    /// Waits a moment if no request was sent for a new file yet.
    async fn wait_for_rename(&self) {
        let delay = match self.state().awaits_rename() {
            true => TEMPORARY_DELAY,
            false => RENAME_DELAY,
        };
        let look = |state: &mut DraftState| {
            (!state.is_unsent() || self.is_in_the_way(state)).then_some(())
        };
        self.look_for(delay, look).await;
    }

    /// Waits while a writer is half way through the next version. If that version replaces the
    /// closed one, its own close publishes it. Otherwise the wait is bounded, for the closed bytes
    /// are part of it.
    async fn wait_for_close(&self) -> PublishDue {
        let look = |state: &mut DraftState| match state.is_half_way() {
            false => Some(PublishDue::Closed),
            true if state.is_half_replaced() => {
                state.step(Step::LeaveQueue);
                Some(PublishDue::Left)
            }
            true => None,
        };
        let due = self.look_for(MAX_WAIT_FOR_CLOSE, look).await;
        due.unwrap_or(PublishDue::HalfWay)
    }

    /// Looks at the state again and again until `look` returns a value. `None`: that takes longer than `most`, or the
    /// process ends.
    async fn look_for<T>(
        &self,
        most: Duration,
        look: impl Fn(&mut DraftState) -> Option<T>,
    ) -> Option<T> {
        let stop = self.inner.core.stop.clone();
        let until = Instant::now() + most;
        loop {
            let found = look(&mut self.state());
            if found.is_some() || Instant::now() >= until {
                return found;
            }
            tokio::select! {
                () = tokio::time::sleep(most.min(CLOSE_POLL_INTERVAL)) => {}
                () = stop.cancelled() => return None,
            }
        }
    }

    /// Handles the drop of a handle. The last one takes care of unpublished bytes.
    pub(crate) fn release(self: &Arc<Self>) {
        let (abandoned, wants) = {
            // The same order of locks as in `join`: no handle may join a draft that is abandoned.
            let mut writings = self.inner.writings();
            let mut state = self.state();
            if !state.handles_mut().close() {
                return;
            }
            // One that is being published may be in the bucket soon. The queue waits for that.
            let is_given_up = state.phase().is_refused() && !state.phase().is_publishing();
            // A queued draft that was not written to since is requested already. A refused one would be refused again.
            let has_nothing_new = state.phase().is_queued() || is_given_up;
            let wants =
                state.phase().is_dirty() && (!has_nothing_new || state.phase().is_unclosed());
            let abandoned = state.phase().is_discarded() || (is_given_up && !state.is_promised());
            if abandoned {
                self.unlist(&mut writings, state.id());
            }
            (abandoned, wants)
        };
        if abandoned {
            remove(self.abandon());
        } else if wants {
            self.enqueue();
        }
        self.leave_if_done();
    }

    /// Discards a draft without handles, with its upload and its staged base. Returns its files, which
    /// the caller must remove.
    #[must_use]
    pub(crate) fn abandon(self: &Arc<Self>) -> Option<Arc<SpoolFile>> {
        let (base, file) = {
            let mut state = self.state();
            state.step(Step::Discard);
            let file = self.take_file(&mut state);
            (state.forget_content(), file)
        };
        self.abandon_own_upload();
        self.delete_staged_base(base);
        self.discard_replaced_edition();
        file
    }

    /// Keeps a discarded draft for its open handles: in the spool, without an upload. Bytes that had left the spool cannot
    /// be read any more. Returns its files, whose journal the caller must remove.
    #[must_use]
    pub(crate) fn keep_for_handles(self: &Arc<Self>) -> Option<Arc<SpoolFile>> {
        self.abandon_own_upload();
        let file = {
            let mut state = self.state();
            state.end_sending();
            state.drop_journal()
        };
        self.chunks.clear();
        self.discard_replaced_edition();
        file
    }

    fn abandon_own_upload(self: &Arc<Self>) {
        let left = self.state().take_upload();
        self.give_up_upload(left);
    }

    /// Removes it from the table once it has no handles and everything is in the bucket.
    pub(crate) fn leave_if_done(self: &Arc<Self>) {
        let mut writings = self.inner.writings();
        let mut state = self.state();
        if state.handles().is_open() || state.phase().is_queued() || state.phase().is_unpublished()
        {
            return;
        }
        self.unlist(&mut writings, state.id());
        remove(self.take_file(&mut state));
    }

    /// Removes it from the table, if it is listed. Later opens of the object get another draft.
    pub(crate) fn unlist(&self, writings: &mut HashMap<ObjectId, Arc<Self>>, id: &ObjectId) {
        let listed = writings.get(id);
        if listed.is_some_and(|there| std::ptr::eq(&raw const **there, self)) {
            writings.remove(id);
        }
    }
}

/// Deletes the files of a draft in the background.
pub(crate) fn remove(file: Option<Arc<SpoolFile>>) {
    if let Some(file) = file {
        tokio::task::spawn_blocking(move || file.remove());
    }
}
