//! One subscription: takes messages from any transport, applies the changes of its bucket, and knows since when none can
//! have been missed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_plan::freshness::EventProof;
use tidegate_plan::{ETag, KeyChange, ObjectKey, Timestamp};
use tidegate_telemetry::locks::Recover as _;

use crate::liveness::Liveness;
use crate::log::{EventLog, LoggedEvent};
use crate::metrics::{EventResult, GapReason, HeartbeatResult, Metrics, SubscriptionMetrics};
use crate::order::{ChangeOrder, Order};
use crate::record::{self, Events, RecordError};
use crate::{ApplyError, Sink};

/// The most keys whose last change a subscription remembers, to drop duplicates: some 20 MiB.
const MAX_KEYS: usize = 100_000;

/// The largest message that is read, in bytes: a thousand records have about one million.
pub const MAX_MESSAGE: usize = 8 << 20;

/// The wall clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The settings of a subscription.
#[derive(Debug, Clone)]
pub struct SubscriptionSettings {
    /// Its name, which metrics and logs show.
    pub name: String,
    /// The bucket whose events it takes.
    pub bucket: String,
    /// The object whose event has to come back; without one nothing is known to be complete.
    pub heartbeat: Option<HeartbeatSettings>,
    /// Whether the transport reports a connection before messages come.
    pub has_connection: bool,
}

/// The settings of a heartbeat.
#[derive(Debug, Clone)]
pub struct HeartbeatSettings {
    /// The object that is written.
    pub key: ObjectKey,
    /// The time from one write to the next, and from a write to its event.
    pub every: Duration,
}

/// The reason why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// The message cannot be read. Sending it again does not help.
    #[error(transparent)]
    Unreadable(#[from] RecordError),
    /// The changes may not hold. The message may be sent again.
    #[error("the changes could not be applied: {0}")]
    NotApplied(ApplyError),
}

/// One subscription.
pub struct Subscription {
    settings: SubscriptionSettings,
    sink: Arc<dyn Sink>,
    clock: Clock,
    order: Mutex<Order>,
    state: Mutex<SubscriptionState>,
    metrics: SubscriptionMetrics,
    log: Arc<EventLog>,
}

/// The evidence of heartbeats, and what the sink was told last.
#[derive(Debug)]
struct SubscriptionState {
    liveness: Option<Liveness>,
    published: EventProof,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The events of a message, sorted.
#[derive(Default)]
struct SortedEvents {
    changes: Vec<KeyChange>,
    /// The heartbeats of all subscriptions of the bucket.
    heartbeats: Vec<KeyChange>,
}

impl Subscription {
    /// Creates one over `sink`.
    #[must_use]
    pub fn new(
        settings: SubscriptionSettings,
        sink: Arc<dyn Sink>,
        clock: Clock,
        metrics: &Metrics,
    ) -> Self {
        let liveness = settings
            .heartbeat
            .as_ref()
            .map(|heartbeat| Liveness::new(heartbeat.every, !settings.has_connection));
        Self {
            metrics: metrics.of(&settings.name, settings.heartbeat.is_some()),
            settings,
            sink,
            clock,
            log: Arc::default(),
            order: Mutex::new(Order::new(MAX_KEYS)),
            state: Mutex::new(SubscriptionState {
                liveness,
                published: EventProof::NONE,
            }),
        }
    }

    /// Returns the subscription with this log for its events, which others may share.
    #[must_use]
    pub fn with_log(self, log: Arc<EventLog>) -> Self {
        Self { log, ..self }
    }

    /// Returns its settings.
    #[must_use]
    pub fn settings(&self) -> &SubscriptionSettings {
        &self.settings
    }

    /// Returns the present time of its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Takes a message of at most [`MAX_MESSAGE`] bytes; returns when its changes hold.
    ///
    /// # Errors
    /// The message cannot be read, or a change may not hold. Either is a gap.
    pub async fn deliver(&self, message: &[u8]) -> Result<(), DeliverError> {
        let events = record::read(message).inspect_err(|_| self.gap(GapReason::Unreadable))?;
        if events.invalid > 0 {
            self.gap(GapReason::Unreadable);
        }
        let sorted = self.sort(events);
        if !sorted.changes.is_empty() {
            let applied = self.apply(sorted.changes).await;
            applied.map_err(DeliverError::NotApplied)?;
        }
        for heartbeat in sorted.heartbeats {
            let own = self.is_own(&heartbeat.key).then(|| heartbeat.etag.clone());
            self.sink.renewed(heartbeat).await;
            if let Some(etag) = own.flatten() {
                self.metrics.heartbeat(HeartbeatResult::Seen);
                self.with_heartbeats(|liveness, now| liveness.seen(etag, now));
            }
        }
        Ok(())
    }

