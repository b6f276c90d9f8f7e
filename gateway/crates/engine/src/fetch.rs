//! The task behind a part: one request (or one disk read) that lands a run of flights.
//!
//! It ends in one of three ways: every chunk has landed, the rest has failed, or no reader wants the rest any more. In
//! any case its flights are removed in the end. A failure is reported once to all waiting readers, and is never cached.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::Instant;

use super::Error;
use super::budget::Charge;
use super::fill::{Fill, Terms};
use super::flight::{Flight, Part};
use super::resolve;
use tidegate_origin::{Answer, Body, Condition, Content, Get, OriginError, Priority};
use tidegate_plan::{ByteRange, RangeSpec};

/// The number of missing bytes up to which an unwanted fetch is finished all the same: stopping it costs the
/// connection, and these bytes are most likely under way already.
const NEARLY_DONE: u64 = 64 << 10;

pub(super) struct Fetch {
    pub(super) fill: Arc<Fill>,
    pub(super) part: Arc<Part>,
    /// The flights that have not landed, in order.
    pub(super) flights: VecDeque<Arc<Flight>>,
    /// The chunk of the first of them.
    pub(super) next: u32,
    terms: Terms,
    /// The first flight, if its tail has arrived and its head is still to be fetched.
    pub(super) headless: Option<Arc<Flight>>,
    /// Body bytes still to come, and the number of them at which the next request may start.
    pub(super) coming: u64,
    lead: u64,
}

/// The reason for which a fetch ended early.
pub(super) enum End {
    Failed(Error),
    /// No reader wants it; its flights are removed already.
    Unwanted,
}

impl Fetch {
    pub(super) fn new(
        fill: Arc<Fill>,
        part: Arc<Part>,
        flights: Vec<Arc<Flight>>,
        terms: Terms,
    ) -> Self {
        let next = part.chunks.start;
        let coming = flights.iter().map(|flight| flight.missing() as u64).sum();
        let lead = fill.pace.lead();
        Self {
            fill,
            part,
            flights: flights.into(),
            next,
            terms,
            headless: None,
            coming,
            lead,
        }
    }

    /// Asks the origin for the part; if it fails, reads the missing chunks from a slow disk.
    pub(super) async fn ask_origin(mut self, charge: Option<Charge>, priority: Priority) {
        let result = async {
            self.pay_in_turn(charge).await?;
            self.request_or_rescue(priority).await
        };
        let result = result.await;
        self.end(result).await;
    }

    /// Takes the part from an answer that has already begun.
    pub(super) async fn take_answer(mut self, charge: Charge, content: Content) {
        self.pay(charge);
        let result = self.receive(content.body).await;
        self.end(result).await;
    }

    /// Reserves the memory for the flights; waits in turn unless `charge` has it.
    pub(super) async fn pay_in_turn(&mut self, charge: Option<Charge>) -> Result<(), End> {
        let charge = match charge {
            Some(charge) => charge,
            None => {
                let bytes = self.fill.span_len(&self.part.chunks);
                let demand = self.fill.core.budget.demand(bytes);
                tokio::select! {
                    charge = demand => charge.map_err(End::Failed)?,
                    end = unwanted(&self.fill, &self.part) => return Err(end),
                }
            }
        };
        self.pay(charge);
        Ok(())
    }

    /// Divides a reservation among the flights; the rest is released.
    fn pay(&self, mut charge: Charge) {
        for (flight, index) in self.flights.iter().zip(self.part.chunks.clone()) {
            flight.charge(charge.split(self.fill.chunk_len(index) as u64));
        }
    }

    /// Sends one request for the whole part, and a second one if the first began after its head.
    pub(super) async fn request(&mut self, priority: Priority) -> Result<(), End> {
        let base = self.flights.front().map_or(0, |flight| flight.base as u64);
        let start = self.fill.core.geometry.start(self.part.chunks.start);
        let end = self.end_byte();
        let body = self
            .ask(
                ByteRange {
                    start: start + base,
                    end,
                },
                priority,
            )
            .await?;
        self.receive(body).await?;
        match self.headless.take() {
            Some(flight) => {
                self.fetch_head(
                    &flight,
                    ByteRange {
                        start,
                        end: start + base,
                    },
                )
                .await
            }
            None => Ok(()),
        }
    }

