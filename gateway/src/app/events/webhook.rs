//! The subscriptions that the admin listener feeds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use tidegate_admin::events::EventsError;
use tidegate_events::Subscription;
use tidegate_events::metrics::GapReason;
use tidegate_events::sns::{self, Fetch, HttpsClient, SnsError, SnsMessage, SnsVerifier};
use tidegate_events::subscription::DeliverError;
use tidegate_plan::{LogRate, Token};
use tidegate_telemetry::locks::Recover as _;

/// The signed messages that are checked at once: their senders have shown no token.
const MAX_SIGNED_AT_ONCE: usize = 4;

/// The most bytes of signed messages that wait for their check, are checked or applied. SNS sends thousands of events in
/// fewer.
const MAX_SIGNED_BYTES: usize = 16 << 20;

/// The longest time that a signed message waits for its check.
const SIGNED_WAIT: Duration = Duration::from_secs(5);

/// A subscription that the admin listener feeds.
pub(super) struct Webhook {
    subscription: Arc<Subscription>,
    token: Option<Token>,
    signed: Option<SnsVerifier>,
    signed_slots: Semaphore,
    /// The bytes of [`MAX_SIGNED_BYTES`] that are left.
    signed_bytes: Semaphore,
    /// The refused messages that are logged: strangers cause them.
    refusals: Mutex<LogRate>,
    since: Instant,
}

/// The subscriptions that the admin listener feeds, by name. They are exchanged as a whole.
#[derive(Default)]
pub(super) struct Webhooks(ArcSwap<HashMap<String, Arc<Webhook>>>);

impl Webhooks {
    /// Replaces all of them. A message that is being taken is taken by the subscription that it began with.
    pub(super) fn replace(&self, all: HashMap<String, Arc<Webhook>>) {
        self.0.store(Arc::new(all));
    }

    fn find(&self, name: &str) -> Option<Arc<Webhook>> {
        self.0.load().get(name).cloned()
    }

    fn of(&self, name: &str) -> Result<Arc<Webhook>, EventsError> {
        let unknown = || EventsError::Forbidden("no such subscription".to_owned());
        self.find(name).ok_or_else(unknown)
    }
}

impl tidegate_admin::events::Events for Webhooks {
    fn token(&self, name: &str) -> Option<Token> {
        self.find(name)?.token.clone()
    }

    fn max_signed(&self, name: &str) -> Option<usize> {
        let is_signed = self.find(name)?.signed.is_some();
        is_signed.then_some(sns::MAX_MESSAGE)
    }

    fn deliver<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>> {
        Box::pin(async move { self.of(name)?.deliver(&message).await })
    }

    fn deliver_signed<'a>(
        &'a self,
        name: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), EventsError>> {
        Box::pin(async move { self.of(name)?.deliver_signed(&message).await })
    }

    fn missed(&self, name: &str) {
        if let Some(webhook) = self.find(name) {
            webhook.subscription.gap(GapReason::Unreadable);
        }
    }
}

impl Webhook {
    /// Makes one that takes messages with this token, and signed ones of these topics.
    pub(super) fn new(
        token: Option<&str>,
        topics: &[String],
        subscription: Arc<Subscription>,
    ) -> anyhow::Result<Self> {
        let signed = match topics {
            [] => None,
            topics => {
                let client: Arc<dyn Fetch> = Arc::new(HttpsClient::new()?);
                Some(SnsVerifier::new(topics.to_vec(), client))
            }
        };
        Self::verified_by(signed, token, subscription)
    }

    /// Makes one that takes messages with this token, and signed ones that count for `signed`.
    fn verified_by(
        signed: Option<SnsVerifier>,
        token: Option<&str>,
        subscription: Arc<Subscription>,
    ) -> anyhow::Result<Self> {
        let token = token.map(Token::from_setting);
        Ok(Self {
            subscription,
            token: token.transpose().context("`token`")?,
            signed,
            signed_slots: Semaphore::new(MAX_SIGNED_AT_ONCE),
            signed_bytes: Semaphore::new(MAX_SIGNED_BYTES),
            refusals: Mutex::default(),
            since: Instant::now(),
        })
    }

    async fn deliver(&self, message: &[u8]) -> Result<(), EventsError> {
        let delivered = self.subscription.deliver(message).await;
        delivered.map_err(|error| {
            let name = &*self.subscription.settings().name;
            tracing::warn!(subscription = name, %error, "an event was not taken");
            match error {
                DeliverError::Unreadable(error) => EventsError::Unreadable(error.to_string()),
                DeliverError::NotApplied(_) => EventsError::NotApplied(error.to_string()),
            }
        })
    }

    async fn deliver_signed(&self, message: &[u8]) -> Result<(), EventsError> {
        let Some(signed) = &self.signed else {
            return Err(EventsError::Forbidden("this takes no SNS".to_owned()));
        };
        let name = &*self.subscription.settings().name;
        // It is held until the changes hold: the bucket's answers may be slow.
        let _room = self.room(message.len()).ok_or_else(busy)?;
        match self.verify(signed, message).await? {
            SnsMessage::Notification(text) => {
                let mut verified = VerifiedMessage {
                    subscription: &self.subscription,
                    is_taken: false,
                };
                let taken = self.deliver(text.as_bytes()).await;
                verified.is_taken = true;
                taken
            }
            SnsMessage::Confirmed => {
                tracing::info!(subscription = name, "the subscription of SNS is confirmed");
                Ok(())
            }
            SnsMessage::Ended => {
                tracing::warn!(subscription = name, "the subscription of SNS has ended");
                self.subscription.gap(GapReason::Connection);
                Ok(())
            }
        }
    }

    /// Checks a message once it is its turn.
    async fn verify(
        &self,
        signed: &SnsVerifier,
        message: &[u8],
    ) -> Result<SnsMessage, EventsError> {
        let slot = timeout(SIGNED_WAIT, self.signed_slots.acquire()).await;
        let _slot = slot.ok().and_then(Result::ok).ok_or_else(busy)?;
        let verified = signed.verify(message).await;
        verified.map_err(|error| self.refusal(&error))
    }

    /// Reserves room for a message of `bytes`. `None`: there are too many messages.
    fn room(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let bytes = u32::try_from(bytes).ok()?;
        self.signed_bytes.try_acquire_many(bytes).ok()
    }

    /// Logs why a message does not count, and returns the answer to it.
    fn refusal(&self, error: &SnsError) -> EventsError {
        let name = &*self.subscription.settings().name;
        let line = self.refusals.lock().recover().record(self.since.elapsed());
        if let Some(count) = line {
            tracing::warn!(subscription = name, %error, count, "a message of SNS was refused");
        }
        match error {
            SnsError::Fetch(_) => EventsError::Unverified(error.to_string()),
            _ => EventsError::Forbidden(error.to_string()),
        }
    }
}

fn busy() -> EventsError {
    EventsError::NotApplied("too many messages at once".to_owned())
}

/// A message whose signature fits; a gap unless it was taken: its sender may leave at any time.
struct VerifiedMessage<'a> {
    subscription: &'a Subscription,
    is_taken: bool,
}

impl Drop for VerifiedMessage<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.subscription.gap(GapReason::Failed);
        }
    }
}

#[cfg(test)]
mod tests;
