//! Parts from the origin: one request for the whole part, whose body is dealt to the flights.

use std::sync::Arc;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::flight::Flight;
use super::request::{PartRequest, PlainRequest, Request};
use super::task::{Admission, Bring, Fetch, FetchEnd};
use crate::Error;
use crate::open::records;
use tidegate_origin::{Body, OriginError, Phase, Priority};
use tidegate_plan::ByteRange;

/// The most missing bytes for which an unwanted fetch is finished.
const NEARLY_DONE: u64 = 1 << 20;

/// Sends one request for the whole part, and a second one if the first began after its head.
pub(crate) struct OriginFetch;

impl Bring for OriginFetch {
    fn bring<'a>(&'a self, fetch: &'a mut Fetch) -> BoxFuture<'a, Result<(), FetchEnd>> {
        let awaited = fetch.part.awaited.clone();
        let bring = async move {
            let request = fetch.part_request();
            let missing = request.missing;
            let base = fetch.flights.front().map_or(0, |flight| flight.base as u64);
            let requests = fetch.fetches.core.assembly.requests.clone();
            let body = tokio::select! {
                body = fetch.ask(&*requests, &request, missing, fetch.priority) => body?,
                end = fetch.until_unwanted() => return Err(end),
            };
            fetch.receive(requests.body(request, body)).await?;
            let head = ByteRange::new(missing.start - base, missing.start);
            fetch.complete_first(head).await
        };
        // A decorator may still bring the part from elsewhere, also while the engine closes.
        let closed = |end| match end {
            FetchEnd::Closed => FetchEnd::Failed(Error::Unavailable),
            end => end,
        };
        // Its requests hear of readers that wait, and so do those that continue a body.
        async move { awaited.run(bring).await.map_err(closed) }.boxed()
    }
}

impl Fetch {
    /// Returns the request for the bytes that have not arrived.
    pub(super) fn part_request(&self) -> PartRequest {
        let (geometry, size) = (self.fetches.core.geometry, self.fetches.version.size);
        let end = geometry.bytes(self.part.chunks.end - 1, size).end;
        PartRequest {
            fetches: self.fetches.clone(),
            part: self.part.clone(),
            missing: ByteRange::new(end - self.coming, end),
        }
    }

    /// Asks for a range of exactly this version, wanted or not. If read-ahead or a quiet request finds no room while a
    /// reader waits for it, asks again as that reader would.
    async fn ask(
        &self,
        requests: &dyn Request,
        request: &PartRequest,
        range: ByteRange,
        priority: Priority,
    ) -> Result<Body, FetchEnd> {
        let mut body = self.ask_once(requests, request, range, priority).await;
        let found_no_room = matches!(
            body,
            Err(OriginError::Throttled { .. } | OriginError::Timeout(Phase::Queue))
        );
        if found_no_room && priority != Priority::Demand && self.is_awaited() {
            let demand = self.ask_once(requests, request, range, Priority::Demand);
            body = demand.await;
        }
        body.map_err(|error| FetchEnd::Failed(self.failure(error)))
    }

    async fn ask_once(
        &self,
        requests: &dyn Request,
        request: &PartRequest,
        range: ByteRange,
        priority: Priority,
    ) -> Result<Body, OriginError> {
        let get = request.get(range, priority);
        let condition = get.condition.clone();
        let mut answer = requests.send(request, get).await;
        if matches!(answer, Err(OriginError::Changed)) {
            for again in request.get_again(&condition, range, priority).await {
                answer = requests.send(request, again).await;
                if !matches!(answer, Err(OriginError::Changed)) {
                    break;
                }
            }
        }
        answer.and_then(|answer| request.body_of(answer, range))
    }