    /// Asks for a range of exactly this version, for as long as a reader wants the part.
    async fn ask(&self, range: ByteRange, priority: Priority) -> Result<Body, End> {
        tokio::select! {
            body = self.ask_anyway(range, priority) => body,
            end = unwanted(&self.fill, &self.part) => Err(end),
        }
    }

    /// Asks for a range of exactly this version, wanted or not.
    async fn ask_anyway(&self, range: ByteRange, priority: Priority) -> Result<Body, End> {
        let answer = self.ask_twice(self.question(range, priority)).await;
        match answer {
            Ok(Answer::Content(content)) if content.range == range => Ok(content.body),
            Ok(_) => Err(End::Failed(Error::BadOrigin(
                "not the range that was asked for",
            ))),
            Err(error) => Err(End::Failed(self.failure(error))),
        }
    }

    /// Builds the request for a range of exactly this version.
    pub(super) fn question(&self, range: ByteRange, priority: Priority) -> Get {
        self.fill.core.metrics.parts.inc();
        let version = &self.fill.version;
        Get {
            key: self.fill.id.key.clone(),
            range: Some(RangeSpec::Bounded {
                first: range.start,
                last: range.end - 1,
            }),
            condition: Condition::Match {
                etag: version.etag.clone(),
                version_id: version.version_id.clone(),
            },
            priority,
        }
    }

    /// Returns the end of the part: the offset after its last byte.
    pub(super) fn end_byte(&self) -> u64 {
        let (geometry, size) = (self.fill.core.geometry, self.fill.version.size);
        geometry.bytes(self.part.chunks.end - 1, size).end
    }

    /// Distributes a body to the flights, until the last has landed.
    async fn receive(&mut self, mut body: Body) -> Result<(), End> {
        let (began, length) = (Instant::now(), self.coming);
        while !self.flights.is_empty() {
            let frame = if self.coming <= NEARLY_DONE {
                self.next_frame(&mut body).await
            } else {
                tokio::select! {
                    biased;
                    frame = self.next_frame(&mut body) => frame,
                    end = unwanted(&self.fill, &self.part) => return Err(end),
                }
            };
            match frame {
                Some(Ok(frame)) => self.deal(frame),
                Some(Err(error)) => return Err(End::Failed(self.failure(error))),
                None => return Err(End::Failed(Error::BadOrigin("the body is too short"))),
            }
            if self.coming <= self.lead {
                self.leave_stream();
            }
        }
        self.fill.pace.delivered(length, began.elapsed());
        Ok(())
    }

    /// Lets the read-ahead cursor start its next part.
    fn leave_stream(&self) {
        if self.part.leave_stream()
            && let Some(cursor) = self.part.cursor.upgrade()
        {
            cursor.pump(&self.fill, self.terms);
        }
    }

    fn deal(&mut self, mut frame: Bytes) {
        self.fill.core.metrics.fetched.inc_by(frame.len() as u64);
        while let (false, Some(flight)) = (frame.is_empty(), self.flights.front()) {
            let piece = frame.split_to(flight.missing().min(frame.len()));
            self.coming -= piece.len() as u64;
            flight.push(piece);
            if flight.missing() > 0 {
                continue;
            }
            if flight.base > 0 {
                self.headless = Some(flight.clone());
            } else {
                let whole = flight.complete(&[], &self.fill.core.buffers);
                self.store(self.next, whole);
            }
            self.advance();
        }
    }

