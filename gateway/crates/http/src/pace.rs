//! Client memory: bytes are handed to clients so that a slow client costs little.
//!
//! A frame is handed on without a copy, which keeps the buffer that it was cut from alive until the client has taken
//! it. An [`Allowance`] is charged with the whole buffer. If the allowance is spent, or the client is very slow, the
//! client gets copies of at most [`PIECE`] bytes instead, and the buffer is released. A frame of that length that is
//! only a part of its buffer is always copied: a range of one byte must not keep a chunk alive. Copies are charged as
//! well. If the charge exceeds the allowance by half of it, each answer has one copy of [`SMALL_PIECE`] bytes in flight
//! at a time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate_telemetry::names;

/// Bytes of one copy. Together with the server's buffer (16 KiB by default) a very slow client costs 32 KiB.
pub(super) const PIECE: usize = 16 << 10;

/// Bytes of one copy while the allowance is overdrawn.
pub(super) const SMALL_PIECE: usize = 2 << 10;

/// The bytes a second below which a client is very slow: the rate of a player of compressed audio. A copy of 16 KiB
/// four times a second costs nothing beside its packets.
const VERY_SLOW: u128 = 64 << 10;

/// A wait shorter than this says nothing about a client's speed.
const HICCUP: Duration = Duration::from_millis(250);

/// The memory that bytes on their way to clients may keep alive.
pub trait Allowance: Send + Sync + fmt::Debug {
    /// Takes `bytes`, if that many are left.
    fn take(&self, bytes: usize) -> bool;
    /// Takes `bytes` even if they are not left: for memory that is held already and cannot be released.
    fn force(&self, bytes: usize);
    /// Gives back bytes that were taken.
    fn give_back(&self, bytes: usize);
    /// Returns whether more than one and a half times the limit is taken.
    fn is_overdrawn(&self) -> bool;
}

/// An [`Allowance`] of a fixed number of bytes.
#[derive(Debug)]
pub struct Ceiling {
    limit: i64,
    used: Gauge,
}

impl Ceiling {
    /// Returns an allowance of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: signed(limit),
            used: Gauge::default(),
        }
    }

    /// Returns the bytes taken now.
    #[must_use]
    pub fn used(&self) -> usize {
        usize::try_from(self.used.get()).unwrap_or(0)
    }

    /// Registers the number of bytes taken in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        names::MEMORY_PINNED.register(registry, self.used.clone());
    }
}

impl Allowance for Ceiling {
    fn take(&self, bytes: usize) -> bool {
        let fits = |used: i64| {
            used.checked_add(signed(bytes))
                .filter(|sum| *sum <= self.limit)
        };
        let used = self.used.inner();
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    fn force(&self, bytes: usize) {
        self.used.inc_by(signed(bytes));
    }

    fn give_back(&self, bytes: usize) {
        self.used.dec_by(signed(bytes));
    }

    fn is_overdrawn(&self) -> bool {
        self.used.get() > self.limit.saturating_add(self.limit / 2)
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The speed at which the client took the frame before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The frame's length.
    pub(super) bytes: usize,
    /// The time that the client took until it asked for the next.
    pub(super) took: Duration,
}

impl Pace {
    /// Returns whether the client gets copies until it is faster.
    pub(super) fn is_very_slow(self) -> bool {
        let millis = self.took.as_millis();
        self.took >= HICCUP && (self.bytes as u128) * 1000 < VERY_SLOW * millis
    }
}

/// Bytes on their way to a client: charged until their last reference is gone.
#[derive(Debug)]
pub(super) struct Pinned {
    bytes: Bytes,
    /// The bytes of memory that they keep alive.
    keeps: usize,
    allowance: Arc<dyn Allowance>,
}

impl Pinned {
    /// Charges `bytes`, which are cut from a buffer of `keeps` bytes, and copies them if they are a small part of it;
    /// `None` if the allowance is spent.
    pub(super) fn charged(
        bytes: &Bytes,
        keeps: usize,
        allowance: &Arc<dyn Allowance>,
    ) -> Option<Bytes> {
        let copied = is_better_copied(bytes, keeps);
        let keeps = if copied { bytes.len() } else { keeps };
        allowance.take(keeps).then(|| {
            let bytes = match copied {
                true => Bytes::copy_from_slice(bytes),
                false => bytes.clone(),
            };
            Self::owned(bytes, keeps, allowance)
        })
    }

    /// Charges `bytes` even if the allowance is spent, copied as in [`Pinned::charged`].
    pub(super) fn forced(bytes: &Bytes, keeps: usize, allowance: &Arc<dyn Allowance>) -> Bytes {
        let (bytes, keeps) = match is_better_copied(bytes, keeps) {
            true => (Bytes::copy_from_slice(bytes), bytes.len()),
            false => (bytes.clone(), keeps),
        };
        allowance.force(keeps);
        Self::owned(bytes, keeps, allowance)
    }

    fn owned(bytes: Bytes, keeps: usize, allowance: &Arc<dyn Allowance>) -> Bytes {
        Bytes::from_owner(Self {
            bytes,
            keeps,
            allowance: allowance.clone(),
        })
    }
}

fn is_better_copied(bytes: &Bytes, keeps: usize) -> bool {
    bytes.len() <= PIECE && bytes.len() < keeps
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.allowance.give_back(self.keeps);
    }
}

/// The copies of one answer that its client has not taken yet.
#[derive(Debug)]
pub(super) struct Copies {
    allowance: Arc<dyn Allowance>,
    on_their_way: AtomicUsize,
    taken: AtomicWaker,
}

/// A copy in flight.
struct Copied {
    bytes: Vec<u8>,
    copies: Arc<Copies>,
}

impl Copies {
    pub(super) fn new(allowance: Arc<dyn Allowance>) -> Arc<Self> {
        Arc::new(Self {
            allowance,
            on_their_way: AtomicUsize::new(0),
            taken: AtomicWaker::new(),
        })
    }

