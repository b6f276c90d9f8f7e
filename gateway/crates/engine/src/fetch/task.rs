//! The task behind a part: it lands a run of flights.
//!
//! It ends in one of three ways: every chunk has landed, the rest has failed, or no reader wants the rest any more. In
//! any case its flights are removed in the end. A failure is reported once to all waiting readers, and is never cached.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::future::BoxFuture;

use super::flight::Flight;
use super::options::{FetchOptions, admission};
use super::part::{FetchSource, Part, StreamFree};
use super::version_fetches::VersionFetches;
use crate::Error;
use crate::budget::Charge;
use tidegate_cache::{Admit, PinId, PlannedRead};
use tidegate_origin::Priority;
use tidegate_telemetry::trace::{self, Kind, Span};

/// The tiers that are to store a chunk, and the pin that it counts to.
pub(super) type Admission = (Admit, PinId);

/// The fetch of a part.
pub(crate) struct Fetch {
    pub(super) fetches: Arc<VersionFetches>,
    pub(super) part: Arc<Part>,
    /// The flights that have not landed, in order.
    pub(super) flights: VecDeque<Arc<Flight>>,
    /// The chunk of the first of them.
    pub(super) next: u32,
    pub(super) options: FetchOptions,
    /// The priority of its requests to the origin.
    pub(super) priority: Priority,
    /// Whether its memory was reserved before it began. Of disk reads only read-ahead is.
    pub(super) prepaid: bool,
    /// The first flight, if its tail has arrived and its head is still to be fetched.
    pub(super) headless: Option<Arc<Flight>>,
    /// Body bytes still to come, and the number of them at which the next request may start.
    pub(super) coming: u64,
    pub(super) lead: u64,
    /// Lets the read-ahead cursor start its next part.
    pub(super) stream_free: Option<StreamFree>,
}

/// The reason for which a fetch ended early.
pub(crate) enum FetchEnd {
    Failed(Error),
    /// No reader wants it; its flights are removed already.
    Unwanted,
    /// The engine closes.
    Closed,
}

/// Brings the chunks of a part whose memory is reserved.
pub(crate) trait Bring: Send + Sync {
    fn bring<'a>(&'a self, fetch: &'a mut Fetch) -> BoxFuture<'a, Result<(), FetchEnd>>;
}

impl Fetch {
    pub(super) fn new(
        fetches: Arc<VersionFetches>,
        part: Arc<Part>,
        flights: Vec<Arc<Flight>>,
        options: FetchOptions,
    ) -> Self {
        let next = part.chunks.start;
        let coming = flights.iter().map(|flight| flight.missing() as u64).sum();
        let lead = fetches.rate.lead();
        Self {
            fetches,
            part,
            flights: flights.into(),
            next,
            options,
            priority: Priority::Demand,
            prepaid: false,
            headless: None,
            coming,
            lead,
            stream_free: None,
        }
    }

    /// Reserves the memory, unless `charge` has it, and brings the part by `source`. `planned` counts a disk read until
    /// then.
    pub(super) async fn run(
        mut self,
        source: Arc<dyn Bring>,
        charge: Option<Charge>,
        planned: Option<PlannedRead>,
    ) {
        self.prepaid = charge.is_some();
        let span = self.span();
        let result = async {
            let charge = match charge {
                Some(charge) => charge,
                None => {
                    let bytes = self.fetches.span_len(&self.part.chunks);
                    let demand = self.fetches.core.budget.demand(bytes);
                    tokio::select! {
                        charge = demand => charge.map_err(FetchEnd::Failed)?,
                        end = self.until_unwanted() => return Err(end),
                    }
                }
            };
            self.pay(charge);
            drop(planned);
            source.bring(&mut self).await
        };
        let result = trace::within(span.as_ref(), result).await;
        drop(span);
        self.end(result).await;
    }

    /// Begins the step of a trace that brings this part.
    pub(super) fn span(&self) -> Option<Span> {
        let name = match self.part.source {
            FetchSource::Disk => "disk read",
            FetchSource::Origin => "flight",
        };
        let mut span = trace::span(name, Kind::Internal)?;
        span.set("tidegate.first_chunk", u64::from(self.part.chunks.start));
        span.set("tidegate.chunks", self.part.chunks.len() as u64);
        span.set("tidegate.ahead", self.priority != Priority::Demand);
        Some(span)
    }

