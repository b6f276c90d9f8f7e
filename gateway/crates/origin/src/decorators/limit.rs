//! A bound on an origin's concurrent requests; requests that a reader waits for go first.
//!
//! A request holds its slot until its body ends or is dropped. A quarter of the slots is kept free of read-ahead: its
//! bodies may be long, and a new reader should find a free slot. A request without a slot waits. Clients are served in
//! turn, readers before read-ahead, and the requests of one client in the order of arrival (`tidegate_plan::lanes`). If too many
//! wait, one request of the client with the most waiting is refused. Read-ahead for a reader that may not come never
//! waits, and leaves that quarter free.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::metrics::Meter;
use crate::{
    Answer, Body, Content, Get, List, Listing, Origin, OriginError, OriginWrite, Phase, Priority,
    Write, WriteOutcome,
};
use crate::{client, wait_flag};
use tidegate_plan::lanes::{DEMAND, Lanes, READ_AHEAD};
use tidegate_plan::{Bucket, Client, ObjectKey, OriginId, Version};
use tidegate_telemetry::locks::Recover as _;

/// An origin with a bounded number of concurrent requests.
#[derive(Debug)]
pub(crate) struct Limit {
    inner: Arc<dyn Origin>,
    slots: Arc<RequestSlots>,
    queue_timeout: Duration,
}

impl Limit {
    /// Admits at most `max_requests` (at least one) to `inner` at once; `max_queue` more wait, each for `queue_timeout` at
    /// most.
    pub(crate) fn new(
        inner: Arc<dyn Origin>,
        max_requests: usize,
        max_queue: usize,
        queue_timeout: Duration,
        meter: Meter,
    ) -> Self {
        let max = max_requests.max(1);
        Self {
            inner,
            slots: Arc::new(RequestSlots {
                max,
                max_ahead: max - max / 4,
                max_queue,
                meter,
                state: Mutex::default(),
            }),
            queue_timeout,
        }
    }

    async fn acquire(&self, priority: Priority) -> Result<SlotPermit, OriginError> {
        let slot = async {
            match priority {
                Priority::Ahead => self.slot_ahead().await,
                priority => self.slot(priority).await,
            }
        };
        let slot = timeout(self.queue_timeout, slot).await;
        slot.unwrap_or(Err(OriginError::Timeout(Phase::Queue)))
    }

    /// Waits for a slot of read-ahead, or of a reader once one waits for it.
    async fn slot_ahead(&self) -> Result<SlotPermit, OriginError> {
        tokio::select! {
            biased;
            slot = self.slot(Priority::Ahead) => return slot,
            () = wait_flag::wait() => {}
        }
        self.slot(Priority::Demand).await
    }

    async fn slot(&self, priority: Priority) -> Result<SlotPermit, OriginError> {
        match self.slots.request_slot(client::current(), priority)? {
            SlotEntry::Granted(permit) => Ok(permit),
            SlotEntry::Queued(permit) => permit.await.map_err(|_| QUEUE_FULL),
        }
    }
}

/// The error of a refused request.
const QUEUE_FULL: OriginError = OriginError::Throttled { retry_after: None };

impl Origin for Limit {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async move {
            let permit = self.acquire(request.priority).await?;
            Ok(match self.inner.get(request).await? {
                Answer::Content(content) => Answer::Content(Content {
                    body: Box::pin(PermittedBody {
                        flow: Some((content.body, permit)),
                    }),
                    ..content
                }),
                answer => answer,
            })
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let key = key.clone();
        Box::pin(async move {
            let _slot = self.acquire(Priority::Demand).await?;
            self.inner.head(&key).await
        })
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(async move {
            let _slot = self.acquire(Priority::Demand).await?;
            self.inner.peek(&key).await
        })
    }

    /// Takes a reader's slot: a reader waits for every page.
    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async move {
            let _slot = self.acquire(Priority::Demand).await?;
            self.inner.list(request).await
        })
    }

    /// Takes no slot: readiness describes the origin and not the gateway's load.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        self.inner.probe()
    }
}

impl OriginWrite for Limit {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(async move {
            let _slot = self.acquire(write.priority()).await?;
            self.inner.write(write).await
        })
    }
}

