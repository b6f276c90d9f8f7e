//! Client memory: bytes are handed to clients so that a slow client costs little.
//!
//! A frame is handed on without a copy, which keeps the buffer that it was cut from alive until the client has taken
//! it. The whole buffer is charged to the [`ClientMemory`]. If that is used up, or the client is very slow, the
//! client gets copies of at most [`COPY_BYTES`] instead, and the buffer is released. A frame of that length that is
//! only a part of its buffer is always copied: a range of one byte must not keep a chunk alive. Copies are charged as
//! well. If the charge exceeds the limit by half of it, each answer has one copy of [`SMALL_COPY_BYTES`] in flight
//! at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate_telemetry::names;

/// Bytes of one copy. Together with the server's buffer (16 KiB by default) a very slow client costs 32 KiB.
pub(crate) const COPY_BYTES: usize = 16 << 10;

/// Bytes of one copy while the client memory is overdrawn.
pub(crate) const SMALL_COPY_BYTES: usize = 2 << 10;

/// The bytes a second below which a client is very slow: the rate of a player of compressed audio. A copy of 16 KiB
/// four times a second costs nothing beside its packets.
const SLOW_CLIENT_RATE: u128 = 64 << 10;

/// A wait shorter than this says nothing about a client's speed.
const MIN_MEASURED_WAIT: Duration = Duration::from_millis(250);

/// The memory that bytes on their way to clients may keep alive: at most its limit, except for reservations that cannot
/// be refused.
#[derive(Debug)]
pub struct ClientMemory {
    limit: AtomicI64,
    used: Gauge,
}

impl ClientMemory {
    /// Returns a client memory of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: AtomicI64::new(signed(limit)),
            used: Gauge::default(),
        }
    }

    /// Sets another limit. What is reserved stays so.
    pub fn resize(&self, limit: usize) {
        self.limit.store(signed(limit), Ordering::Relaxed);
    }

    fn limit(&self) -> i64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are reserved.
    #[must_use]
    pub fn used(&self) -> usize {
        usize::try_from(self.used.get()).unwrap_or(0)
    }

    /// Registers the number of reserved bytes in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        names::MEMORY_PINNED.register(registry, self.used.clone());
    }

    /// Reserves `bytes`, if that many are left.
    fn reserve(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let fits = |used: i64| used.checked_add(signed(bytes)).filter(|sum| *sum <= limit);
        let used = self.used.inner();
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    /// Reserves `bytes` even if they are not left: for memory that is held already and cannot be released.
    pub(crate) fn force_reserve(&self, bytes: usize) {
        self.used.inc_by(signed(bytes));
    }

    /// Releases bytes that were reserved.
    fn release(&self, bytes: usize) {
        self.used.dec_by(signed(bytes));
    }

    /// Returns whether that many bytes are left now.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let left = self.limit().saturating_sub(self.used.get());
        u64::try_from(left).is_ok_and(|left| bytes <= left)
    }

    /// Returns whether at least half of the limit is left.
    pub(crate) fn has_room(&self) -> bool {
        self.used.get() <= self.limit() / 2
    }

    /// Returns whether more than one and a half times the limit is reserved.
    pub(crate) fn is_overdrawn(&self) -> bool {
        let limit = self.limit();
        self.used.get() > limit.saturating_add(limit / 2)
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The speed at which the client took the frame before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientSpeed {
    /// The frame's length.
    pub(crate) bytes: usize,
    /// The time that the client took until it asked for the next.
    pub(crate) took: Duration,
}

impl ClientSpeed {
    /// Returns whether the client gets copies until it is faster.
    pub(crate) fn is_very_slow(self) -> bool {
        let millis = self.took.as_millis();
        self.took >= MIN_MEASURED_WAIT && (self.bytes as u128) * 1000 < SLOW_CLIENT_RATE * millis
    }
}

/// Bytes on their way to a client: charged until their last reference is gone.
#[derive(Debug)]
pub(crate) struct ChargedBytes {
    bytes: Bytes,
    /// The bytes of memory that they keep alive.
    pinned: usize,
    memory: Arc<ClientMemory>,
}

impl ChargedBytes {
    /// Charges `bytes`, which are cut from a buffer of `pinned` bytes, and copies them if they are a small part of it;
    /// `None` if the client memory is used up.
    pub(crate) fn charge(bytes: Bytes, pinned: usize, memory: &Arc<ClientMemory>) -> Option<Bytes> {
        let copied = is_worth_copying(&bytes, pinned);
        let pinned = if copied { bytes.len() } else { pinned };
        memory.reserve(pinned).then(|| {
            let bytes = match copied {
                true => Bytes::copy_from_slice(&bytes),
                false => bytes,
            };
            Self::owned(bytes, pinned, memory)
        })
    }

    /// Charges `bytes` even if the client memory is used up, copied as in [`ChargedBytes::charge`].
    pub(crate) fn force_charge(bytes: &Bytes, pinned: usize, memory: &Arc<ClientMemory>) -> Bytes {
        let (bytes, pinned) = match is_worth_copying(bytes, pinned) {
            true => (Bytes::copy_from_slice(bytes), bytes.len()),
            false => (bytes.clone(), pinned),
        };
        memory.force_reserve(pinned);
        Self::owned(bytes, pinned, memory)
    }

    fn owned(bytes: Bytes, pinned: usize, memory: &Arc<ClientMemory>) -> Bytes {
        Bytes::from_owner(Self {
            bytes,
            pinned,
            memory: memory.clone(),
        })
    }
}

fn is_worth_copying(bytes: &Bytes, pinned: usize) -> bool {
    bytes.len() <= COPY_BYTES && bytes.len() < pinned
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.memory.release(self.pinned);
    }
}

/// The copies of one answer that its client has not taken yet.
#[derive(Debug)]
pub(crate) struct CopiesInFlight {
    memory: Arc<ClientMemory>,
    in_flight: AtomicUsize,
    taken: AtomicWaker,
}

/// A copy in flight.
struct ChargedCopy {
    bytes: Vec<u8>,
    copies: Arc<CopiesInFlight>,
}

impl CopiesInFlight {
    pub(crate) fn new(memory: Arc<ClientMemory>) -> Arc<Self> {
        Arc::new(Self {
            memory,
            in_flight: AtomicUsize::new(0),
            taken: AtomicWaker::new(),
        })
    }

    /// Returns the bytes that the next copy may have.
    pub(crate) fn size(&self) -> usize {
        match self.memory.is_overdrawn() {
            true => SMALL_COPY_BYTES,
            false => COPY_BYTES,
        }
    }

    /// Returns ready when another copy may be made.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_free = || self.in_flight.load(Ordering::Acquire) == 0 || !self.memory.is_overdrawn();
        if is_free() {
            return Poll::Ready(());
        }
        self.taken.register(cx.waker());
        // The last copy may have been taken before there was a waker.
        if is_free() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Returns a copy of `bytes`, charged even if the client memory is used up.
    pub(crate) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Bytes {
        self.memory.force_reserve(bytes.len());
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(ChargedCopy {
            bytes: bytes.to_vec(),
            copies: self.clone(),
        })
    }
}

impl AsRef<[u8]> for ChargedCopy {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ChargedCopy {
    fn drop(&mut self) {
        self.copies.memory.release(self.bytes.len());
        self.copies.in_flight.fetch_sub(1, Ordering::Release);
        self.copies.taken.wake();
    }
}

#[cfg(test)]
mod tests;