    /// Divides a reservation among the flights; the rest is released.
    pub(super) fn pay(&self, mut charge: Charge) {
        for (flight, index) in self.flights.iter().zip(self.part.chunks.clone()) {
            flight.charge(charge.split(self.fetches.chunk_len(index) as u64));
        }
    }

    /// Returns whether a reader waits for a chunk that has not landed, or for the head that comes last.
    pub(super) fn is_awaited(&self) -> bool {
        let mut coming = self.flights.iter().chain(&self.headless);
        coming.any(|flight| flight.is_awaited())
    }

    /// Lets the read-ahead cursor start its next part.
    pub(super) fn leave_stream(&mut self) {
        self.part.leave_stream();
        if let Some(stream_free) = self.stream_free.take() {
            stream_free();
        }
    }

    /// Ends the next flight with its bytes.
    pub(super) fn land(&mut self, bytes: Bytes) {
        if let Some(flight) = self.flights.front() {
            flight.finish(Ok(bytes));
            self.advance();
        }
    }

    pub(super) fn advance(&mut self) {
        self.flights.pop_front();
        self.next += 1;
    }

    /// Returns the tiers that are to store a chunk. Call it once a chunk: it counts as a use.
    pub(super) fn admission(&self, index: u32) -> Option<Admission> {
        let core = &self.fetches.core;
        let pin = core.meta.pin_of(&self.fetches.id);
        let admit = admission(core, self.fetches.key(index), self.options, pin)?;
        Some((admit, pin))
    }

    /// Stores a chunk that has arrived, if it is admitted.
    pub(super) fn store(&self, index: u32, bytes: Bytes, admitted: Option<Admission>) {
        if let Some((admit, pin)) = admitted {
            let (chunks, key) = (&self.fetches.core.chunks, self.fetches.key(index));
            chunks.insert_pinned(key, bytes, admit, pin);
        }
    }

    /// Returns when no reader wants the part any more, after removing its flights, or when the engine closes.
    pub(super) async fn until_unwanted(&self) -> FetchEnd {
        loop {
            tokio::select! {
                () = self.part.unwanted() => {}
                () = self.fetches.core.stop.cancelled() => return FetchEnd::Closed,
            }
            if self.fetches.forget_unwanted(&self.part) {
                return FetchEnd::Unwanted;
            }
        }
    }

    /// Finishes the task: reports failures, and removes the flights once no lease holds them. Until then they stay, so
    /// that read-ahead cannot be evicted before its reader arrives.
    pub(super) async fn end(mut self, result: Result<(), FetchEnd>) {
        self.part.land();
        if let Err(FetchEnd::Failed(_) | FetchEnd::Closed) = result {
            // An origin that fails is not asked for the rest of the window. The reader's progress begins the next part.
            self.stream_free = None;
        }
        self.leave_stream();
        let error = match result {
            Ok(()) => {
                // A stalled reader keeps its current chunk, and not the whole part.
                let is_left = !self.part.cursor.is_alive() && self.fetches.hand_over(&self.part);
                if !is_left && let FetchEnd::Closed = self.until_unwanted().await {
                    self.fetches.forget(&self.part);
                }
                return;
            }
            Err(FetchEnd::Unwanted) => {
                self.fetches.core.metrics.abandoned.inc();
                return;
            }
            Err(FetchEnd::Failed(error)) => error,
            Err(FetchEnd::Closed) => Error::Unavailable,
        };
        self.fetches.forget(&self.part);
        // This includes the flight whose tail has landed: readers that wait for its head would wait for ever.
        for flight in self.headless.take().iter().chain(&self.flights) {
            flight.finish(Err(error.clone()));
        }
        self.flights.clear();
    }
}

impl Drop for Fetch {
    /// Ends the flights however the task ends (a panic, the end of its runtime), so that no reader waits for ever.
    fn drop(&mut self) {
        if self.flights.is_empty() && self.headless.is_none() {
            return;
        }
        // A stopped runtime drops a new task at once, while the caller holds the lock of the flights. No reader comes
        // after that, so the flights may stay.
        if std::thread::panicking() {
            self.fetches.forget(&self.part);
        }
        for flight in self.headless.iter().chain(&self.flights) {
            flight.finish(Err(Error::Unavailable));
        }
    }
}
