//! What is on its way of one version: its flights, and how new ones are started.
//!
//! A fill exists while somebody reads bytes of its version that memory does not hold. It decides
//! what to fetch next (boarding), and hands the fetching itself to tasks (`fetch`). All decisions
//! are taken under one lock, together with a second look into memory, so that two readers never
//! start the same chunk twice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::{Buf, Bytes};

use super::budget::Charge;
use super::core::Core;
use super::cursor::{Cursor, Cursors};
use super::fetch::Fetch;
use super::flight::{Flight, Lease, Part};
use super::pace::Pace;
use crate::origin::{Content, Origin, Priority};
use crate::plan::profile::DiskUse;
use crate::plan::{ObjectId, Profile, Version, VersionId};
use crate::store::{Admit, ChunkKey, Tier};

/// The largest part that demand asks for in one request. Measured against MinIO, 8 MiB are enough
/// for the SDK to be as fast as a bare client, and 1 MiB cost a quarter of the rate.
pub(super) const PART: u64 = 8 << 20;

/// From this offset on, a seek into the middle of a chunk is served from the wanted byte and the
/// chunk's head fetched behind it: the second request costs less than the wait for these bytes.
const WORTH_SKIPPING: usize = 32 << 10;

/// How many chunks of a span are read from disk at once, so that a disk sees a queue to work on.
const DISK_DEPTH: u32 = 4;

/// What is on its way of one version. See the module's head.
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

/// How a reader wants its bytes treated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// May the object be kept at all?
    pub(super) storable: bool,
    pub(super) disk: DiskUse,
    pub(super) bulk: bool,
}

impl Terms {
    pub(super) fn new(profile: &Profile, storable: bool) -> Self {
        Self {
            storable,
            disk: profile.disk,
            bulk: profile.bulk,
        }
    }
}

/// A chunk, or the way to it.
#[derive(Debug)]
pub(super) enum Boarded {
    /// Memory has it after all.
    Whole(Bytes),
    /// It is on its way; the lease keeps it coming.
    Flight(Arc<Flight>, Lease),
}

/// What became of a wish to have chunks before they are asked for.
#[derive(Debug)]
pub(super) enum Ahead {
    /// They are coming; the lease tells which, and keeps them coming.
    OnItsWay(Lease),
    /// Memory has them, up to this chunk.
    Cached(u32),
    /// The budget has no room.
    NoRoom,
}

type Flights<'a> = MutexGuard<'a, BTreeMap<u32, Arc<Flight>>>;

impl Fill {
    /// The fill of a version; one for all its readers.
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

    /// The fill of a version that is being read or was a moment ago.
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

    /// The length that chunk `index` must have.
    pub(super) fn chunk_len(&self, index: u32) -> usize {
        let bytes = self.core.geometry.bytes(index, self.version.size);
        usize::try_from(bytes.len()).expect("chunks are at most 16 MiB")
    }

