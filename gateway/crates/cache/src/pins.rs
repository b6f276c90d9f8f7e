//! Pins: prefixes whose objects are kept from eviction on disk, each up to a limit of bytes.
//!
//! A pin has a number. Each chunk on disk carries the number of its pin, in the index and in its entry
//! on the disk, so that a restart finds it pinned. Nothing else connects them. If a pin is removed, its
//! number is not given to another (before all 65,535 were used), and all its chunks are free at once. A store
//! whose numbers are lost begins at a random one: chunks on disk still carry the old ones.
//!
//! A set of pinned versions would have to be written for each object, and cleared up after each eviction
//! and overwrite. The number lies in unused bytes of the entry, moves with the chunk, and disappears
//! with it.
//!
//! The bytes of a pin are counted here over all disks; each disk counts its own limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use tidegate_plan::{ObjectId, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// The most pins: each is compared with the keys of written objects.
const MAX_PINS: usize = 256;

/// The number of a pin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinId(u16);

impl PinId {
    /// No pin.
    pub const NONE: Self = Self(0);

    /// Returns whether this is no pin.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(super) fn from_number(number: u16) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> u16 {
        self.0
    }
}

/// A pin, and the bytes that it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The bucket.
    pub origin: OriginId,
    /// The prefix of the keys; empty: every object of the bucket.
    pub prefix: String,
    /// Bytes on disk that it may keep, counted in whole pages.
    pub limit: u64,
    /// Bytes that it keeps.
    pub used: u64,
}

/// The error of a change of pins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// There is no such pin.
    #[error("nothing is pinned there; GET /pins lists what is")]
    NoSuch,
    /// There are too many pins.
    #[error("no more than {MAX_PINS} prefixes can be pinned")]
    TooMany,
    /// The change holds in memory, but may not outlive the process.
    #[error("the metadata store failed: {0}")]
    NotDurable(String),
}

/// A row to be stored: its key, and its value; `None` removes it.
pub(super) type PinRow = (Vec<u8>, Option<Vec<u8>>);

/// All pins.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// The number of pins, readable without the lock.
    count: AtomicUsize,
    table: RwLock<PinTable>,
}

#[derive(Debug, Default)]
struct PinTable {
    /// The number given out last.
    last: u16,
    pins: BTreeMap<PinId, PinState>,
}

#[derive(Debug)]
struct PinState {
    origin: OriginId,
    prefix: Box<str>,
    limit: u64,
    used: AtomicU64,
}

impl Pins {
    /// Returns no pins. The first one gets the number after `last`.
    pub(super) fn starting_after(last: u16) -> Self {
        Self::restore(&[], last)
    }

    /// Restores the pins from stored rows, without those that cannot be read. If no row has the number given out last, it
    /// is `last`.
    pub(super) fn restore(rows: &[(Vec<u8>, Vec<u8>)], last: u16) -> Self {
        let mut table = PinTable {
            last,
            ..PinTable::default()
        };
        for (key, value) in rows {
            let _ = table.restore(key, value);
        }
        Self {
            count: AtomicUsize::new(table.pins.len()),
            table: RwLock::new(table),
        }
    }

    /// Returns the pin that an object belongs to: the one with the longest prefix. Nearly free without
    /// pins.
    pub(super) fn covering(&self, id: &ObjectId) -> PinId {
        if self.count.load(Ordering::Relaxed) == 0 {
            return PinId::NONE;
        }
        let table = self.read();
        let covers =
            |pin: &PinState| pin.origin == id.origin && id.key.as_str().starts_with(&*pin.prefix);
        let covering = table.pins.iter().filter(|(_, pin)| covers(pin));
        let longest = covering.max_by_key(|(_, pin)| pin.prefix.len());
        longest.map_or(PinId::NONE, |(id, _)| *id)
    }

