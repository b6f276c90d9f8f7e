//! The fetches under way of one version: its flights, and their end.
//!
//! They exist while a reader reads bytes of its version that memory does not hold. `schedule` decides what to fetch next
//! and from where; tasks (`task`) do the fetching. All decisions are made under one lock, together with a second look
//! into memory, so that two readers never start the same chunk twice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::cursor::Cursors;
use super::flight::Flight;
use super::options::FetchOptions;
use super::origin_rate::OriginRate;
use super::part::Part;
use crate::Core;
use tidegate_cache::{ChunkKey, Tier};
use tidegate_origin::Origin;
use tidegate_origin::client::run_for_client;
use tidegate_plan::{ObjectId, Version, VersionId};
use tidegate_telemetry::locks::Recover as _;
use tidegate_telemetry::trace;

/// The identity of a version's fetches. Versions with the same bytes share an address, but the bucket may have lost one
/// of them. Each origin has its own, because a reload may have changed the credentials.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FetchesId {
    vid: VersionId,
    version_id: Option<String>,
    /// The address in memory of the origin, which the fetches keep alive.
    origin: usize,
}

impl FetchesId {
    pub(crate) fn new(origin: &Arc<dyn Origin>, version: &Version, vid: VersionId) -> Self {
        Self {
            vid,
            version_id: version.version_id.clone(),
            origin: Arc::as_ptr(origin).addr(),
        }
    }
}

/// The fetches under way of one version. See the module's head.
#[derive(Debug)]
pub(crate) struct VersionFetches {
    pub(crate) core: Arc<Core>,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) id: ObjectId,
    pub(crate) version: Arc<Version>,
    pub(crate) vid: VersionId,
    pub(crate) rate: Arc<OriginRate>,
    pub(crate) cursors: Cursors,
    flights: Mutex<BTreeMap<u32, Arc<Flight>>>,
}

pub(crate) type Flights<'a> = MutexGuard<'a, BTreeMap<u32, Arc<Flight>>>;

impl VersionFetches {
    /// Returns the version's fetches, which all its readers through this origin share.
    pub(crate) fn get_or_create(
        core: &Arc<Core>,
        origin: &Arc<dyn Origin>,
        id: &ObjectId,
        version: &Arc<Version>,
        vid: VersionId,
    ) -> Arc<Self> {
        let fetches_id = FetchesId::new(origin, version, vid);
        let mut all = core.fetches();
        if let Some(fetches) = all.get(&fetches_id).and_then(Weak::upgrade) {
            return fetches;
        }
        let fetches = Arc::new(Self {
            core: core.clone(),
            origin: origin.clone(),
            id: id.clone(),
            version: version.clone(),
            vid,
            rate: core.origin_rate(origin.id()),
            cursors: Cursors::default(),
            flights: Mutex::default(),
        });
        all.insert(fetches_id, Arc::downgrade(&fetches));
        fetches
    }

    /// Returns the fetches of a version that is being read or was a moment ago.
    pub(crate) fn get_live(core: &Core, fetches_id: &FetchesId) -> Option<Arc<Self>> {
        core.fetches().get(fetches_id).and_then(Weak::upgrade)
    }

    pub(crate) fn flights(&self) -> Flights<'_> {
        self.flights.lock().recover()
    }

    pub(crate) fn key(&self, index: u32) -> ChunkKey {
        ChunkKey {
            version: self.vid,
            index,
        }
    }

    /// Returns the bytes of a run of chunks.
    pub(crate) fn span_len(&self, chunks: &Range<u32>) -> u64 {
        let (geometry, size) = (self.core.geometry, self.version.size);
        geometry.bytes(chunks.end - 1, size).end - geometry.bytes(chunks.start, size).start
    }

    /// Returns the number of chunks in `bytes`, at least one.
    pub(crate) fn count_in(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / self.core.geometry.chunk())
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// Returns the length that chunk `index` must have.
    pub(crate) fn chunk_len(&self, index: u32) -> usize {
        let bytes = self.core.geometry.bytes(index, self.version.size);
        usize::try_from(bytes.len()).expect("chunks are at most 16 MiB")
    }

    /// Runs the task behind a part.
    pub(crate) fn spawn(
        &self,
        options: FetchOptions,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.core
            .spawn(trace::carry(run_for_client(options.client, task)));
    }

    /// Removes a part's flights: from now on its chunks are in the store, or unknown.
    pub(crate) fn forget(&self, part: &Arc<Part>) {
        forget(&mut self.flights(), part);
    }

    /// Removes a part's flights unless a lease is held. Returns whether it removed them.
    pub(crate) fn forget_unwanted(&self, part: &Arc<Part>) -> bool {
        let mut flights = self.flights();
        let unwanted = !part.is_wanted();
        if unwanted {
            forget(&mut flights, part);
        }
        unwanted
    }

    /// Removes those of a landed part's flights that the memory tier holds, which is charged for
    /// them from now on. Returns whether it removed all of them.
    pub(crate) fn hand_over(&self, part: &Arc<Part>) -> bool {
        let mut flights = self.flights();
        let mut all = true;
        for index in part.chunks.clone() {
            let is_kept = self.core.chunks.locate(&self.key(index)) == Some(Tier::Memory);
            all &= is_kept;
            if is_kept && let Some(flight) = take(&mut flights, index, part) {
                flight.settle();
            }
        }
        all
    }

    /// Removes those of a landed part's flights outside of `kept` that the memory tier holds.
    pub(crate) fn hand_over_outside(&self, kept: &Range<u32>, part: &Part) {
        let chunks = &part.chunks;
        let is_within = kept.start <= chunks.start && chunks.end <= kept.end;
        if is_within || !part.has_landed() {
            return;
        }
        let mut flights = self.flights();
        let is_over = |(index, flight): &(&u32, &Arc<Flight>)| {
            !kept.contains(index)
                && std::ptr::eq(&*flight.part, part)
                && self.core.chunks.locate(&self.key(**index)) == Some(Tier::Memory)
        };
        let over = flights.range(chunks.clone()).filter(is_over);
        let over: Vec<_> = over.map(|(index, _)| *index).collect();
        for index in over {
            if let Some(flight) = flights.remove(&index) {
                flight.settle();
            }
        }
    }

    /// Removes the flight of a chunk that a reader has passed, if the part has landed and no other
    /// reader wants it. A slow reader thus holds the chunks ahead of it, and not the whole part.
    pub(crate) fn leave_behind(&self, index: u32, part: &Arc<Part>) {
        if part.has_landed() && !part.cursor.is_alive() {
            let mut flights = self.flights();
            if part.leases() == 1 {
                take(&mut flights, index, part);
            }
        }
    }
}

fn forget(flights: &mut Flights<'_>, part: &Arc<Part>) {
    for index in part.chunks.clone() {
        take(flights, index, part);
    }
}

/// Removes the flight of a chunk, if it is this part's.
fn take(flights: &mut Flights<'_>, index: u32, part: &Arc<Part>) -> Option<Arc<Flight>> {
    let flight = flights.get(&index)?;
    if !Arc::ptr_eq(&flight.part, part) {
        return None;
    }
    flights.remove(&index)
}

impl Drop for VersionFetches {
    fn drop(&mut self) {
        let fetches_id = FetchesId::new(&self.origin, &self.version, self.vid);
        let mut all = self.core.fetches();
        if all
            .get(&fetches_id)
            .is_some_and(|fetches| fetches.strong_count() == 0)
        {
            all.remove(&fetches_id);
        }
    }
}
