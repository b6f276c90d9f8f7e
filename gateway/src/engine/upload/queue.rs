//! Drafts that were closed and are not in the bucket yet.
//!
//! Each is tried until it is published or refused, with pauses that grow; a refused one, whose object
//! somebody else changed, stays in the spool and is listed until someone decides. With the process
//! it goes on after the next start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::writing::{State, Writing};
use super::{WriteError, Writers};
use crate::engine::spool::file::SpoolFile;
use crate::engine::spool::journal::Record;
use crate::plan::ObjectId;
use crate::plan::retry::Backoff;

/// Between two tries of what is done behind a caller's back: to commit an object, or to give an upload up.
pub(super) const PAUSE: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(60),
};

/// For how long what was closed waits for somebody who writes to it again, and how often that is looked at.
const HALF_WAY: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// How long a new file that was closed with nothing in it waits for a writer before it is published.
const BLANK: Duration = Duration::from_millis(500);

/// An object that is being written, for people.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The object.
    pub id: ObjectId,
    /// Its length now.
    pub size: u64,
    /// Bytes of it in the spool.
    pub spooled: u64,
    /// What it waits for.
    pub stage: Stage,
    /// Why it is not in the bucket yet, if that was tried.
    pub trouble: Option<WriteError>,
}

/// What an object that is being written waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Somebody has it open.
    Open,
    /// It is on its way into the bucket.
    Sending,
    /// It will be tried again.
    Waiting,
    /// It was refused for good; it is kept for a person to decide.
    Refused,
}

impl Stage {
    /// The stage as one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
        }
    }
}

impl Writers {
    /// Every object that is open for writing, or closed and not yet in the bucket.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        let writings: Vec<_> = self.0.writings().values().cloned().collect();
        let mut pending: Vec<_> = writings.iter().map(|it| it.pending()).collect();
        pending.sort_by(|a, b| a.id.cmp(&b.id));
        pending
    }

    /// Returns when nothing waits to be committed in the background any more, or only what was
    /// refused.
    pub async fn settled(&self) {
        loop {
            let waiting = self
                .0
                .writings()
                .values()
                .find(|it| it.state().queued)
                .cloned();
            let Some(writing) = waiting else { return };
            let mut progress = writing.progress.subscribe();
            if writing.state().queued {
                let _ = progress.changed().await;
            }
        }
    }
}

impl State {
    /// Whether it is a new object with nothing in it that was promised to no writer.
    fn is_blank(&self) -> bool {
        let is_new = self.base.is_none() && self.draft.size() == 0;
        is_new && !self.promised && !self.is_half_way()
    }

    /// What it waits for.
    pub(super) fn stage(&self) -> Stage {
        match (&self.trouble, self.queued) {
            _ if self.closing => Stage::Sending,
            (Some(error), _) if !error.is_passing() => Stage::Refused,
            (Some(_), true) => Stage::Waiting,
            (None, true) => Stage::Sending,
            (_, false) => Stage::Open,
        }
    }
}

/// The state of a draft whose turn to be published may have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// It is as its last writer closed it.
    Closed,
    /// A writer is half way through more of it, and was waited for long enough.
    HalfWay,
    /// A writer replaces it, and publishes it at its own close.
    Left,
}

impl Writing {
    fn pending(&self) -> Pending {
        let state = self.state();
        let stage = state.stage();
        Pending {
            id: state.id.clone(),
            size: state.draft.size(),
            spooled: state.draft.local().bytes(),
            stage,
            trouble: state.trouble.clone(),
        }
    }

    /// Makes everything durable here, and has it published.
    pub(super) async fn close_behind(self: &Arc<Self>) -> Result<(), WriteError> {
        {
            let mut state = self.state();
            state.whole()?;
            state.closed();
            state.records.push(Record::Closed);
        }
        self.sync().await?;
        self.enqueue();
        Ok(())
    }

    /// Has it published, unless that is under way.
    pub(super) fn enqueue(self: &Arc<Self>) {
        {
            let mut state = self.state();
            state.asked = true;
            if state.queued {
                return;
            }
            state.queued = true;
        }
        let writing = self.clone();
        self.inner
            .core
            .spawn(async move { writing.work_off().await });
    }

