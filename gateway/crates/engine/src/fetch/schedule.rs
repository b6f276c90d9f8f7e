//! The schedule: which source brings a chunk that a reader waits for, and which others come with it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;

use super::MAX_PART;
use super::flight::Flight;
use super::options::FetchOptions;
use super::part::{FetchSource, Lease, Part, PartOwner};
use super::steer::DiskChunk;
use super::task::Fetch;
use super::version_fetches::{Flights, VersionFetches};
use crate::budget::Charge;
use tidegate_cache::Tier;
use tidegate_origin::{Body, Content, Priority};
use tidegate_plan::tiering::ChunkSource;
use tidegate_telemetry::trace;

/// From this offset on, a seek into a chunk is served from the wanted byte, and the chunk's head is fetched afterwards:
/// the second request costs less than waiting for these bytes. A connection that carries more in [`MIN_SKIP_TIME`] brings
/// the head as well.
pub(crate) const MIN_SKIP: usize = 32 << 10;

/// The wait for a chunk's head that a reader does not notice, and a second request is not worth.
const MIN_SKIP_TIME: Duration = Duration::from_millis(3);

/// The number of a span's chunks read from disk at once, so that the disk has a queue.
const DISK_DEPTH: u32 = 4;

/// A scheduled chunk: its bytes or its flight.
#[derive(Debug)]
pub(crate) enum Scheduled {
    /// Memory has it after all.
    Whole(Bytes),
    /// It is under way; the lease keeps it coming.
    Flight(Arc<Flight>, Lease),
}

impl VersionFetches {
    /// Schedules the chunk `index` from its byte `offset` on, of a span that ends before chunk `until`: joins its
    /// flight, or starts one from disk or from the origin.
    pub(crate) fn schedule(
        self: &Arc<Self>,
        index: u32,
        offset: usize,
        until: u32,
        options: FetchOptions,
    ) -> Scheduled {
        let mut flights = self.flights();
        let flight = flights.get(&index);
        if let Some(flight) = flight.filter(|flight| flight.brings(offset)) {
            self.core.metrics.joined.inc();
            return Scheduled::Flight(flight.clone(), flight.part.lease());
        }
        if let Some(bytes) = self.core.chunks.get_memory(&self.key(index)) {
            return Scheduled::Whole(bytes);
        }
        let steer = &self.core.assembly.steer;
        let lease = match self.on_disk(index) {
            Some(chunk) if steer.choose_awaited(chunk, until) == ChunkSource::Disk => {
                self.start_disk_run(&mut flights, index, until, options)
            }
            on_disk => {
                let span = self.demand_span(index, until);
                let disk_before = if on_disk.is_some() { u32::MAX } else { 0 };
                let run = self.missing_run(&flights, span, disk_before);
                self.start_origin(&mut flights, run, offset, options)
            }
        };
        Scheduled::Flight(flights[&index].clone(), lease)
    }

