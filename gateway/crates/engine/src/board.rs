//! Schedules chunks for waiting readers and for cursors: which source brings a chunk, and which others come with it.
//! `plan/tiering` has the rule; this module supplies its inputs and carries out its decisions.

use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::budget::Charge;
use super::cursor::Cursor;
use super::fetch::Fetch;
use super::fill::{Fill, Flights, Terms};
use super::flight::{Bringer, Flight, Lease, Part};
use tidegate_cache::Tier;
use tidegate_origin::Priority;
use tidegate_plan::meter::ReadEstimate;
use tidegate_plan::readahead::ReadAhead;
use tidegate_plan::tiering::{self, ChunkOutlook, ChunkSource, DiskEstimate};

/// The largest part that demand asks for in one request. Measured against MinIO, the SDK is as fast as a bare client
/// with 8 MiB, and 1 MiB cost a quarter of the rate.
pub(super) const PART: u64 = 8 << 20;

/// From this offset on, a seek into a chunk is served from the wanted byte, and the chunk's head is fetched afterwards:
/// the second request costs less than waiting for these bytes.
const WORTH_SKIPPING: usize = 32 << 10;

/// The number of a span's chunks read from disk at once, so that the disk has a queue.
const DISK_DEPTH: u32 = 4;

/// A scheduled chunk: its bytes or its flight.
#[derive(Debug)]
pub(super) enum Boarded {
    /// Memory has it after all.
    Whole(Bytes),
    /// It is under way; the lease keeps it coming.
    Flight(Arc<Flight>, Lease),
}

/// A cursor's request for read-ahead.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    /// The chunks from the first one not provided for to the end of the window.
    pub(super) chunks: Range<u32>,
    /// The window's size in bytes, its number of streams, and the end of the chunks that will be needed.
    pub(super) window: u64,
    pub(super) streams: u32,
    pub(super) until: u32,
    /// The reader's position, and the bytes a second by which it advances.
    pub(super) position: u64,
    pub(super) speed: f64,
    /// The disks' measured rate in bytes a second, if known.
    pub(super) disk_rate: Option<f64>,
    /// The number of requests that may still be started.
    pub(super) free: u32,
    /// The first chunk not yet offered to a disk. An earlier chunk that lies on a disk but is not under way was passed
    /// while that disk could not be asked.
    pub(super) on_disk: u32,
}

/// Returns the measured rate; infinity without one, so that the disk is tried.
fn disk_rate(measured: Option<f64>) -> f64 {
    measured.unwrap_or(f64::INFINITY)
}

/// The outcome for the first chunk of a request, and perhaps for those after it.
#[derive(Debug)]
pub(super) enum Ahead {
    /// They are under way; the lease names them and keeps them coming.
    OnItsWay(Lease),
    /// Nothing is to be done up to this chunk.
    Passed(u32),
    /// Every source that could bring it is busy.
    Later,
    /// The budget has no room.
    NoRoom,
}

