//! A fleet: gateways that tell each other of purges, pins and changes of keys.
//!
//! Nothing is sent again. A receiver knows of each message that it has missed ([`peers`]), and then has everything
//! confirmed by the bucket before its next use. Pins alone are sent again ([`pin_log`]). The gateway that calls a bucket's
//! hooks is chosen alike by all, and the others remember a change for a while, in case it is lost ([`hook_turns`]).
//!
//! The transport is [`crate::nats::fleet`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_core::future::BoxFuture;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::Notify;
use tokio::time::Instant;

use tidegate_plan::{FolderChange, KeyChange};
use tidegate_telemetry::locks::Recover as _;

use crate::ApplyError;
use crate::subscription::Clock;

mod doubts;
mod hook_turns;
mod incoming;
mod message;
mod metrics;
mod outgoing;
mod peers;
mod pin_log;

use hook_turns::{DeferredChange, HookTurns};
use message::{Content, FleetMessage, Presence};
use outgoing::OutgoingQueue;
use peers::{PEER_TIMEOUT, Peers};
use pin_log::PinLog;

pub use incoming::ReceivedChange;
pub use message::{Extent, FleetChange, MAX_MESSAGE, MessageError};
pub use metrics::FleetMetrics;
pub(crate) use outgoing::MAX_WAITING;
pub use peers::FleetGateway;

/// The time between two heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// The time within which a gateway that has a connection hears of a change, or is known to be lost. It may not have heard
/// of changes that are younger.
const NOTICE_TIMEOUT: Duration = PEER_TIMEOUT.saturating_mul(2);

/// The gateway, as a fleet sees it.
pub trait FleetSink: Send + Sync + 'static {
    /// Applies a change of another gateway; returns whether its bucket is known here. It may come twice.
    ///
    /// # Errors
    /// The change may not hold.
    fn apply<'a>(&'a self, change: &'a FleetChange) -> BoxFuture<'a, Result<bool, ApplyError>>;

    /// Has everything that is known of the buckets confirmed before its next use.
    ///
    /// # Errors
    /// It may not hold.
    fn doubt(&self) -> BoxFuture<'_, Result<(), ApplyError>>;

    /// Reports a change to this gateway's hooks.
    fn call_hooks(&self, change: &KeyChange);

    /// Reports changes below a folder to this gateway's hooks.
    fn call_hooks_below(&self, changes: &FolderChange);

    /// Returns the longest time for which hooks put off a call for a change. `None`: no hook is called for it.
    fn hook_delay(&self, change: &KeyChange) -> Option<Duration>;
}

/// This gateway as a member of its fleet.
pub struct Fleet {
    own: u64,
    /// The name that this gateway gives itself.
    name: Option<String>,
    sink: Arc<dyn FleetSink>,
    clock: Clock,
    state: Mutex<FleetState>,
    /// Tells the transport that a message waits.
    queued: Notify,
    doubts: Notify,
    /// Held while a pin is applied, so that two changes of one keep their order.
    pinning: tokio::sync::Mutex<()>,
    metrics: FleetMetrics,
}

#[derive(Debug, Default)]
struct FleetState {
    /// The number of the last change that was sent, or dropped.
    sequence: u64,
    outgoing: OutgoingQueue,
    /// The names of this gateway's buckets.
    buckets: Vec<String>,
    is_connected: bool,
    peers: Peers,
    pins: PinLog,
    hooks: HookTurns,
    /// Another gateway may lack pins of this one.
    resends_pins: bool,
    /// This gateway may lack pins of others.
    lacks_pins: bool,
    /// The time at which it asks again for pins that could not be applied.
    retries_pins: Option<Instant>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// Creates a member that has not connected, with a random number and this name; `None` if the system has no random
    /// numbers.
    #[must_use]
    pub fn new(
        name: Option<String>,
        sink: Arc<dyn FleetSink>,
        clock: Clock,
        metrics: FleetMetrics,
    ) -> Option<Arc<Self>> {
        let mut own = [0; 8];
        SystemRandom::new().fill(&mut own).ok()?;
        let fleet = Self {
            own: u64::from_be_bytes(own),
            name,
            sink,
            clock,
            state: Mutex::default(),
            queued: Notify::new(),
            doubts: Notify::new(),
            pinning: tokio::sync::Mutex::default(),
            metrics,
        };
        Some(Arc::new(fleet))
    }

