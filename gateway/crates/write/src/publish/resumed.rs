//! The drafts that an earlier process promised, on their way from the spool into the bucket.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::Writers;
use crate::draft::shared_draft::SharedDraft;
use crate::spool::reading::Progress;
use tidegate_telemetry::locks::Recover as _;

/// The drafts that were resumed at the start.
#[derive(Debug, Default)]
pub(crate) struct ResumedDrafts {
    count: AtomicUsize,
    left: Mutex<Vec<Weak<SharedDraft>>>,
}

impl ResumedDrafts {
    pub(crate) fn add(&self, draft: &Arc<SharedDraft>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.left.lock().recover().push(Arc::downgrade(draft));
    }
}

impl Writers {
    /// Returns how many of the objects that an earlier process promised are in the bucket, or refused; `None` once none
    /// is on its way any more.
    #[must_use]
    pub fn resumed(&self) -> Option<Progress> {
        let resumed = &self.0.resumed;
        let mut left = resumed.left.lock().recover();
        left.retain(|draft| {
            let draft = draft.upgrade();
            draft.is_some_and(|draft| draft.state().phase().is_queued())
        });
        let of = resumed.count.load(Ordering::Relaxed);
        (!left.is_empty()).then(|| Progress {
            done: of - left.len(),
            of,
        })
    }
}
