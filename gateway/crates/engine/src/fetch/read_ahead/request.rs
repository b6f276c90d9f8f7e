//! One step of read-ahead: the fetch of the first chunk of a request, and perhaps of those after it.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use crate::fetch::cursor::Cursor;
use crate::fetch::options::FetchOptions;
use crate::fetch::part::{FetchSource, Lease};
use crate::fetch::steer::Approach;
use crate::fetch::version_fetches::{Flights, VersionFetches};
use tidegate_cache::Tier;
use tidegate_plan::readahead::ReadAhead;
use tidegate_plan::tiering::ChunkSource;

/// A cursor's request for read-ahead.
#[derive(Debug, Clone)]
pub(super) struct ReadAheadRequest {
    /// The chunks from the first one not provided for to the end of the window.
    pub(super) chunks: Range<u32>,
    /// The end of the chunks as far as a part may go that begins in the window.
    pub(super) reach: u32,
    /// Whether that is beyond the window.
    pub(super) is_long: bool,
    /// The window's size in bytes, the number of streams that share it, and the end of the chunks that will be needed.
    pub(super) window: u64,
    pub(super) sharing: u32,
    pub(super) until: u32,
    /// Whether its reader asks step by step.
    pub(super) in_steps: bool,
    /// The chunks of each part of a small rest, which is divided once.
    pub(super) of_rest: OnceCell<u32>,
    /// The reader for which it is.
    pub(super) reader: Approach,
    /// The first chunk not yet offered to a disk. An earlier chunk that lies on a disk but is not under way was passed
    /// while that disk could not be asked.
    pub(super) on_disk: u32,
}

/// The outcome for the first chunk of a request, and perhaps for those after it.
#[derive(Debug)]
pub(super) enum ReadAheadOutcome {
    /// They are under way; the lease names them and keeps them coming.
    UnderWay(Lease),
    /// Nothing is to be done up to this chunk.
    Passed(u32),
    /// Every source that could bring it is busy.
    Later,
    /// The budget has no room.
    NoRoom,
}

impl VersionFetches {
    /// Fetches ahead chunks that only the origin has.
    pub(super) fn ahead_of_origin(
        self: &Arc<Self>,
        request: &ReadAheadRequest,
        options: FetchOptions,
        cursor: &Arc<Cursor>,
    ) -> ReadAheadOutcome {
        let mut flights = self.flights();
        let first = request.chunks.start;
        if let Some(flight) = flights.get(&first) {
            return if flight.part.cursor.is(cursor) {
                ReadAheadOutcome::Passed(flight.part.chunks.end)
            } else {
                ReadAheadOutcome::UnderWay(flight.part.lease())
            };
        }
        let is_cached = |index: &u32| match self.core.chunks.locate(&self.key(*index)) {
            Some(Tier::Memory) => true,
            Some(Tier::Disk) => *index >= request.on_disk,
            None => false,
        };
        let cached = request.chunks.clone().take_while(is_cached).count();
        if cached > 0 {
            return ReadAheadOutcome::Passed(first + u32::try_from(cached).unwrap_or(1));
        }
        let whole = first
            .saturating_add(self.next_part(request))
            .min(request.until);
        if request.reader.free == 0 || whole > request.reach {
            return ReadAheadOutcome::Later;
        }
        let run = self.missing_run(&flights, first..whole, request.on_disk);
        self.start_ahead(&mut flights, run, options, cursor)
    }

    /// Fetches ahead a chunk that a disk has, from there or from the origin.
    pub(super) fn ahead_of_disk(
        self: &Arc<Self>,
        request: &ReadAheadRequest,
        options: FetchOptions,
        cursor: &Arc<Cursor>,
    ) -> ReadAheadOutcome {
        let mut flights = self.flights();
        let first = request.chunks.start;
        if let Some(flight) = flights.get(&first) {
            // A chunk that another reader fetches from disk may be gone when the walk over what the origin has comes to
            // it: then it would be asked of the bucket. That walk takes the lease on any other flight.
            let part = &flight.part;
            return match part.source {
                FetchSource::Disk if !part.cursor.is(cursor) => {
                    ReadAheadOutcome::UnderWay(part.lease())
                }
                _ => ReadAheadOutcome::Passed(part.chunks.end),
            };
        }
        let Some(chunk) = self.on_disk(first) else {
            return ReadAheadOutcome::Passed(first + 1);
        };
        match self
            .core
            .assembly
            .steer
            .choose_ahead(chunk, &request.reader)
        {
            ChunkSource::Disk => {
                let Some(charge) = self.core.budget.ahead(self.chunk_len(first) as u64) else {
                    return ReadAheadOutcome::NoRoom;
                };
                let owner = cursor.owner(self, options);
                let lease = self.start_disk(&mut flights, first, Some(charge), options, owner);
                ReadAheadOutcome::UnderWay(lease)
            }
            ChunkSource::Origin { most } => {
                let part = self.next_part(request).min(self.count_in(most));
                let end = request.chunks.end.min(first.saturating_add(part));
                let run = self.missing_run(&flights, first..end, u32::MAX);
                self.start_ahead(&mut flights, run, options, cursor)
            }
            ChunkSource::Later => ReadAheadOutcome::Later,
        }
    }

    fn start_ahead(
        self: &Arc<Self>,
        flights: &mut Flights<'_>,
        run: Range<u32>,
        options: FetchOptions,
        cursor: &Arc<Cursor>,
    ) -> ReadAheadOutcome {
        let Some(charge) = self.core.budget.ahead(self.span_len(&run)) else {
            return ReadAheadOutcome::NoRoom;
        };
        let owner = cursor.owner(self, options);
        ReadAheadOutcome::UnderWay(self.start_origin_ahead(flights, run, charge, options, owner))
    }

    /// Returns the number of chunks of the next read-ahead request.
    fn next_part(&self, request: &ReadAheadRequest) -> u32 {
        if request.is_long {
            let all = request.reach - request.chunks.start;
            return all.min(self.count_in(ReadAhead::long_part(self.rate.rate())));
        }
        let chunk = self.core.geometry.chunk();
        let left = u64::from(request.until - request.chunks.start) * chunk;
        let (streams, each) = (request.sharing, self.rate.rate());
        if request.until == request.chunks.end && left <= ReadAhead::small_rest(streams, each) {
            let part =
                || ReadAhead::part_of_rest(left, streams, each, request.in_steps).div_ceil(chunk);
            return *request
                .of_rest
                .get_or_init(|| u32::try_from(part()).unwrap_or(1));
        }
        self.count_in(ReadAhead::part(request.window, left, streams, each))
    }
}
