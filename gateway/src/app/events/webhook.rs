//! The subscriptions that the admin listener feeds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use tidegate_admin::events::EventsError;
use tidegate_events::Subscription;
use tidegate_events::metrics::GapReason;
use tidegate_events::sns::{self, Fetch, HttpsClient, SnsError, SnsMessage, SnsVerifier};
use tidegate_events::subscription::DeliverError;
use tidegate_plan::{LogRate, Token};
use tidegate_telemetry::locks::Recover as _;

/// The signed messages that are read and checked at once: their senders have shown no token.
const MAX_SIGNED_AT_ONCE: usize = 4;

/// A subscription that the admin listener feeds.
pub(super) struct Webhook {
    subscription: Arc<Subscription>,
    token: Option<Token>,
    signed: Option<SnsVerifier>,
    signed_slots: Semaphore,
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
        let token = token.map(Token::from_setting);
        let signed = match topics {
            [] => None,
            topics => {
                let client: Arc<dyn Fetch> = Arc::new(HttpsClient::new()?);
                Some(SnsVerifier::new(topics.to_vec(), client))
            }
        };
        Ok(Self {
            subscription,
            token: token.transpose().context("`token`")?,
            signed,
            signed_slots: Semaphore::new(MAX_SIGNED_AT_ONCE),
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
        let Ok(_slot) = self.signed_slots.try_acquire() else {
            let busy = "too many messages at once".to_owned();
            return Err(EventsError::NotApplied(busy));
        };
        let name = &*self.subscription.settings().name;
        match signed.verify(message).await {
            Ok(SnsMessage::Notification(text)) => self.deliver(text.as_bytes()).await,
            Ok(SnsMessage::Confirmed) => {
                tracing::info!(subscription = name, "the subscription of SNS is confirmed");
                Ok(())
            }
            Ok(SnsMessage::Ended) => {
                tracing::warn!(subscription = name, "the subscription of SNS has ended");
                self.subscription.gap(GapReason::Connection);
                Ok(())
            }
            Err(error) => {
                let line = self.refusals.lock().recover().record(self.since.elapsed());
                if let Some(count) = line {
                    tracing::warn!(subscription = name, %error, count, "a message of SNS was refused");
                }
                Err(match error {
                    SnsError::Fetch(_) => EventsError::Unverified(error.to_string()),
                    _ => EventsError::Forbidden(error.to_string()),
                })
            }
        }
    }
}