    /// Distributes a body to the flights, until the last has landed, and stores the chunks that are complete.
    ///
    /// A fetch that no reader wants any more is finished all the same if at most one chunk of it is missing, and no more
    /// than [`NEARLY_DONE`]. To stop it costs the connection, and those bytes are most likely under way. A mount's reader
    /// leaves after each of its reads; its next one asks for the same chunk.
    pub(super) async fn receive(&mut self, mut body: Body) -> Result<(), FetchEnd> {
        let core = self.fetches.core.clone();
        let (began, length) = (Instant::now(), self.coming);
        let nearly_done = core.geometry.chunk().min(NEARLY_DONE);
        while !self.flights.is_empty() {
            let frame = if self.coming <= nearly_done {
                tokio::select! {
                    biased;
                    frame = body.next() => frame,
                    () = core.stop.cancelled() => return Err(FetchEnd::Closed),
                }
            } else {
                tokio::select! {
                    biased;
                    frame = body.next() => frame,
                    end = self.until_unwanted() => return Err(end),
                }
            };
            let too_short = || FetchEnd::Failed(Error::BadOrigin("the body is too short"));
            let frame = frame.ok_or_else(too_short)?;
            let mut frame = frame.map_err(|error| FetchEnd::Failed(self.failure(error)))?;
            core.metrics.fetched.inc_by(frame.len() as u64);
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
                    let whole = flight.complete(&[], &core.buffers);
                    self.store(self.next, whole, self.admission(self.next));
                }
                self.advance();
            }
            if self.coming <= self.lead {
                self.leave_stream();
            }
        }
        self.fetches.rate.record_body(length, began.elapsed());
        Ok(())
    }

    /// Completes the first chunk if a seek began in its middle and a tier is to store it, or a reader waits for its head.
    async fn complete_first(&mut self, head: ByteRange) -> Result<(), FetchEnd> {
        let Some(flight) = self.headless.clone() else {
            return Ok(());
        };
        let admitted = self.admission(self.part.chunks.start);
        if admitted.is_none() && flight.end_without_head() {
            self.headless = None;
            return Ok(());
        }
        self.fetch_head(&flight, head, admitted).await
    }

    /// Completes a chunk in whose middle a seek began, and stores it. Its reader has its bytes already and need not wait
    /// any more.
    async fn fetch_head(
        &mut self,
        flight: &Arc<Flight>,
        range: ByteRange,
        admitted: Option<Admission>,
    ) -> Result<(), FetchEnd> {
        let stop = self.fetches.core.stop.clone();
        let frames = tokio::select! {
            head = self.head(range) => head?,
            () = stop.cancelled() => return Err(FetchEnd::Failed(Error::Unavailable)),
        };
        let whole = flight.complete(&frames, &self.fetches.core.buffers);
        self.headless = None;
        self.store(self.part.chunks.start, whole, admitted);
        Ok(())
    }

    async fn head(&self, range: ByteRange) -> Result<Vec<Bytes>, FetchEnd> {
        let request = self.part_request();
        let mut body = self
            .ask(&PlainRequest, &request, range, Priority::Ahead)
            .await?;
        let (mut frames, mut arrived) = (Vec::new(), 0);
        while let Some(frame) = body.next().await {
            let frame = frame.map_err(|error| FetchEnd::Failed(self.failure(error)))?;
            self.fetches.core.metrics.fetched.inc_by(frame.len() as u64);
            arrived += frame.len() as u64;
            frames.push(frame);
        }
        if arrived == range.len() {
            Ok(frames)
        } else {
            Err(FetchEnd::Failed(Error::BadOrigin(
                "the head has another length",
            )))
        }
    }

    /// Translates an origin's failure in the middle of a version: if the object is gone, shorter or another, it has
    /// changed, and the known version of its key is doubted. What listings have said of the key is forgotten first: one
    /// from before the change would confirm the version.
    fn failure(&self, error: OriginError) -> Error {
        let error = match error {
            OriginError::NotFound => Error::Changed,
            error => Error::from(error),
        };
        if error == Error::Changed {
            let fetches = &self.fetches;
            let (core, id) = (&fetches.core, &fetches.id);
            records::doubt(core, id, |record| {
                let is_it = record.id == fetches.vid;
                if is_it {
                    core.names.forget_key(id.origin, id.key.as_str());
                }
                is_it
            });
        }
        error
    }
}