    /// Takes over an answer that came with the version: its whole chunks become flights. The lease keeps the fetch going
    /// until a reader has its first chunk. `None` if the answer holds nothing new.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        content: Content,
        options: FetchOptions,
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
        let (part, owner) = ((FetchSource::Origin, first..first + new), PartOwner::none());
        let (lease, mut fetch) = self.launch(&mut flights, part, 0, options, owner);
        drop(flights);
        let body = skip(content.body, geometry.start(first) - content.range.start);
        let requests = self.core.assembly.requests.clone();
        self.spawn(options, async move {
            fetch.pay(charge);
            let span = fetch.span();
            let body = requests.body(fetch.part_request(), body);
            let awaited = fetch.part.awaited.clone();
            let received = awaited.run(fetch.receive(body));
            let result = trace::within(span.as_ref(), received).await;
            drop(span);
            fetch.end(result).await;
        });
        Some(lease)
    }

    /// Returns the chunk with the estimate of a read from the disk that has it; `None` if no disk has it or may be
    /// asked.
    pub(super) fn on_disk(&self, index: u32) -> Option<DiskChunk<'_>> {
        let (chunks, key) = (&self.core.chunks, self.key(index));
        if chunks.locate(&key) != Some(Tier::Disk) {
            return None;
        }
        let read = chunks.disk_estimate(&key, self.chunk_len(index))?;
        Some(DiskChunk {
            fetches: self,
            index,
            read,
        })
    }

    /// Starts reading `index` and, unless it is bulk, the next few chunks that lie on disk, each a flight of its own.
    fn start_disk_run(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        index: u32,
        until: u32,
        options: FetchOptions,
    ) -> Lease {
        let lease = self.start_disk(flights, index, None, options, PartOwner::none());
        // Memory takes no bulk: without a lease, such a chunk would be gone before its reader arrives.
        if options.bulk {
            return lease;
        }
        for next in index + 1..until.min(index + DISK_DEPTH) {
            if flights.contains_key(&next) || self.on_disk(next).is_none() {
                break;
            }
            let Some(charge) = self.core.budget.ahead(self.chunk_len(next) as u64) else {
                break;
            };
            // No lease: it is one chunk and arrives soon. It ends in memory, or as a quiet miss.
            drop(self.start_disk(flights, next, Some(charge), options, PartOwner::none()));
        }
        lease
    }

    /// Starts reading a chunk from disk.
    pub(super) fn start_disk(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        index: u32,
        charge: Option<Charge>,
        options: FetchOptions,
        owner: PartOwner,
    ) -> Lease {
        let part = (FetchSource::Disk, index..index + 1);
        let (lease, fetch) = self.launch(flights, part, 0, options, owner);
        let chunks = &self.core.chunks;
        let planned = chunks.plan_read(&self.key(index), self.chunk_len(index));
        let source = self.core.assembly.from_disk.clone();
        self.spawn(options, fetch.run(source, charge, Some(planned)));
        lease
    }

    /// Starts one request for a run of chunks, from `offset` of the first one on.
    fn start_origin(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        run: Range<u32>,
        offset: usize,
        options: FetchOptions,
    ) -> Lease {
        let (chunks, charge) = self.affordable(run);
        let soon = self.rate.rate().unwrap_or(0.0) * MIN_SKIP_TIME.as_secs_f64();
        let skips = offset >= MIN_SKIP.max(soon as usize);
        let (base, owner) = (if skips { offset } else { 0 }, PartOwner::none());
        let part = (FetchSource::Origin, chunks);
        let (lease, mut fetch) = self.launch(flights, part, base, options, owner);
        if options.quiet {
            fetch.priority = Priority::Ahead;
        }
        let source = self.core.assembly.from_origin.clone();
        self.spawn(options, fetch.run(source, charge, None));
        lease
    }

    /// Starts one request ahead of a reader.
    pub(super) fn start_origin_ahead(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        run: Range<u32>,
        charge: Charge,
        options: FetchOptions,
        owner: PartOwner,
    ) -> Lease {
        let part = (FetchSource::Origin, run);
        let (lease, mut fetch) = self.launch(flights, part, 0, options, owner);
        fetch.priority = Priority::Ahead;
        let source = self.core.assembly.from_origin.clone();
        self.spawn(options, fetch.run(source, Some(charge), None));
        lease
    }

    /// Returns the chunks from `index` on that one request for a waiting reader may bring.
    pub(super) fn demand_span(&self, index: u32, until: u32) -> Range<u32> {
        index..until.min(index.saturating_add(self.count_in(MAX_PART)))
    }

    /// Returns the first of `chunks`, and the next ones that are neither under way nor in memory. A chunk on a disk only
    /// counts before chunk `disk_before`: the origin may bring it in place of the disk.
    pub(super) fn missing_run(
        &self,
        flights: &Flights<'_>,
        chunks: Range<u32>,
        disk_before: u32,
    ) -> Range<u32> {
        let is_missing = |index: &u32| {
            !flights.contains_key(index)
                && match self.core.chunks.locate(&self.key(*index)) {
                    None => true,
                    Some(Tier::Disk) => *index < disk_before,
                    Some(Tier::Memory) => false,
                }
        };
        let first = chunks.start;
        let more = (first + 1..chunks.end).take_while(is_missing).count();
        first..first + 1 + u32::try_from(more).unwrap_or(0)
    }

    /// Returns as much of a run as fits into the free budget, at least its first chunk; without room, the fetch waits
    /// its turn.
    fn affordable(&self, mut run: Range<u32>) -> (Range<u32>, Option<Charge>) {
        loop {
            let charge = self.core.budget.try_demand(self.span_len(&run));
            if charge.is_some() || run.len() == 1 {
                return (run, charge);
            }
            run.end = run.start + u32::try_from(run.len() / 2).unwrap_or(1);
        }
    }

    /// Adds a flight for every chunk of a new part, from byte `base` of the first one on. Returns a lease on the part and
    /// the fetch that is to bring it.
    fn launch(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        (source, chunks): (FetchSource, Range<u32>),
        base: usize,
        options: FetchOptions,
        owner: PartOwner,
    ) -> (Lease, Fetch) {
        let part = Part::new(chunks.clone(), source, owner.cursor);
        let first = chunks.start;
        let new = chunks.map(|index| {
            let base = if index == first { base } else { 0 };
            let flight = Arc::new(Flight::new(part.clone(), self.chunk_len(index), base));
            flights.insert(index, flight.clone());
            flight
        });
        let new = new.collect();
        let lease = part.lease();
        let mut fetch = Fetch::new(self.clone(), part, new, options);
        fetch.stream_free = owner.stream_free;
        (lease, fetch)
    }
}

/// Returns the body without its first `skip` bytes.
fn skip(body: Body, mut skip: u64) -> Body {
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
