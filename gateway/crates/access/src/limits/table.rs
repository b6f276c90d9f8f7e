//! A bounded table of times by [`LimitKey`].
//!
//! A time says until when a sharer has used up its rate. The table is set-associative: a sharer may stand in one of eight
//! slots, and a new one takes the slot whose time is the earliest. So a flood of new addresses, each with one request,
//! pushes out those that have used little; one that is over its limit has the latest time, and stays.

use std::sync::Mutex;

use governor::nanos::Nanos;
use governor::state::StateStore;

use super::{LimitKey, Sharer};
use tidegate_telemetry::locks::Recover as _;

/// The slots in which one sharer may stand.
const WAYS: usize = 8;

/// The sets of slots: 65,536 slots, of 32 bytes each.
const SETS: usize = 8192;

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    sets: Box<[Mutex<[Slot; WAYS]>]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    sharer: Option<Sharer>,
    /// In nanoseconds since the start.
    time: u64,
}

impl Table {
    /// Returns an empty table; one for a single sharer if it is `shared`.
    pub(super) fn new(shared: bool) -> Self {
        let sets = if shared { 1 } else { SETS };
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
        }
    }

    /// Replaces the time of `key` by the one that `next` returns for the present one, unless that is an error.
    pub(super) fn update<T, E>(
        &self,
        key: LimitKey,
        next: impl FnOnce(Option<u64>) -> Result<(T, u64), E>,
    ) -> Result<T, E> {
        let sets = self.sets.len() as u64;
        let set = usize::try_from(key.hash % sets).unwrap_or(0);
        // A slot is written whole, also if a thread panics beside it.
        let mut slots = self.sets[set].lock().recover();
        let own = slots
            .iter()
            .position(|slot| slot.sharer == Some(key.sharer));
        let (value, time) = next(own.map(|at| slots[at].time))?;
        let slot = match own {
            Some(at) => Some(&mut slots[at]),
            None => slots
                .iter_mut()
                .min_by_key(|slot| (slot.sharer.is_some(), slot.time)),
        };
        if let Some(slot) = slot {
            *slot = Slot {
                sharer: Some(key.sharer),
                time,
            };
        }
        Ok(value)
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.sets.len() * WAYS
    }
}

impl StateStore for Table {
    type Key = LimitKey;

    fn measure_and_replace<T, F, E>(&self, key: &LimitKey, next: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        self.update(*key, |time| {
            let (value, time) = next(time.map(Nanos::from))?;
            Ok((value, time.into()))
        })
    }
}
