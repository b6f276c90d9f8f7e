//! A bound on an origin's concurrent requests; requests that a reader waits for go first.
//!
//! A request holds its place until its body ends or is dropped. A quarter of the places is kept free of read-ahead: its
//! bodies may be long, and a new reader should find a place. A request without a place waits. Clients are served in
//! turn, readers before read-ahead, and the requests of one client in the order of arrival (`plan::lanes`). If too many
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

use super::client;
use super::metrics::Meter;
use super::{
    Answer, Body, Content, Get, List, Listing, Origin, OriginError, OriginWrite, Phase, Priority,
    Write, Wrote,
};
use tidegate_plan::lanes::{DEMAND, Lanes, READ_AHEAD};
use tidegate_plan::{Bucket, Client, ObjectKey, OriginId, Version};
use tidegate_telemetry::locks::Recover as _;

/// An origin with a bounded number of concurrent requests.
#[derive(Debug)]
pub struct Limit {
    inner: Arc<dyn Origin>,
    places: Arc<Places>,
    patience: Duration,
}

impl Limit {
    /// Admits at most `max_requests` (at least one) to `inner` at once; `max_queue` more wait, each for `patience` at
    /// most.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Origin>,
        max_requests: usize,
        max_queue: usize,
        patience: Duration,
        meter: Meter,
    ) -> Self {
        let max = max_requests.max(1);
        Self {
            inner,
            places: Arc::new(Places {
                max,
                max_ahead: max - max / 4,
                max_queue,
                meter,
                state: Mutex::default(),
            }),
            patience,
        }
    }

    async fn place(&self, priority: Priority) -> Result<Place, OriginError> {
        let place = match self.places.enter(client::current(), priority)? {
            Entrance::Place(place) => return Ok(place),
            Entrance::Queue(place) => place,
        };
        match timeout(self.patience, place).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(FULL),
            Err(_) => Err(OriginError::Timeout(Phase::Queue)),
        }
    }
}

/// The error of a refused request.
const FULL: OriginError = OriginError::Throttled { retry_after: None };

impl Origin for Limit {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async move {
            let place = self.place(request.priority).await?;
            Ok(match self.inner.get(request).await? {
                Answer::Content(content) => Answer::Content(Content {
                    body: Box::pin(Placed {
                        flow: Some((content.body, place)),
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
            let _place = self.place(Priority::Demand).await?;
            self.inner.head(&key).await
        })
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(async move {
            let _place = self.place(Priority::Demand).await?;
            self.inner.peek(&key).await
        })
    }

    /// Takes a reader's place: a reader waits for every page.
    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async move {
            let _place = self.place(Priority::Demand).await?;
            self.inner.list(request).await
        })
    }

    /// Takes no place: readiness describes the origin and not the gateway's load.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        self.inner.probe()
    }
}

impl OriginWrite for Limit {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Wrote, OriginError>> {
        Box::pin(async move {
            let _place = self.place(write.priority()).await?;
            self.inner.write(write).await
        })
    }
}

/// A body that holds its place until it ends.
struct Placed {
    flow: Option<(Body, Place)>,
}

impl Stream for Placed {
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

/// The places of an origin, and the requests that wait for one.
#[derive(Debug)]
struct Places {
    max: usize,
    max_ahead: usize,
    max_queue: usize,
    meter: Meter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: [usize; 2],
    lanes: Lanes<oneshot::Sender<Place>>,
}

/// The result of [`Places::enter`].
enum Entrance {
    Place(Place),
    Queue(oneshot::Receiver<Place>),
}

fn class(priority: Priority) -> usize {
    match priority {
        Priority::Demand => DEMAND,
        Priority::Ahead | Priority::Spare => READ_AHEAD,
    }
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().recover()
    }

    fn enter(
        self: &Arc<Self>,
        client: Client,
        priority: Priority,
    ) -> Result<Entrance, OriginError> {
        let class = class(priority);
        let mut state = self.state();
        let is_busy = state.running.iter().sum::<usize>() >= self.max_ahead;
        if priority == Priority::Spare && is_busy {
            return Err(FULL);
        }
        state.lanes.retain(|waiter| !waiter.is_closed());
        // A free place is not free for this class while a request of the class waits.
        if state.lanes.waiting()[class] == 0 && self.has_room(&state, class) {
            state.running[class] += 1;
            state.lanes.begin(client);
            self.show(&state);
            drop(state);
            return Ok(Entrance::Place(Place::new(self.clone(), client, class)));
        }
        if priority == Priority::Spare {
            return Err(FULL);
        }
        if state.lanes.waiting().iter().sum::<usize>() >= self.max_queue
            && state.lanes.make_room(client, class).is_none()
        {
            return Err(FULL);
        }
        let (sender, receiver) = oneshot::channel();
        state.lanes.push(client, class, sender);
        self.show(&state);
        Ok(Entrance::Queue(receiver))
    }

    fn has_room(&self, state: &State, class: usize) -> bool {
        let room = state.running.iter().sum::<usize>() < self.max;
        room && (class == DEMAND || state.running[READ_AHEAD] < self.max_ahead)
    }

    /// Releases a place and gives free places to waiting requests.
    fn leave(self: &Arc<Self>, client: Client, class: usize) {
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
        self.show(&state);
        drop(state);
        for (waiter, client, class) in handed {
            // A waiter that was just dropped drops the place, which passes it on.
            drop(waiter.send(Place::new(self.clone(), client, class)));
        }
    }

    fn show(&self, state: &State) {
        self.meter.running(state.running);
        self.meter.queued(state.lanes.waiting());
    }
}

/// The right to one request at the origin.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    client: Client,
    class: usize,
}

impl Place {
    fn new(places: Arc<Places>, client: Client, class: usize) -> Self {
        Self {
            places,
            client,
            class,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.leave(self.client, self.class);
    }
}

#[cfg(test)]
mod tests;
