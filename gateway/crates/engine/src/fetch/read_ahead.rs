//! Read-ahead: carries out the decisions of a cursor's plan, within the budget.

use std::cell::OnceCell;
use std::sync::Arc;

use super::cursor::{Cursor, CursorState};
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
        let window = state.window(&fetches.rate, fetches.core.budget.free());
        let (size, position) = (fetches.version.size, state.plan.position());
        let geometry = fetches.core.geometry;
        let here = geometry.index(position);
        // A late reader may still want a chunk that is under way.
        let passed = |lease: &Lease| {
            let end = geometry.start(lease.part().chunks.end).min(size);
            end <= position && (lease.part().has_landed() || end + MAX_STEP_BACK <= position)
        };
        state.ahead.retain(|lease| !passed(lease));
        if state.readers == 0 {
            state.release_landed();
            return;
        }
        if window == 0 || position >= size {
            return;
        }
        let streams = state.streams(&fetches.rate);
        // A part is a stream's share. A reader that keeps its pace needs few streams, and so has few requests.
        let sharing = match state.takes_at_once() {
            true => state.plan.limits().streams,
            false => streams,
        };
        let cap = if state.requests > 1 {
            size
        } else {
            state.asked
        };
        let until = geometry.count(cap);
        let end = if position + window >= cap {
            until
        } else {
            geometry.index(position + window)
        };
        let mut request = ReadAheadRequest {
            chunks: here..end,
            window,
            sharing,
            until,
            reader: Approach {
                position,
                rate: state.plan.rate(),
                takes_at_once: state.takes_at_once(),
                streams: state.plan.limits().streams,
                free: streams.saturating_sub(state.busy()),
                speeds: OnceCell::new(),
            },
            on_disk: 0,
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
