//! How bytes are handed to a client, so that a slow one costs little memory.
//!
//! A frame is handed on uncopied, which keeps the chunk that it lies in alive until the client has
//! taken it. That is charged to an [`Allowance`]. Where the allowance is spent, or the client is
//! very slow, it gets copies of at most [`PIECE`] bytes instead, and the chunk is let go.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;

/// Bytes of one copy. Together with what the server buffers (16 KiB by default) a very slow client
/// costs 32 KiB.
pub(super) const PIECE: usize = 16 << 10;

/// Bytes a second below which a client is very slow: what a player of compressed audio takes. A
/// copy of 16 KiB four times a second costs nothing beside its packets.
const VERY_SLOW: u128 = 64 << 10;

/// A wait shorter than this says nothing about a client's speed.
const HICCUP: Duration = Duration::from_millis(250);

/// Memory that bytes on their way to clients may keep alive.
pub trait Allowance: Send + Sync + fmt::Debug {
    /// Takes `bytes`, if there are so many left.
    fn take(&self, bytes: usize) -> bool;
    /// Takes `bytes` whether they are left or not: for what is held already and cannot be let go.
    fn force(&self, bytes: usize);
    /// Gives back what was taken.
    fn give_back(&self, bytes: usize);
}

/// An [`Allowance`] of a fixed number of bytes.
#[derive(Debug)]
pub struct Ceiling {
    limit: usize,
    used: AtomicUsize,
}

impl Ceiling {
    /// An allowance of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
        }
    }

    /// Bytes taken now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

impl Allowance for Ceiling {
    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    fn force(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// How fast the client took the frame before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Its length.
    pub(super) bytes: usize,
    /// How long the client kept us waiting after it.
    pub(super) took: Duration,
}

impl Pace {
    /// Whether the client gets copies until it is faster.
    pub(super) fn is_very_slow(self) -> bool {
        let millis = self.took.as_millis();
        self.took >= HICCUP && (self.bytes as u128) * 1000 < VERY_SLOW * millis
    }
}

/// Bytes on their way to a client: charged until the last reference to them is gone.
#[derive(Debug)]
pub(super) struct Pinned {
    bytes: Bytes,
    allowance: Arc<dyn Allowance>,
}

impl Pinned {
    /// Charges `bytes`; `None` where the allowance is spent.
    pub(super) fn charged(bytes: &Bytes, allowance: &Arc<dyn Allowance>) -> Option<Bytes> {
        allowance
            .take(bytes.len())
            .then(|| Self::owned(bytes, allowance))
    }

    /// Charges `bytes` in any case.
    pub(super) fn forced(bytes: &Bytes, allowance: &Arc<dyn Allowance>) -> Bytes {
        allowance.force(bytes.len());
        Self::owned(bytes, allowance)
    }

    fn owned(bytes: &Bytes, allowance: &Arc<dyn Allowance>) -> Bytes {
        Bytes::from_owner(Self {
            bytes: bytes.clone(),
            allowance: allowance.clone(),
        })
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.allowance.give_back(self.bytes.len());
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
        let pinned = Pinned::charged(&bytes, &allowance).expect("within");
        assert_eq!(pinned, bytes);
        assert!(Pinned::charged(&bytes, &allowance).is_none());
        let part = pinned.slice(3..5);
        drop(pinned);
        assert_eq!(ceiling.used(), 60);
        let forced = Pinned::forced(&bytes, &allowance);
        assert_eq!(ceiling.used(), 120);
        drop((part, forced));
        assert_eq!(ceiling.used(), 0);
    }
}