    /// Gets a reader the chunk `index` from its byte `offset` on, of a span that ends before chunk
    /// `until`: joins its flight, or starts one from disk or from the origin.
    pub(super) fn board(
        self: &Arc<Self>,
        index: u32,
        offset: usize,
        until: u32,
        terms: Terms,
    ) -> Boarded {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&index) {
            self.core.metrics.joined.inc();
            return Boarded::Flight(flight.clone(), flight.part.lease());
        }
        if let Some(bytes) = self.core.chunks.get_memory(&self.key(index)) {
            return Boarded::Whole(bytes);
        }
        let lease = if self.on_disk(index) {
            self.board_disk(&mut flights, index, until, terms)
        } else {
            self.board_origin(&mut flights, index, offset, until, terms)
        };
        Boarded::Flight(flights[&index].clone(), lease)
    }

    fn on_disk(&self, index: u32) -> bool {
        self.core.chunks.locate(&self.key(index)) == Some(Tier::Disk)
    }

    /// Starts reading `index` and the next few chunks that lie on disk, each a flight of its own.
    fn board_disk(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        index: u32,
        until: u32,
        terms: Terms,
    ) -> Lease {
        let lease = self.start_disk(flights, index, None, terms, Weak::new());
        for next in index + 1..until.min(index + DISK_DEPTH) {
            if flights.contains_key(&next) || !self.on_disk(next) {
                break;
            }
            let Some(charge) = self.core.budget.ahead(self.chunk_len(next) as u64) else {
                break;
            };
            // No lease: it is one chunk, and soon there. It ends in memory, or as a quiet miss.
            drop(self.start_disk(flights, next, Some(charge), terms, Weak::new()));
        }
        lease
    }

    fn start_disk(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        index: u32,
        charge: Option<Charge>,
        terms: Terms,
        cursor: Weak<Cursor>,
    ) -> Lease {
        let part = Part::new(index..index + 1, cursor);
        let new = self.take_off(flights, &part, 0);
        let lease = part.lease();
        let fetch = Fetch::new(self.clone(), part, new, terms);
        self.core.tasks.spawn(fetch.read_disk(charge));
        lease
    }

    /// Starts one request for `index`, from `offset` on, and what follows it within the span.
    fn board_origin(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        index: u32,
        offset: usize,
        until: u32,
        terms: Terms,
    ) -> Lease {
        let (chunks, charge) = self.affordable(self.missing_run(flights, index, until));
        let base = if offset < WORTH_SKIPPING { 0 } else { offset };
        let part = Part::new(chunks, Weak::new());
        let new = self.take_off(flights, &part, base);
        let lease = part.lease();
        let fetch = Fetch::new(self.clone(), part, new, terms);
        self.core
            .tasks
            .spawn(fetch.ask_origin(charge, Priority::Demand));
        lease
    }

    /// Has chunks fetched before they are asked for: as many of `chunks`, from the first on, as one
    /// request or one disk read brings.
    pub(super) fn ahead(
        self: &Arc<Self>,
        chunks: Range<u32>,
        terms: Terms,
        cursor: &Arc<Cursor>,
    ) -> Ahead {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&chunks.start) {
            return Ahead::OnItsWay(flight.part.lease());
        }
        let locate = |index: &u32| self.core.chunks.locate(&self.key(*index));
        let from = locate(&chunks.start);
        if from == Some(Tier::Memory) {
            let run = chunks
                .clone()
                .take_while(|index| locate(index) == from)
                .count();
            return Ahead::Cached(chunks.start + u32::try_from(run).unwrap_or(1));
        }
        let run = match from {
            Some(_) => chunks.start..chunks.start + 1,
            None => self.missing_run(&flights, chunks.start, chunks.end),
        };
        let Some(charge) = self.core.budget.ahead(self.span_len(&run)) else {
            return Ahead::NoRoom;
        };
        let cursor = Arc::downgrade(cursor);
        if from.is_some() {
            let lease = self.start_disk(&mut flights, run.start, Some(charge), terms, cursor);
            return Ahead::OnItsWay(lease);
        }
        let part = Part::new(run, cursor);
        let new = self.take_off(&mut flights, &part, 0);
        let lease = part.lease();
        let fetch = Fetch::new(self.clone(), part, new, terms);
        self.core
            .tasks
            .spawn(fetch.ask_origin(Some(charge), Priority::Ahead));
        Ahead::OnItsWay(lease)
    }

    /// The chunks from `index` on that neither fly nor lie in any tier, up to one part.
    fn missing_run(&self, flights: &Flights<'_>, index: u32, until: u32) -> Range<u32> {
        let most = u32::try_from(PART / self.core.geometry.chunk())
            .unwrap_or(1)
            .max(1);
        let end = until.min(index.saturating_add(most)).max(index + 1);
        let is_missing =
            |i: &u32| !flights.contains_key(i) && self.core.chunks.locate(&self.key(*i)).is_none();
        let run = (index + 1..end).take_while(is_missing).count();
        index..index + 1 + u32::try_from(run).unwrap_or(0)
    }

    /// As much of a run as the budget has room for now; at least its first chunk, for which the
    /// fetch waits its turn where there is no room.
    fn affordable(&self, mut run: Range<u32>) -> (Range<u32>, Option<Charge>) {
        loop {
            let charge = self.core.budget.try_demand(self.span_len(&run));
            if charge.is_some() || run.len() == 1 {
                return (run, charge);
            }
            run.end = run.start + u32::try_from(run.len() / 2).unwrap_or(1);
        }
    }

    pub(super) fn span_len(&self, chunks: &Range<u32>) -> u64 {
        let (geometry, size) = (self.core.geometry, self.version.size);
        geometry.bytes(chunks.end - 1, size).end - geometry.bytes(chunks.start, size).start
    }

    /// Enters a flight for every chunk of a part, the first of them from its byte `base` on.
    fn take_off(
        &self,
        flights: &mut Flights<'_>,
        part: &Arc<Part>,
        base: usize,
    ) -> Vec<Arc<Flight>> {
        let first = part.chunks.start;
        part.chunks
            .clone()
            .map(|index| {
                let base = if index == first { base } else { 0 };
                let flight = Arc::new(Flight::new(part.clone(), self.chunk_len(index), base));
                flights.insert(index, flight.clone());
                flight
            })
            .collect()
    }

    /// Takes over an answer that came with the version: its whole chunks become flights. The
    /// lease keeps them coming until a reader has boarded. `None` when it brings nothing new.
    pub(super) fn adopt(self: &Arc<Self>, mut content: Content, terms: Terms) -> Option<Lease> {
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
        let part = Part::new(first..first + new, Weak::new());
        let lease = part.lease();
        let new = self.take_off(&mut flights, &part, 0);
        drop(flights);
        content.body = skip(content.body, geometry.start(first) - content.range.start);
        let charge = self.core.budget.try_demand(self.span_len(&part.chunks));
        let fetch = Fetch::new(self.clone(), part, new, terms);
        self.core.tasks.spawn(fetch.take_answer(charge, content));
        Some(lease)
    }

    /// Removes a part's flights: from here on its chunks are in the store, or unknown.
    pub(super) fn forget(&self, part: &Arc<Part>) {
        forget(&mut self.flights(), part);
    }

    /// The same, unless somebody wants it after all. Says whether it was forgotten.
    pub(super) fn forget_unwanted(&self, part: &Arc<Part>) -> bool {
        let mut flights = self.flights();
        let unwanted = !part.is_wanted();
        if unwanted {
            forget(&mut flights, part);
        }
        unwanted
    }

    /// Where a fetched chunk is to be kept, if anywhere.
    pub(super) fn admission(&self, index: u32, terms: Terms) -> Option<Admit> {
        let to_disk = match terms.disk {
            DiskUse::Off => false,
            DiskUse::First => true,
            DiskUse::Second => {
                let hash = (self.vid.0 as u64).wrapping_add(u64::from(index).wrapping_mul(PRIME));
                let mut seen = self.core.second_use.lock().expect("never poisoned");
                seen.seen(hash)
            }
        };
        match (terms.storable, terms.bulk, to_disk) {
            (false, ..) | (true, true, false) => None,
            (true, true, true) => Some(Admit::Disk),
            (true, false, true) => Some(Admit::MemoryAndDisk),
            (true, false, false) => Some(Admit::Memory),
        }
    }
}

/// Spreads chunk numbers over the table of [`SecondUse`](crate::plan::admission::SecondUse): the
/// odd number nearest to 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4).
const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

fn forget(flights: &mut Flights<'_>, part: &Arc<Part>) {
    for index in part.chunks.clone() {
        if flights
            .get(&index)
            .is_some_and(|flight| Arc::ptr_eq(&flight.part, part))
        {
            flights.remove(&index);
        }
    }
}

/// The body without its first `skip` bytes.
fn skip(body: crate::origin::Body, mut skip: u64) -> crate::origin::Body {
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