/// A body that holds its slot until it ends.
struct PermittedBody {
    flow: Option<(Body, SlotPermit)>,
}

impl Stream for PermittedBody {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some((body, _)) = &mut self.flow else {
            return Poll::Ready(None);
        };
        let item = ready!(body.as_mut().poll_next(cx));
        if !matches!(item, Some(Ok(_))) {
            self.flow = None;
        }
        Poll::Ready(item)
    }
}

/// The slots of an origin, and the requests that wait for one.
#[derive(Debug)]
struct RequestSlots {
    max: usize,
    max_ahead: usize,
    max_queue: usize,
    meter: Meter,
    state: Mutex<LimitState>,
}

#[derive(Debug, Default)]
struct LimitState {
    running: [usize; 2],
    lanes: Lanes<oneshot::Sender<SlotPermit>>,
}

/// The result of [`RequestSlots::request_slot`].
enum SlotEntry {
    Granted(SlotPermit),
    Queued(oneshot::Receiver<SlotPermit>),
}

fn class(priority: Priority) -> usize {
    match priority {
        Priority::Demand => DEMAND,
        Priority::Ahead | Priority::Spare => READ_AHEAD,
    }
}

impl RequestSlots {
    fn state(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock().recover()
    }

    fn request_slot(
        self: &Arc<Self>,
        client: Client,
        priority: Priority,
    ) -> Result<SlotEntry, OriginError> {
        let class = class(priority);
        let mut state = self.state();
        let is_busy = state.running.iter().sum::<usize>() >= self.max_ahead;
        if priority == Priority::Spare && is_busy {
            return Err(QUEUE_FULL);
        }
        state.lanes.retain(|waiter| !waiter.is_closed());
        // A free slot is not free for this class while a request of the class waits.
        if state.lanes.waiting()[class] == 0 && self.has_room(&state, class) {
            state.running[class] += 1;
            state.lanes.begin(client);
            self.publish(&state);
            drop(state);
            return Ok(SlotEntry::Granted(SlotPermit::new(
                self.clone(),
                client,
                class,
            )));
        }
        if priority == Priority::Spare {
            return Err(QUEUE_FULL);
        }
        if state.lanes.waiting().iter().sum::<usize>() >= self.max_queue
            && state.lanes.make_room(client, class).is_none()
        {
            return Err(QUEUE_FULL);
        }
        let (sender, receiver) = oneshot::channel();
        state.lanes.push(client, class, sender);
        self.publish(&state);
        Ok(SlotEntry::Queued(receiver))
    }

    fn has_room(&self, state: &LimitState, class: usize) -> bool {
        let room = state.running.iter().sum::<usize>() < self.max;
        room && (class == DEMAND || state.running[READ_AHEAD] < self.max_ahead)
    }

    /// Releases a slot and gives free slots to waiting requests.
    fn release(self: &Arc<Self>, client: Client, class: usize) {
        let mut handed = Vec::new();
        let mut state = self.state();
        state.running[class] -= 1;
        state.lanes.end(client);
        loop {
            let open = [DEMAND, READ_AHEAD].map(|class| self.has_room(&state, class));
            let Some((client, class, waiter)) = state.lanes.pop(open) else {
                break;
            };
            if waiter.is_closed() {
                state.lanes.end(client);
            } else {
                state.running[class] += 1;
                handed.push((waiter, client, class));
            }
        }
        self.publish(&state);
        drop(state);
        for (waiter, client, class) in handed {
            // A waiter that was just dropped drops the permit, which passes it on.
            drop(waiter.send(SlotPermit::new(self.clone(), client, class)));
        }
    }

    fn publish(&self, state: &LimitState) {
        self.meter.running(state.running);
        self.meter.queued(state.lanes.waiting());
    }
}

/// The right to one request at the origin.
#[derive(Debug)]
struct SlotPermit {
    slots: Arc<RequestSlots>,
    client: Client,
    class: usize,
}

impl SlotPermit {
    fn new(slots: Arc<RequestSlots>, client: Client, class: usize) -> Self {
        Self {
            slots,
            client,
            class,
        }
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        self.slots.release(self.client, self.class);
    }
}

#[cfg(test)]
mod tests;