    fn state(&self) -> MutexGuard<'_, FleetState> {
        self.state.lock().recover()
    }

    /// Returns the other gateways that are there, in the order of their names.
    #[must_use]
    pub fn gateways(&self) -> Vec<FleetGateway> {
        self.state().peers.gateways(Instant::now())
    }

    /// Takes the names of the buckets that this gateway has from now on. The others learn of them with the next heartbeat,
    /// and send the pins of new ones again.
    pub fn set_buckets(&self, buckets: Vec<String>) {
        let mut state = self.state();
        let FleetState {
            buckets: old, pins, ..
        } = &mut *state;
        let new: Vec<_> = buckets.iter().filter(|one| !old.contains(one)).collect();
        new.iter().for_each(|bucket| pins.forget(bucket));
        state.lacks_pins |= !new.is_empty();
        state.buckets = buckets;
    }

    fn heartbeat(&self, state: &FleetState) -> Content {
        Content::Heartbeat(Presence::new(self.name.clone(), state.buckets.clone()))
    }

    /// Tells the other gateways of a change that was made here. Returns at once.
    pub fn publish(&self, change: FleetChange) {
        self.send(change);
    }

    /// Changes a pin here by `store`, and tells the other gateways once that has succeeded. Others' changes of pins wait
    /// meanwhile, so that all gateways keep the same one of two that are made at a time.
    ///
    /// # Errors
    /// That of `store`: the others are told of nothing then.
    pub async fn change_pin<T, E>(
        &self,
        pin: FleetChange,
        store: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let _in_order = self.pinning.lock().await;
        let stored = store.await?;
        self.send(pin);
        Ok(stored)
    }

    /// Does the same for a change of a key, and has the hooks called for it. If there is no room for its message, the
    /// gateway whose turn it is does not hear of it: then this one calls them.
    pub fn report(&self, change: KeyChange) {
        match self.send(FleetChange::Changed(change.clone())) {
            true => self.call_hooks(change),
            false => self.sink.call_hooks(&change),
        }
    }

    /// Queues a change; returns whether there was room for it.
    fn send(&self, change: FleetChange) -> bool {
        let at = (self.clock)().0;
        let mut state = self.state();
        state.pins.note(&change, at, true);
        self.enqueue(&mut state, at, Content::Change(change))
    }

    /// Has the hooks called for a change that this gateway knows of: here, or by the gateway whose turn it is.
    pub fn call_hooks(&self, change: KeyChange) {
        self.call_hooks_in_turn(change, false);
    }

    /// Does the same for a change that came when it was this gateway's turn, if `was_own`: one that has joined since has not
    /// heard of it.
    fn call_hooks_in_turn(&self, change: KeyChange, was_own: bool) {
        let delay = self.sink.hook_delay(&change);
        let mut state = self.state();
        if was_own || state.is_own_turn(self.own, &change.bucket) {
            drop(state);
            self.sink.call_hooks(&change);
        } else if let Some(delay) = delay {
            // As long as its gateway may put the call off, and a loss of that gateway may be unknown.
            state
                .hooks
                .defer(change, Instant::now(), delay + NOTICE_TIMEOUT);
        }
    }

    /// Puts a message into the queue. If there is no room for a change, a number is left out, which the receivers see.
    /// Returns whether there was room.
    fn enqueue(&self, state: &mut FleetState, at: u64, content: Content) -> bool {
        let is_change = matches!(content, Content::Change(_));
        let has_room = state.outgoing.push(at, content);
        if !has_room {
            state.sequence += u64::from(is_change);
            self.metrics.dropped.inc();
        }
        self.queued.notify_one();
        has_room
    }

    /// Returns the next message that the transport has to send, with its number.
    #[must_use]
    pub fn next_message(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        let (at, content) = state.outgoing.pop()?;
        state.sequence += u64::from(matches!(content, Content::Change(_)));
        self.metrics.sent(content.kind());
        let message = FleetMessage {
            from: self.own,
            sequence: state.sequence,
            at,
            content,
        };
        Some(message.write())
    }

    /// Waits for the next message.
    pub(crate) async fn message(&self) -> Vec<u8> {
        loop {
            match self.next_message() {
                Some(message) => return message,
                None => self.queued.notified().await,
            }
        }
    }

    /// Takes that NATS is connected. What was missed meanwhile, heartbeats will say.
    pub(crate) fn connected(&self) {
        self.metrics.connected.set(1);
        let mut state = self.state();
        state.is_connected = true;
        state.peers.restart(Instant::now());
        let heartbeat = self.heartbeat(&state);
        self.enqueue(&mut state, (self.clock)().0, heartbeat);
    }

    /// Takes that the connection is lost: the gateways whose turn it is may not hear of the last changes.
    pub(crate) fn disconnected(&self) {
        self.metrics.connected.set(0);
        // None is heard of without a connection.
        self.metrics.peers.set(0);
        let mut state = self.state();
        state.is_connected = false;
        self.call_due(&mut state, Instant::now().checked_sub(NOTICE_TIMEOUT));
    }

    /// Takes the passing of time, and says that this gateway is there. Call it each [`HEARTBEAT`].
    pub(crate) fn tick(&self) {
        let (now, at) = (Instant::now(), (self.clock)().0);
        let mut state = self.state();
        if !state.is_connected {
            return;
        }
        state.hooks.expire(now);
        if state.peers.expire(now) > 0 {
            tracing::warn!("a gateway of the fleet is lost");
            self.doubt("lost");
            self.call_due(&mut state, None);
        }
        self.metrics.peers.set(count(state.peers.len()));
        if std::mem::take(&mut state.resends_pins) {
            for (at, pin) in state.pins.own() {
                self.enqueue(&mut state, at, Content::Change(pin));
            }
        }
        if state.retries_pins.take_if(|due| now >= *due).is_some() {
            state.lacks_pins = true;
        }
        let content = match std::mem::take(&mut state.lacks_pins) {
            true => Content::Missed,
            false => self.heartbeat(&state),
        };
        self.enqueue(&mut state, at, content);
    }

    /// Says that this gateway ends in order, after all that it has sent. Its hooks have been called.
    pub(crate) fn leave(&self) {
        self.enqueue(&mut self.state(), (self.clock)().0, Content::Bye);
    }

    /// Forgets the changes that a gateway has called before it has said that it ends.
    fn forget_called(&self, state: &mut FleetState, from: u64) {
        let FleetState { peers, hooks, .. } = state;
        if let Some(recent) = Instant::now().checked_sub(NOTICE_TIMEOUT) {
            hooks.settle(recent, |bucket| peers.chosen(self.own, bucket) == from);
        }
    }

    /// Calls the hooks for the remembered changes, of those since a time, whose turn is now this gateway's.
    fn call_due(&self, state: &mut FleetState, since: Option<Instant>) {
        let FleetState {
            peers,
            hooks,
            is_connected,
            ..
        } = state;
        let is_own = |bucket: &str| !*is_connected || peers.chosen(self.own, bucket) == self.own;
        for due in hooks.take(since, is_own) {
            match due {
                DeferredChange::Key(change) => self.sink.call_hooks(&change),
                DeferredChange::Folder(changes) => self.sink.call_hooks_below(&changes),
            }
        }
    }
}

impl FleetState {
    /// Returns whether the hooks of a bucket are for this gateway to call.
    fn is_own_turn(&self, own: u64, bucket: &str) -> bool {
        !self.is_connected || self.peers.chosen(own, bucket) == own
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