    /// Completes a chunk in whose middle a seek began, so that it can be stored. Its reader has its bytes already and
    /// need not wait any more.
    async fn fetch_head(&mut self, flight: &Arc<Flight>, range: ByteRange) -> Result<(), End> {
        let head = async {
            let mut body = self.ask_anyway(range, Priority::Ahead).await?;
            let (mut frames, mut arrived) = (Vec::new(), 0);
            while let Some(frame) = body.next().await {
                let frame = frame.map_err(|error| End::Failed(self.failure(error)))?;
                self.fill.core.metrics.fetched.inc_by(frame.len() as u64);
                arrived += frame.len() as u64;
                frames.push(frame);
            }
            if arrived == range.len() {
                Ok(frames)
            } else {
                Err(End::Failed(Error::BadOrigin("the head has another length")))
            }
        };
        let stop = self.fill.core.stop.clone();
        let head = tokio::select! {
            head = head => head,
            () = stop.cancelled() => Err(End::Failed(Error::Unavailable)),
        };
        match head {
            Ok(frames) => {
                let whole = flight.complete(&frames, &self.fill.core.buffers);
                self.store(self.part.chunks.start, whole);
                Ok(())
            }
            Err(end) => {
                self.headless = Some(flight.clone());
                Err(end)
            }
        }
    }

    fn store(&self, index: u32, bytes: Bytes) {
        let core = &self.fill.core;
        let pin = core.meta.pin_of(&self.fill.id);
        if let Some(admit) = self.fill.admission(index, self.terms, pin) {
            let key = self.fill.key(index);
            core.chunks.insert_pinned(key, bytes, admit, pin);
        }
    }

    pub(super) fn land(&mut self, bytes: Bytes) {
        if let Some(flight) = self.flights.front() {
            flight.finish(Ok(bytes));
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.flights.pop_front();
        self.next += 1;
    }

    /// Translates an origin's failure in the middle of a version: if the object is gone, shorter or another, it has
    /// changed, and the known version of its key is doubted.
    fn failure(&self, error: OriginError) -> Error {
        let error = match error {
            OriginError::NotFound => Error::Changed,
            error => Error::from(error),
        };
        if error == Error::Changed {
            let fill = &self.fill;
            resolve::doubt(&fill.core, &fill.id, |record| record.id == fill.vid);
        }
        error
    }

    /// Finishes the task: reports failures, and removes the flights once no lease holds them. Until then they stay, so
    /// that read-ahead cannot be evicted before its reader arrives.
    pub(super) async fn end(mut self, result: Result<(), End>) {
        self.part.land();
        self.leave_stream();
        match result {
            // A stalled reader keeps its current chunk, and not the whole part.
            Ok(()) if self.part.cursor.strong_count() == 0 && self.fill.hand_over(&self.part) => {}
            Ok(()) => loop {
                tokio::select! {
                    () = self.part.unwanted() => {}
                    () = self.fill.core.stop.cancelled() => return self.fill.forget(&self.part),
                }
                if self.fill.forget_unwanted(&self.part) {
                    return;
                }
            },
            Err(End::Unwanted) => {
                self.fill.core.metrics.abandoned.inc();
            }
            Err(End::Failed(error)) => {
                self.fill.forget(&self.part);
                // This includes the flight whose tail has landed: readers that wait for its head would wait for ever.
                for flight in self.headless.take().iter().chain(&self.flights) {
                    flight.finish(Err(error.clone()));
                }
                self.flights.clear();
            }
        }
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
            self.fill.forget(&self.part);
        }
        for flight in self.headless.iter().chain(&self.flights) {
            flight.finish(Err(Error::Unavailable));
        }
    }
}

/// Returns when no reader wants the part any more, after removing its flights, or when the engine closes.
pub(super) async fn unwanted(fill: &Fill, part: &Arc<Part>) -> End {
    loop {
        tokio::select! {
            () = part.unwanted() => {}
            () = fill.core.stop.cancelled() => return End::Failed(Error::Unavailable),
        }
        if fill.forget_unwanted(part) {
            return End::Unwanted;
        }
    }
}
