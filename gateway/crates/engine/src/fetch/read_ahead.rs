//! Read-ahead: carries out the decisions of a cursor's plan, within the budget.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, CursorState, spare};
use super::options::FetchOptions;
use super::part::{CursorIdentity, FetchSource, Lease, PartOwner};
use super::steer::Approach;
use super::version_fetches::VersionFetches;
use tidegate_plan::readahead::MAX_STEP_BACK;

mod request;

use request::{ReadAheadOutcome, ReadAheadRequest};

impl Cursor {
    /// Starts the fetches for which the window has room. Called when the reader moves on, and when a part is about to
    /// end.
    pub(crate) fn fetch_ahead(
        self: &Arc<Self>,
        fetches: &Arc<VersionFetches>,
        options: FetchOptions,
    ) {
        let mut state = self.state();
        state.release_passed(fetches, options.bulk);
        if state.readers == 0 {
            state.release_landed();
            return;
        }
        let Some(mut request) = state.request(fetches) else {
            return;
        };
        // The disks first: their reads need no stream.
        for source in [FetchSource::Disk, FetchSource::Origin] {
            self.provide(&mut state, source, &mut request, fetches, options);
        }
    }

    /// Walks through the window, as far as the source keeps up.
    fn provide(
        self: &Arc<Self>,
        state: &mut CursorState,
        source: FetchSource,
        request: &mut ReadAheadRequest,
        fetches: &Arc<VersionFetches>,
        options: FetchOptions,
    ) {
        let here = fetches.core.geometry.index(request.reader.position);
        let mut frontier = (*state.frontier(source)).max(here);
        while frontier < request.chunks.end {
            request.chunks.start = frontier;
            let outcome = match source {
                FetchSource::Disk => fetches.ahead_of_disk(request, options, self),
                FetchSource::Origin => fetches.ahead_of_origin(request, options, self),
            };
            match outcome {
                ReadAheadOutcome::UnderWay(lease) => {
                    frontier = lease.part().chunks.end.max(frontier + 1);
                    if lease.part().source == FetchSource::Origin {
                        request.reader.free = request.reader.free.saturating_sub(1);
                    }
                    if !state.holds(&lease) {
                        state.ahead.push(lease);
                    }
                }
                ReadAheadOutcome::Passed(until) => frontier = until,
                ReadAheadOutcome::Later | ReadAheadOutcome::NoRoom => break,
            }
        }
        *state.frontier(source) = frontier;
        request.on_disk = state.on_disk;
    }

    /// Returns this cursor as the owner of a part: it goes on when the part's stream is free.
    fn owner(self: &Arc<Self>, fetches: &Arc<VersionFetches>, options: FetchOptions) -> PartOwner {
        let (cursor, fetches) = (Arc::downgrade(self), fetches.clone());
        PartOwner {
            cursor: CursorIdentity::of(self),
            stream_free: Some(Box::new(move || {
                if let Some(cursor) = cursor.upgrade() {
                    cursor.fetch_ahead(&fetches, options);
                }
            })),
        }
    }

    /// Removes a reader. The last one leaves the cursor to the next reader. One task looks after it, however many
    /// readers come and go (each read of a mount is one).
    pub(crate) fn leave(self: Arc<Self>, fetches: &Arc<VersionFetches>) {
        if self.remove_reader() {
            return;
        }
        let (fetches, core) = (fetches.clone(), fetches.core.clone());
        let stop = core.stop.clone();
        core.tasks.spawn(async move {
            tokio::select! {
                () = self.outlive_readers() => {}
                () = stop.cancelled() => {}
            }
            drop((self, fetches));
        });
    }
}

impl CursorState {
    /// Gives up the leases on what the readers have passed. A late reader may still want a chunk that is under way. If there
    /// are several readers, one of them may be behind: bulk, of which memory keeps nothing, is held for it while there is
    /// memory to spare.
    fn release_passed(&mut self, fetches: &VersionFetches, bulk: bool) {
        let (size, position) = (fetches.version.size, self.plan.position());
        let geometry = fetches.core.geometry;
        let is_held = bulk && self.readers > 1 && spare(&fetches.core.budget) > 0;
        let passed = |lease: &Lease| {
            let end = geometry.start(lease.part().chunks.end).min(size);
            let is_over = lease.part().has_landed() && !is_held;
            end <= position && (is_over || end + MAX_STEP_BACK <= position)
        };
        self.ahead.retain(|lease| !passed(lease));
    }

    /// Leaves to the memory tier the chunks that the readers have passed, and while memory is scarce those beyond the
    /// window as well.
    fn release_outside(&self, window: &Range<u32>, fetches: &VersionFetches) {
        let end = match spare(&fetches.core.budget) {
            0 => window.end,
            _ => u32::MAX,
        };
        let kept = window.start..end;
        for lease in &self.ahead {
            fetches.hand_over_outside(&kept, lease.part());
        }
    }

    /// Returns the request for what is to be fetched now, if anything is.
    fn request(&mut self, fetches: &VersionFetches) -> Option<ReadAheadRequest> {
        let (size, position) = (fetches.version.size, self.plan.position());
        let (geometry, budget) = (fetches.core.geometry, &fetches.core.budget);
        let cap = if self.requests > 1 { size } else { self.asked };
        let rest = cap.saturating_sub(position);
        let grant = self.grant(&fetches.rate, rest, budget.free());
        let window = self.plan.window(grant);
        if window == 0 || position >= size {
            return None;
        }
        let until = geometry.count(cap);
        let chunk_at = |ahead| match position + ahead {
            at if at >= cap => until,
            at => geometry.index(at),
        };
        let (here, end) = (geometry.index(position), chunk_at(window));
        let reach = chunk_at(self.reach(grant, &fetches.rate, budget));
        // Where a part may go beyond the window, that has the next chunk: a slow reader would wait for each part.
        let chunks = match reach > end {
            true => here..end.max(reach.min(here + 2)),
            false => here..end,
        };
        self.release_outside(&chunks, fetches);
        let streams = self.streams(&fetches.rate);
        // A part is a stream's share. A reader that keeps its pace needs few streams, and so has few requests.
        let sharing = match self.takes_at_once() {
            true => self.plan.limits().streams,
            false => streams,
        };
        let reader = Approach {
            position,
            rate: self.plan.rate(),
            takes_at_once: self.takes_at_once(),
            streams: self.plan.limits().streams,
            free: streams.saturating_sub(self.busy()),
            speeds: OnceCell::new(),
        };
        Some(ReadAheadRequest {
            chunks,
            reach,
            is_long: reach > end,
            window,
            sharing,
            until,
            in_steps: self.requests > 1,
            of_rest: OnceCell::new(),
            reader,
            on_disk: 0,
        })
    }
}