    async fn work_off(self: Arc<Self>) {
        let stop = self.inner.core.stop.clone();
        self.wait_while_blank().await;
        for failures in 0.. {
            let due = self.wait_for_close().await;
            if due == Due::Left {
                break;
            }
            let tried = {
                let Ok(_turn) = self.inner.commits.acquire().await else {
                    return;
                };
                self.state().asked = false;
                match due {
                    Due::Closed => self.commit_closed().await,
                    _ => self.commit().await.map(|()| true),
                }
            };
            let key = self.id().key;
            match tried {
                // Another writer has begun the next version since it was looked at.
                Ok(false) => self.state().asked = true,
                Ok(true) => {
                    let mut state = self.state();
                    // Closed again meanwhile, or left by its last handle with more in it.
                    let left_with_more = state.dirty && state.handles == 0;
                    if !state.asked && !left_with_more {
                        state.queued = false;
                        break;
                    }
                }
                Err(WriteError::Closing) => return,
                Err(error) if error.is_passing() => {
                    let pause = PAUSE.pause(failures, 1.0);
                    tracing::warn!(%error, ?pause, key = key.as_str(), "a closed object is not in the bucket yet");
                    self.progress.send_replace(());
                    self.state().hold_no_memory();
                    self.outlive().await;
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => return,
                    }
                }
                Err(error) => {
                    tracing::error!(%error, key = key.as_str(), "a closed object was refused; it stays in the spool");
                    let mut state = self.state();
                    state.hold_no_memory();
                    state.queued = false;
                    break;
                }
            }
        }
        self.leave_if_done();
        self.progress.send_replace(());
    }

    /// What was closed and could not be published is there after a restart as well, for that may come before
    /// the bucket is back, or has room. Not what somebody is half way through.
    async fn outlive(self: &Arc<Self>) {
        let is_due = |state: &State| !state.promised && !state.unclosed;
        if let Err(error) = self.sync_if(is_due).await {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "a closed object that is not in the bucket yet would not outlive a restart");
        }
    }

    /// Waits a moment where a new file was closed with nothing in it. Programs that look whether they may
    /// write a file, such as ImageMagick, open it again at once: what is published then is one object, and
    /// the writer does not wait for an empty one first.
    async fn wait_while_blank(&self) {
        let stop = self.inner.core.stop.clone();
        let until = Instant::now() + BLANK;
        while Instant::now() < until && self.state().is_blank() {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits while a writer is half way through the next version. Where that one replaces what was closed,
    /// its own close publishes it; else the wait is bounded, for what was closed is in it.
    async fn wait_for_close(&self) -> Due {
        let stop = self.inner.core.stop.clone();
        let until = Instant::now() + HALF_WAY;
        loop {
            {
                let mut state = self.state();
                if !state.is_half_way() {
                    return Due::Closed;
                }
                if Instant::now() >= until {
                    return Due::HalfWay;
                }
                if state.replaced {
                    state.queued = false;
                    return Due::Left;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = stop.cancelled() => return Due::HalfWay,
            }
        }
    }

    /// A handle was dropped. The last one sees to what was written.
    pub(super) fn released(self: &Arc<Self>) {
        let (abandoned, wants) = {
            // In this order, as who joins does: nobody may join what is given up.
            let mut writings = self.inner.writings();
            let mut state = self.state();
            state.handles -= 1;
            if state.handles > 0 {
                return;
            }
            // What is queued, and was not written to since, is asked for already.
            let wants = state.dirty && (!state.queued || state.unclosed);
            let refused = state.trouble.as_ref().is_some_and(|it| !it.is_passing());
            let abandoned = state.removed || (refused && !state.is_promised());
            if abandoned {
                self.unlist(&mut writings, &state.id);
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

    /// What nobody was promised goes, with its upload and its hidden base. Gives its files, which are to
    /// be removed.
    #[must_use]
    pub(super) fn abandon(self: &Arc<Self>) -> Option<Arc<SpoolFile>> {
        let (upload, completed, base, file) = {
            let mut state = self.state();
            state.removed = true;
            if !state.dirty && state.base.is_some() {
                // What was committed can be read on, as far as it is cached, by those who hold it.
                return None;
            }
            state.dirty = false;
            let file = self.drop_file(&mut state);
            state.draft = state.draft.next_from(0);
            let completed = state.completing.take().is_some();
            (state.upload.take(), completed, state.base.take(), file)
        };
        if let Some(upload) = upload {
            if completed {
                // Nobody told whether it was.
                self.drop_hidden_key(upload.key.clone(), None);
            }
            self.give_up(upload);
        }
        self.drop_hidden(base);
        self.let_go_of_before();
        file
    }

    /// Takes it out of the table once nobody holds it and everything is in the bucket.
    fn leave_if_done(self: &Arc<Self>) {
        let mut writings = self.inner.writings();
        let mut state = self.state();
        if state.handles > 0 || state.queued || state.dirty && !state.removed {
            return;
        }
        self.unlist(&mut writings, &state.id);
        remove(self.drop_file(&mut state));
    }

    /// Takes it out of the table, if it is there: who opens the object from now on has another draft.
    pub(super) fn unlist(&self, writings: &mut HashMap<ObjectId, Arc<Self>>, id: &ObjectId) {
        let listed = writings.get(id);
        if listed.is_some_and(|there| std::ptr::eq(&raw const **there, self)) {
            writings.remove(id);
        }
    }
}

/// Takes the files of a draft away, behind the caller's back.
pub(super) fn remove(file: Option<Arc<SpoolFile>>) {
    if let Some(file) = file {
        tokio::task::spawn_blocking(move || file.remove());
    }
}
