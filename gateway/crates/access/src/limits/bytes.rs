//! Bytes a second, with a burst of one second: a body that is too fast waits, and is not refused.

use std::num::NonZeroU64;
use std::time::Duration;

use super::LimitKey;
use super::table::Table;

/// The time that a piece takes at the rate.
const PIECE_TIME: Duration = Duration::from_millis(50);

/// The smallest and the largest piece, in bytes.
const PIECE: (u64, u64) = (1 << 10, 1 << 20);

/// The time for which a rate that was not used is saved up, in nanoseconds.
const BURST: u64 = 1_000_000_000;

/// A limit of bytes.
#[derive(Debug)]
pub(super) struct ByteLimit {
    rate: NonZeroU64,
    table: Table,
}

impl ByteLimit {
    pub(super) fn new(rate: NonZeroU64, shared: bool) -> Self {
        Self {
            rate,
            table: Table::new(shared),
        }
    }

    /// Returns the most bytes of a piece: those of [`PIECE_TIME`], within bounds.
    pub(super) fn piece(&self) -> usize {
        let bytes = u128::from(self.rate.get()) * PIECE_TIME.as_millis() / 1000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        usize::try_from(bytes.clamp(PIECE.0, PIECE.1)).unwrap_or(usize::MAX)
    }

    /// Counts bytes that go out, or returns the time until the earlier ones are paid for.
    pub(super) fn send(&self, key: LimitKey, now: Duration, bytes: usize) -> Result<(), Duration> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.table.update(key, |paid| {
            let paid = paid.unwrap_or(0).max(now.saturating_sub(BURST));
            match paid.saturating_sub(now) {
                0 => Ok(((), paid.saturating_add(self.takes(bytes)))),
                early => Err(Duration::from_nanos(early)),
            }
        })
    }

    /// Returns the nanoseconds that bytes take at the rate.
    fn takes(&self, bytes: usize) -> u64 {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.rate.get());
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}
