//! The fetches under way of one version: its flights, and the start of new ones.
//!
//! They exist while a reader reads bytes of its version that memory does not hold. `board` decides
//! what to fetch next and from where; tasks (`fetch`) do the fetching. All decisions are made under
//! one lock, together with a second look into memory, so that two readers never start the same
//! chunk twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Buf;

use super::Core;
use super::budget::Charge;
use super::cursor::Cursors;
use super::flight::{Bringer, Flight, Lease, Part};
use super::pace::Pace;
use tidegate_cache::{Admit, ChunkKey, PinId, Tier};
use tidegate_origin::client::run_for_client;
use tidegate_origin::{Content, Origin};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{Client, ObjectId, Profile, Version, VersionId};

/// The fetches under way of one version. See the module's head.
#[derive(Debug)]
pub(super) struct Fill {
    pub(super) core: Arc<Core>,
    pub(super) origin: Arc<dyn Origin>,
    pub(super) id: ObjectId,
    pub(super) version: Arc<Version>,
    pub(super) vid: VersionId,
    pub(super) pace: Arc<Pace>,
    pub(super) cursors: Cursors,
    flights: Mutex<BTreeMap<u32, Arc<Flight>>>,
}

/// A reader's options for its fetches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Whether the object may be stored at all.
    pub(super) storable: bool,
    pub(super) disk: DiskUse,
    pub(super) bulk: bool,
    /// No client waits for it: every fetch with a waiting client goes first.
    pub(super) quiet: bool,
    /// The client for which it is fetched.
    pub(super) client: Client,
}

impl Terms {
    pub(super) fn new(profile: &Profile, storable: bool, client: Client) -> Self {
        Self {
            storable,
            disk: profile.disk,
            bulk: profile.bulk,
            quiet: false,
            client,
        }
    }
}

pub(super) type Flights<'a> = MutexGuard<'a, BTreeMap<u32, Arc<Flight>>>;

impl Fill {
    /// Returns the version's fetches, which all its readers share.
    pub(super) fn of(
        core: &Arc<Core>,
        origin: &Arc<dyn Origin>,
        id: &ObjectId,
        version: &Arc<Version>,
        vid: VersionId,
    ) -> Arc<Self> {
        let mut fills = core.fills();
        if let Some(fill) = fills.get(&vid).and_then(Weak::upgrade) {
            return fill;
        }
        let fill = Arc::new(Self {
            core: core.clone(),
            origin: origin.clone(),
            id: id.clone(),
            version: version.clone(),
            vid,
            pace: core.pace(origin.id()),
            cursors: Cursors::default(),
            flights: Mutex::default(),
        });
        fills.insert(vid, Arc::downgrade(&fill));
        fill
    }

    /// Returns the fetches of a version that is being read or was a moment ago.
    pub(super) fn living(core: &Core, vid: VersionId) -> Option<Arc<Self>> {
        core.fills().get(&vid).and_then(Weak::upgrade)
    }