    /// Returns the changes that are to be applied and the heartbeats, and counts the others.
    fn sort(&self, events: Events) -> SortedEvents {
        self.metrics.count(EventResult::Ignored, events.ignored);
        self.metrics.count(EventResult::Unknown, events.unknown);
        self.metrics.count(EventResult::Invalid, events.invalid);
        // The changes of a message are applied together, or none of them counts.
        let mut message = Order::new(events.changes.len().saturating_mul(2));
        let order = self.order.lock().recover();
        let mut sorted = SortedEvents::default();
        let mut dropped = Vec::new();
        for mut change in events.changes {
            if change.bucket != self.settings.bucket {
                self.metrics.count(EventResult::Foreign, 1);
                continue;
            }
            if self.is_own(&change.key) || self.sink.is_heartbeat(&change.key) {
                sorted.heartbeats.push(change);
                continue;
            }
            let place = match order.place(&change) {
                ChangeOrder::Latest => message.place(&change),
                other => other,
            };
            if place == ChangeOrder::Duplicate {
                dropped.push(change);
                continue;
            }
            if let Some(sequencer) = &change.sequencer {
                message.record(&change.key, sequencer);
            }
            change.is_overtaken = place == ChangeOrder::Late;
            sorted.changes.push(change);
        }
        drop(order);
        let duplicates = dropped.len() as u64;
        self.metrics.count(EventResult::Duplicate, duplicates);
        self.log(dropped.iter().map(|one| (one, EventResult::Duplicate)));
        sorted
    }

    /// Adds changes to the log.
    fn log<'a>(&self, changes: impl ExactSizeIterator<Item = (&'a KeyChange, EventResult)>) {
        let (now, source) = (self.now(), &*self.settings.name);
        let event = |(change, result)| LoggedEvent::of(change, source, now, result);
        self.log.add(changes.map(event));
    }

    /// Returns whether an object is this subscription's heartbeat.
    fn is_own(&self, key: &ObjectKey) -> bool {
        let heartbeat = self.settings.heartbeat.as_ref();
        heartbeat.is_some_and(|heartbeat| heartbeat.key == *key)
    }

    async fn apply(&self, changes: Vec<KeyChange>) -> Result<(), ApplyError> {
        let count = changes.len() as u64;
        let given = changes.clone();
        if let Err(error) = self.sink.apply(changes).await {
            self.metrics.count(EventResult::Failed, count);
            self.log(given.iter().map(|one| (one, EventResult::Failed)));
            self.gap(GapReason::Failed);
            return Err(error);
        }
        let now = self.now();
        let mut order = self.order.lock().recover();
        for change in &given {
            if let Some(sequencer) = &change.sequencer {
                order.record(&change.key, sequencer);
            }
            if let Some(time) = change.time {
                self.metrics.lag.observe(now.since(time));
            }
        }
        drop(order);
        let late = given.iter().filter(|change| change.is_overtaken).count() as u64;
        self.metrics.count(EventResult::Late, late);
        self.metrics.count(EventResult::Applied, count - late);
        let result = |change: &KeyChange| match change.is_overtaken {
            true => EventResult::Late,
            false => EventResult::Applied,
        };
        self.log(given.iter().map(|change| (change, result(change))));
        Ok(())
    }

    /// Takes that a message may have been lost.
    pub fn gap(&self, reason: GapReason) {
        self.metrics.gap(reason);
        self.with_liveness(Liveness::gap);
    }

    /// Ends it: whatever still arrives is applied, and proves nothing. What was confirmed under it falls back to its TTL, as
    /// after a gap.
    pub fn end(&self) {
        let mut state = self.state();
        state.liveness = None;
        state.published = EventProof::NONE;
        self.metrics.set_alive(false);
        self.sink.prove(EventProof::NONE);
    }

    /// Takes that the transport is connected.
    pub fn connected(&self) {
        self.with_liveness(Liveness::connected);
    }

    /// Takes that the transport has lost its connection.
    pub fn disconnected(&self) {
        self.metrics.gap(GapReason::Connection);
        self.with_liveness(Liveness::disconnected);
    }

    /// Takes a heartbeat that was written by a request that began at `began`.
    pub(crate) fn heartbeat_written(&self, began: Timestamp, etag: ETag) {
        self.metrics.heartbeat(HeartbeatResult::Written);
        self.with_heartbeats(|liveness, now| liveness.written(began, etag, now));
    }

    /// Takes that a heartbeat could not be written.
    pub(crate) fn heartbeat_failed(&self) {
        self.metrics.heartbeat(HeartbeatResult::Failed);
    }

    /// Takes the passing of time.
    pub(crate) fn tick(&self) {
        self.with_heartbeats(Liveness::tick);
    }

    fn state(&self) -> MutexGuard<'_, SubscriptionState> {
        self.state.lock().recover()
    }

    /// Does as [`Subscription::with_liveness`] with an input that ends the chain only if a heartbeat has stayed away.
    fn with_heartbeats(&self, input: impl FnOnce(&mut Liveness, Timestamp)) {
        self.with_liveness(|liveness, now| {
            let was_alive = liveness.unbroken_since().is_some();
            input(liveness, now);
            if was_alive && liveness.unbroken_since().is_none() {
                self.metrics.gap(GapReason::Heartbeat);
            }
        });
    }

    /// Gives the evidence an input, and tells the sink what follows from it, in the order of the inputs.
    fn with_liveness(&self, input: impl FnOnce(&mut Liveness, Timestamp)) {
        let mut state = self.state();
        let Some(liveness) = &mut state.liveness else {
            return;
        };
        input(liveness, (self.clock)());
        let proof = liveness.proof();
        if state.published == proof {
            return;
        }
        let is_alive = proof != EventProof::NONE;
        if is_alive != (state.published != EventProof::NONE) {
            let subscription = &*self.settings.name;
            match is_alive {
                true => tracing::info!(subscription, "events arrive"),
                false => tracing::warn!(subscription, "events may be missed: ttl stands"),
            }
        }
        state.published = proof;
        self.metrics.set_alive(is_alive);
        self.sink.prove(proof);
    }
}

#[cfg(test)]
mod tests;