    /// Counts bytes as kept by a pin. `false`: the pin is gone, or its limit is reached.
    pub(super) fn reserve(&self, id: PinId, bytes: u64) -> bool {
        let table = self.read();
        let Some(pin) = table.pins.get(&id) else {
            return false;
        };
        let more = |used: u64| (used + bytes <= pin.limit).then_some(used + bytes);
        pin.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Stops counting bytes as kept by a pin.
    pub(super) fn release(&self, id: PinId, bytes: u64) {
        if let Some(pin) = self.read().pins.get(&id) {
            let less = |used: u64| Some(used.saturating_sub(bytes));
            let _ = pin
                .used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Returns whether the pin exists.
    pub(super) fn exists(&self, id: PinId) -> bool {
        self.read().pins.contains_key(&id)
    }

    /// Returns whether the pin exists and does not exceed its limit.
    pub(super) fn is_within_limit(&self, id: PinId) -> bool {
        let table = self.read();
        let pin = table.pins.get(&id);
        pin.is_some_and(|pin| pin.used.load(Ordering::Relaxed) <= pin.limit)
    }

    /// Returns all pins, by origin and prefix.
    pub(super) fn list(&self) -> Vec<Pin> {
        let pin = |pin: &PinState| Pin {
            origin: pin.origin,
            prefix: pin.prefix.to_string(),
            limit: pin.limit,
            used: pin.used.load(Ordering::Relaxed),
        };
        let mut pins: Vec<_> = self.read().pins.values().map(pin).collect();
        pins.sort_by(|a, b| (a.origin, &a.prefix).cmp(&(b.origin, &b.prefix)));
        pins
    }

    /// Pins a prefix, or changes its limit, and returns the rows to store.
    pub(super) fn set(
        &self,
        origin: OriginId,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<PinRow>, PinError> {
        self.change(|table| {
            let existing = table.find(origin, prefix);
            let id = match existing {
                Some(id) => id,
                None if table.pins.len() >= MAX_PINS => return Err(PinError::TooMany),
                None => table.next(),
            };
            let pin = table.pins.entry(id).or_insert_with(|| PinState {
                origin,
                prefix: prefix.into(),
                limit,
                used: AtomicU64::new(0),
            });
            pin.limit = limit;
            let row = pin.row(id);
            Ok(vec![row, table.counter()])
        })
    }

    /// Removes a pin, and returns the rows to store.
    pub(super) fn remove(&self, origin: OriginId, prefix: &str) -> Result<Vec<PinRow>, PinError> {
        self.change(|table| {
            let id = table.find(origin, prefix).ok_or(PinError::NoSuch)?;
            table.pins.remove(&id);
            Ok(vec![(key_of(origin, prefix), None)])
        })
    }

    /// Gives new numbers to the pins that `covers` selects, and returns the rows to store. Their chunks
    /// are free then; those used from then on are pinned again.
    pub(super) fn renew(&self, covers: impl Fn(OriginId, &str) -> bool) -> Vec<PinRow> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.change(|table| {
            let touched = table.pins.iter();
            let touched = touched.filter(|(_, pin)| covers(pin.origin, &pin.prefix));
            let ids: Vec<_> = touched.map(|(id, _)| *id).collect();
            let mut rows = Vec::new();
            for id in ids {
                if let Some(pin) = table.pins.remove(&id) {
                    let id = table.next();
                    rows.push(pin.row(id));
                    let used = AtomicU64::new(0);
                    table.pins.insert(id, PinState { used, ..pin });
                }
            }
            rows.push(table.counter());
            rows
        })
    }

    /// Returns all rows, to store them again.
    pub(super) fn rows(&self) -> Vec<PinRow> {
        let table = self.read();
        let pins = table.pins.iter().map(|(id, pin)| pin.row(*id));
        pins.chain([table.counter()]).collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut PinTable) -> T) -> T {
        let mut table = self.table.write().recover();
        let done = change(&mut table);
        self.count.store(table.pins.len(), Ordering::Relaxed);
        done
    }

    fn read(&self) -> RwLockReadGuard<'_, PinTable> {
        self.table.read().recover()
    }
}

impl PinTable {
    fn find(&self, origin: OriginId, prefix: &str) -> Option<PinId> {
        let is_it = |pin: &PinState| pin.origin == origin && *pin.prefix == *prefix;
        let found = self.pins.iter().find(|(_, pin)| is_it(pin));
        found.map(|(id, _)| *id)
    }

    /// Returns an unused number, and not one of the latest, whose chunks may still be there.
    fn next(&mut self) -> PinId {
        loop {
            self.last = self.last.wrapping_add(1);
            let id = PinId(self.last);
            if !id.is_none() && !self.pins.contains_key(&id) {
                return id;
            }
        }
    }

    /// Returns the row with the number given out last.
    fn counter(&self) -> PinRow {
        (Vec::new(), Some(self.last.to_le_bytes().to_vec()))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (number, rest) = value.split_first_chunk()?;
        let number = u16::from_le_bytes(*number);
        if !key.is_empty() {
            let (origin, prefix) = key.split_first_chunk()?;
            let pin = PinState {
                origin: OriginId(u64::from_le_bytes(*origin)),
                prefix: std::str::from_utf8(prefix).ok()?.into(),
                limit: u64::from_le_bytes(rest.try_into().ok()?),
                used: AtomicU64::new(0),
            };
            self.pins.insert(PinId(number), pin);
            return Some(());
        }
        self.last = number;
        Some(())
    }
}

impl PinState {
    fn row(&self, id: PinId) -> PinRow {
        let value = [&id.0.to_le_bytes()[..], &self.limit.to_le_bytes()].concat();
        (key_of(self.origin, &self.prefix), Some(value))
    }
}

fn key_of(origin: OriginId, prefix: &str) -> Vec<u8> {
    [&origin.0.to_le_bytes()[..], prefix.as_bytes()].concat()
}

/// All pins, shared with other parts of the store.
pub(super) type SharedPins = Arc<Pins>;

#[cfg(test)]
mod tests;