impl Fill {
    /// Schedules the chunk `index` from its byte `offset` on, of a span that ends before chunk `until`: joins its
    /// flight, or starts one from disk or from the origin.
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
        let disk = self.disk_read(index).map(|read| DiskEstimate {
            read,
            rate: disk_rate(self.core.chunks.disk_rate()),
        });
        let lease = match disk {
            Some(disk) if self.is_sooner(disk, index, until) => {
                self.board_disk(&mut flights, index, until, terms)
            }
            disk => {
                let end = until.min(index.saturating_add(self.in_part(PART)));
                let run = self.run(&flights, index..end, disk.is_some());
                self.board_origin(&mut flights, run, offset, terms)
            }
        };
        Boarded::Flight(flights[&index].clone(), lease)
    }

    /// Returns the estimate of a read from the disk that has the chunk; `None` if no disk has it or may be asked.
    fn disk_read(&self, index: u32) -> Option<ReadEstimate> {
        let (chunks, key) = (&self.core.chunks, self.key(index));
        if chunks.locate(&key) != Some(Tier::Disk) {
            return None;
        }
        chunks.disk_estimate(&key, self.chunk_len(index))
    }

    fn is_sooner(&self, disk: DiskEstimate, index: u32, until: u32) -> bool {
        let len = self.chunk_len(index) as u64;
        let span = index..until.min(index.saturating_add(self.in_part(PART)));
        let span = self.span_len(&span);
        tiering::choose_awaited(disk, self.pace.connection(), len, span) == ChunkSource::Disk
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
            if flights.contains_key(&next) || self.disk_read(next).is_none() {
                break;
            }
            let Some(charge) = self.core.budget.ahead(self.chunk_len(next) as u64) else {
                break;
            };
            // No lease: it is one chunk and arrives soon. It ends in memory, or as a quiet miss.
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
        let part = Part::new(index..index + 1, Bringer::Disk, cursor);
        let (lease, fetch) = self.take_off(flights, part, 0, terms);
        let planned = self
            .core
            .chunks
            .plan_read(&self.key(index), self.chunk_len(index));
        self.bring(terms, fetch.read_disk(charge, planned));
        lease
    }

    /// Starts one request for a run of chunks, from `offset` of the first one on.
    fn board_origin(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        run: Range<u32>,
        offset: usize,
        terms: Terms,
    ) -> Lease {
        let (chunks, charge) = self.affordable(run);
        let base = if offset < WORTH_SKIPPING { 0 } else { offset };
        let part = Part::new(chunks, Bringer::Origin, Weak::new());
        let (lease, fetch) = self.take_off(flights, part, base, terms);
        let priority = if terms.quiet {
            Priority::Ahead
        } else {
            Priority::Demand
        };
        self.bring(terms, fetch.ask_origin(charge, priority));
        lease
    }

    /// Fetches ahead chunks that only the origin has.
    pub(super) fn ahead_of_origin(
        self: &Arc<Self>,
        wish: &Wish,
        terms: Terms,
        cursor: &Arc<Cursor>,
    ) -> Ahead {
        let mut flights = self.flights();
        let first = wish.chunks.start;
        if let Some(flight) = flights.get(&first) {
            return if std::ptr::eq(flight.part.cursor.as_ptr(), Arc::as_ptr(cursor)) {
                Ahead::Passed(flight.part.chunks.end)
            } else {
                Ahead::OnItsWay(flight.part.lease())
            };
        }
        let is_cached = |index: &u32| match self.core.chunks.locate(&self.key(*index)) {
            Some(Tier::Memory) => true,
            Some(Tier::Disk) => *index >= wish.on_disk,
            None => false,
        };
        let cached = wish.chunks.clone().take_while(is_cached).count();
        if cached > 0 {
            return Ahead::Passed(first + u32::try_from(cached).unwrap_or(1));
        }
        let whole = first.saturating_add(self.part(wish)).min(wish.until);
        if wish.free == 0 || whole > wish.chunks.end {
            return Ahead::Later;
        }
        let run = match first < wish.on_disk {
            true => self.run(&flights, first..whole.min(wish.on_disk), true),
            false => self.run(&flights, first..whole, false),
        };
        self.start_ahead(&mut flights, run, terms, cursor)
    }

    /// Fetches ahead a chunk that a disk has, from there or from the origin.
    pub(super) fn ahead_of_disk(
        self: &Arc<Self>,
        wish: &Wish,
        terms: Terms,
        cursor: &Arc<Cursor>,
    ) -> Ahead {
        let mut flights = self.flights();
        let first = wish.chunks.start;
        if let Some(flight) = flights.get(&first) {
            return Ahead::Passed(flight.part.chunks.end);
        }
        let Some(read) = self.disk_read(first) else {
            return Ahead::Passed(first + 1);
        };
        let start = self.core.geometry.start(first);
        let outlook = ChunkOutlook {
            distance: start.saturating_sub(wish.position),
            speed: wish.speed,
            disk: Some(DiskEstimate {
                read,
                rate: disk_rate(wish.disk_rate),
            }),
            origin: (wish.free > 0).then(|| self.pace.connection()),
        };
        let len = self.chunk_len(first) as u64;
        match outlook.choose(len) {
            ChunkSource::Disk => {
                let Some(charge) = self.core.budget.ahead(len) else {
                    return Ahead::NoRoom;
                };
                let cursor = Arc::downgrade(cursor);
                let lease = self.start_disk(&mut flights, first, Some(charge), terms, cursor);
                Ahead::OnItsWay(lease)
            }
            ChunkSource::Origin { most } => {
                let part = self.part(wish).min(self.in_part(most));
                let end = wish.chunks.end.min(first.saturating_add(part));
                let run = self.run(&flights, first..end, true);
                self.start_ahead(&mut flights, run, terms, cursor)
            }
            ChunkSource::Later => Ahead::Later,
        }
    }

    fn start_ahead(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        run: Range<u32>,
        terms: Terms,
        cursor: &Arc<Cursor>,
    ) -> Ahead {
        let Some(charge) = self.core.budget.ahead(self.span_len(&run)) else {
            return Ahead::NoRoom;
        };
        let part = Part::new(run, Bringer::Origin, Arc::downgrade(cursor));
        let (lease, fetch) = self.take_off(flights, part, 0, terms);
        self.bring(terms, fetch.ask_origin(Some(charge), Priority::Ahead));
        Ahead::OnItsWay(lease)
    }

    /// Returns the number of chunks of the next read-ahead request.
    fn part(&self, wish: &Wish) -> u32 {
        let left = u64::from(wish.until - wish.chunks.start) * self.core.geometry.chunk();
        self.in_part(ReadAhead::part(wish.window, left, wish.streams))
    }

    /// Returns the number of chunks in `bytes`, at least one.
    fn in_part(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / self.core.geometry.chunk())
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// Returns the first of `chunks`, and the next ones that are neither under way nor in memory. Chunks on a disk only
    /// count if `with_disk` allows fetching them from the origin.
    fn run(&self, flights: &Flights<'_>, chunks: Range<u32>, with_disk: bool) -> Range<u32> {
        let is_missing = |index: &u32| {
            !flights.contains_key(index)
                && match self.core.chunks.locate(&self.key(*index)) {
                    None => true,
                    Some(Tier::Disk) => with_disk,
                    Some(Tier::Memory) => false,
                }
        };
        let first = chunks.start;
        let more = (first + 1..chunks.end).take_while(is_missing).count();
        first..first + 1 + u32::try_from(more).unwrap_or(0)
    }

    /// Returns as much of a run as the budget has room for now, at least its first chunk; without room, the fetch waits
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

    /// Returns the bytes of a run of chunks.
    pub(super) fn span_len(&self, chunks: &Range<u32>) -> u64 {
        let (geometry, size) = (self.core.geometry, self.version.size);
        geometry.bytes(chunks.end - 1, size).end - geometry.bytes(chunks.start, size).start
    }

    /// Adds a flight for every chunk of a part, from byte `base` of the first one on. Returns a lease on the part and
    /// the fetch that is to bring it.
    pub(super) fn take_off(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        part: Arc<Part>,
        base: usize,
        terms: Terms,
    ) -> (Lease, Fetch) {
        let first = part.chunks.start;
        let new = part
            .chunks
            .clone()
            .map(|index| {
                let base = if index == first { base } else { 0 };
                let flight = Arc::new(Flight::new(part.clone(), self.chunk_len(index), base));
                flights.insert(index, flight.clone());
                flight
            })
            .collect();
        let lease = part.lease();
        (lease, Fetch::new(self.clone(), part, new, terms))
    }
}
