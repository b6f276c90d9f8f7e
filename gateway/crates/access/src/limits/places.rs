//! The requests under way, counted by [`LimitKey`].
//!
//! Each sharer has one counted reference, whose holders are the requests. So a request that ends takes no lock and looks
//! nothing up, and sharers wait for each other only where they begin.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use super::{KnownHash, LimitKey};
use tidegate_telemetry::locks::Recover as _;

/// The parts of the map, which are locked apart.
const SHARDS: usize = 16;

/// The sharers of a part up to which those without a request stay in it. Beyond, they are half of it at most.
const MIN_SWEPT: usize = 64;

/// A request under way; dropping it gives its place back.
#[derive(Debug)]
pub struct RequestPermit {
    _place: Arc<Place>,
}

/// The count of one sharer, on a cache line that nothing else is on: the holders of its reference, without the map.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place;

/// The counts of all sharers.
#[derive(Debug, Default)]
pub(super) struct PlaceTable([Shard; SHARDS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    places: HashMap<LimitKey, Arc<Place>, BuildHasherDefault<KnownHash>>,
    /// The entries at which those without a request go.
    sweep_at: usize,
}

impl PlaceTable {
    /// Takes a place for a request; `None` if its sharer has `most` of them under way.
    pub(super) fn take(&self, key: LimitKey, most: NonZeroU32) -> Option<RequestPermit> {
        let mut counts = self.shard(key).0.lock().recover();
        let place = match counts.places.get(&key) {
            // It can only shrink meanwhile: requests are added under this lock.
            Some(place) if under_way(place) >= most.get() as usize => return None,
            Some(place) => place.clone(),
            None => counts.add(key),
        };
        Some(RequestPermit { _place: place })
    }

    fn shard(&self, key: LimitKey) -> &Shard {
        // Other bits than those by which a shard finds its entries.
        let shard = usize::try_from((key.hash >> 32) % SHARDS as u64).unwrap_or(0);
        &self.0[shard]
    }

    /// Returns the requests under way, and the entries of the map.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let shards = self.0.iter().map(|shard| shard.0.lock().recover());
        shards.fold((0, 0), |(requests, entries), counts| {
            let own: usize = counts.places.values().map(under_way).sum();
            (requests + own, entries + counts.places.len())
        })
    }
}

impl Counts {
    /// Adds a sharer. As many entries as twice the requests under way are kept, so that a sweep is paid for by the sharers
    /// that were added since the one before.
    fn add(&mut self, key: LimitKey) -> Arc<Place> {
        if self.places.len() >= self.sweep_at.max(MIN_SWEPT) {
            self.places.retain(|_, place| under_way(place) > 0);
            self.sweep_at = 2 * self.places.len();
            self.places.shrink_to(self.sweep_at.max(MIN_SWEPT));
        }
        self.places.entry(key).or_default().clone()
    }
}

/// Returns the requests that hold a place. The map holds it as well.
fn under_way(place: &Arc<Place>) -> usize {
    Arc::strong_count(place) - 1
}
