//! The write path of one engine: who may change a key, and the memory that writers may take.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::change::known_markers::forget_marker;
use crate::locks::key_locks::{BucketKeyLocks, KeyLock};
use crate::locks::publish_hold::{PublishHold, check_held};
use crate::{Drafts, WriteError};
use tidegate_engine::Core;
use tidegate_engine::{Budget, Engine, Error};
use tidegate_plan::ObjectId;

/// The divisor of the engine's budget for all received objects together: one half at most.
const RECEIVED_SHARE: u64 = 2;

/// The divisor of the engine's budget for objects of one part while they are put: a quarter of the
/// budget at most. Readers never wait for the rest.
const PUT_SHARE: u64 = 4;

/// The time that a change over HTTP waits for a publication of its object: shorter than the time
/// that others wait for its memory.
const HOLD_TIMEOUT: Duration = Duration::from_secs(5);

/// The write path of one engine: PUT and DELETE, and drafts once a spool is open
/// ([`Writers::start`](crate::Writers::start)). An engine has one: the locks of another would not exclude
/// its own.
pub struct WritePath {
    pub(crate) engine: Engine,
    pub(crate) core: Arc<Core>,
    /// The limit on the budget's memory for clients that send objects.
    pub(crate) received: Budget,
    /// The limit on the budget's memory for objects put whole. A holder of such memory waits only
    /// for the budget and the bucket.
    pub(crate) put: Budget,
    /// The keys being changed in the bucket.
    pub(crate) keys: BucketKeyLocks,
    /// The drafts being written, if a spool is open.
    pub(crate) drafts: OnceLock<Weak<Drafts>>,
    /// The number of drafts. If it is 0, readers look no further.
    pub(crate) drafted: AtomicUsize,
}

impl fmt::Debug for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritePath")
            .field("drafted", &self.drafted)
            .finish_non_exhaustive()
    }
}

impl WritePath {
    /// Creates the write path of an engine.
    #[must_use]
    pub fn new(engine: &Engine) -> Arc<Self> {
        let budget = engine.budget();
        Arc::new(Self {
            engine: engine.clone(),
            core: engine.core().clone(),
            received: budget.share(RECEIVED_SHARE),
            put: budget.share(PUT_SHARE),
            keys: BucketKeyLocks::new(engine.core()),
            drafts: OnceLock::new(),
            drafted: AtomicUsize::new(0),
        })
    }

    /// Keeps other writers of this process from changing an object, and its draft, if any, from
    /// being published. Waits for a publication under way, for [`HOLD_TIMEOUT`] at most.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if that takes longer; [`WriteError::Spool`] if the disk keeps the journal of an earlier draft.
    pub(crate) async fn hold(
        &self,
        id: &ObjectId,
    ) -> Result<(Option<PublishHold>, KeyLock), WriteError> {
        let held = async {
            let drafts = self.drafts.get().and_then(Weak::upgrade);
            match drafts {
                Some(drafts) => {
                    drafts.detach_copies_of(id).await;
                    let (held, lock) = drafts.hold_and_lock(id).await;
                    drafts.check_journals(id).await?;
                    forget_marker(&drafts, id);
                    check_held(held.as_ref()).await?;
                    Ok((held, lock))
                }
                None => Ok((None, self.keys.lock_key(id).await)),
            }
        };
        let held = tokio::time::timeout(HOLD_TIMEOUT, held).await;
        held.unwrap_or(Err(WriteError::Origin(Error::Overloaded {
            retry_after: Some(HOLD_TIMEOUT),
        })))
    }
}
