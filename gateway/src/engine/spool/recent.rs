//! Blocks of a draft that were written past the file cache and not sent yet, as far as memory lasts.
//! They are what the disk has at their places, always.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::engine::budget::{Budget, Charge};
use crate::plan::ByteRange;

/// What is charged to somebody; given back when it is dropped.
pub(super) type Charged = [Charge; 2];

/// The memory that blocks are charged to: a share of the budget that all who write have together, and
/// the budget itself.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Memory {
    pub(in crate::engine) share: Budget,
    pub(in crate::engine) budget: Budget,
}

impl Memory {
    /// So many bytes, at once or not at all. Nobody waits for them: there is another way without.
    pub(super) fn take(&self, bytes: u64) -> Option<Charged> {
        Some([self.share.try_demand(bytes)?, self.budget.ahead(bytes)?])
    }
}

/// See the module's head. By where they begin; no two overlap.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<BTreeMap<u64, (Bytes, Charged)>>);

impl Recent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (Bytes, Charged)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a block that was just written, in place of what was there.
    pub(super) fn keep(&self, at: u64, bytes: Bytes, charged: Charged) {
        self.forget(ByteRange::new(at, at + bytes.len() as u64));
        self.lock().insert(at, (bytes, charged));
    }

    /// The first bytes of a range that one block has; or where in the range the first block begins,
    /// which is its end if there is none.
    pub(super) fn first(&self, range: ByteRange) -> Result<Bytes, u64> {
        let blocks = self.lock();
        if let Some((start, (bytes, _))) = blocks.range(..=range.start).next_back() {
            let end = start + bytes.len() as u64;
            if range.start < end {
                let offset = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
                return Ok(bytes.slice(offset(range.start)..offset(range.end.min(end))));
            }
        }
        let next = blocks.range(range.start..range.end).next();
        Err(next.map_or(range.end, |(start, _)| *start))
    }

    /// Lets go of blocks that a range touches: they were sent, or are something else from now on.
    pub(super) fn forget(&self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let mut blocks = self.lock();
        let before = blocks.range(..range.start).next_back();
        let before = before.filter(|(start, (it, _))| *start + it.len() as u64 > range.start);
        let first = before.map_or(range.start, |(start, _)| *start);
        while let Some((start, _)) = blocks.range(first..range.end).next() {
            let start = *start;
            blocks.remove(&start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_what_was_written_last() {
        let memory = Memory {
            share: Budget::new(2 * 4096),
            budget: Budget::new(1 << 20),
        };
        let recent = Recent::default();
        for n in 0..3 {
            let Some(charged) = memory.take(4096) else {
                assert_eq!(n, 2, "memory for two");
                continue;
            };
            recent.keep(n * 4096, vec![n as u8; 4096].into(), charged);
        }
        let found = recent.first(ByteRange::new(4000, 9000)).expect("kept");
        assert_eq!(found, [0; 96][..]);
        let found = recent.first(ByteRange::new(4096, 9000)).expect("kept");
        assert_eq!(found, [1; 4096][..]);
        assert_eq!(recent.first(ByteRange::new(8192, 13000)), Err(13000));
        recent.forget(ByteRange::new(4095, 4096));
        assert_eq!(recent.first(ByteRange::new(0, 20000)), Err(4096));
        assert!(memory.take(4096).is_some(), "it was given back");
        let charged = memory.take(4096).expect("for one more");
        recent.keep(4000, vec![7; 200].into(), charged);
        assert_eq!(
            recent.first(ByteRange::new(4096, 9000)).map(|it| it.len()),
            Ok(104)
        );
    }
}