    /// Returns the bytes that the next copy may have.
    pub(super) fn size(&self) -> usize {
        match self.allowance.is_overdrawn() {
            true => SMALL_PIECE,
            false => PIECE,
        }
    }

    /// Returns ready when another copy may be made.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_free =
            || self.on_their_way.load(Ordering::Acquire) == 0 || !self.allowance.is_overdrawn();
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

    /// Returns a copy of `bytes`, charged even if the allowance is spent.
    pub(super) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Bytes {
        self.allowance.force(bytes.len());
        self.on_their_way.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Copied {
            bytes: bytes.to_vec(),
            copies: self.clone(),
        })
    }
}

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.copies.allowance.give_back(self.bytes.len());
        self.copies.on_their_way.fetch_sub(1, Ordering::Release);
        self.copies.taken.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_very_slow() {
        let rows = [
            (256 << 10, 3_900, false),
            (256 << 10, 4_100, true),
            (256 << 10, 10, false),
            (1, 200, false),
            (1, 300, true),
            (PIECE, 249, false),
            (PIECE, 251, true),
        ];
        for (bytes, millis, slow) in rows {
            let took = Duration::from_millis(millis);
            assert_eq!(
                Pace { bytes, took }.is_very_slow(),
                slow,
                "{bytes} in {millis}"
            );
        }
    }

    #[test]
    fn charges_until_the_last_reference_is_gone() {
        let ceiling = Arc::new(Ceiling::new(100));
        let allowance: Arc<dyn Allowance> = ceiling.clone();
        let bytes = Bytes::from(vec![7; 60]);
        let pinned = Pinned::charged(&bytes, 60, &allowance).expect("within");
        assert_eq!((&pinned, pinned.as_ptr()), (&bytes, bytes.as_ptr()));
        assert!(Pinned::charged(&bytes, 60, &allowance).is_none());
        let part = pinned.slice(3..5);
        drop(pinned);
        assert_eq!(ceiling.used(), 60);
        let forced = Pinned::forced(&bytes, 60, &allowance);
        assert_eq!(ceiling.used(), 120);
        drop((part, forced));
        assert_eq!(ceiling.used(), 0);
    }

    #[test]
    fn charges_what_is_kept_alive_or_copies() {
        let ceiling = Arc::new(Ceiling::new(1 << 20));
        let allowance: Arc<dyn Allowance> = ceiling.clone();
        let chunk = Bytes::from(vec![7; 256 << 10]);
        let rows = [(1, true), (PIECE, true), (PIECE + 1, false)];
        for (length, copied) in rows {
            let part = chunk.slice(9..9 + length);
            for forced in [false, true] {
                let charged = match forced {
                    true => Pinned::forced(&part, chunk.len(), &allowance),
                    false => Pinned::charged(&part, chunk.len(), &allowance).expect("within"),
                };
                let kept = if copied { length } else { chunk.len() };
                assert_eq!((&charged, ceiling.used()), (&part, kept));
                assert_eq!(charged.as_ptr() != part.as_ptr(), copied, "{length}");
            }
        }
        assert_eq!(ceiling.used(), 0);
    }

    #[test]
    fn copies_are_small_and_single_while_the_allowance_is_overdrawn() {
        let ceiling = Arc::new(Ceiling::new(PIECE));
        let copies = Copies::new(ceiling.clone());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let first = copies.copy(&[1; PIECE]);
        assert!(copies.poll_room(&mut cx).is_ready());
        assert_eq!(copies.size(), PIECE);
        let second = copies.copy(&[2; PIECE]);
        assert!(copies.poll_room(&mut cx).is_pending());
        assert_eq!((copies.size(), ceiling.used()), (SMALL_PIECE, 2 * PIECE));
        drop(first);
        assert!(copies.poll_room(&mut cx).is_ready(), "no longer overdrawn");
        drop(second);
        ceiling.force(2 * PIECE);
        assert!(copies.poll_room(&mut cx).is_ready(), "others are to blame");
    }
}