    pub(super) fn flights(&self) -> Flights<'_> {
        self.flights
            .lock()
            .expect("no code panics while it holds this lock")
    }

    pub(super) fn key(&self, index: u32) -> ChunkKey {
        ChunkKey {
            version: self.vid,
            index,
        }
    }

    /// Returns the length that chunk `index` must have.
    pub(super) fn chunk_len(&self, index: u32) -> usize {
        let bytes = self.core.geometry.bytes(index, self.version.size);
        usize::try_from(bytes.len()).expect("chunks are at most 16 MiB")
    }

    /// Takes over an answer that came with the version: its whole chunks become flights. The lease
    /// keeps the fetch going until a reader has its first chunk. `None` if the answer holds nothing
    /// new.
    pub(super) fn adopt(
        self: &Arc<Self>,
        mut content: Content,
        terms: Terms,
        charge: Charge,
    ) -> Option<Lease> {
        let geometry = self.core.geometry;
        let first = geometry.index(content.range.start.next_multiple_of(geometry.chunk()));
        let end = match content.range.end {
            end if end == self.version.size => geometry.count(end),
            end => geometry.index(end),
        };
        let mut flights = self.flights();
        let is_new = |i: &u32| {
            !flights.contains_key(i) && self.core.chunks.get_memory(&self.key(*i)).is_none()
        };
        let new = u32::try_from((first..end).take_while(is_new).count()).unwrap_or(0);
        if new == 0 {
            return None;
        }
        let part = Part::new(first..first + new, Bringer::Origin, Weak::new());
        let (lease, fetch) = self.take_off(&mut flights, part, 0, terms);
        drop(flights);
        content.body = skip(content.body, geometry.start(first) - content.range.start);
        self.bring(terms, fetch.take_answer(charge, content));
        Some(lease)
    }

    /// Runs the task behind a part.
    pub(super) fn bring(&self, terms: Terms, task: impl Future<Output = ()> + Send + 'static) {
        self.core.spawn(run_for_client(terms.client, task));
    }

    /// Removes a part's flights: from now on its chunks are in the store, or unknown.
    pub(super) fn forget(&self, part: &Arc<Part>) {
        forget(&mut self.flights(), part);
    }

    /// Removes a part's flights unless a lease is held. Returns whether it removed them.
    pub(super) fn forget_unwanted(&self, part: &Arc<Part>) -> bool {
        let mut flights = self.flights();
        let unwanted = !part.is_wanted();
        if unwanted {
            forget(&mut flights, part);
        }
        unwanted
    }

    /// Removes those of a landed part's flights that the memory tier holds, which is charged for
    /// them from now on. Returns whether it removed all of them.
    pub(super) fn hand_over(&self, part: &Arc<Part>) -> bool {
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

    /// Removes the flight of a chunk that a reader has passed, if the part has landed and no other
    /// reader wants it. A slow reader thus holds the chunks ahead of it, and not the whole part.
    pub(super) fn leave_behind(&self, index: u32, part: &Arc<Part>) {
        if part.has_landed() && part.cursor.strong_count() == 0 {
            let mut flights = self.flights();
            if part.leases() == 1 {
                take(&mut flights, index, part);
            }
        }
    }

    /// Returns the tiers that store a fetched chunk, if any.
    pub(super) fn admission(&self, index: u32, terms: Terms, pin: PinId) -> Option<Admit> {
        admission(&self.core, self.vid, index, terms, pin)
    }
}

/// Returns the tiers that store a chunk of a version, if any.
pub(super) fn admission(
    core: &Core,
    version: VersionId,
    index: u32,
    terms: Terms,
    pin: PinId,
) -> Option<Admit> {
    let to_disk = match terms.disk {
        DiskUse::Off => false,
        DiskUse::First => true,
        // A pinned object belongs on disk.
        DiskUse::Second if !pin.is_none() => true,
        DiskUse::Second => {
            let hash = (version.0 as u64).wrapping_add(u64::from(index).wrapping_mul(PRIME));
            let mut seen = core.second_use.lock().expect("never poisoned");
            seen.record_use(hash)
        }
    };
    match (terms.storable, terms.bulk, to_disk) {
        (false, ..) | (true, true, false) => None,
        (true, true, true) => Some(Admit::Disk),
        (true, false, true) => Some(Admit::MemoryAndDisk),
        (true, false, false) if terms.disk == DiskUse::Second => Some(Admit::MemoryFirst),
        (true, false, false) => Some(Admit::Memory),
    }
}

/// Spreads chunk numbers over the table of [`SecondUse`](tidegate_plan::admission::SecondUse): the
/// odd number nearest to 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4).
const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

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

/// Returns the body without its first `skip` bytes.
fn skip(body: tidegate_origin::Body, mut skip: u64) -> tidegate_origin::Body {
    use futures_util::StreamExt;
    if skip == 0 {
        return body;
    }
    Box::pin(body.map(move |frame| {
        let mut frame = frame?;
        let cut = usize::try_from(skip).unwrap_or(usize::MAX).min(frame.len());
        frame.advance(cut);
        skip -= cut as u64;
        Ok(frame)
    }))
}

impl Drop for Fill {
    fn drop(&mut self) {
        let mut fills = self.core.fills();
        if fills
            .get(&self.vid)
            .is_some_and(|fill| fill.strong_count() == 0)
        {
            fills.remove(&self.vid);
        }
    }
}
