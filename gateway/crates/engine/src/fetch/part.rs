//! A part: one fetch of neighbouring chunks, and the leases that keep it wanted.
//!
//! Readers hold a [`Lease`] on the part; when the last lease is dropped, no reader wants the rest, and the fetch is
//! stopped.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use tidegate_origin::WaitFlag;

/// One fetch of one or more neighbouring chunks, and the leases on it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) chunks: Range<u32>,
    pub(crate) source: FetchSource,
    /// The cursor that fetched it ahead.
    pub(crate) cursor: CursorIdentity,
    /// Whether its request still occupies a stream; ends a little before the last byte arrives.
    busy: AtomicBool,
    leases: AtomicUsize,
    /// Set once a reader that is not quiet waits for a chunk.
    pub(crate) awaited: WaitFlag,
    unwanted: Notify,
    landed: CancellationToken,
}

/// The source of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchSource {
    Origin,
    Disk,
}

/// The identity of the cursor that fetched a part ahead, if one did. Parts know nothing else of cursors.
#[derive(Debug)]
pub(crate) struct CursorIdentity(Weak<dyn Any + Send + Sync>);

impl CursorIdentity {
    pub(crate) fn none() -> Self {
        Self(Weak::<()>::new())
    }

    pub(crate) fn of<T: Any + Send + Sync>(cursor: &Arc<T>) -> Self {
        let weak: Weak<T> = Arc::downgrade(cursor);
        Self(weak)
    }

    /// Returns whether this is the identity of `cursor`.
    pub(crate) fn is<T>(&self, cursor: &Arc<T>) -> bool {
        std::ptr::addr_eq(self.0.as_ptr(), Arc::as_ptr(cursor))
    }

    /// Returns whether the cursor still exists.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// The call at the moment at which a part's request frees its stream.
pub(crate) type StreamFree = Box<dyn FnOnce() + Send + Sync>;

/// The cursor for which a part is fetched ahead.
pub(crate) struct PartOwner {
    pub(crate) cursor: CursorIdentity,
    pub(crate) stream_free: Option<StreamFree>,
}

impl PartOwner {
    /// Returns the owner of a part that a reader waits for.
    pub(crate) fn none() -> Self {
        Self {
            cursor: CursorIdentity::none(),
            stream_free: None,
        }
    }
}

/// Keeps a part wanted for as long as it is held.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Part>);

impl Part {
    pub(crate) fn new(
        chunks: Range<u32>,
        source: FetchSource,
        cursor: CursorIdentity,
    ) -> Arc<Self> {
        Arc::new(Self {
            chunks,
            source,
            cursor,
            busy: AtomicBool::new(true),
            leases: AtomicUsize::new(0),
            awaited: WaitFlag::default(),
            unwanted: Notify::new(),
            landed: CancellationToken::new(),
        })
    }

    /// Takes a lease. Call it under the lock of the version's flights, so that it cannot cross with a fetch that gives
    /// up.
    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
        self.leases.fetch_add(1, Ordering::Relaxed);
        Lease(self.clone())
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.leases() > 0
    }

    /// Returns the number of leases.
    pub(crate) fn leases(&self) -> usize {
        self.leases.load(Ordering::Acquire)
    }

    /// Marks the stream as free, or about to be.
    pub(crate) fn leave_stream(&self) {
        self.busy.store(false, Ordering::Release);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Marks the fetch as over: all chunks are there, or the rest never will be.
    pub(crate) fn land(&self) {
        self.landed.cancel();
    }

    pub(crate) fn has_landed(&self) -> bool {
        self.landed.is_cancelled()
    }

    /// Returns when the fetch is over.
    pub(crate) async fn landed(&self) {
        self.landed.cancelled().await;
    }

    /// Returns when the last lease was dropped; check [`Part::is_wanted`] again under the lock.
    pub(crate) async fn unwanted(&self) {
        while self.is_wanted() {
            self.unwanted.notified().await;
        }
    }
}

impl Lease {
    pub(crate) fn part(&self) -> &Part {
        &self.0
    }

    /// Gives up the lease.
    pub(crate) fn into_part(self) -> Arc<Part> {
        self.0.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.unwanted.notify_one();
        }
    }
}
