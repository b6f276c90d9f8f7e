//! The messages of the other gateways: each is taken as it comes, and the changes in them are applied when there is time.

use std::time::Duration;

use tokio::time::Instant;

use super::message::{Content, FleetChange, FleetMessage};
use super::peers::SequenceCheck;
use super::{Fleet, FleetState, count};

/// The pause after which pins that could not be applied are asked for again: the reason may last.
pub(super) const PIN_RETRY: Duration = Duration::from_secs(10);

/// A change that was received, and has to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedChange {
    at: u64,
    kind: &'static str,
    change: FleetChange,
    /// Whether it was this gateway's turn to call hooks for it when it came.
    is_own_turn: bool,
}

impl Fleet {
    /// Takes a message of the subject, in the order in which they come; returns the change that [`Fleet::apply`] applies.
    pub fn take(&self, text: &[u8]) -> Option<ReceivedChange> {
        let message = match FleetMessage::read(text) {
            Ok(message) => message,
            Err(error) => {
                self.metrics.received("unknown", "invalid");
                tracing::debug!(%error, "a message was skipped");
                return None;
            }
        };
        if message.from == self.own {
            return None;
        }
        let kind = message.content.kind();
        let is_change = matches!(message.content, Content::Change(_));
        let mut state = self.state();
        let seen = state
            .peers
            .seen(message.from, message.sequence, is_change, Instant::now());
        match seen {
            SequenceCheck::Joined => {
                state.resends_pins = true;
                self.doubt("joined");
            }
            SequenceCheck::Gap => {
                state.lacks_pins = true;
                self.doubt("gap");
            }
            SequenceCheck::Next | SequenceCheck::Again => {}
        }
        let taken = self.take_content(&mut state, message.from, message.content);
        self.metrics.peers.set(count(state.peers.len()));
        let Some(change) = taken else {
            self.metrics.received(kind, "applied");
            return None;
        };
        if !state.pins.note(&change, message.at, false) {
            self.metrics.received(kind, "known");
            return None;
        }
        let is_own_turn = match &change {
            FleetChange::Changed(change) => state.is_own_turn(self.own, &change.bucket),
            _ => false,
        };
        Some(ReceivedChange {
            at: message.at,
            kind,
            change,
            is_own_turn,
        })
    }

    /// Takes the content of a message from a gateway; returns the change in it.
    fn take_content(
        &self,
        state: &mut FleetState,
        from: u64,
        content: Content,
    ) -> Option<FleetChange> {
        match content {
            Content::Heartbeat(presence) => {
                if state.peers.present(from, presence) {
                    // A gateway that has lost a bucket calls its hooks no more.
                    self.call_due(state, None);
                }
                None
            }
            Content::Missed => {
                state.resends_pins = true;
                None
            }
            Content::Bye => {
                self.forget_called(state, from);
                state.peers.left(from);
                self.call_due(state, None);
                None
            }
            Content::Change(change) => Some(change),
        }
    }

    /// Applies a change of another gateway.
    pub async fn apply(&self, received: ReceivedChange) {
        let ReceivedChange {
            at,
            kind,
            change,
            is_own_turn,
        } = received;
        let _in_order = match &change {
            FleetChange::Pinned { .. } => Some(self.pinning.lock().await),
            _ => None,
        };
        // A later change of the pin was made here while this one waited.
        if !self.state().pins.is_last(&change, at) {
            return self.metrics.received(kind, "known");
        }
        match self.sink.apply(&change).await {
            Ok(true) => self.metrics.received(kind, "applied"),
            Ok(false) => return self.metrics.received(kind, "foreign"),
            Err(error) => {
                self.metrics.received(kind, "failed");
                tracing::warn!(%error, kind, "a message of the fleet was not applied");
                match change {
                    FleetChange::Pinned { .. } => self.retry_pin(&change, at),
                    _ => self.doubt("failed"),
                }
            }
        }
        let lag = (self.clock)().0.saturating_sub(at);
        self.metrics.lag.observe(Duration::from_millis(lag));
        if let FleetChange::Changed(change) = change {
            self.call_hooks_in_turn(change, is_own_turn);
        }
    }

    /// Takes that there was no room for a change of another gateway to wait in. Its hooks are called all the same, for the
    /// other gateways count on this one where it is its turn.
    pub(crate) fn give_up(&self, received: ReceivedChange) {
        self.metrics.received(received.kind, "failed");
        match received.change {
            FleetChange::Pinned { .. } => self.retry_pin(&received.change, received.at),
            FleetChange::Changed(change) => {
                self.doubt("failed");
                self.call_hooks_in_turn(change, received.is_own_turn);
            }
            FleetChange::Purged { .. } => self.doubt("failed"),
        }
    }

    /// Has a pin that was not applied sent again.
    fn retry_pin(&self, change: &FleetChange, at: u64) {
        let mut state = self.state();
        state.pins.failed(change, at);
        let due = Instant::now() + PIN_RETRY;
        state.retries_pins.get_or_insert(due);
    }
}
